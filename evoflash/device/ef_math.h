// Arithmetic on one thread's registers: approximations, roundings that nothing fuses, conversions to 16 bits and back.
#pragma once
#include "ef_base.h"

namespace ef {

#if !EF_GPU
// What .ftz does to a subnormal.
inline float flush(float x) {
  return (efemu::bits_of(x) & 0x7f800000u) == 0 ? __builtin_copysignf(0.0f, x) : x;
}
#endif

// 2^x, approximate: error below 2^-22, subnormals become zero.
EF_DEV float ex2(float x) {
#if EF_GPU
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  ++efemu::tally.ex2;
  return flush(__builtin_exp2f(flush(x)));
#endif
}

// log2 x, approximate: error below 2^-22, subnormals count as zero.
EF_DEV float lg2(float x) {
#if EF_GPU
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  ++efemu::tally.lg2;
  return __builtin_log2f(flush(x));
#endif
}

// 1/x, approximate: error below 1 ulp, subnormals become zero.
EF_DEV float rcp(float x) {
#if EF_GPU
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  ++efemu::tally.rcp;
  return flush(1.0f / flush(x));
#endif
}

// The larger of the two; a NaN loses against a number, -0 against +0.
EF_DEV float fmax(float a, float b) {
#if EF_GPU
  return fmaxf(a, b);
#else
  ++efemu::tally.fmax;
  if (a == b) return efemu::float_of(efemu::bits_of(a) & efemu::bits_of(b));
  return a > b || b != b ? a : b;
#endif
}

// a * b + c, rounded once.
EF_DEV float fma(float a, float b, float c) {
#if EF_GPU
  return __fmaf_rn(a, b, c);
#else
  ++efemu::tally.fma;
  return __builtin_fmaf(a, b, c);
#endif
}

// a * b, rounded by itself: never fused into a following sum.
EF_DEV float mul(float a, float b) {
#if EF_GPU
  return __fmul_rn(a, b);
#else
  ++efemu::tally.fma;
  return a * b;
#endif
}

// a - b, rounded by itself: never fused with a product before it.
EF_DEV float sub(float a, float b) {
#if EF_GPU
  return __fsub_rn(a, b);
#else
  ++efemu::tally.fma;
  return a - b;
#endif
}

// Minus infinity.
EF_DEV float neg_inf() {
#if EF_GPU
  return __int_as_float(0xff800000);
#else
  return -__builtin_inff();
#endif
}

// The float with this f16's value.
EF_DEV float to_f32(f16 value) {
#if EF_GPU
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  return efemu::f16_to_float(value.bits);
#endif
}

// The float with this bf16's value.
EF_DEV float to_f32(bf16 value) {
#if EF_GPU
  return __uint_as_float(static_cast<u32>(value.bits) << 16);
#else
  return efemu::bf16_to_float(value.bits);
#endif
}

// The nearest f16, ties to even; too large becomes infinity.
EF_DEV f16 from_f32(float value, f16) {
#if EF_GPU
  f16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  return {efemu::float_to_f16(value)};
#endif
}

// The nearest bf16, ties to even; too large becomes infinity.
EF_DEV bf16 from_f32(float value, bf16) {
#if EF_GPU
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  return {efemu::float_to_bf16(value)};
#endif
}

// Two f16 in one register, `lo` in the low half: the element at the lower address.
EF_DEV u32 pack2(float lo, float hi, f16) {
#if EF_GPU
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
#else
  ++efemu::tally.pack;
  return efemu::float_to_f16(lo) | static_cast<u32>(efemu::float_to_f16(hi)) << 16;
#endif
}

// Two bf16 in one register, `lo` in the low half: the element at the lower address.
EF_DEV u32 pack2(float lo, float hi, bf16) {
#if EF_GPU
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
#else
  ++efemu::tally.pack;
  return efemu::float_to_bf16(lo) | static_cast<u32>(efemu::float_to_bf16(hi)) << 16;
#endif
}

// The two f16 of a register as floats.
EF_DEV void unpack2(float& lo, float& hi, u32 packed, f16) {
#if EF_GPU
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(lo), "=f"(hi) : "r"(packed));
#else
  lo = efemu::f16_to_float(static_cast<u16>(packed));
  hi = efemu::f16_to_float(static_cast<u16>(packed >> 16));
#endif
}

// The two bf16 of a register as floats.
EF_DEV void unpack2(float& lo, float& hi, u32 packed, bf16) {
#if EF_GPU
  lo = __uint_as_float(packed << 16);
  hi = __uint_as_float(packed & 0xffff0000u);
#else
  lo = efemu::bf16_to_float(static_cast<u16>(packed));
  hi = efemu::bf16_to_float(static_cast<u16>(packed >> 16));
#endif
}

}  // namespace ef
