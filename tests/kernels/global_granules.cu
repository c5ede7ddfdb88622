// Accesses of different sizes to the same 16 bytes of global memory. CASE=n chooses; tests prepend it. One block of
// 64 threads.
#include "ef.h"

using ef::u16;
using ef::u32;
using ef::u32x4;

// out: 64 words; workspace: 256 bytes, of which the first 132 hold something.
extern "C" __global__ void __launch_bounds__(64) global_granules(u32* out, char* workspace) {
  const int thread = threadIdx.x;
  const auto two = (u16*)workspace;
  const auto four = (u32*)workspace;
  const auto all = (u32x4*)workspace;
  const u32x4 some = {1, 2, 3, 4};
  u32 result = 0;
#if CASE == 0  // small and large by turns, with barriers: right
  if (thread < 8) ef::stg(two + thread, (u16)thread);
  ef::syncthreads();
  if (thread == 40) result = ef::ldg(all).x;
  ef::syncthreads();
  if (thread == 1) ef::stg(all, some);
  ef::syncthreads();
  if (thread < 8) result = ef::ldg(two + thread);
  ef::syncthreads();
  if (thread < 4) ef::stg(four + thread, (u32)thread);
  ef::syncthreads();
  result += ef::ldg(all).y;
  ef::syncthreads();
  if (thread == 63) ef::stg(all, some);
  ef::syncthreads();
  if (thread < 4) result += ef::ldg(four + thread);
#elif CASE == 1  // of the 16 bytes at 128 four hold something
  result = ef::ldg(all + 8).x;
#elif CASE == 2  // four bytes are written again, without a barrier before the large read
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  if (thread == 1) ef::stg(two + 3, (u16)9);
  if (thread == 40) result = ef::ldg(all).x;
#elif CASE == 3  // a large read, then a small write, without a barrier
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  if (thread == 40) result = ef::ldg(all).x;
  if (thread == 41) ef::stg(four + 3, 9u);
#elif CASE == 4  // many large reads before a barrier, one after it, then a small write
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  result = ef::ldg(all).x;
  ef::syncthreads();
  if (thread == 30) result += ef::ldg(all).y;
  if (thread == 41) ef::stg(four + 3, 9u);
#elif CASE == 5  // small reads by many, then a large write, without a barrier (thread 63 leaves the last one first)
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  if (thread >= 32) result = ef::ldg(two + thread % 8);
  if (thread == 62) ef::stg(all, some);
#elif CASE == 6  // a large write is known by all; a small one after it is not
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  if (thread < 8) ef::stg(two + thread, (u16)thread);
  ef::syncthreads();
  if (thread == 1) ef::stg(all, some);
  if (thread == 2) result = ef::ldg(two + 7);
#elif CASE == 7  // of four large reads, the small write is ordered after the first two
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  if (thread % 32 < 2) result = ef::ldg(all).x;
  if (thread < 32) ef::syncwarp();
  if (thread == 5) ef::stg(two + 5, (u16)9);
#elif CASE == 8  // many large reads, words elsewhere, then a smaller write, without a barrier
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  result = ef::ldg(all).x;
  if (thread < 4) ef::stg(four + 36 + thread, 9u);
  if (thread == 41) ef::stg(two + 3, (u16)9);
#elif CASE == 9  // a word is changed by an atomic, without a barrier before the large read
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  if (thread == 1) ef::red_add(four + 2, 9u);
  if (thread == 40) result = ef::ldg(all).x;
#elif CASE == 10  // many reads of 8 bytes, then of two of them, while others of the 8 are written: right
  if (thread == 0) ef::stg(all, some);
  ef::syncthreads();
  result = ef::ldg((ef::u32x2*)workspace).x;
  ef::syncthreads();
  result += ef::ldg(two + 1);
  if (thread == 41) ef::stg(two, (u16)9);
#endif
  ef::stg(out + thread, result);
}
EF_EXPORT_KERNEL(global_granules)
