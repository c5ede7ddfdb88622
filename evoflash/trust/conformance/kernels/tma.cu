// One box between a tensor and shared memory, in each way that TMA has; one rank for each copy of this text.
// `bytes` is the box's size; its coordinates are the first of a to e. Blocks of 32 threads: a barrier at the start of
// shared memory, the box `shift` bytes behind 1024.
#include "ef.h"

using ef::u16;
using ef::u32;
using ef::u32x4;

constexpr u32 kBox = 1024;

EF_DEV void dump(u32x4* out, u32 source, int bytes) {
  for (int i = 16 * threadIdx.x; i < bytes; i += 512) ef::stg(out + i / 16, ef::lds<u32x4>(source + i));
}

EF_DEV void start_barrier(u32 bar, int bytes) {
  if (threadIdx.x == 0) {
    ef::mbar_init(bar, 1);
    ef::fence_mbar_init();
    ef::mbar_arrive_expect_tx(bar, bytes);
  }
  ef::syncthreads();
}

extern "C" __global__ void __launch_bounds__(32)
load(EF_TMAP(map), u32x4* out, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 bar = ef::smem_base(), box = bar + kBox + shift;
  start_barrier(bar, bytes);
  if (threadIdx.x == 0) ef::tma_load(box, &map, $at, bar);
  ef::mbar_wait(bar, 0);
  dump(out, box, bytes);
}
EF_EXPORT_KERNEL(load)

extern "C" __global__ void __launch_bounds__(32)
load_hint(EF_TMAP(map), u32x4* out, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 bar = ef::smem_base(), box = bar + kBox + shift;
  start_barrier(bar, bytes);
  if (threadIdx.x == 0) ef::tma_load_hint(box, &map, $at, bar, ef::l2_evict_last());
  ef::mbar_wait(bar, 0);
  dump(out, box, bytes);
}
EF_EXPORT_KERNEL(load_hint)

extern "C" __global__ void __launch_bounds__(32)
prefetch(EF_TMAP(map), u32x4* out, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 bar = ef::smem_base(), box = bar + kBox + shift;
  start_barrier(bar, bytes);
  if (threadIdx.x == 0) {
    ef::tma_prefetch(&map, $at);
    ef::tma_load(box, &map, $at, bar);
  }
  ef::mbar_wait(bar, 0);
  dump(out, box, bytes);
}
EF_EXPORT_KERNEL(prefetch)

extern "C" __global__ void __launch_bounds__(32)
prefetch_map(EF_TMAP(map), u32x4* out, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 bar = ef::smem_base(), box = bar + kBox + shift;
  if (threadIdx.x == 0) ef::tma_prefetch_map(&map);
  start_barrier(bar, bytes);
  if (threadIdx.x == 0) ef::tma_load(box, &map, $at, bar);
  ef::mbar_wait(bar, 0);
  dump(out, box, bytes);
}
EF_EXPORT_KERNEL(prefetch_map)

// Block 0 loads the box for all; the last block one that begins at a = 8 for the odd ones, behind it.
template <class Load>
EF_DEV void to_cluster(u32x4* out, int bytes, int shift, int a, Load load) {
  const u32 bar = ef::smem_base(), rank = ef::cluster_rank(), size = ef::cluster_size(), odd = rank % 2;
  const u32 first = bar + kBox + shift, second = first + (bytes + 1023) / 1024 * 1024;
  start_barrier(bar, bytes * (1 + odd));
  ef::cluster_sync();
  const u16 all = (1 << size) - 1;
  if (threadIdx.x == 0 && rank == 0) load(first, a, all);
  if (threadIdx.x == 0 && rank == size - 1) load(second, 8, u16(all & 0xaaaa));
  ef::mbar_wait(bar, 0);
  dump(out + 2 * rank * bytes / 16, first, bytes);
  if (odd) dump(out + (2 * rank + 1) * bytes / 16, second, bytes);
  ef::cluster_sync();
}

extern "C" __global__ void __launch_bounds__(32)
multicast(EF_TMAP(map), u32x4* out, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 bar = ef::smem_base();
  const ef::tensor_map* const tensor = &map;
  to_cluster(out, bytes, shift, a, [=](u32 target, int a, u16 mask) { ef::tma_load_multicast(target, tensor, $at, bar, mask); });
}
EF_EXPORT_KERNEL(multicast)

extern "C" __global__ void __launch_bounds__(32)
multicast_hint(EF_TMAP(map), u32x4* out, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 bar = ef::smem_base();
  const ef::tensor_map* const tensor = &map;
  to_cluster(out, bytes, shift, a, [=](u32 target, int a, u16 mask) {
    ef::tma_load_multicast_hint(target, tensor, $at, bar, mask, ef::l2_evict_first());
  });
}
EF_EXPORT_KERNEL(multicast_hint)

EF_DEV void fill(u32 box, const u32x4* image, int bytes) {
  for (int i = 16 * threadIdx.x; i < bytes; i += 512) ef::sts(box + i, ef::ldg(image + i / 16));
  ef::fence_proxy_async();
  ef::syncthreads();
}

EF_DEV void finish() {
  ef::bulk_commit();
  ef::bulk_wait<0>();
}

extern "C" __global__ void __launch_bounds__(32)
store(EF_TMAP(map), const u32x4* image, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 box = ef::smem_base() + kBox + shift;
  fill(box, image, bytes);
  if (threadIdx.x == 0) {
    ef::tma_store(&map, $at, box);
    finish();
  }
}
EF_EXPORT_KERNEL(store)

extern "C" __global__ void __launch_bounds__(32)
store_hint(EF_TMAP(map), const u32x4* image, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 box = ef::smem_base() + kBox + shift;
  fill(box, image, bytes);
  if (threadIdx.x == 0) {
    ef::tma_store_hint(&map, $at, box, ef::l2_evict_first());
    finish();
  }
}
EF_EXPORT_KERNEL(store_hint)

template <class T>
EF_DEV void reduce(const ef::tensor_map* map, const u32x4* image, int bytes, int shift, int a, int b, int c, int d, int e) {
  const u32 box = ef::smem_base() + kBox + shift;
  fill(box, image, bytes);
  if (threadIdx.x == 0) {
    ef::tma_reduce_add(map, $at, box, T());
    finish();
  }
}

extern "C" __global__ void __launch_bounds__(32)
reduce_f16(EF_TMAP(map), const u32x4* image, int bytes, int shift, int a, int b, int c, int d, int e) {
  reduce<ef::f16>(&map, image, bytes, shift, a, b, c, d, e);
}
EF_EXPORT_KERNEL(reduce_f16)

extern "C" __global__ void __launch_bounds__(32)
reduce_bf16(EF_TMAP(map), const u32x4* image, int bytes, int shift, int a, int b, int c, int d, int e) {
  reduce<ef::bf16>(&map, image, bytes, shift, a, b, c, d, e);
}
EF_EXPORT_KERNEL(reduce_bf16)

extern "C" __global__ void __launch_bounds__(32)
reduce_float(EF_TMAP(map), const u32x4* image, int bytes, int shift, int a, int b, int c, int d, int e) {
  reduce<float>(&map, image, bytes, shift, a, b, c, d, e);
}
EF_EXPORT_KERNEL(reduce_float)
