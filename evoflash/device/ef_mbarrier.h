// mbarriers: barriers in shared memory that count arrivals and bytes of asynchronous copies, phase by phase.
//
// `bar` is the address of 8 bytes of this block's shared memory, `cluster_bar` one that map_shared made. Phases
// alternate in parity and begin with 0: waiting for parity 1 of a fresh barrier returns at once. From sm_90 on unless
// the comment says sm_80.
//
// Waits acquire within the block. Across a cluster that is enough for shared memory and for copies; to see what another
// block wrote to global memory takes a fence_gpu as well (acquiring for the cluster would empty L1 at every wait).
#pragma once
#include "ef_base.h"

namespace ef {

// Makes a barrier that `count` arrivals complete. One thread; the others learn of it by a barrier of the block; sm_80.
EF_DEV void mbar_init(u32 bar, u32 count EF_LINE) {
#if EF_GPU
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
#else
  efemu::mbarrier_init(bar, count, line);
#endif
}

// Ends a barrier: its 8 bytes are free for other use; sm_80.
EF_DEV void mbar_inval(u32 bar EF_LINE) {
#if EF_GPU
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
#else
  efemu::mbarrier_invalidate(bar, line);
#endif
}

// Makes mbar_init visible to asynchronous copies and to the cluster: once after the last one, by the same thread.
EF_DEV void fence_mbar_init(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
  efemu::fence_mbarrier_init(line);
#endif
}

// Arrives once; what this thread did before is visible to those who wait for the phase; sm_80.
EF_DEV void mbar_arrive(u32 bar EF_LINE) {
#if EF_GPU
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(bar) : "memory");
#else
  efemu::mbarrier_arrive(bar, 1, 0, line);
#endif
}

// Arrives `count` times at once.
EF_DEV void mbar_arrive_n(u32 bar, u32 count EF_LINE) {
#if EF_GPU
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(count) : "memory");
#else
  efemu::mbarrier_arrive(bar, count, 0, line);
#endif
}

// Tells the current phase to wait for `bytes` more bytes of asynchronous copies, then arrives once.
EF_DEV void mbar_arrive_expect_tx(u32 bar, u32 bytes EF_LINE) {
#if EF_GPU
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
#else
  efemu::mbarrier_arrive(bar, 1, bytes, line);
#endif
}

// Tells the current phase to wait for `bytes` more bytes of asynchronous copies, without arriving.
EF_DEV void mbar_expect_tx(u32 bar, u32 bytes EF_LINE) {
#if EF_GPU
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
#else
  efemu::mbarrier_expect(bar, bytes, line);
#endif
}

// Whether the phase of that parity has completed; if so, what those who arrived did is visible; sm_80.
EF_DEV bool mbar_test_wait(u32 bar, u32 parity EF_LINE) {
#if EF_GPU
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(bar), "r"(parity)
               : "memory");
  return done != 0;
#else
  return efemu::mbarrier_test(bar, parity, line);
#endif
}

// mbar_test_wait that may sleep a while, of a length that the GPU chooses, before it answers no.
EF_DEV bool mbar_try_wait(u32 bar, u32 parity EF_LINE) {
#if EF_GPU
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(bar), "r"(parity)
               : "memory");
  return done != 0;
#else
  return efemu::mbarrier_try(bar, parity, line);
#endif
}

// Waits until the phase of that parity has completed; what those who arrived did is then visible.
EF_DEV void mbar_wait(u32 bar, u32 parity EF_LINE) {
#if EF_GPU
#ifdef EF_BOUNDED_WAITS
  // A hang becomes a trap after two seconds. Never timed: a trap costs registers where work overlaps.
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  while (!mbar_try_wait(bar, parity)) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - begin > 2000000000ull) asm volatile("trap;");
  }
#else
  while (!mbar_try_wait(bar, parity)) {
  }
#endif
#else
  efemu::mbarrier_wait(bar, parity, line);
#endif
}

// mbar_wait that never sleeps: it learns of the phase some cycles sooner, and takes issue slots meanwhile.
EF_DEV void mbar_poll(u32 bar, u32 parity EF_LINE) {
#if EF_GPU
#ifdef EF_BOUNDED_WAITS
  mbar_wait(bar, parity);
#else
  while (!mbar_test_wait(bar, parity)) {
  }
#endif
#else
  efemu::mbarrier_wait(bar, parity, line);
#endif
}

// Arrives once at the barrier of another block of the cluster.
EF_DEV void mbar_arrive_cluster(u32 cluster_bar EF_LINE) {
#if EF_GPU
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_bar) : "memory");
#else
  efemu::mbarrier_arrive_cluster(cluster_bar, 1, 0, line);
#endif
}

// The same for a block that waits to copy to where asynchronous reads have been, of wgmma or copies that this thread has
// waited for: of loads and stores nothing is said, which spares the fence of all memory that mbar_arrive_cluster is.
EF_DEV void mbar_arrive_cluster_async(u32 cluster_bar EF_LINE) {
#if EF_GPU
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_bar) : "memory");
#else
  efemu::mbarrier_arrive_cluster_async(cluster_bar, line);
#endif
}

// mbar_arrive_expect_tx at the barrier of another block of the cluster.
EF_DEV void mbar_arrive_expect_tx_cluster(u32 cluster_bar, u32 bytes EF_LINE) {
#if EF_GPU
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::
               "r"(cluster_bar), "r"(bytes)
               : "memory");
#else
  efemu::mbarrier_arrive_cluster(cluster_bar, 1, bytes, line);
#endif
}

// Arrives when all cp.async that this thread has started are done; the phase expects one arrival more for it, sm_80.
EF_DEV void cp_async_mbar_arrive(u32 bar EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
#else
  efemu::copies_arrive(bar, true, line);
#endif
}

// The same, and the arrival is one of those that mbar_init counted, sm_80.
EF_DEV void cp_async_mbar_arrive_noinc(u32 bar EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
#else
  efemu::copies_arrive(bar, false, line);
#endif
}

}  // namespace ef
