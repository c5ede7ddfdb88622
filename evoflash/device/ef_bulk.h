// Bulk copies: plain rows of bytes between global and shared memory or between the blocks of a cluster; and what all
// asynchronous copies share, TMA's boxes (ef_tma.h) too. sm_90.
//
// One thread starts a copy. A load completes its bytes at an mbarrier of the block (expect them there: mbar_expect_tx);
// stores and reductions are closed into groups by bulk_commit and waited for by bulk_wait, by the same thread. What
// other instructions wrote before a copy reads or overwrites it needs fence_proxy_async between. All addresses and
// sizes are multiples of 16 bytes.
#pragma once
#include "ef_base.h"

namespace ef {

// Orders this thread's accesses to shared memory before asynchronous copies and wgmma that follow.
EF_DEV void fence_proxy_async(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  efemu::fence_proxy_async_shared(line);
#endif
}

// Orders this thread's accesses to global memory before asynchronous copies that follow.
EF_DEV void fence_proxy_async_global(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("fence.proxy.async.global;" ::: "memory");
#else
  efemu::fence_proxy_async_global(line);
#endif
}

// For a _hint primitive: the bytes should leave L2 before others.
EF_DEV u64 l2_evict_first() {
#if EF_GPU
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
#else
  return 1;
#endif
}

// For a _hint primitive: the bytes should leave L2 after others.
EF_DEV u64 l2_evict_last() {
#if EF_GPU
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
#else
  return 2;
#endif
}

// For a _hint primitive: the bytes are like any others to L2.
EF_DEV u64 l2_evict_normal() {
#if EF_GPU
  u64 policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
#else
  return 3;
#endif
}

// Closes this thread's group of stores and reductions; an empty group is legal.
EF_DEV void bulk_commit(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#else
  efemu::bulk_commit(line);
#endif
}

// Waits until at most N of this thread's newest groups are still under way: their writes are done.
template <int N>
EF_DEV void bulk_wait(EF_ONLY_LINE) {
  static_assert(N >= 0, "bulk_wait: a number of groups");
#if EF_GPU
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
#else
  efemu::bulk_wait(N, false, line);
#endif
}

// Waits until at most N of this thread's newest groups have still to read their source: it may be overwritten.
template <int N>
EF_DEV void bulk_wait_read(EF_ONLY_LINE) {
  static_assert(N >= 0, "bulk_wait_read: a number of groups");
#if EF_GPU
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
#else
  efemu::bulk_wait(N, true, line);
#endif
}

// Starts loading `bytes` bytes to `target` in shared memory; `bar` is told of them.
EF_DEV void bulk_load(u32 target, const void* source, u32 bytes, u32 bar EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
               "r"(target), "l"(source), "r"(bytes), "r"(bar) : "memory");
#else
  efemu::bulk_load(target, source, bytes, bar, 0, line);
#endif
}

// Asks for `bytes` bytes to be brought to L2. No access: who reads them later finds what was written meanwhile.
EF_DEV void bulk_prefetch(const void* source, u32 bytes EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(source), "r"(bytes) : "memory");
#else
  efemu::bulk_prefetch(source, bytes, line);
#endif
}

// bulk_load with a policy for L2.
EF_DEV void bulk_load_hint(u32 target, const void* source, u32 bytes, u32 bar, u64 policy EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
               "r"(target), "l"(source), "r"(bytes), "r"(bar), "l"(policy) : "memory");
#else
  efemu::bulk_load(target, source, bytes, bar, 0, line);
#endif
}

// bulk_load to the same place of each block of the cluster in `mask`, and each one's `bar` is told.
EF_DEV void bulk_load_multicast(u32 target, const void* source, u32 bytes, u32 bar, u16 mask EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::
               "r"(target), "l"(source), "r"(bytes), "r"(bar), "h"(mask) : "memory");
#else
  efemu::bulk_load(target, source, bytes, bar, mask, line);
#endif
}

// Starts storing `bytes` bytes from shared to global memory.
EF_DEV void bulk_store(void* target, u32 source, u32 bytes EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::
               "l"(target), "r"(source), "r"(bytes) : "memory");
#else
  efemu::bulk_store(target, source, bytes, line);
#endif
}

// Starts adding `bytes` bytes of floats in shared memory to those in global memory.
EF_DEV void bulk_reduce_add(float* target, u32 source, u32 bytes EF_LINE) {
#if EF_GPU
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::
               "l"(target), "r"(source), "r"(bytes) : "memory");
#else
  efemu::bulk_reduce_add(target, source, bytes, line);
#endif
}

// Starts copying `bytes` bytes to another block of the cluster, addressed by map_shared; a barrier there is told.
EF_DEV void bulk_copy_cluster(u32 cluster_target, u32 source, u32 bytes, u32 cluster_bar EF_LINE) {
#if EF_GPU
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
               "r"(cluster_target), "r"(source), "r"(bytes), "r"(cluster_bar) : "memory");
#else
  efemu::bulk_copy_cluster(cluster_target, source, bytes, cluster_bar, line);
#endif
}

}  // namespace ef
