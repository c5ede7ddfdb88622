// The primitives of sm_80 that primitives.cu leaves out, once each, so that each compiler sees them; not made to run.
#include "ef.h"

using ef::u32;

// What the lanes of a warp do together.
extern "C" __global__ void __launch_bounds__(32) lanes(u32* out) {
  const u32 lane = threadIdx.x;
  u32 one[1], turned[1];
  ef::ldmatrix_x1(one, ef::smem_base() + lane % 8 * 16);
  ef::ldmatrix_x1_trans(turned, ef::smem_base() + lane % 8 * 16);
  u32 sum = one[0] + turned[0] + ef::shfl_xor(lane, 3) + ef::shfl_up(lane, 2) + ef::shfl_down(lane, 2);
  sum += u32(ef::shfl_up(float(lane), 5) + ef::shfl_down(float(lane), 5)) + ef::ballot_sync(lane % 3 == 0);
  sum += ef::redux_add(lane) + ef::redux_min(lane) + ef::redux_max(lane);
  sum += u32(ef::redux_add(int(lane)) + ef::redux_min(-int(lane)) + ef::redux_max(-int(lane)));
  if (ef::elect_one()) ef::stg(out, sum);
}
EF_EXPORT_KERNEL(lanes)

// Products in f16, 16-bit WMMA with an accumulator in memory, and the copies and stores beside the plain ones.
extern "C" __global__ void __launch_bounds__(32) tiles(const u32* in, u32* out) {
  const u32 smem = ef::smem_static<4096>(), row = smem + threadIdx.x * 16;
  ef::cp_async4_zfill(row, in, true);
  ef::cp_async8_zfill(row, in, true);
  ef::cp_async16_zfill_l1(row, in, true);
  ef::cp_async16_zfill_once(row, in, true);
  ef::cp_async16_zfill_l2<64>(row, in, true);
  ef::cp_async16_zfill_l2<128>(row, in, true);
  ef::cp_async16_zfill_l2<256>(row, in, true);
  ef::cp_async_commit();
  ef::cp_async_wait<0>();
  const u32 a[4] = {1, 2, 3, 4};
  u32 d[2] = {};
  ef::mma_m16n8k16(d, a, 5, 6, ef::f16());
  ef::wmma_c c, zero;
  ef::wmma_fill(zero, 0.0f);
  ef::wmma_load_c(c, smem, 16);
  ef::wmma_a<ef::bf16> wide;
  ef::wmma_b_row<ef::bf16> rows;
  ef::wmma_b_col<ef::bf16> columns;
  ef::wmma_load_a(wide, smem, 16);
  ef::wmma_load_b_row(rows, smem, 16);
  ef::wmma_load_b_col(columns, smem, 16);
  ef::wmma_mma(c, wide, rows);
  ef::wmma_mma(zero, wide, columns);
  ef::wmma_scale(c, 2.0f);
  ef::wmma_store_c(smem, c, 16);
  ef::wmma_store_c(smem + 1024, zero, 16);
  ef::prefetch_l2(out);
  const float inexact = ef::sub(ef::mul(float(threadIdx.x), 0.1f), 0.1f);
  if (ef::syncthreads_or(inexact > 1.0f)) ef::stg_cs(reinterpret_cast<ef::u32x4*>(out), ef::u32x4{d[0], d[1], 0, 0});
}
EF_EXPORT_KERNEL(tiles)

// Atomics of each element type on global and shared memory.
extern "C" __global__ void __launch_bounds__(64) atomics(u32* words, int* ints, float* floats) {
  const u32 smem = ef::smem_base();
  u32 sum = ef::atom_add(words, 1u) + ef::atom_min(words + 1, 2u) + ef::atom_max(words + 2, 3u);
  sum += ef::atom_inc(words + 3, 7) + ef::atom_exch(words + 4, 5) + ef::atom_cas(words + 5, 0, 6);
  sum += ef::atom_add_acq_rel(words + 6, 1) + ef::atom_inc_acq_rel(words + 7, 7);
  ef::red_add(words + 8, 1u);
  ef::red_add_release(words + 9, 1);
  sum += u32(ef::atom_add(ints, -1) + ef::atom_min(ints + 1, -2) + ef::atom_max(ints + 2, -3));
  ef::red_add(floats, 1.0f);
  sum += u32(ef::atom_add(floats + 1, 2.0f));
  sum += ef::atom_add_shared(smem, 1u) + ef::atom_min_shared(smem, 1u) + ef::atom_max_shared(smem, 1u);
  sum += u32(ef::atom_add_shared(smem + 4, 1) + ef::atom_min_shared(smem + 4, 1) + ef::atom_max_shared(smem + 4, 1));
  sum += u32(ef::atom_add_shared(smem + 8, 1.0f));
  ef::fence_gpu();
  if (ef::ldg_acquire(words + 10) == 0) ef::stg_release(words + 11, sum);
}
EF_EXPORT_KERNEL(atomics)

// mbarriers that count cp.async.
extern "C" __global__ void __launch_bounds__(32) copies(const u32* in, u32* out) {
  const u32 bar = ef::smem_base(), row = bar + 1024 + threadIdx.x * 16;
  if (threadIdx.x == 0) ef::mbar_init(bar, 64);
  ef::syncthreads();
  ef::cp_async16(row, in + threadIdx.x * 4);
  ef::cp_async_mbar_arrive_noinc(bar);
  ef::cp_async_mbar_arrive(bar);
  ef::mbar_arrive(bar);
  while (!ef::mbar_test_wait(bar, 0)) {
  }
  ef::stg(out + threadIdx.x, ef::lds<u32>(row));
  ef::syncthreads();
  if (threadIdx.x == 0) ef::mbar_inval(bar);
}
EF_EXPORT_KERNEL(copies)
