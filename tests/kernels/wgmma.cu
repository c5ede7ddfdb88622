// wgmma: any descriptor (entry "products"), what kernels do wrong with it ("faults"), and how they should use it
// ("pipeline"). Tests prepend COLUMNS, the N of the product, and ELEMENT; FAULT=n; or BUG=n.
#include "ef.h"

using ef::u16;
using ef::u32;
using ef::u64;

#ifdef COLUMNS
constexpr int kRegisters = COLUMNS / 2;

template <int TRANS_A, int TRANS_B>
EF_DEV void multiply(ef::acc<kRegisters>& d, u64 a, u64 b, bool adds) {
  ef::wgmma_ss<TRANS_A, TRANS_B>(d, a, b, adds, ELEMENT{});
}

template <int TRANS_B>
EF_DEV void multiply_registers(ef::acc<kRegisters>& d, const ef::frag& a, u64 b, bool adds) {
  ef::wgmma_rs<TRANS_B>(d, a, b, adds, ELEMENT{});
}

// image: what shared memory holds, `pieces` of 16 bytes. a: registers of A, 128 x 4, where `home` is 1.
// d: 64 x COLUMNS, added to where `adds`. One warpgroup.
extern "C" __global__ void __launch_bounds__(128)
products(const ef::u32x4* image, const u32* registers, float* d, int pieces, u64 a, u64 b, int home, int trans_a,
         int trans_b, int adds) {
  const int thread = threadIdx.x, lane = thread % 32;
  for (int i = thread; i < pieces; i += 128) ef::sts(ef::smem_base() + 16 * i, ef::ldg(image + i));
  ef::fence_proxy_async();
  ef::syncthreads();
  ef::frag fragment;
  ef::acc<kRegisters> sum;
  float* const mine = d + (thread / 32 * 16 + lane / 4) * COLUMNS + lane % 4 * 2;
  for (int i = 0; i < 4; ++i) fragment[i] = ef::ldg(registers + 4 * thread + i);
  for (int i = 0; i < kRegisters; ++i) sum[i] = ef::ldg(mine + i / 2 % 2 * 8 * COLUMNS + i / 4 * 8 + i % 2);
  ef::wgmma_fence();
  if (home)
    trans_b ? multiply_registers<1>(sum, fragment, b, adds) : multiply_registers<0>(sum, fragment, b, adds);
  else if (trans_a)
    trans_b ? multiply<1, 1>(sum, a, b, adds) : multiply<1, 0>(sum, a, b, adds);
  else
    trans_b ? multiply<0, 1>(sum, a, b, adds) : multiply<0, 0>(sum, a, b, adds);
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
  for (int i = 0; i < kRegisters; ++i) ef::stg(mine + i / 2 % 2 * 8 * COLUMNS + i / 4 * 8 + i % 2, sum[i]);
}
EF_EXPORT_KERNEL(products)
#endif

#ifdef FAULT
constexpr u32 kTileBytes = 2048;  // 64 x 16 of f16, as 8 x 8 matrices of 128 bytes: along k 1024 apart

EF_DEV u64 describe(u32 tile) {
  return ef::make_desc(tile, 1024, 128, ef::SWIZZLE_NONE);
}

// All 128 threads fill a tile with one value.
EF_DEV void fill(u32 tile, u16 bits) {
  const u32 two = bits | static_cast<u32>(bits) << 16;
  ef::sts(tile + 16 * (threadIdx.x % 128), ef::u32x4{two, two, two, two});
}

EF_DEV void publish() {
  ef::fence_proxy_async();
  ef::syncthreads();
}

constexpr u16 kOne = 0x3c00, kTwo = 0x4000;

