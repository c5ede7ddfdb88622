// Weights of a decoding step: loads of what is read once, and 8-bit floats as the 16-bit ones that kernels compute with.
#pragma once
#include "ef_base.h"

namespace ef {

// Loads 16 bytes that nobody writes while the kernel runs and that are read once: L1 keeps none of it, and the 64, 128
// or 256 bytes around them should come to L2 together.
template <int kL2Bytes>
EF_DEV u32x4 ldg_once(const u32x4* source EF_LINE) {
  static_assert(kL2Bytes == 64 || kL2Bytes == 128 || kL2Bytes == 256, "ldg_once: 64, 128 or 256");
#if EF_GPU
  u32x4 x;
  if constexpr (kL2Bytes == 64)
    asm volatile("ld.global.nc.L1::no_allocate.L2::64B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(source));
  else if constexpr (kL2Bytes == 128)
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(source));
  else
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(source));
  return x;
#else
  u32x4 value;
  __builtin_memcpy(&value, efemu::read_global(source, sizeof value, line), sizeof value);
  return value;
#endif
}

// The same; the bytes should leave L2 before others.
template <int kL2Bytes>
EF_DEV u32x4 ldg_once_first(const u32x4* source EF_LINE) {
  static_assert(kL2Bytes == 64 || kL2Bytes == 128 || kL2Bytes == 256, "ldg_once_first: 64, 128 or 256");
#if EF_GPU
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  u32x4 x;
  if constexpr (kL2Bytes == 64)
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::64B.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(source), "l"(policy));
  else if constexpr (kL2Bytes == 128)
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(source), "l"(policy));
  else
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(source), "l"(policy));
  return x;
#else
  return ldg_once<kL2Bytes>(source, line);
#endif
}

#if !EF_GPU
// The number of an e4m3's code without its sign: read as a float's exponent and fraction it is too small by the
// difference of the biases, 2^120. The NaN's code gives 480.
inline float size_of_e4m3(u32 code) {
  return efemu::float_of((code & 0x7fu) << 20) * 0x1p120f;
}
#endif

// The four e4m3 of a register as bf16, two to a register: the element at the lowest address in the low half of the
// first. Exact; the NaN gives 480. A byte is spread over 16 bits by copies of its sign, moved to where bf16 has exponent
// and fraction, and the copies but one are masked out: two instructions of integers and a shift for a pair. One
// multiplication takes the biases' difference.
EF_DEV void bf16_of_e4m3(u32 (&pairs)[2], u32 four) {
#if EF_GPU
  u32 low, high;
  asm("prmt.b32 %0, %1, 0, 0x9180;" : "=r"(low) : "r"(four));
  asm("prmt.b32 %0, %1, 0, 0xb3a2;" : "=r"(high) : "r"(four));
  const u32 a = low << 4 & 0x87f087f0u, b = high << 4 & 0x87f087f0u;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pairs[0]) : "r"(a), "r"(0x7b807b80u), "r"(0x80008000u));
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pairs[1]) : "r"(b), "r"(0x7b807b80u), "r"(0x80008000u));
#else
  efemu::tally.pack += 2;
  for (int i = 0; i < 2; ++i) {
    const u32 low = four >> (16 * i), high = low >> 8;
    pairs[i] = efemu::float_to_bf16(size_of_e4m3(low)) | (low & 0x80u) << 8 |
               (efemu::float_to_bf16(size_of_e4m3(high)) | (high & 0x80u) << 8) << 16;
  }
#endif
}

// The two e4m3 in the low half of a register, whose high half is of no account, as bf16_of_e4m3 makes them.
EF_DEV u32 bf16_of_two_e4m3(u32 two) {
#if EF_GPU
  u32 spread, pair;
  asm("prmt.b32 %0, %1, 0, 0x9180;" : "=r"(spread) : "r"(two));
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(spread << 4 & 0x87f087f0u), "r"(0x7b807b80u), "r"(0x80008000u));
  return pair;
#else
  efemu::tally.pack += 1;
  const u32 high = two >> 8;
  return efemu::float_to_bf16(size_of_e4m3(two)) | (two & 0x80u) << 8 |
         (efemu::float_to_bf16(size_of_e4m3(high)) | (high & 0x80u) << 8) << 16;
#endif
}

// Four e4m3 as f16, by one instruction a pair from sm_89 on, where the NaN stays one; before, it gives 480.
EF_DEV void f16_of_e4m3(u32 (&pairs)[2], u32 four) {
#if EF_GPU
#if __CUDA_ARCH__ >= 890
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.rn.f16x2.e4m3x2 %0, l; cvt.rn.f16x2.e4m3x2 %1, h;}"
      : "=r"(pairs[0]), "=r"(pairs[1])
      : "r"(four));
#else
  const u32 low = __byte_perm(four, 0, 0x1404), high = __byte_perm(four, 0, 0x3424);
  const u32 a = (low & 0x80008000u) | (low >> 1 & 0x3f803f80u), b = (high & 0x80008000u) | (high >> 1 & 0x3f803f80u);
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(pairs[0]) : "r"(a), "r"(0x5c005c00u));
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(pairs[1]) : "r"(b), "r"(0x5c005c00u));
#endif
#else
  efemu::tally.pack += 2;
  const auto f16_of = [](u32 code) -> u32 {
    if ((code & 0x7fu) == 0x7fu) return 0x7fff;
    return efemu::float_to_f16(size_of_e4m3(code)) | (code & 0x80u) << 8;
  };
  for (int i = 0; i < 2; ++i) pairs[i] = f16_of(four >> (16 * i)) | f16_of(four >> (16 * i + 8)) << 16;
#endif
}

#if !EF_GPU
// The code of the nearest e4m3, ties to even; what is too large becomes 448, the largest.
inline u32 nearest_e4m3(float value) {
  const float size = value < 0 ? -value : value;
  const u32 sign = efemu::bits_of(value) >> 24 & 0x80u;
  if (!(size == size)) return sign | 0x7fu;
  u32 best = 0;
  for (u32 code = 1; code < 0x7f; ++code) {
    const float nearer = size_of_e4m3(code) - size, further = size - size_of_e4m3(best);
    if (nearer < further || (nearer == further && code % 2 == 0)) best = code;
  }
  return sign | best;
}
#endif

// Two floats as the nearest e4m3, ties to even, the first in the low byte of 16 bits; what is too large becomes 448, from
// sm_89 on.
EF_DEV u32 e4m3_of_f32(float low, float high) {
#if EF_GPU
  u32 codes;
  asm("{.reg .b16 two; cvt.rn.satfinite.e4m3x2.f32 two, %2, %1; cvt.u32.u16 %0, two;}" : "=r"(codes) : "f"(low), "f"(high));
  return codes;
#else
  efemu::tally.pack += 1;
  return nearest_e4m3(low) | nearest_e4m3(high) << 8;
#endif
}

}  // namespace ef
