// Each function of ef_math.h, element by element: out[i] from the floats or words a[i], b[i] and c[i]. 16 elements for
// each thread, 256 apart. A second result goes behind all first ones.
#include "ef.h"

using ef::bf16;
using ef::f16;
using ef::u16;
using ef::u32;

EF_DEV u32 bits(float value) {
#if EF_GPU
  return __float_as_uint(value);
#else
  return efemu::bits_of(value);
#endif
}

EF_DEV float number(u32 bits) {
#if EF_GPU
  return __uint_as_float(bits);
#else
  return efemu::float_of(bits);
#endif
}

template <class Function>
EF_DEV void each(const u32* a, const u32* b, const u32* c, u32* out, Function function) {
  for (u32 step = 0; step < 16; ++step) {
    const u32 i = (16 * blockIdx.x + step) * 256 + threadIdx.x;
    ef::stg(out + i, function(ef::ldg(a + i), ef::ldg(b + i), ef::ldg(c + i)));
  }
}

extern "C" __global__ void __launch_bounds__(256) all_ex2(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32, u32) { return bits(ef::ex2(number(x))); });
}
EF_EXPORT_KERNEL(all_ex2)

extern "C" __global__ void __launch_bounds__(256) all_lg2(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32, u32) { return bits(ef::lg2(number(x))); });
}
EF_EXPORT_KERNEL(all_lg2)

extern "C" __global__ void __launch_bounds__(256) all_rcp(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32, u32) { return bits(ef::rcp(number(x))); });
}
EF_EXPORT_KERNEL(all_rcp)

extern "C" __global__ void __launch_bounds__(256) all_fmax(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32 y, u32) { return bits(ef::fmax(number(x), number(y))); });
}
EF_EXPORT_KERNEL(all_fmax)

extern "C" __global__ void __launch_bounds__(256) all_fma(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32 y, u32 z) { return bits(ef::fma(number(x), number(y), number(z))); });
}
EF_EXPORT_KERNEL(all_fma)

// Beside a sum: it must stay a rounding of its own.
extern "C" __global__ void __launch_bounds__(256) all_mul(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32 y, u32 z) { return bits(ef::mul(number(x), number(y)) + number(z)); });
}
EF_EXPORT_KERNEL(all_mul)

// Behind a product: likewise.
extern "C" __global__ void __launch_bounds__(256) all_sub(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32 y, u32 z) { return bits(ef::sub(ef::mul(number(x), number(y)), number(z))); });
}
EF_EXPORT_KERNEL(all_sub)

extern "C" __global__ void __launch_bounds__(256) all_neg_inf(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32, u32, u32) { return bits(ef::neg_inf()); });
}
EF_EXPORT_KERNEL(all_neg_inf)

extern "C" __global__ void __launch_bounds__(256) all_to_f32_f16(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32, u32) { return bits(ef::to_f32(f16{u16(x)})); });
}
EF_EXPORT_KERNEL(all_to_f32_f16)

extern "C" __global__ void __launch_bounds__(256) all_to_f32_bf16(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32, u32) { return bits(ef::to_f32(bf16{u16(x)})); });
}
EF_EXPORT_KERNEL(all_to_f32_bf16)

extern "C" __global__ void __launch_bounds__(256) all_from_f32_f16(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32, u32) { return u32(ef::from_f32(number(x), f16()).bits); });
}
EF_EXPORT_KERNEL(all_from_f32_f16)

extern "C" __global__ void __launch_bounds__(256) all_from_f32_bf16(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32, u32) { return u32(ef::from_f32(number(x), bf16()).bits); });
}
EF_EXPORT_KERNEL(all_from_f32_bf16)

extern "C" __global__ void __launch_bounds__(256) all_pack2_f16(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32 y, u32) { return ef::pack2(number(x), number(y), f16()); });
}
EF_EXPORT_KERNEL(all_pack2_f16)

extern "C" __global__ void __launch_bounds__(256) all_pack2_bf16(const u32* a, const u32* b, const u32* c, u32* out) {
  each(a, b, c, out, [](u32 x, u32 y, u32) { return ef::pack2(number(x), number(y), bf16()); });
}
EF_EXPORT_KERNEL(all_pack2_bf16)

template <class T>
EF_DEV void unpack(const u32* a, u32* out) {
  const u32 count = gridDim.x * 16 * 256;
  for (u32 step = 0; step < 16; ++step) {
    const u32 i = (16 * blockIdx.x + step) * 256 + threadIdx.x;
    float lo, hi;
    ef::unpack2(lo, hi, ef::ldg(a + i), T());
    ef::stg(out + i, bits(lo));
    ef::stg(out + count + i, bits(hi));
  }
}

extern "C" __global__ void __launch_bounds__(256) all_unpack2_f16(const u32* a, const u32* b, const u32* c, u32* out) {
  unpack<f16>(a, out);
}
EF_EXPORT_KERNEL(all_unpack2_f16)

extern "C" __global__ void __launch_bounds__(256) all_unpack2_bf16(const u32* a, const u32* b, const u32* c, u32* out) {
  unpack<bf16>(a, out);
}
EF_EXPORT_KERNEL(all_unpack2_bf16)
