// Global memory, read and written by single threads, and the arithmetic of its addresses. Asynchronous copies are in
// ef_copy.h and ef_tma.h.
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

// Asks for the 128 bytes around an address to come to L2, whoever will read them: a hint, which nobody waits for. L2 is
// where all see the same, so that it may come before what another kernel still writes there.
EF_DEV void prefetch_l2(const void* source EF_LINE) {
#if EF_GPU
  asm volatile("prefetch.global.L2 [%0];" ::"l"(source));
#else
  efemu::prefetch_global(source, line);
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

// The product of two 32-bit numbers in 64 bits; before a sum one instruction, wherever the factors were widened.
EF_DEV long long mul_wide(int a, int b) {
#if EF_GPU
  long long product;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return static_cast<long long>(a) * b;
#endif
}

// Has the compiler work a number out by here, not where it is used; no instruction.
EF_DEV void keep(float& x) {
#if EF_GPU
  asm volatile("" : "+f"(x));
#else
  static_cast<void>(x);
#endif
}

// Has the compiler work a number out by here, not where it is used; no instruction.
EF_DEV void keep(u32& x) {
#if EF_GPU
  asm volatile("" : "+r"(x));
#else
  static_cast<void>(x);
#endif
}

// Has the compiler work a number out by here, not where it is used; no instruction.
EF_DEV void keep(u64& x) {
#if EF_GPU
  asm volatile("" : "+l"(x));
#else
  static_cast<void>(x);
#endif
}

}  // namespace ef
