// Small kernels whose slowest path through a block is known, one for each case of tests/emulator/test_slowest_path.py.
#include "ef.h"

using ef::u32;

// Between two barriers the last warp multiplies 100 times, the others 10; then the first warp alone, 50 times.
extern "C" __global__ void uneven(float* out) {
  const int warp = threadIdx.x / 32, last = blockDim.x / 32 - 1;
  float x = 1.0f;
  for (int i = 0; i < (warp == last ? 100 : 10); ++i) x = ef::fma(x, 0.5f, 1.0f);
  ef::syncthreads();
  if (warp == 0)
    for (int i = 0; i < 50; ++i) x = ef::fma(x, 0.5f, 1.0f);
  ef::syncthreads();
  ef::stg(out + blockIdx.x * blockDim.x + threadIdx.x, x);
}
EF_EXPORT_KERNEL(uneven)

// One lane of each warp works: its instructions are the warp's.
extern "C" __global__ void one_lane(float* out) {
  float x = 1.0f;
  if (threadIdx.x % 32 == 3)
    for (int i = 0; i < 64; ++i) x = ef::fma(x, 0.5f, 1.0f);
  ef::stg(out + blockIdx.x * blockDim.x + threadIdx.x, x);
}
EF_EXPORT_KERNEL(one_lane)

// Warp 0 works 70 times and announces it; warp 1 works 20 times, waits for that, and works 30 times more.
extern "C" __global__ void handover(float* out) {
  const int warp = threadIdx.x / 32;
  float x = 1.0f;
  for (int i = 0; i < (warp == 0 ? 70 : 20); ++i) x = ef::fma(x, 0.5f, 1.0f);
  if (warp == 0) {
    ef::bar_arrive(1, 64);
  } else {
    ef::bar_sync(1, 64);
    for (int i = 0; i < 30; ++i) x = ef::fma(x, 0.5f, 1.0f);
  }
  ef::stg(out + blockIdx.x * blockDim.x + threadIdx.x, x);
}
EF_EXPORT_KERNEL(handover)

// Twelve products on one accumulator, on two in turns, and on eight in turns.
extern "C" __global__ void products(float* out) {
  float d[8][4] = {};
  const u32 a[4] = {};
  for (int i = 0; i < 12; ++i) ef::mma_m16n8k16(d[0], a, 0, 0, ef::f16());
  for (int i = 0; i < 12; ++i) ef::mma_m16n8k16(d[1 + i % 2], a, 0, 0, ef::f16());
  for (int i = 0; i < 16; ++i) ef::mma_m16n8k16(d[i % 8], a, 0, 0, ef::f16());
  ef::stg(out + blockIdx.x * blockDim.x + threadIdx.x, d[0][0] + d[1][0] + d[2][0]);
}
EF_EXPORT_KERNEL(products)

// Three rounds of loads: two loads together, one after a shuffle that needs them, the same one after an ex2.
extern "C" __global__ void rounds(float* out) {
  float* const mine = out + blockIdx.x * blockDim.x + threadIdx.x;
  float x = ef::ldg(mine) + ef::ldg(mine);
  x = ef::shfl_xor(x, 1);
  x += ef::ldg(mine);
  x = ef::ex2(x * 0.0f);
  x += ef::ldg(mine);
  ef::stg(mine, x);
}
EF_EXPORT_KERNEL(rounds)

// A copy, ten or a hundred multiplications, and the wait for it.
extern "C" __global__ void waits(float* out) {
  const u32 at = ef::smem_base() + threadIdx.x * 16;
  float x = 1.0f;
  for (int turn = 0; turn < 2; ++turn) {
    ef::cp_async16_zfill(at, out, false);  // zeros: others write there
    ef::cp_async_commit();
    for (int i = 0; i < (turn == 0 ? 10 : 100); ++i) x = ef::fma(x, 0.5f, 1.0f);
    if (turn == 0)
      ef::cp_async_wait<0>();
    else
      ef::cp_async_wait<0>();
  }
  ef::cp_async_wait<0>();  // for nothing
  ef::stg(out + blockIdx.x * blockDim.x + threadIdx.x, x + ef::lds<float>(at));
}
EF_EXPORT_KERNEL(waits)
