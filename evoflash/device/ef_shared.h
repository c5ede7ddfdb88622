// This block's shared memory, used by single threads. Atomics are in ef_atomic.h, other blocks' memory in ef_cluster.h.
#pragma once
#include "ef_base.h"

namespace ef {

// The first byte of dynamic shared memory, 1024-byte aligned.
EF_DEV u32 smem_base() {
#if EF_GPU
  extern __shared__ __align__(1024) unsigned char dynamic_smem[];
  return static_cast<u32>(__cvta_generic_to_shared(dynamic_smem));
#else
  return efemu::kSharedBase;
#endif
}

// The first byte of BYTES bytes of static shared memory, at most 48 KB, 1024-byte aligned; one size a kernel.
template <int BYTES>
EF_DEV u32 smem_static(EF_ONLY_LINE) {
  static_assert(BYTES > 0, "smem_static: a number of bytes");
#if EF_GPU
  __shared__ __align__(1024) unsigned char static_smem[BYTES];
  return static_cast<u32>(__cvta_generic_to_shared(static_smem));
#else
  return efemu::static_shared(BYTES, line);
#endif
}

// Loads 2, 4, 8 or 16 bytes from shared memory, aligned to their size.
template <class T>
EF_DEV T lds(u32 address EF_LINE) {
  static_assert(is_register_size<T>, "lds loads 2, 4, 8 or 16 bytes");
#if EF_GPU
  return *static_cast<const T*>(__cvta_shared_to_generic(address));
#else
  T value;
  __builtin_memcpy(&value, efemu::read_shared(address, sizeof(T), line), sizeof(T));
  return value;
#endif
}

// Stores 2, 4, 8 or 16 bytes to shared memory, aligned to their size.
template <class T>
EF_DEV void sts(u32 address, T value EF_LINE) {
  static_assert(is_register_size<T>, "sts stores 2, 4, 8 or 16 bytes");
#if EF_GPU
  *static_cast<T*>(__cvta_shared_to_generic(address)) = value;
#else
  __builtin_memcpy(efemu::write_shared(address, sizeof(T), line), &value, sizeof(T));
#endif
}

}  // namespace ef
