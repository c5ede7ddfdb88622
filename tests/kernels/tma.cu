// TMA and bulk copies used rightly and wrongly. FAULT=n chooses; tests prepend it. One block of 64 threads, 16 KiB of
// shared memory: barriers at its start, tiles of 16 rows of 64 two-byte elements (2048 bytes) behind 1024.
#include "ef.h"

using ef::u16;
using ef::u32;

constexpr u32 kTile = 2048;

// The tile's element, in the layout of a 128-byte swizzle.
EF_DEV u32 element(u32 tile, int row, int column) {
  return tile + row * 128 + ((column / 8 ^ row % 8) * 16) + column % 8 * 2;
}

EF_DEV int sum_row(u32 tile, int row) {
  int sum = 0;
  for (int column = 0; column < 64; ++column) sum += ef::lds<u16>(element(tile, row, column));  // sums
  return sum;
}

// from: 128 x 64, element (r, c) is 64 r + c modulo 251; to: 128 x 64, written from tiles; floats: 64.
extern "C" __global__ void __launch_bounds__(64)
tiles(EF_TMAP(from), EF_TMAP(to), const u16* plain, u16* plain_to, float* floats, int* out) {
  const int thread = threadIdx.x;
  const u32 smem = ef::smem_base(), full = smem, empty = smem + 16, tile = smem + 1024;
  int result = 0;
  if (thread == 0) {
    for (int i = 0; i < 2; ++i) {
      ef::mbar_init(full + 8 * i, 1);
      ef::mbar_init(empty + 8 * i, 32);
    }
#if FAULT != 3
    ef::fence_mbar_init();
#endif
  }
  ef::syncthreads();
#if FAULT == 0 || FAULT == 1 || FAULT == 4  // a ring of two tiles: thread 0 fills, warp 1 sums rows
  if (thread == 0) {
    for (int i = 0; i < 8; ++i) {
#if FAULT != 1
      ef::mbar_wait(empty + 8 * (i % 2), i / 2 % 2 ^ 1);
#endif
      ef::mbar_arrive_expect_tx(full + 8 * (i % 2), kTile);
      ef::tma_load(tile + i % 2 * kTile, &from, ef::at(0, 16 * i), full + 8 * (i % 2));  // fills
    }
  } else if (thread >= 32) {
    for (int i = 0; i < 8; ++i) {
      ef::mbar_wait(full + 8 * (i % 2), i / 2 % 2);
#if FAULT == 4
      ef::mbar_arrive(empty + 8 * (i % 2));
#endif
      result += sum_row(tile + i % 2 * kTile, thread % 16);
#if FAULT != 4
      ef::mbar_arrive(empty + 8 * (i % 2));
#endif
    }
  }
#elif FAULT == 2 || FAULT == 3 || FAULT >= 5 && FAULT <= 8 || FAULT == 21  // one load
  if (thread == 0) {
#if FAULT == 5
    ef::mbar_arrive_expect_tx(full, kTile / 2);  // too few bytes
#elif FAULT == 6
    ef::mbar_arrive_expect_tx(full, 2 * kTile);  // too many
#else
    ef::mbar_arrive_expect_tx(full, kTile);
#endif
#if FAULT == 7
    ef::tma_load(tile + 64, &from, ef::at(0, 0), full);  // half a line off
#elif FAULT == 21
    ef::tma_load(smem + 15 * 1024, &from, ef::at(0, 0), full);  // beyond the end
#else
    ef::tma_load(tile, &from, ef::at(0, 0), full);  // the load
#endif
  }
#if FAULT == 2
  ef::syncthreads();
  result = sum_row(tile, thread % 16);
  ef::mbar_wait(full, 0);
#elif FAULT != 8
  ef::mbar_wait(full, 0);
  result = sum_row(tile, thread % 16);
#endif
#elif FAULT == 9 || FAULT >= 10 && FAULT <= 17 || FAULT == 20 || FAULT == 23 || \
    FAULT >= 31 && FAULT <= 34  // a tile is written and stored
#if FAULT == 32
  ef::fence_proxy_async();
#endif
  for (int column = 0; column < 16; ++column)
    ef::sts(element(tile, thread % 16, thread / 16 * 16 + column), u16(thread));  // writes
#if FAULT == 31
  ef::fence_proxy_async_global();
#elif FAULT == 34
  if (thread == 0) ef::fence_proxy_async();
#elif FAULT != 10 && FAULT != 32 && FAULT != 33
  ef::fence_proxy_async();
#endif
#if FAULT != 11
  ef::syncthreads();
#endif
#if FAULT == 33
  ef::fence_proxy_async();  // by who stores, of what the others wrote
#endif
  if (thread == 0) {
    ef::tma_store(&to, ef::at(0, 32), tile);  // stores
#if FAULT == 12
    ef::tma_store(&to, ef::at(0, 40), tile);  // and again
#endif
#if FAULT != 14
    ef::bulk_commit();
#endif
#if FAULT == 13
    // nothing
#elif FAULT == 15 || FAULT == 16
    ef::tma_store(&to, ef::at(0, 64), tile + (FAULT == 15 ? 0 : kTile));  // the second
    ef::bulk_commit();
    ef::bulk_wait_read<1>();
#elif FAULT == 23
    ef::bulk_wait_read<0>();
#else
    ef::bulk_wait<0>();
#endif
  }
#if FAULT != 20
  ef::syncthreads();
#endif
#if FAULT == 9 || FAULT == 15 || FAULT == 20
  ef::sts(element(tile, thread % 16, thread / 16), u16(1));  // overwrites
#endif
  if (FAULT == 15 && thread == 0) ef::bulk_wait<0>();
#if FAULT == 23
  if (thread == 0) result = ef::ldg(plain_to + 32 * 64);  // reads back
#endif
#elif FAULT == 18  // plain rows there and back
  if (thread == 0) {
    ef::mbar_arrive_expect_tx(full, 512);
    ef::bulk_load(tile, plain, 512, full);
    ef::mbar_wait(full, 0);
    ef::bulk_store(plain_to, tile, 512);
    ef::bulk_commit();
    ef::bulk_wait_read<0>();
  }
  ef::syncthreads();
  ef::sts(tile + 4 * thread, float(thread));
  ef::fence_proxy_async();
  ef::syncthreads();
  if (thread < 2) {
    ef::bulk_reduce_add(floats, tile, 256);
    ef::bulk_commit();
    ef::bulk_wait<0>();
  }
#elif FAULT == 19
  if (thread == 0) ef::bulk_store(plain_to, tile, 24);  // no multiple of 16
#elif FAULT == 22  // every lane of a warp loads the tile
  if (thread < 32) {
    if (thread == 0) ef::mbar_arrive_expect_tx(full, kTile);
    ef::tma_load(tile, &from, ef::at(0, 0), full);  // by all
  }
  ef::mbar_wait(full, 0);
#elif FAULT == 24
  if (thread == 0) {
    ef::tensor_map copy = from;
    ef::mbar_arrive_expect_tx(full, kTile);
    ef::tma_load(tile, &copy, ef::at(0, 0), full);  // a map of its own
  }
#elif FAULT == 25
  if (thread == 0) ef::tma_load(tile, &from, ef::at(0, 0, 0), full);  // one coordinate more
#elif FAULT == 26  // a plain write, then a load over it
  ef::sts(tile + 4 * thread, thread);  // by hand
  ef::syncthreads();
  if (thread == 0) {
    ef::mbar_arrive_expect_tx(full, kTile);
    ef::tma_load(tile, &from, ef::at(0, 0), full);  // over it
  }
  ef::mbar_wait(full, 0);
#elif FAULT == 27  // invalidated while the bytes are under way
  if (thread == 0) {
    ef::mbar_arrive_expect_tx(full, kTile);
    ef::tma_load(tile, &from, ef::at(0, 0), full);
    ef::mbar_inval(full);  // too early
  }
#elif FAULT == 28  // bytes before anybody expects them
  if (thread == 0) {
    ef::tma_load(tile, &from, ef::at(0, 0), full);
    ef::mbar_arrive_expect_tx(full, kTile);
  }
  ef::mbar_wait(full, 0);
  result = sum_row(tile, thread % 16);
#elif FAULT == 29  // never expected
  if (thread == 0) ef::tma_load(tile, &from, ef::at(0, 0), full);
  if (thread == 32) ef::mbar_arrive(full);  // without bytes
  ef::mbar_wait(full, 0);
#elif FAULT == 30
  if (thread == 0) ef::bulk_load(tile, plain + 1, 512, full);  // two bytes off
#elif FAULT >= 35 && FAULT <= 38  // global memory is written, then loaded by TMA or in bulk
  for (int i = thread; i < 16 * 64; i += 64) ef::stg(plain_to + i, u16(i % 251));
#if FAULT == 36
  ef::fence_proxy_async();
#elif FAULT != 37
  ef::fence_proxy_async_global();
#endif
  ef::syncthreads();
  if (thread == 0) {
    ef::mbar_arrive_expect_tx(full, kTile);
#if FAULT == 38
    ef::bulk_load(tile, plain_to, kTile, full);
#else
    ef::tma_load(tile, &to, ef::at(0, 0), full);  // what was written
#endif
  }
  ef::mbar_wait(full, 0);
  if (FAULT == 35) result = sum_row(tile, thread % 16);
#elif FAULT >= 39 && FAULT <= 46  // boxes that begin where a GPU lets none begin
  if (thread == 0) {
#if FAULT == 39
    ef::tma_load(tile, &from, ef::at(4, 0), full);  // loads 8 bytes into a row
#elif FAULT == 40
    ef::tma_prefetch(&from, ef::at(-4, 0));  // prefetches 8 bytes before a row
#elif FAULT == 41
    ef::tma_store(&to, ef::at(1, 0), tile);  // stores 2 bytes into a row
#elif FAULT == 42
    ef::tma_reduce_add(&to, ef::at(12, 0), tile, ef::f16());  // adds 24 bytes into a row
#elif FAULT == 43
    ef::tma_store(&to, ef::at(-8, 0), tile);  // stores before the rows
#elif FAULT == 44
    ef::tma_store(&to, ef::at(0, -1), tile);  // stores before the first row
#elif FAULT == 45
    ef::tma_reduce_add(&to, ef::at(-8, 0), tile, ef::f16());  // adds before the rows
#else
    ef::tma_reduce_add(&to, ef::at(8, -1), tile, ef::f16());  // adds before the first row
#endif
  }
#endif
  ef::stg(out + thread, result);
}
EF_EXPORT_KERNEL(tiles)
