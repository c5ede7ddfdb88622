// Accesses of different sizes to the same 16 bytes of shared memory. CASE=n chooses; tests prepend it. One block of
// 64 threads, 1024 bytes of shared memory.
#include "ef.h"

using ef::u16;
using ef::u32;

// out: 64 words.
extern "C" __global__ void __launch_bounds__(64) granules(u32* out) {
  const int thread = threadIdx.x;
  const u32 smem = ef::smem_base();
  const ef::u32x4 four = {1, 2, 3, 4};
  u32 result = 0;
#if CASE == 0  // small and large by turns, with barriers: right
  if (thread < 8) ef::sts(smem + 2 * thread, static_cast<u16>(thread));
  ef::syncthreads();
  if (thread == 40) result = ef::lds<ef::u32x4>(smem).x;
  ef::syncthreads();
  if (thread == 1) ef::sts(smem, four);
  ef::syncthreads();
  if (thread < 8) result = ef::lds<u16>(smem + 2 * thread);
  ef::syncthreads();
  if (thread == 2) ef::sts(smem + 4, 7u);
  ef::syncthreads();
  result += ef::lds<ef::u32x4>(smem).y;
#elif CASE == 1  // one granule of eight was never written
  if (thread < 8 && thread != 5) ef::sts(smem + 2 * thread, static_cast<u16>(thread));
  ef::syncthreads();
  if (thread == 40) result = ef::lds<ef::u32x4>(smem).x;
#elif CASE == 2  // one granule is written again, without a barrier before the large read
  if (thread == 0) ef::sts(smem, four);
  ef::syncthreads();
  if (thread == 1) ef::sts(smem + 6, static_cast<u16>(9));
  if (thread == 40) result = ef::lds<ef::u32x4>(smem).x;
#elif CASE == 3  // a large read, then a small write, without a barrier
  if (thread == 0) ef::sts(smem, four);
  ef::syncthreads();
  if (thread == 40) result = ef::lds<ef::u32x4>(smem).x;
  if (thread == 41) ef::sts(smem + 12, 9u);
#elif CASE == 4  // many large reads before a barrier, one after it, then a small write
  if (thread == 0) ef::sts(smem, four);
  ef::syncthreads();
  result = ef::lds<ef::u32x4>(smem).x;
  ef::syncthreads();
  if (thread == 30) result += ef::lds<ef::u32x4>(smem).y;
  if (thread == 41) ef::sts(smem + 12, 9u);
#elif CASE == 5  // small reads by many, then a large write, without a barrier (thread 63 leaves the last one first)
  if (thread == 0) ef::sts(smem, four);
  ef::syncthreads();
  if (thread >= 32) result = ef::lds<u16>(smem + 2 * (thread % 8));
  if (thread == 62) ef::sts(smem, four);
#elif CASE == 6  // 16 bytes over an mbarrier and what is beside it
  if (thread == 0) {
    ef::mbar_init(smem, 1);
    ef::sts(smem, four);  // over it
    result = ef::lds<u32>(smem + 8);
  }
#elif CASE == 7  // a large write is known by all; a small one after it is not
  if (thread == 0) ef::sts(smem, four);
  ef::syncthreads();
  if (thread < 8) ef::sts(smem + 2 * thread, static_cast<u16>(thread));
  ef::syncthreads();
  if (thread == 1) ef::sts(smem, four);
  if (thread == 2) result = ef::lds<u16>(smem + 14);
#elif CASE == 8  // a copy of 16 bytes is waited for; 4 of them, copied again, are not
  ef::sts(smem + 16 * thread, four);
  ef::cp_async4_zfill(smem + 16 * thread + 8, out, false);
  ef::cp_async_commit();
  result = ef::lds<u32>(smem + 16 * thread + 4);
  result += ef::lds<ef::u32x4>(smem + 16 * thread).z;  // too early
  ef::cp_async_wait<0>();
#elif CASE == 9  // of four large reads, the small write is ordered after the first two
  if (thread == 0) ef::sts(smem, four);
  ef::syncthreads();
  if (thread % 32 < 2) result = ef::lds<ef::u32x4>(smem).x;
  if (thread < 32) ef::syncwarp();
  if (thread == 5) ef::sts(smem + 12, 9u);
#endif
  ef::stg(out + thread, result);
}
EF_EXPORT_KERNEL(granules)
