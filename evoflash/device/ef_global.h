// Global memory, read and written by single threads. Asynchronous copies are in ef_copy.h and ef_tma.h.
#pragma once
#include "ef_base.h"

namespace ef {

// Loads 2, 4, 8 or 16 bytes from global memory, aligned to their size.
template <class T>
EF_DEV T ldg(const T* source EF_LINE) {
  static_assert(is_register_size<T>, "ldg loads 2, 4, 8 or 16 bytes");
#if EF_GPU
  return *source;
#else
  T value;
  __builtin_memcpy(&value, efemu::read_global(source, sizeof(T), line), sizeof(T));
  return value;
#endif
}

// Stores 2, 4, 8 or 16 bytes to global memory, aligned to their size.
template <class T>
EF_DEV void stg(T* target, T value EF_LINE) {
  static_assert(is_register_size<T>, "stg stores 2, 4, 8 or 16 bytes");
#if EF_GPU
  *target = value;
#else
  __builtin_memcpy(efemu::write_global(target, sizeof(T), line), &value, sizeof(T));
#endif
}

// Stores 16 bytes to global memory, marked as not to be read again soon.
EF_DEV void stg_cs(u32x4* target, u32x4 value EF_LINE) {
#if EF_GPU
  asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::
               "l"(target), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w) : "memory");
#else
  stg(target, value, line);
#endif
}

}  // namespace ef
