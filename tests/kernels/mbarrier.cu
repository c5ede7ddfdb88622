// mbarriers used rightly and wrongly. FAULT=n chooses; tests prepend it. One block of 64 threads: warp 0 and warp 1.
// Barriers lie at the start of 4096 bytes of shared memory, data behind 1024.
#include "ef.h"

using ef::u32;

EF_DEV void wait_by_try(u32 bar, u32 parity) {
  while (!ef::mbar_try_wait(bar, parity)) {
  }
}

EF_DEV void wait_by_test(u32 bar, u32 parity) {
  while (!ef::mbar_test_wait(bar, parity)) {
  }
}

// Who counts goes on some day without what it asked for.
EF_DEV void wait_by_some_tests(u32 bar, u32 parity) {
  for (int i = 0; i < 1000 && !ef::mbar_test_wait(bar, parity); ++i) {
  }
}

EF_DEV void wait_by_some_tries(u32 bar, u32 parity) {
  for (int i = 0; i < 20 && !ef::mbar_try_wait(bar, parity); ++i) {
  }
}

#if FAULT == 1
#define WAIT wait_by_try
#elif FAULT == 2
#define WAIT wait_by_test
#elif FAULT == 33
#define WAIT wait_by_some_tests
#elif FAULT == 34
#define WAIT wait_by_some_tries
#else
#define WAIT ef::mbar_wait
#endif

// in: 4096 ints, 0, 1, 2 ...; out: 64 ints.
extern "C" __global__ void __launch_bounds__(64) mbarriers(const int* in, int* out) {
  const int thread = threadIdx.x, lane = thread % 32;
  const u32 smem = ef::smem_base(), full = smem, empty = smem + 16, other = smem + 32, data = smem + 1024;
  int result = 0;
#if FAULT <= 3 || FAULT == 17 || FAULT == 33 || FAULT == 34  // a ring of two stages, filled by warp 0, emptied by warp 1, six times
  if (thread == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      ef::mbar_init(full + 8 * stage, 32);
      ef::mbar_init(empty + 8 * stage, 1);
    }
  }
  ef::syncthreads();
  for (int i = 0; i < 6; ++i) {
    const int stage = i % 2, parity = i / 2 % 2;
    const u32 place = data + 128 * stage + 4 * lane;
    if (thread < 32) {
      WAIT(empty + 8 * stage, parity ^ 1);
      ef::sts(place, i * lane);
      ef::mbar_arrive(full + 8 * stage);
    } else {
#if FAULT == 17
      ef::mbar_wait(full + 8 * stage, parity ^ 1);  // the phase before
#elif FAULT != 3
      WAIT(full + 8 * stage, parity);
#endif
      result += ef::lds<int>(data + 128 * stage + 4 * (31 - lane));  // read
      ef::syncwarp();
      if (lane == 0) ef::mbar_arrive(empty + 8 * stage);
    }
  }
#elif FAULT == 4  // an arrival while the phase waits for bytes only
  if (thread == 0) {
    ef::mbar_init(full, 1);
    ef::mbar_arrive_expect_tx(full, 64);
    ef::mbar_arrive(full);  // one too many
  }
#elif FAULT == 5  // two phases pass before the waiting thread looks
  if (thread == 0) ef::mbar_init(full, 1);
  ef::syncthreads();
  if (thread == 0) ef::mbar_wait(full, 0);
  if (thread == 32) {
    ef::mbar_arrive(full);
    ef::mbar_arrive(full);
  }
#elif FAULT == 6
  if (thread == 0) ef::mbar_arrive(full);  // no barrier here
#elif FAULT == 7
  if (thread == 0) {
    ef::mbar_init(full, 1);
    ef::mbar_inval(full);
    ef::mbar_arrive(full);  // no longer
  }
#elif FAULT == 8
  if (thread == 0) {
    ef::mbar_init(full, 1);
    ef::mbar_init(full, 2);  // again
  }
