// Exact conversions between float and the two 16-bit formats, on bit patterns. Round to nearest, ties to
// even; subnormals kept; every NaN becomes 0x7fff, as PTX's cvt does. No includes: kernels see this file.
#pragma once

namespace efemu {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

inline u32 bits_of(float value) {
  u32 bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}

inline float float_of(u32 bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

inline float f16_to_float(u16 half) {
  const u32 magnitude = half & 0x7fffu;
  // Read as a float's exponent and fraction, the f16 is too small by the difference of the biases, 2^112.
  u32 bits = bits_of(float_of(magnitude << 13) * 0x1p112f);
  if (magnitude >= 0x7c00u) bits |= 0x7f800000u;  // infinity and NaN
  return float_of(bits | (half & 0x8000u) << 16);
}

inline float bf16_to_float(u16 brain) {
  return float_of(static_cast<u32>(brain) << 16);
}

inline u16 float_to_f16(float value) {
  const u32 bits = bits_of(value), magnitude = bits & 0x7fffffffu;
  const u32 sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<u16>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the f16 is subnormal: a multiple of 2^-24. Adding 0.5 makes float's own rounding land there.
    const u32 multiple = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    return static_cast<u16>(sign | multiple);
  }
  const u32 rebiased = magnitude - 0x38000000u;
  return static_cast<u16>(sign | (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13);
}

inline u16 float_to_bf16(float value) {
  const u32 bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<u16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace efemu
