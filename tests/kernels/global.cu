// Threads, blocks and launches that exchange data through global memory without atomics. FAULT=n chooses; tests
// prepend it. Blocks of 64 threads.
#include "ef.h"

using ef::u32;

// Threads of a block pass numbers on through memory.
extern "C" __global__ void __launch_bounds__(64) pass(int* workspace, int* out) {
  const int thread = threadIdx.x, next = (thread + 1) % 64;
  int* const here = workspace + 64 * blockIdx.x;
  ef::stg(here + thread, thread);
#if FAULT != 1  // 1: the neighbour may not have written
  ef::syncthreads();
#endif
  int result = ef::ldg((const int*)here + next);
#if FAULT == 2  // the neighbour may not have read
  ef::stg(here + thread, 0);
#elif FAULT == 3  // read by the next block too, which may not be there yet or long gone
  if (blockIdx.x > 0) result += ef::ldg((const int*)here - 64 + thread);
#elif FAULT == 4  // written by two blocks
  ef::syncthreads();
  ef::stg(workspace + thread, thread);
#elif FAULT == 5  // memory that nobody has written
  result += ef::ldg((const int*)workspace + 64 * gridDim.x + thread);
#elif FAULT == 6  // the copy reads what the neighbour may not have written
  ef::stg(here + thread, 1 + thread);
  if (thread < 16) {
    ef::cp_async16(ef::smem_base() + 16 * thread, here + 4 * thread);
    ef::cp_async_commit();
    ef::cp_async_wait<0>();
  }
#elif FAULT == 7  // scratch may be written again, by another thread
  ef::syncthreads();
  ef::stg(here + next, result);
#elif FAULT == 8  // an output may not, not even in order
  ef::stg(out + 64 * blockIdx.x + next, 0);
  ef::syncthreads();
#endif
  ef::stg(out + 64 * blockIdx.x + thread, result);
}
EF_EXPORT_KERNEL(pass)

// Two launches: the first writes, the second reads; it may begin before the first has ended.
extern "C" __global__ void __launch_bounds__(64) produce(int* workspace, int add) {
  ef::grid_launch_dependents();
#if FAULT == 11  // it is not the first either: it overtakes the launch before it
#else
  ef::grid_wait();
#endif
  ef::stg(workspace + 64 * blockIdx.x + threadIdx.x, int(threadIdx.x) + add);
}
EF_EXPORT_KERNEL(produce)

extern "C" __global__ void __launch_bounds__(64) consume(const int* workspace, int* out) {
  const int thread = threadIdx.x;
#if FAULT == 12  // nobody waits
#elif FAULT == 13  // one thread waits, the others do not wait for it
  if (thread == 0) ef::grid_wait();
#elif FAULT == 14  // they do
  if (thread == 0) ef::grid_wait();
  ef::syncthreads();
#elif FAULT == 15  // what the launch before has written may be overwritten by it
  ef::stg((int*)workspace + 64 * blockIdx.x + thread, 0);
  ef::grid_wait();
#else
  ef::grid_wait();
#endif
  ef::stg(out + 64 * blockIdx.x + thread, ef::ldg(workspace + 64 * blockIdx.x + thread) * 2);
}
EF_EXPORT_KERNEL(consume)

// Copies nothing; an idle launch between two others that does not wait for the first.
extern "C" __global__ void __launch_bounds__(64) idle() {
  ef::grid_launch_dependents();
}
EF_EXPORT_KERNEL(idle)
