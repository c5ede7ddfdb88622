// Blocks of a cluster add up what each has in its shared memory, in the two ways: reading from the others, and
// storing to one of them; and what can be wrong with that. FAULT=n chooses; tests prepend it. Blocks of 64 threads,
// 1024 bytes of shared memory, one cluster.
#include "ef.h"

using ef::u32;

// out: a number for each thread of the grid.
extern "C" __global__ void __launch_bounds__(64) cluster(int* out) {
  const int thread = threadIdx.x;
  const u32 rank = ef::cluster_rank(), size = ef::cluster_size();
  const u32 smem = ef::smem_base(), mine = smem + 4 * thread;
  int result = 0;
#if FAULT < 20  // every block reads from all others
  ef::sts(mine, int(100 * rank + thread));
#if FAULT == 1  // nothing: the others may not have begun
#elif FAULT == 2  // they have begun, no more
  ef::cluster_arrive_relaxed();
  ef::cluster_wait();
#elif FAULT == 3  // only the block's own threads
  ef::syncthreads();
#elif FAULT == 4  // in two steps, with work between
  ef::cluster_arrive();
  result = thread - thread;
  ef::cluster_wait();
#elif FAULT == 5  // nobody waits
  ef::cluster_arrive();
  ef::cluster_arrive();
#elif FAULT == 6
  ef::cluster_wait();
#elif FAULT == 7  // a warp never comes
  if (rank == 1 && thread < 32) ef::bar_sync(1, 64);
  ef::cluster_sync();
#elif FAULT == 8  // lanes come to one barrier on two ways
  if (thread % 2)
    ef::cluster_arrive();
  else
    ef::cluster_arrive();
  ef::cluster_wait();
#else
  ef::cluster_sync();
#endif
#if FAULT == 15  // half of the threads is not there to be waited for
  if (thread >= 32) return;
#endif
#if FAULT == 9  // one block too far
  result = ef::lds_cluster<int>(ef::map_shared(mine, size));
#elif FAULT == 10  // mapped twice
  result = ef::lds_cluster<int>(ef::map_shared(ef::map_shared(mine, 1), 0));
#elif FAULT == 11  // a cluster address is no plain one
  result = ef::lds<int>(ef::map_shared(mine, 1));
#elif FAULT == 12  // past the end of the other's memory
  result = ef::lds_cluster<int>(ef::map_shared(smem + 1024 + 4 * thread, 0));
#else
  for (u32 i = 0; i < size; ++i) result += ef::lds_cluster<int>(ef::map_shared(mine, i));
#endif
#if FAULT == 13  // blocks end as soon as they have read
#elif FAULT == 14  // what others may still read is overwritten
  ef::sts(mine, 0);
  ef::cluster_sync();
#elif FAULT == 16  // relaxed: all have read, though nothing says that they had before the end
  ef::cluster_arrive_relaxed();
  ef::cluster_wait();
#else
  ef::cluster_sync();
#endif
#else  // every block stores to block 0, whose barrier counts the bytes
  const u32 bar = smem + 1008;
  if (FAULT != 22 && FAULT != 23 && rank == 0 && thread == 0) {
    ef::mbar_init(bar, 1);
    ef::mbar_arrive_expect_tx(bar, 64 * 4 * size);
    ef::fence_mbar_init();
  }
#if FAULT == 21  // block 0 may not have begun
  ef::syncthreads();
#else
  ef::cluster_sync();
#endif
  const u32 target = ef::map_shared(smem + 4 * (thread % 32 + 32 * rank) + 256 * (thread / 32), 0);
#if FAULT == 22  // plain stores, and then nothing that says so
  ef::sts_cluster(target, int(100 * rank + thread));
#elif FAULT == 23  // plain stores, and a barrier
  ef::sts_cluster(target, int(100 * rank + thread));
  ef::cluster_sync();
#elif FAULT == 24  // target and barrier of different blocks
  ef::sts_async(target, u32(100 * rank + thread), ef::map_shared(bar, 1));
#else  // 25: and nobody waits for them
  ef::sts_async(target, u32(100 * rank + thread), ef::map_shared(bar, 0));
#endif
  if (rank == 0) {
#if FAULT == 20 || FAULT == 21 || FAULT == 24
    ef::mbar_wait(bar, 0);
#endif
    for (u32 other = 0; other < size; ++other)
      result += ef::lds<int>(smem + 4 * (thread % 32 + 32 * other) + 256 * (thread / 32));
  }
#endif
  ef::stg(out + blockIdx.x * 64 + thread, result);
}
EF_EXPORT_KERNEL(cluster)
