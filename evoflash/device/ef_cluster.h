// Clusters: blocks that run together and reach each other's shared memory. sm_90.
//
// `cluster_address` is one that map_shared made. Their mbarriers are in ef_mbarrier.h, their bulk copies in ef_tma.h.
#pragma once
#include "ef_base.h"

namespace ef {

// Which block of its cluster this is, from 0.
EF_DEV u32 cluster_rank(EF_ONLY_LINE) {
#if EF_GPU
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return efemu::cluster_rank(line);
#endif
}

// How many blocks this cluster has.
EF_DEV u32 cluster_size(EF_ONLY_LINE) {
#if EF_GPU
  u32 size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
#else
  return efemu::cluster_size(line);
#endif
}

// Says to the cluster that this thread has come; what it did is visible to those who wait. Whole warps.
EF_DEV void cluster_arrive(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
  efemu::cluster_arrive(true, line);
#endif
}

// cluster_arrive that makes nothing visible: all blocks have come, no more.
EF_DEV void cluster_arrive_relaxed(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#else
  efemu::cluster_arrive(false, line);
#endif
}

// Waits until all threads of the cluster have said that they have come. Whole warps.
EF_DEV void cluster_wait(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  efemu::cluster_wait(line);
#endif
}

// Waits for the other threads of the cluster and makes their memory accesses visible. Whole warps.
EF_DEV void cluster_sync(EF_ONLY_LINE) {
#if EF_GPU
  cluster_arrive();
  cluster_wait();
#else
  cluster_arrive(line);
  cluster_wait(line);
#endif
}

// The cluster address of what is at `address` in this block's shared memory, in block `rank`'s.
EF_DEV u32 map_shared(u32 address, u32 rank EF_LINE) {
#if EF_GPU
  u32 mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
#else
  return efemu::map_shared(address, rank, line);
#endif
}

// Loads 2, 4, 8 or 16 bytes from another block's shared memory, aligned to their size.
template <class T>
EF_DEV T lds_cluster(u32 cluster_address EF_LINE) {
  static_assert(is_register_size<T>, "lds_cluster loads 2, 4, 8 or 16 bytes");
  T value;
#if EF_GPU
  if constexpr (sizeof(T) == 2) {
    u16 x;
    asm volatile("ld.shared::cluster.u16 %0, [%1];" : "=h"(x) : "r"(cluster_address) : "memory");
    memcpy(&value, &x, sizeof(T));
  } else if constexpr (sizeof(T) == 4) {
    u32 x;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(x) : "r"(cluster_address) : "memory");
    memcpy(&value, &x, sizeof(T));
  } else if constexpr (sizeof(T) == 8) {
    u32x2 x;
    asm volatile("ld.shared::cluster.v2.u32 {%0,%1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(cluster_address) : "memory");
    memcpy(&value, &x, sizeof(T));
  } else {
    u32x4 x;
    asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(cluster_address)
                 : "memory");
    memcpy(&value, &x, sizeof(T));
  }
#else
  __builtin_memcpy(&value, efemu::read_cluster(cluster_address, sizeof(T), line), sizeof(T));
#endif
  return value;
}

// Stores 2, 4, 8 or 16 bytes to another block's shared memory, aligned to their size.
template <class T>
EF_DEV void sts_cluster(u32 cluster_address, T value EF_LINE) {
  static_assert(is_register_size<T>, "sts_cluster stores 2, 4, 8 or 16 bytes");
#if EF_GPU
  if constexpr (sizeof(T) == 2) {
    u16 x;
    memcpy(&x, &value, sizeof(T));
    asm volatile("st.shared::cluster.u16 [%0], %1;" ::"r"(cluster_address), "h"(x) : "memory");
  } else if constexpr (sizeof(T) == 4) {
    u32 x;
    memcpy(&x, &value, sizeof(T));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(cluster_address), "r"(x) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    u32x2 x;
    memcpy(&x, &value, sizeof(T));
    asm volatile("st.shared::cluster.v2.u32 [%0], {%1,%2};" ::"r"(cluster_address), "r"(x.x), "r"(x.y) : "memory");
  } else {
    u32x4 x;
    memcpy(&x, &value, sizeof(T));
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" ::
                 "r"(cluster_address), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
  }
#else
  __builtin_memcpy(efemu::write_cluster(cluster_address, sizeof(T), line), &value, sizeof(T));
#endif
}

// Starts storing 4 bytes in another block's shared memory; done, it completes 4 bytes at a barrier of that block.
EF_DEV void sts_async(u32 cluster_address, u32 value, u32 cluster_bar EF_LINE) {
#if EF_GPU
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::
               "r"(cluster_address), "r"(value), "r"(cluster_bar)
               : "memory");
#else
  efemu::store_async(cluster_address, &value, 4, cluster_bar, line);
#endif
}

// The same for 16 bytes.
EF_DEV void sts_async(u32 cluster_address, u32x4 value, u32 cluster_bar EF_LINE) {
#if EF_GPU
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1,%2,%3,%4}, [%5];" ::
               "r"(cluster_address),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(cluster_bar)
               : "memory");
#else
  efemu::store_async(cluster_address, &value, 16, cluster_bar, line);
#endif
}

}  // namespace ef