// One warpgroup multiplies 64 x 16 ones by 16 x 64 twos: each result is 32. out: 128 floats, of each thread's sums one.
extern "C" __global__ void __launch_bounds__(256) faults(float* out) {
  const int thread = threadIdx.x, warp = thread / 32;
  const u32 tile_a = ef::smem_base(), tile_b = tile_a + kTileBytes;
  float result = 0;
  ef::acc<32> sum, other;
  ef::frag fragment;
#if FAULT == 22  // B was never written
  fill(tile_a, kOne);
#else
  fill(tile_a, kOne);
  fill(tile_b, kTwo);
#endif
#if FAULT == 8  // no proxy fence
  ef::syncthreads();
#elif FAULT == 9  // no barrier
  ef::fence_proxy_async();
#else
  publish();
#endif
  const u64 a = describe(tile_a), b = describe(tile_b);
#if FAULT == 0
  ef::wgmma_commit();  // an empty group
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_ss<0, 0>(sum, a, b, true, ef::f16{});  // the same accumulator again: no fence between
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
  result = sum[0];
#elif FAULT == 1  // no fence ever
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 2  // the accumulator is set after the fence
  ef::wgmma_fence();
  for (int i = 0; i < 32; ++i) sum[i] = 0;
  ef::wgmma_ss<0, 0>(sum, a, b, true, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 3  // operand A is set after the fence
  ef::wgmma_fence();
  for (int i = 0; i < 4; ++i) fragment[i] = 0x3c003c00;
  ef::wgmma_rs<0>(sum, fragment, b, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 4  // the result is read before the wait
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_commit();
  result = sum[0];  // too early
  ef::wgmma_wait<0>();
#elif FAULT == 5  // operand A is set again before the wait
  for (int i = 0; i < 4; ++i) fragment[i] = 0x3c003c00;
  ef::wgmma_fence();
  ef::wgmma_rs<0>(sum, fragment, b, false, ef::f16{});
  ef::wgmma_commit();
  for (int i = 0; i < 4; ++i) fragment[i] = 0;  // too early
  ef::wgmma_wait<0>();
  result = sum[0];
#elif FAULT == 6  // the wait leaves the newest group under way
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_ss<0, 0>(other, a, b, false, ef::f16{});  // the second group
  ef::wgmma_commit();
  ef::wgmma_wait<1>();
  result = sum[0];
  result += other[0];  // too early
  ef::wgmma_wait<0>();
#elif FAULT == 7  // the tile is filled again before the wait
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_commit();
  ef::syncthreads();
  fill(tile_b, kOne);  // too early
  ef::wgmma_wait<0>();
#elif FAULT == 8 || FAULT == 9 || FAULT == 22
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 10  // nobody waits
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_commit();
#elif FAULT == 11  // the wait covers no group: none was committed
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_wait<0>();
#elif FAULT == 12  // one lane means another tile
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, thread == 77 ? b : a, b, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 13  // a base offset
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b | 1ull << 49, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 14  // the tile begins in the second row of the swizzle's pattern
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, ef::make_desc(tile_a + 128, 16, 256, ef::SWIZZLE_32B), b, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 15  // a stride too large for its field
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b | 1ull << 46, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 16  // rows 8 KB apart
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, ef::make_desc(tile_b, 1024, 8192, ef::SWIZZLE_NONE), false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
  result = sum[0];
#elif FAULT == 17  // one warp adds
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, warp == 1, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 19  // two warps at another product
  ef::wgmma_fence();
  if (warp < 2)
    ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  else
    ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
#elif FAULT == 20  // half a warp commits
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  if (thread % 32 < 16) ef::wgmma_commit();
  ef::wgmma_wait<0>();
#elif FAULT == 21  // a warp leaves
  ef::wgmma_fence();
  if (warp == 3) return;
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
#elif FAULT == 23  // a warp waits for the others elsewhere
  ef::wgmma_fence();
  if (warp == 3) ef::bar_sync(1, 64);
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
#elif FAULT == 24  // scopes end before the wait, which is no access
  {
    ef::frag gone;
    ef::acc<32> unread;
    for (int i = 0; i < 4; ++i) gone[i] = 0x3c003c00;
    ef::wgmma_fence();
    ef::wgmma_rs<0>(sum, gone, b, false, ef::f16{});
    ef::wgmma_rs<0>(unread, gone, b, false, ef::f16{});
    ef::wgmma_commit();
  }
  u32 elsewhere[64];
  for (int i = 0; i < 64; ++i) elsewhere[i] = 0x7e007e00 + thread;
  ef::shfl_xor(elsewhere[thread % 64], 1);
  ef::wgmma_wait<0>();
  result = sum[0];
#elif FAULT == 25  // a copy reads the registers
  ef::wgmma_fence();
  ef::wgmma_ss<0, 0>(sum, a, b, false, ef::f16{});
  ef::wgmma_commit();
  other = sum;
  ef::wgmma_wait<0>();
#elif FAULT == 26  // a later product still reads operand A
  for (int i = 0; i < 4; ++i) fragment[i] = 0x3c003c00;
  ef::wgmma_fence();
  ef::wgmma_rs<0>(sum, fragment, b, false, ef::f16{});
  ef::wgmma_commit();
  ef::wgmma_rs<0>(other, fragment, b, false, ef::f16{});  // this one
  ef::wgmma_commit();
  ef::wgmma_wait<1>();
  fragment[0] = 0;  // too early
  ef::wgmma_wait<0>();
#endif
  if (thread < 128) ef::stg(out + thread, result);
}
EF_EXPORT_KERNEL(faults)
#endif

#ifdef BUG
// Two warpgroups, each a 64 x 16 A times `steps` of 16 x 64 B: one accumulator takes the even steps, another the odd
// ones, so that one product is under way while the last but one is looked at. Warpgroup 0 has A in shared memory, 1 in
// registers. a: 64 x 16, b: steps x 64 x 16, out: 2 x 64 x 64 sums over all steps, then over all but the last.
constexpr u32 kMatrixBytes = 2048;
constexpr int kStages = 3;

EF_DEV u64 matrix(u32 tile) {
  return ef::make_desc(tile, 1024, 128, ef::SWIZZLE_NONE);
}

// Rows of 16 elements into 8 x 8 matrices of 128 bytes, those along k 1024 apart.
EF_DEV void load(u32 tile, const ef::u32x4* rows) {
  const int thread = threadIdx.x;
  if (thread < 128) ef::sts(tile + thread % 2 * 1024 + thread / 2 * 16, ef::ldg(rows + thread));
}

EF_DEV void start(ef::acc<32>& sum, const ef::frag& fragment, u64 a, u64 b, bool adds) {
  if (threadIdx.x < 128)
    ef::wgmma_ss<0, 0>(sum, a, b, adds, ef::f16{});
  else
    ef::wgmma_rs<0>(sum, fragment, b, adds, ef::f16{});
}

extern "C" __global__ void __launch_bounds__(256)
pipeline(const ef::u32x4* a, const ef::u32x4* b, float* out, int steps) {
  const int thread = threadIdx.x, lane = thread % 32, row = thread % 128 / 32 * 16 + lane / 4;
  const u32 home = ef::smem_base(), stages = home + kMatrixBytes;
  load(home, a);
  ef::frag fragment;
  const u32* const words = reinterpret_cast<const u32*>(a);
  for (int i = 0; i < 4; ++i) fragment[i] = ef::ldg(words + (row + i % 2 * 8) * 8 + lane % 4 + i / 2 * 4);
  ef::acc<32> sums[2];
  float early[32];
  for (int step = 0; step < steps; ++step) {
    const u32 stage = stages + step % (BUG == 1 ? 2 : kStages) * kMatrixBytes;
    load(stage, b + step * 128);
    ef::fence_proxy_async();
    ef::syncthreads();
    ef::wgmma_fence();
    start(sums[step % 2], fragment, matrix(home), matrix(stage), step >= 2);
    ef::wgmma_commit();
    ef::wgmma_wait<BUG == 2 ? 2 : 1>();
    if (step == 0) continue;
    for (int i = 0; i < 32; ++i) early[i] = sums[(step + 1) % 2][i];  // while the newest is under way
  }
  ef::wgmma_wait<0>();
  for (int i = 0; i < 32; ++i) {
    float* const at = out + (thread / 128 * 64 + row + i / 2 % 2 * 8) * 64 + lane % 4 * 2 + i / 4 * 8 + i % 2;
    ef::stg(at, sums[0][i] + sums[1][i]);
    ef::stg(at + 2 * 64 * 64, early[i]);
  }
}
EF_EXPORT_KERNEL(pipeline)
#endif