#elif FAULT == 9
  if (thread == 0) ef::mbar_init(full, 1);  // not ordered before
  if (thread == 32) ef::mbar_arrive(full);  // its use
  ef::syncthreads();
#elif FAULT == 10 || FAULT == 11 || FAULT == 12  // one arrival of two
  if (thread == 0) ef::mbar_init(full, 2);  // hangs
  ef::syncthreads();
  if (thread == 0) ef::mbar_arrive(full);
#if FAULT == 10
  if (thread >= 32) ef::mbar_wait(full, 0);
#elif FAULT == 11
  if (thread >= 32)
    while (!ef::mbar_try_wait(full, 0)) {
    }
#else
  if (thread >= 32)
    while (!ef::mbar_test_wait(full, 0)) {
    }
#endif
#elif FAULT == 13
  if (thread == 0) {
    ef::mbar_init(full, 1);
    result = ef::lds<int>(full);  // a barrier's own bytes
  }
#elif FAULT == 14
  if (thread == 0) ef::mbar_init(full, 0);  // for nobody
#elif FAULT == 15
  if (thread == 0) {
    ef::mbar_init(full, 1);
    ef::mbar_wait(full, 2);  // no parity
  }
#elif FAULT == 16
  if (thread == 0) ef::mbar_init(full + 4, 1);  // half a place off
#elif FAULT >= 18 && FAULT <= 21  // cp.async that arrives at a barrier
  if (thread == 0) ef::mbar_init(full, FAULT == 21 ? 64 : 32);
  ef::syncthreads();
  if (thread < 32) {
    ef::cp_async16(data + 16 * lane, in + 4 * lane);
#if FAULT == 18
    ef::cp_async_mbar_arrive(full);
    ef::mbar_arrive(full);
#else
    ef::cp_async_mbar_arrive_noinc(full);
#endif
  } else {
#if FAULT != 20
    ef::mbar_wait(full, 0);
#endif
    result = ef::lds<int>(data + 16 * (31 - lane));  // copied
  }
#if FAULT == 20
  if (thread == 40) ef::mbar_wait(full, 0);
#endif
#elif FAULT >= 29 && FAULT <= 32  // copies that a barrier is told of, and that their thread waits for itself
  if (thread == 0) ef::mbar_init(full, 32);
  ef::syncthreads();
  if (thread < 32) {
    ef::cp_async16(data + 16 * lane, in + 4 * lane);
    ef::cp_async_commit();
    ef::cp_async_mbar_arrive_noinc(full);
#if FAULT != 31
    ef::cp_async_wait<0>();
#endif
    result = ef::lds<int>(data + 16 * (FAULT == 30 ? 31 - lane : lane));  // its own, or another's
#if FAULT == 32
    ef::sts(data + 16 * lane, result + 1);  // an arrival that comes late does not copy again
#endif
  }
  ef::mbar_wait(full, 0);
#if FAULT == 32
  ef::syncthreads();
#endif
  if (thread >= 32) result = ef::lds<int>(data + 16 * (31 - lane)) - (FAULT == 32);
#elif FAULT == 22
  if (thread == 0) ef::mbar_init(full, 1);
  ef::syncthreads();
  if (thread == 0) ef::mbar_wait(full, 0);
  if (thread == 32) ef::mbar_inval(full);  // somebody waits
#elif FAULT == 23
  if (thread == 0) {
    ef::mbar_init(full, 1);
    ef::mbar_expect_tx(full, 64);  // bytes that never come
  }
