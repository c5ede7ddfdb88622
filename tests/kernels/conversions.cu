// All 65,536 values of each 16-bit format to float and back, one value a thread.
#include "ef.h"

using ef::u32;

// f16_out, bf16_out: the round trip's bits; f16_float, bf16_float: the floats; index = blockIdx * 256 + thread.
extern "C" __global__ void __launch_bounds__(256)
widen(float* f16_float, float* bf16_float, ef::f16* f16_out, ef::bf16* bf16_out) {
  const u32 index = blockIdx.x * 256 + threadIdx.x;
  const ef::f16 half{(ef::u16)index};
  const ef::bf16 brain{(ef::u16)index};
  ef::stg(f16_float + index, ef::to_f32(half));
  ef::stg(bf16_float + index, ef::to_f32(brain));
  ef::stg(f16_out + index, ef::from_f32(ef::to_f32(half), ef::f16()));
  ef::stg(bf16_out + index, ef::from_f32(ef::to_f32(brain), ef::bf16()));
}
EF_EXPORT_KERNEL(widen)

// Each float of `in` rounded to both formats, singly and packed with its neighbour.
extern "C" __global__ void __launch_bounds__(256)
narrow(const float* in, ef::f16* f16_out, ef::bf16* bf16_out, u32* f16_pairs, u32* bf16_pairs) {
  const u32 index = blockIdx.x * 256 + threadIdx.x;
  const float value = ef::ldg(in + index);
  ef::stg(f16_out + index, ef::from_f32(value, ef::f16()));
  ef::stg(bf16_out + index, ef::from_f32(value, ef::bf16()));
  float lo, hi;
  ef::unpack2(lo, hi, ef::pack2(value, -value, ef::f16()), ef::f16());
  ef::stg(f16_pairs + index, ef::pack2(lo, hi, ef::f16()));
  ef::unpack2(lo, hi, ef::pack2(value, -value, ef::bf16()), ef::bf16());
  ef::stg(bf16_pairs + index, ef::pack2(lo, hi, ef::bf16()));
}
EF_EXPORT_KERNEL(narrow)

// All 256 values of e4m3 to both 16-bit formats, sixteen to a thread, by both ways of loading what is read once.
extern "C" __global__ void __launch_bounds__(16)
widen_eight_bits(const ef::u32x4* in, u32* f16_pairs, u32* bf16_pairs) {
  const ef::u32x4 once = ef::ldg_once<64>(in + threadIdx.x), first = ef::ldg_once_first<64>(in + threadIdx.x);
  const u32 fours[4] = {once.x, once.y, first.z, first.w};
  for (int i = 0; i < 4; ++i) {
    u32 pairs[2];
    ef::f16_of_e4m3(pairs, fours[i]);
    ef::stg(f16_pairs + threadIdx.x * 8 + i * 2, pairs[0]);
    ef::stg(f16_pairs + threadIdx.x * 8 + i * 2 + 1, pairs[1]);
    ef::bf16_of_e4m3(pairs, fours[i]);
    ef::stg(bf16_pairs + threadIdx.x * 8 + i * 2, pairs[0]);
    ef::stg(bf16_pairs + threadIdx.x * 8 + i * 2 + 1, pairs[1]);
  }
}
EF_EXPORT_KERNEL(widen_eight_bits)
