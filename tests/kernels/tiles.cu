// ldmatrix in its four forms and mma on small integers: exact results, equal on every machine.
#include "ef.h"

using ef::u32;

// in: 32 rows of 8 elements, four 8x8 matrices; out: 12 registers a lane: x4, x4_trans, x2, x2_trans.
extern "C" __global__ void __launch_bounds__(32) matrices(const ef::f16* in, u32* out) {
  const int lane = threadIdx.x;
  const u32 row = ef::smem_base() + lane * 16;
  ef::sts(row, ef::ldg((const ef::u32x4*)(in + lane * 8)));
  ef::syncwarp();
  u32 r[4], pair[2];
  ef::ldmatrix_x4(r, row);
  for (int i = 0; i < 4; ++i) ef::stg(out + lane * 12 + i, r[i]);
  ef::ldmatrix_x4_trans(r, row);
  for (int i = 0; i < 4; ++i) ef::stg(out + lane * 12 + 4 + i, r[i]);
  ef::ldmatrix_x2(pair, row);
  for (int i = 0; i < 2; ++i) ef::stg(out + lane * 12 + 8 + i, pair[i]);
  ef::ldmatrix_x2_trans(pair, row);
  for (int i = 0; i < 2; ++i) ef::stg(out + lane * 12 + 10 + i, pair[i]);
}
EF_EXPORT_KERNEL(matrices)

template <class T>
EF_DEV void multiply(const T* a, const T* b, const float* c, float* d, T tag) {
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
  u32 af[4], bf[2];
  float sum[4];
  for (int i = 0; i < 4; ++i)
    af[i] = ef::ldg((const u32*)(a + (group + i % 2 * 8) * 16 + pair + i / 2 * 8));
  for (int i = 0; i < 2; ++i)
    bf[i] = ef::ldg((const u32*)(b + group * 16 + pair + i * 8));
  for (int i = 0; i < 4; ++i) sum[i] = ef::ldg(c + (group + i / 2 * 8) * 8 + pair + i % 2);
  ef::mma_m16n8k16(sum, af, bf[0], bf[1], tag);
  for (int i = 0; i < 4; ++i) ef::stg(d + (group + i / 2 * 8) * 8 + pair + i % 2, sum[i]);
}

// d = a b^T + c; a: 16x16, b: 8x16, c and d: 16x8.
extern "C" __global__ void __launch_bounds__(32)
multiply_f16(const ef::f16* a, const ef::f16* b, const float* c, float* d) {
  multiply(a, b, c, d, ef::f16());
}
EF_EXPORT_KERNEL(multiply_f16)

extern "C" __global__ void __launch_bounds__(32)
multiply_bf16(const ef::bf16* a, const ef::bf16* b, const float* c, float* d) {
  multiply(a, b, c, d, ef::bf16());
}
EF_EXPORT_KERNEL(multiply_bf16)

// Lane i gets, in columns of out: shfl_xor(i, 5), shfl_idx(i, 3), any(i == 7), all(i < 32), all(i < 31).
extern "C" __global__ void __launch_bounds__(32) exchanges(float* out) {
  const int lane = threadIdx.x;
  ef::stg(out + lane * 5, ef::shfl_xor((float)lane, 5));
  ef::stg(out + lane * 5 + 1, (float)ef::shfl_idx(lane, 3));
  ef::stg(out + lane * 5 + 2, ef::any_sync(lane == 7) ? 1.0f : 0.0f);
  ef::stg(out + lane * 5 + 3, ef::all_sync(lane < 32) ? 1.0f : 0.0f);
  ef::stg(out + lane * 5 + 4, ef::all_sync(lane < 31) ? 1.0f : 0.0f);
}
EF_EXPORT_KERNEL(exchanges)
