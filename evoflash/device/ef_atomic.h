// Atomics on global and shared memory, and loads, stores and a fence that order what is around them between blocks.
//
// Relaxed (they order nothing else) and seen by the whole GPU, or by the block for shared memory, unless the name says
// otherwise. Each atom_ returns the old value; red_ returns nothing and may be cheaper.
#pragma once
#include "ef_base.h"

namespace ef {

// Adds to a value in global memory; returns the old one.
EF_DEV int atom_add(int* target, int value EF_LINE) {
#if EF_GPU
  int old;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(value) : "memory");
  return old;
#else
  u32* const word = reinterpret_cast<u32*>(target);
  const u32 old = efemu::atomic_global(efemu::Atomic::add, word, static_cast<u32>(value), 0, true, {}, line);
  return static_cast<int>(old);
#endif
}

// Adds to a value in global memory; returns the old one.
EF_DEV u32 atom_add(u32* target, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(value) : "memory");
  return old;
#else
  return efemu::atomic_global(efemu::Atomic::add, target, value, 0, false, {}, line);
#endif
}

// Adds to a value in global memory; returns the old one.
EF_DEV float atom_add(float* target, float value EF_LINE) {
#if EF_GPU
  float old;
  asm volatile("atom.relaxed.gpu.global.add.f32 %0, [%1], %2;" : "=f"(old) : "l"(target), "f"(value) : "memory");
  return old;
#else
  u32* const word = reinterpret_cast<u32*>(target);
  const u32 old = efemu::atomic_global(efemu::Atomic::add_float, word, efemu::bits_of(value), 0, false, {}, line);
  return efemu::float_of(old);
#endif
}

// Makes a value in global memory the smaller of the two; returns the old one.
EF_DEV int atom_min(int* target, int value EF_LINE) {
#if EF_GPU
  int old;
  asm volatile("atom.relaxed.gpu.global.min.s32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(value) : "memory");
  return old;
#else
  u32* const word = reinterpret_cast<u32*>(target);
  const u32 old = efemu::atomic_global(efemu::Atomic::min, word, static_cast<u32>(value), 0, true, {}, line);
  return static_cast<int>(old);
#endif
}

// Makes a value in global memory the smaller of the two; returns the old one.
EF_DEV u32 atom_min(u32* target, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.gpu.global.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(value) : "memory");
  return old;
#else
  return efemu::atomic_global(efemu::Atomic::min, target, value, 0, false, {}, line);
#endif
}

// Makes a value in global memory the larger of the two; returns the old one.
EF_DEV int atom_max(int* target, int value EF_LINE) {
#if EF_GPU
  int old;
  asm volatile("atom.relaxed.gpu.global.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(value) : "memory");
  return old;
#else
  u32* const word = reinterpret_cast<u32*>(target);
  const u32 old = efemu::atomic_global(efemu::Atomic::max, word, static_cast<u32>(value), 0, true, {}, line);
  return static_cast<int>(old);
#endif
}

// Makes a value in global memory the larger of the two; returns the old one.
EF_DEV u32 atom_max(u32* target, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.gpu.global.max.u32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(value) : "memory");
  return old;
#else
  return efemu::atomic_global(efemu::Atomic::max, target, value, 0, false, {}, line);
#endif
}

// Adds 1 to a value in global memory, or makes it 0 where it was `limit` or more; returns the old one.
EF_DEV u32 atom_inc(u32* target, u32 limit EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(limit) : "memory");
  return old;
#else
  return efemu::atomic_global(efemu::Atomic::inc, target, limit, 0, false, {}, line);
#endif
}

// Puts a value in global memory; returns the old one.
EF_DEV u32 atom_exch(u32* target, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(value) : "memory");
  return old;
#else
  return efemu::atomic_global(efemu::Atomic::exchange, target, value, 0, false, {}, line);
#endif
}

// Puts `value` in global memory if `compare` is there; returns what was there.
EF_DEV u32 atom_cas(u32* target, u32 compare, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(target), "r"(compare), "r"(value)
               : "memory");
  return old;
#else
  return efemu::atomic_global(efemu::Atomic::compare_exchange, target, value, compare, false, {}, line);
#endif
}

// atom_add that publishes what this thread did before and sees what others published there.
EF_DEV u32 atom_add_acq_rel(u32* target, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(value) : "memory");
  return old;
#else
  return efemu::atomic_global(efemu::Atomic::add, target, value, 0, false, {true, true}, line);
#endif
}

// atom_inc that publishes what this thread did before and sees what others published at the same place.
EF_DEV u32 atom_inc_acq_rel(u32* target, u32 limit EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(old) : "l"(target), "r"(limit) : "memory");
  return old;
#else
  return efemu::atomic_global(efemu::Atomic::inc, target, limit, 0, false, {true, true}, line);
#endif
}

