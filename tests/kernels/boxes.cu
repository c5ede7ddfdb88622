// One box of a tensor of RANK dimensions goes to shared memory and out again as it lies there, or the other way.
// One block of 32 threads; tests define RANK, ADD (0: store, 1: add), ELEMENT and prepend them.
#include "ef.h"

using ef::u32;
using ef::u32x4;

EF_DEV ef::coords<RANK> place(int a, int b, int c, int d, int e) {
#if RANK == 1
  return ef::at(a);
#elif RANK == 2
  return ef::at(a, b);
#elif RANK == 3
  return ef::at(a, b, c);
#elif RANK == 4
  return ef::at(a, b, c, d);
#else
  return ef::at(a, b, c, d, e);
#endif
}

// `bytes` of the box, at `offset` in shared memory; everything else there is 0x5555... and goes out as well.
extern "C" __global__ void __launch_bounds__(32)
box_load(EF_TMAP(map), u32x4* out, int all_bytes, int offset, int bytes, int a, int b, int c, int d, int e) {
  const int lane = threadIdx.x;
  const u32 smem = ef::smem_base(), data = smem + 1024;
  if (lane == 0) {
    ef::mbar_init(smem, 1);
    ef::fence_mbar_init();
    ef::tma_prefetch_map(&map);
    ef::tma_prefetch(&map, place(a, b, c, d, e));
  }
  const u32 old = 0x55555555;
  for (int i = 16 * lane; i < all_bytes; i += 512) ef::sts(data + i, u32x4{old, old, old, old});
  ef::fence_proxy_async();
  ef::syncwarp();
  if (lane == 0) {
    ef::mbar_arrive_expect_tx(smem, bytes);
    ef::tma_load(data + offset, &map, place(a, b, c, d, e), smem);
  }
  ef::mbar_wait(smem, 0);
  for (int i = 16 * lane; i < all_bytes; i += 512) ef::stg(out + i / 16, ef::lds<u32x4>(data + i));
}
EF_EXPORT_KERNEL(box_load)

extern "C" __global__ void __launch_bounds__(32)
box_store(EF_TMAP(map), const u32x4* in, int bytes, int offset, int a, int b, int c, int d, int e) {
  const int lane = threadIdx.x;
  const u32 data = ef::smem_base() + offset;
  for (int i = 16 * lane; i < bytes; i += 512) ef::sts(data + i, ef::ldg(in + i / 16));
  ef::fence_proxy_async();
  ef::syncwarp();
  if (lane == 0) {
#if ADD
    ef::tma_reduce_add(&map, place(a, b, c, d, e), data, ELEMENT());
#else
    ef::tma_store(&map, place(a, b, c, d, e), data);
#endif
    ef::bulk_commit();
    ef::bulk_wait<0>();
  }
}
EF_EXPORT_KERNEL(box_store)
