// Every primitive once, so that the whole layer is seen by each compiler; results are checked in the emulator.
#include "ef.h"

using ef::u32;

template <class T>
EF_DEV float every_primitive(const T* in, T* out, T tag) {
  const int lane = threadIdx.x % 32;
  const u32 smem = ef::smem_base() + threadIdx.x / 32 * 1024;
  const u32 row = smem + lane * 16;
  ef::cp_async16(row, in + threadIdx.x * 8);
  ef::cp_async16_zfill(row + 512, in, lane < 8);
  ef::cp_async_commit();
  ef::cp_async_wait<0>();
  ef::syncwarp();
  u32 pair[2], quad[4];
  float d[4] = {};
  ef::ldmatrix_x4(quad, row);
  ef::ldmatrix_x2(pair, row);
  ef::mma_m16n8k16(d, quad, pair[0], pair[1], tag);
  ef::ldmatrix_x4_trans(quad, row + 512);
  ef::ldmatrix_x2_trans(pair, row);
  ef::mma_m16n8k16(d, quad, pair[0], pair[1], tag);
  ef::syncthreads();
  ef::sts(row, ef::u32x4{quad[0], quad[1], pair[0], pair[1]});
  ef::sts(smem + 512 + lane * 8, ef::u32x2{quad[2], quad[3]});
  ef::sts(smem + 768 + lane * 4, ef::pack2(d[0], d[1], tag));
  ef::sts(smem + 896 + lane * 2, ef::from_f32(d[2], tag));
  ef::syncthreads();
  const ef::u32x4 wide = ef::lds<ef::u32x4>(row);
  const ef::u32x2 two = ef::lds<ef::u32x2>(smem + 512 + lane * 8);
  float lo, hi;
  ef::unpack2(lo, hi, ef::lds<u32>(smem + 768 + lane * 4), tag);
  const float mixed = ef::to_f32(ef::lds<T>(smem + 896 + lane * 2)) + float((wide.x ^ two.y) & 1);
  ef::stg(out + threadIdx.x, ef::from_f32(mixed, tag));
  const float picked = float(ef::shfl_idx(lane, 3) + (ef::shfl_idx(quad[0], 2) & 1)) + ef::shfl_idx(lo, 5);
  float value = ef::fma(ef::fmax(lo, hi), ef::shfl_xor(d[3], 1), picked);
  u32 thread = threadIdx.x;
  ef::keep(thread);
  ef::u64 mine = ef::mul_wide(1, thread);
  ef::keep(mine);
  ef::keep(value);
  if (ef::any_sync(value > 1.0f) && !ef::all_sync(value == ef::neg_inf()))
    value += ef::ex2(-value) + ef::lg2(value) + ef::rcp(value) + ef::to_f32(ef::ldg(in + mine));
  if (threadIdx.x < 32)
    ef::bar_arrive(1, 64);
  else
    ef::bar_sync(1, 64);
  return value;
}

// Two warps with 1024 bytes of shared memory each; inputs have 512 elements, outputs 64.
extern "C" __global__ void __launch_bounds__(64)
primitives(const ef::f16* half, ef::f16* half_out, const ef::bf16* brain, ef::bf16* brain_out, float* out) {
  const float first = every_primitive(half, half_out, ef::f16());
  ef::syncthreads();
  const float second = every_primitive(brain, brain_out, ef::bf16());
  ef::stg(out + threadIdx.x, first + second);
}
EF_EXPORT_KERNEL(primitives)
