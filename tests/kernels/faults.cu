// What kernels do wrong outside of the attention loop, and a few things that are right though they look odd.
// FAULT=n chooses; tests prepend it. One block of 64 threads, 1024 bytes of shared memory.
#include "ef.h"

using ef::u32;

#if FAULT == 3
// Deep enough for any stack; `depth` is never 0 here.
EF_DEV int descend(const int* in, int depth) {
  volatile int frame[1024];
  frame[depth % 1024] = depth;
  return depth == 0 ? 0 : descend(in, depth + in[0]) + frame[depth % 1024];
}
#endif

// in: 4096 ints, 0, 1, 2 ...; out: 64 ints.
extern "C" __global__ void __launch_bounds__(64) faults(int* in, int* out) {
  const int thread = threadIdx.x;
  const u32 smem = ef::smem_base();
  int result = thread;
#if FAULT == 1  // a raw pointer, too far
  result = in[4096 + thread];
#elif FAULT == 2  // a raw pointer into an input
  in[thread] = 7;
#elif FAULT == 3
  result = descend(in + 1, 1);
#elif FAULT == 4  // one warp waits for a flag that nobody sets
  if (thread == 0) ef::sts(smem, 0);
  ef::syncthreads();
  if (thread < 32)
    while (ef::lds<int>(smem) == 0) {
    }
#elif FAULT == 5  // the flag is set: no hang, but a race
  if (thread == 0) ef::sts(smem, 0);
  ef::syncthreads();
  if (thread < 32)
    while (ef::lds<int>(smem) == 0) {
    }
  else
    ef::sts(smem + 4 * (thread == 32 ? 0 : thread), 1);
#elif FAULT == 6  // no primitive in the loop
  volatile int go = 1;
  while (go) {
  }
#elif FAULT == 7  // a register array has four elements
  int values[4] = {0, 1, 2, 3};
  result = values[ef::ldg(in + 5)];
#elif FAULT == 8
  result = 64 / ef::ldg(in);
#elif FAULT == 9  // two threads write one word
  ef::sts(smem, thread);
#elif FAULT == 10  // syncwarp orders a warp's accesses
  ef::sts(smem + thread * 4, thread);
  ef::syncwarp();
  result = ef::lds<int>(smem + (thread ^ 1) * 4);
#elif FAULT == 11  // a shuffle does not
  ef::sts(smem + thread * 4, thread);
  ef::shfl_idx(thread, 0);
  result = ef::lds<int>(smem + (thread ^ 1) * 4);
#elif FAULT == 12  // __syncthreads waits for the threads that are still there
  ef::sts(smem + thread * 4, thread);
  if (thread >= 32) return;
  ef::syncthreads();
#elif FAULT == 13  // half of the block goes to another barrier
  if (thread < 32)
    ef::bar_sync(1, 64);
  else
    ef::bar_sync(2, 64);
#elif FAULT == 14  // producer and consumer through a named barrier
  if (thread < 32) {
    ef::sts(smem + thread * 4, thread);
    ef::bar_arrive(3, 64);
  } else {
    ef::bar_sync(3, 64);
    result = ef::lds<int>(smem + (thread - 32) * 4);
  }
#elif FAULT == 15  // one warp's lanes reach a barrier on two ways
  if (thread % 2)
    ef::syncthreads();
  else
    ef::syncthreads();
#elif FAULT == 16  // a group that was never committed is not waited for
  ef::cp_async16(smem + thread * 16, in + thread * 4);
  ef::cp_async_wait<0>();
#elif FAULT == 17  // polls global memory for what nobody writes
  while (ef::ldg(in) == 0) {
  }
#elif FAULT == 18  // a trailing empty group is harmless
  ef::cp_async16(smem + thread * 16, in + thread * 4);
  ef::cp_async_commit();
  ef::cp_async_commit();
  ef::cp_async_wait<1>();
#elif FAULT == 19  // null
  ef::stg((int*)nullptr + thread, 1);
#elif FAULT == 20  // the same barrier with two counts
  ef::bar_sync(1, thread < 32 ? 64 : 32);
#endif
  ef::stg(out + thread, result);
}
EF_EXPORT_KERNEL(faults)
