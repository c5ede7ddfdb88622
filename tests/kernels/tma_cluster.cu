// TMA and bulk copies between the two blocks of a cluster. FAULT=n chooses; tests prepend it. Blocks of 64 threads,
// 8 KiB of shared memory each: barriers at its start, tiles of 16 rows of 64 two-byte elements behind 1024.
#include "ef.h"

using ef::u16;
using ef::u32;

constexpr u32 kTile = 2048;

EF_DEV int sum_row(u32 tile, int row) {
  int sum = 0;
  for (int column = 0; column < 64; ++column) sum += ef::lds<u16>(tile + row * 128 + column * 2);  // sums
  return sum;
}

// from: 64 x 64, element (r, c) is 64 r + c modulo 251; out: 2 x 64.
extern "C" __global__ void __launch_bounds__(64) pair(EF_TMAP(from), int* out) {
  const int thread = threadIdx.x, rank = ef::cluster_rank();
  const u32 smem = ef::smem_base(), full = smem, empty = smem + 16, tile = smem + 1024;
  int result = 0;
  if (thread == 0) {
    for (int i = 0; i < 2; ++i) {
      ef::mbar_init(full + 8 * i, 1);
      ef::mbar_init(empty + 8 * i, FAULT == 4 ? 1 : 2);
    }
#if FAULT != 2
    ef::fence_mbar_init();
#endif
  }
#if FAULT == 1
  ef::syncthreads();
#elif FAULT == 2
  ef::cluster_sync();
#elif FAULT == 10
  ef::cluster_arrive_relaxed();  // and no wait
  ef::syncthreads();
#else
  ef::cluster_arrive_relaxed();
  ef::cluster_wait();
  ef::syncthreads();
#endif
#if FAULT <= 2 || FAULT == 4 || FAULT >= 10  // each block loads every other tile for both
  if (thread == 0) {
    for (int i = 0; i < 4; ++i) {
      const u32 bar = full + 8 * (i % 2);
      if (i % 2 == rank) {
        ef::mbar_wait(empty + 8 * (i % 2), i / 2 ^ 1);
        ef::mbar_arrive_expect_tx(bar, kTile);
        ef::tma_load_multicast(tile + i % 2 * kTile, &from, ef::at(0, 16 * i), bar, 3);  // to both
      } else {
        if (i >= 2) ef::mbar_wait(bar, 0);
        ef::mbar_arrive_expect_tx(bar, kTile);
      }
    }
  } else if (thread >= 32) {
    for (int i = 0; i < 4; ++i) {
      ef::mbar_wait(full + 8 * (i % 2), i / 2);
      result += sum_row(tile + i % 2 * kTile, thread % 16);
      ef::syncwarp();
#if FAULT == 4
      if (thread == 32) ef::mbar_arrive(empty + 8 * (i % 2));  // the block that loads is not told
#else
      const u32 loads = ef::map_shared(empty + 8 * (i % 2), i % 2);
      if (thread == 32 && (FAULT < 11 || i < 2)) ef::mbar_arrive_cluster(loads);
      if (thread == 32 && FAULT >= 11 && i >= 2) ef::mbar_arrive_cluster_async(loads);  // nobody waits for these
#endif
    }
  }
#elif FAULT == 3
  if (thread == 0 && rank == 0) ef::tma_load_multicast(tile, &from, ef::at(0, 0), full, 7);  // three of two
#elif FAULT == 5  // block 1 takes no notice
  if (thread == 0 && rank == 0) {
    ef::mbar_arrive_expect_tx(full, kTile);
    ef::tma_load_multicast(tile, &from, ef::at(0, 0), full, 3);  // unasked
    ef::mbar_wait(full, 0);
  }
#elif FAULT >= 6 && FAULT <= 9  // shared memory of block 0 goes to block 1
  if (rank == 0) {
    ef::sts(tile + 4 * thread, thread);
#if FAULT != 9
    ef::fence_proxy_async();
#endif
    ef::syncthreads();
    if (thread == 0)
      ef::bulk_copy_cluster(ef::map_shared(tile, 1), tile, 256, ef::map_shared(full, 1));  // over there
#if FAULT == 7
    ef::syncthreads();
    ef::sts(tile + 4 * thread, 0);  // too early
#endif
  } else {
    if (thread == 0) ef::mbar_arrive_expect_tx(full, 256);
    ef::mbar_wait(full, 0);
    result = ef::lds<int>(tile + 4 * thread);
  }
#endif
#if FAULT == 10
  ef::cluster_wait();
#elif FAULT != 8 && FAULT != 12
  ef::cluster_sync();
#endif
  ef::stg(out + 64 * rank + thread, result);
}
EF_EXPORT_KERNEL(pair)
