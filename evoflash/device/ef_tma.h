// TMA: asynchronous copies of boxes of a tensor between global and shared memory. sm_90.
//
// Barriers, groups and fences are those of all bulk copies: see ef_bulk.h.
#pragma once
#include "ef_bulk.h"

namespace ef {

#if EF_GPU
// What cuTensorMapEncodeTiled writes: a tensor's address, extents, strides, box and swizzle.
struct __align__(64) tensor_map {
  u64 words[16];
};
#else
using tensor_map = efemu::TensorMap;
#endif

// A kernel's parameter that is a tensor map; hand its address to tma_load and its kin.
#if EF_GPU
#define EF_TMAP(name) const __grid_constant__ ef::tensor_map name
#else
#define EF_TMAP(name) const ef::tensor_map& name
#endif

// Where a box begins in a tensor of R dimensions, in elements, the contiguous dimension first.
template <int R>
struct coords {
  int x[R];
};

// Coordinates of 1 to 5 dimensions, the contiguous one first; outside the tensor a load reads zeros.
template <class... X>
EF_DEV coords<sizeof...(X)> at(X... x) {
  static_assert(sizeof...(X) >= 1 && sizeof...(X) <= 5, "at: 1 to 5 coordinates");
  return {{static_cast<int>(x)...}};
}

// Starts loading a box to `target` (128-byte aligned) in shared memory; `bar` is told of its bytes.
template <int R>
EF_DEV void tma_load(u32 target, const tensor_map* map, coords<R> box, u32 bar EF_LINE) {
#if EF_GPU
  if constexpr (R == 1)
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3}], [%2];" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]) : "memory");
  else if constexpr (R == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "r"(box.x[1]) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]), "r"(box.x[4]) : "memory");
#else
  efemu::tma_load(target, map, box.x, R, bar, 0, line);
#endif
}

// tma_load with a policy for L2.
template <int R>
EF_DEV void tma_load_hint(u32 target, const tensor_map* map, coords<R> box, u32 bar, u64 policy EF_LINE) {
#if EF_GPU
  if constexpr (R == 1)
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3}], [%2], %4;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "l"(policy) : "memory");
  else if constexpr (R == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "r"(box.x[1]), "l"(policy) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]), "l"(policy) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]), "l"(policy) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]), "r"(box.x[4]), "l"(policy) : "memory");
#else
  efemu::tma_load(target, map, box.x, R, bar, 0, line);
#endif
}

// tma_load to the same place of each block of the cluster in `mask`, and its bytes are told to each one's `bar`.
template <int R>
EF_DEV void tma_load_multicast(u32 target, const tensor_map* map, coords<R> box, u32 bar, u16 mask EF_LINE) {
#if EF_GPU
  if constexpr (R == 1)
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3}], [%2], %4;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "h"(mask) : "memory");
  else if constexpr (R == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "r"(box.x[1]), "h"(mask) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]), "h"(mask) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]), "h"(mask) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]), "r"(box.x[4]), "h"(mask) : "memory");
#else
  efemu::tma_load(target, map, box.x, R, bar, mask, line);
#endif
}

// tma_load_multicast with a policy for L2.
template <int R>
EF_DEV void tma_load_multicast_hint(u32 target, const tensor_map* map, coords<R> box, u32 bar, u16 mask,
                                    u64 policy EF_LINE) {
#if EF_GPU
  if constexpr (R == 1)
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {%3}], [%2], %4, %5;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "h"(mask), "l"(policy) : "memory");
  else if constexpr (R == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]), "r"(box.x[1]), "h"(mask), "l"(policy) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "h"(mask), "l"(policy) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7, %8;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]), "h"(mask), "l"(policy) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8, %9;" ::
                 "r"(target), "l"(map), "r"(bar), "r"(box.x[0]),
                 "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]), "r"(box.x[4]), "h"(mask), "l"(policy) : "memory");
#else
  efemu::tma_load(target, map, box.x, R, bar, mask, line);
#endif
}

// Starts storing a box from `source` (128-byte aligned) in shared memory; what lies outside the tensor is left out.
template <int R>
EF_DEV void tma_store(const tensor_map* map, coords<R> box, u32 source EF_LINE) {
#if EF_GPU
  if constexpr (R == 1)
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]) : "memory");
  else if constexpr (R == 2)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4, %5, %6}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]),
                 "r"(box.x[2]), "r"(box.x[3]), "r"(box.x[4]) : "memory");
#else
  efemu::tma_store(map, box.x, R, source, line);
#endif
}

// tma_store with a policy for L2.
template <int R>
EF_DEV void tma_store_hint(const tensor_map* map, coords<R> box, u32 source, u64 policy EF_LINE) {
#if EF_GPU
  if constexpr (R == 1)
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2}], [%1], %3;" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "l"(policy) : "memory");
  else if constexpr (R == 2)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                 ".L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]), "l"(policy) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group"
                 ".L2::cache_hint [%0, {%2, %3, %4}], [%1], %5;" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]), "l"(policy) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group"
                 ".L2::cache_hint [%0, {%2, %3, %4, %5}], [%1], %6;" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]),
                 "r"(box.x[2]), "r"(box.x[3]), "l"(policy) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group"
                 ".L2::cache_hint [%0, {%2, %3, %4, %5, %6}], [%1], %7;" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]),
                 "r"(box.x[2]), "r"(box.x[3]), "r"(box.x[4]), "l"(policy) : "memory");
#else
  efemu::tma_store(map, box.x, R, source, line);
#endif
}

// Starts adding a box in shared memory to the tensor; T is the element type that the map was encoded with.
template <int R, class T>
EF_DEV void tma_reduce_add(const tensor_map* map, coords<R> box, u32 source, T EF_LINE) {
#if EF_GPU
  if constexpr (R == 1)
    asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%2}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]) : "memory");
  else if constexpr (R == 2)
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group "
                 "[%0, {%2, %3, %4, %5}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]) : "memory");
  else
    asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group "
                 "[%0, {%2, %3, %4, %5, %6}], [%1];" ::
                 "l"(map), "r"(source), "r"(box.x[0]), "r"(box.x[1]),
                 "r"(box.x[2]), "r"(box.x[3]), "r"(box.x[4]) : "memory");
#else
  efemu::tma_reduce_add(map, box.x, R, source, is_bf16<T>, line);
#endif
}

// Starts loading a box to L2.
template <int R>
EF_DEV void tma_prefetch(const tensor_map* map, coords<R> box EF_LINE) {
#if EF_GPU
  if constexpr (R == 1)
    asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%0, {%1}];" ::"l"(map), "r"(box.x[0]) : "memory");
  else if constexpr (R == 2)
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::
                 "l"(map), "r"(box.x[0]), "r"(box.x[1]) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::
                 "l"(map), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::
                 "l"(map), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]) : "memory");
  else
    asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];" ::
                 "l"(map), "r"(box.x[0]), "r"(box.x[1]), "r"(box.x[2]), "r"(box.x[3]), "r"(box.x[4]) : "memory");
#else
  efemu::tma_prefetch(map, box.x, R, line);
#endif
}

// Starts loading the map itself, so that its first use need not wait for it.
EF_DEV void tma_prefetch_map(const tensor_map* map EF_LINE) {
#if EF_GPU
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#else
  efemu::tma_prefetch_map(map, line);
#endif
}

}  // namespace ef