#elif FAULT == 24  // arrivals in bulk; then the bytes are data again, then another barrier
  if (thread == 0) ef::mbar_init(full, 3);
  ef::syncthreads();
  if (thread == 32) ef::mbar_arrive_n(full, 2);
  if (thread == 33) ef::mbar_arrive(full);
  ef::mbar_wait(full, 0);
  ef::syncthreads();
  if (thread == 0) ef::mbar_inval(full);
  ef::syncthreads();
  if (thread == 1) ef::sts(full, 7);
  ef::syncthreads();
  result = ef::lds<int>(full);
  ef::syncthreads();
  if (thread == 2) ef::mbar_init(full, 1);
  ef::syncthreads();
  if (thread == 3) ef::mbar_arrive(full);
  ef::mbar_wait(full, 0);
#elif FAULT == 25  // a try that fails is what lets the other thread go on
  if (thread == 0) {
    ef::mbar_init(full, 1);
    ef::mbar_init(other, 1);
  }
  ef::syncthreads();
  if (thread == 0) {
    bool helped = false;
    while (!ef::mbar_try_wait(full, 0)) {
      if (!helped) ef::mbar_arrive(other);
      helped = true;
    }
    result = helped;
  }
  if (thread == 32) {
    ef::mbar_wait(other, 0);
    ef::mbar_arrive(full);
  }
#elif FAULT == 26
  if (thread == 0) {
    ef::mbar_init(full, 2);
    ef::mbar_arrive_n(full, 3);  // three of two
  }
#elif FAULT == 27  // cp.async for a barrier that nobody waits for
  if (thread == 0) ef::mbar_init(full, 32);
  ef::syncthreads();
  if (thread < 32) {
    ef::cp_async16(data + 16 * lane, in + 4 * lane);
    ef::cp_async_mbar_arrive_noinc(full);  // left alone
  }
#elif FAULT == 28  // a wait that is never tested for the phase that ends it, but polls a flag as well
  if (thread == 0) ef::mbar_init(full, 1);
  ef::syncthreads();
  if (thread == 0) {
    while (!ef::mbar_try_wait(full, 0) && ef::ldg(in) == 0) {  // polls
    }
  }
#elif FAULT >= 35 && FAULT <= 37  // one slot, filled by thread 0, emptied by threads 32 and 33 in turn
  if (thread == 0) {
    ef::mbar_init(full, 1);
    ef::mbar_init(empty, 1);
  }
  ef::syncthreads();
  for (int i = 0; i < 4; ++i) {
    if (thread == 0) {
      ef::mbar_wait(empty, i % 2 ^ 1);  // of the slot
      ef::sts(data, i);
      ef::mbar_arrive(full);
#if FAULT == 36  // three phases a turn have the parities of one
      ef::mbar_arrive(full);
      ef::mbar_arrive(full);
#endif
    }
#if FAULT == 35
    if (thread == 32 && i % 2 == 0 || thread == 33) ef::mbar_wait(full, i % 2);  // thread 32 sees every other phase
#else
    if (thread >= 32) ef::mbar_wait(full, i % 2);  // all see every phase
#endif
    if (thread == 32 + i % 2) {
      result += ef::lds<int>(data);
      ef::mbar_arrive(empty);
    }
#if FAULT == 37
    ef::syncthreads();
#endif
  }
#elif FAULT == 38  // the two arrivals of a phase may be one thread's
  if (thread == 0) ef::mbar_init(full, 2);
  ef::syncthreads();
  for (int i = 0; i < 2; ++i) {
    if (thread == 0 || thread == 32) ef::mbar_arrive(full);  // and again
    if (thread == 33) ef::mbar_wait(full, i);
  }
#elif FAULT == 39  // who knows of a completed phase by another barrier may do without waiting for it
  if (thread == 0) ef::mbar_init(full, 1);
  ef::syncthreads();
  if (thread == 0) ef::mbar_arrive(full);
  if (thread == 0) ef::mbar_arrive(full);
  ef::syncthreads();
  if (thread == 0) ef::mbar_arrive(full);
  if (thread == 40) ef::mbar_wait(full, 0);
  result = thread == 40;
#endif
  ef::stg(out + thread, result);
}
EF_EXPORT_KERNEL(mbarriers)