// Adds to a value in global memory.
EF_DEV void red_add(float* target, float value EF_LINE) {
#if EF_GPU
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(target), "f"(value) : "memory");
#else
  u32* const word = reinterpret_cast<u32*>(target);
  efemu::atomic_global(efemu::Atomic::add_float, word, efemu::bits_of(value), 0, false, {}, line);
#endif
}

// Adds to a value in global memory.
EF_DEV void red_add(u32* target, u32 value EF_LINE) {
#if EF_GPU
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(target), "r"(value) : "memory");
#else
  efemu::atomic_global(efemu::Atomic::add, target, value, 0, false, {}, line);
#endif
}

// red_add that publishes what this thread did before.
EF_DEV void red_add_release(u32* target, u32 value EF_LINE) {
#if EF_GPU
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(target), "r"(value) : "memory");
#else
  efemu::atomic_global(efemu::Atomic::add, target, value, 0, false, {false, true}, line);
#endif
}

// Adds to a value in shared memory; returns the old one.
EF_DEV int atom_add_shared(u32 address, int value EF_LINE) {
#if EF_GPU
  int old;
  asm volatile("atom.relaxed.cta.shared::cta.add.s32 %0, [%1], %2;" : "=r"(old) : "r"(address), "r"(value) : "memory");
  return old;
#else
  const u32 old = efemu::atomic_shared(efemu::Atomic::add, address, static_cast<u32>(value), 0, true, line);
  return static_cast<int>(old);
#endif
}

// Adds to a value in shared memory; returns the old one.
EF_DEV u32 atom_add_shared(u32 address, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.cta.shared::cta.add.u32 %0, [%1], %2;" : "=r"(old) : "r"(address), "r"(value) : "memory");
  return old;
#else
  return efemu::atomic_shared(efemu::Atomic::add, address, value, 0, false, line);
#endif
}

// Adds to a value in shared memory; returns the old one.
EF_DEV float atom_add_shared(u32 address, float value EF_LINE) {
#if EF_GPU
  float old;
  asm volatile("atom.relaxed.cta.shared::cta.add.f32 %0, [%1], %2;" : "=f"(old) : "r"(address), "f"(value) : "memory");
  return old;
#else
  const u32 old = efemu::atomic_shared(efemu::Atomic::add_float, address, efemu::bits_of(value), 0, false, line);
  return efemu::float_of(old);
#endif
}

// Makes a value in shared memory the smaller of the two; returns the old one.
EF_DEV int atom_min_shared(u32 address, int value EF_LINE) {
#if EF_GPU
  int old;
  asm volatile("atom.relaxed.cta.shared::cta.min.s32 %0, [%1], %2;" : "=r"(old) : "r"(address), "r"(value) : "memory");
  return old;
#else
  const u32 old = efemu::atomic_shared(efemu::Atomic::min, address, static_cast<u32>(value), 0, true, line);
  return static_cast<int>(old);
#endif
}

// Makes a value in shared memory the smaller of the two; returns the old one.
EF_DEV u32 atom_min_shared(u32 address, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.cta.shared::cta.min.u32 %0, [%1], %2;" : "=r"(old) : "r"(address), "r"(value) : "memory");
  return old;
#else
  return efemu::atomic_shared(efemu::Atomic::min, address, value, 0, false, line);
#endif
}

// Makes a value in shared memory the larger of the two; returns the old one.
EF_DEV int atom_max_shared(u32 address, int value EF_LINE) {
#if EF_GPU
  int old;
  asm volatile("atom.relaxed.cta.shared::cta.max.s32 %0, [%1], %2;" : "=r"(old) : "r"(address), "r"(value) : "memory");
  return old;
#else
  const u32 old = efemu::atomic_shared(efemu::Atomic::max, address, static_cast<u32>(value), 0, true, line);
  return static_cast<int>(old);
#endif
}

// Makes a value in shared memory the larger of the two; returns the old one.
EF_DEV u32 atom_max_shared(u32 address, u32 value EF_LINE) {
#if EF_GPU
  u32 old;
  asm volatile("atom.relaxed.cta.shared::cta.max.u32 %0, [%1], %2;" : "=r"(old) : "r"(address), "r"(value) : "memory");
  return old;
#else
  return efemu::atomic_shared(efemu::Atomic::max, address, value, 0, false, line);
#endif
}

// Loads a flag, and sees what was published by its release.
EF_DEV u32 ldg_acquire(const u32* source EF_LINE) {
#if EF_GPU
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(source) : "memory");
  return value;
#else
  return efemu::load_acquire(source, line);
#endif
}

// Stores a flag, and publishes what this thread did before to those who acquire it.
EF_DEV void stg_release(u32* target, u32 value EF_LINE) {
#if EF_GPU
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(target), "r"(value) : "memory");
#else
  efemu::store_release(target, value, line);
#endif
}

// Orders what this thread did before and does after for the whole GPU, as release and acquire do.
EF_DEV void fence_gpu(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
  efemu::fence_gpu(line);
#endif
}

}  // namespace ef
