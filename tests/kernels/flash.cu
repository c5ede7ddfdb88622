// FlashAttention-2 on mma.sync for the emulator's tests: head dimension 64, 64x64 tiles, four warps, a ring
// of two stages filled by cp.async, XOR swizzle. BUG=n plants one bug; tests prepend the #defines.
#include "ef.h"

#ifndef ELEMENT
#define ELEMENT f16
#endif
#ifndef BUG
#define BUG 0
#endif

using ef::u32;
using element = ef::ELEMENT;

constexpr int kHeadDim = 64, BLOCK_M = 64, BLOCK_N = 64, kThreads = 128, kStages = 2;
constexpr u32 kTileBytes = 64 * kHeadDim * 2;

EF_DEV u32 chunk_at(u32 tile, int row, int chunk) {
#if BUG == 7  // no swizzle: eight rows of one ldmatrix start in one bank
  return tile + row * 128 + chunk * 16;
#else
  return tile + row * 128 + ((chunk ^ (row & 7)) << 4);
#endif
}

EF_DEV void copy_tile(u32 tile, const element* matrix, int first, int rows) {
#pragma unroll
  for (int pass = 0; pass < 4; ++pass) {
    const int index = pass * kThreads + threadIdx.x;
#if BUG == 8  // neighbouring lanes read rows, not columns
    const int row = index % 64, chunk = index / 64;
#else
    const int row = index / 8, chunk = index % 8;
#endif
#if BUG == 5  // the last eight chunks are forgotten
    if (index >= 504) continue;
#endif
#if BUG == 3  // rows beyond the end are read
    ef::cp_async16(chunk_at(tile, row, chunk), matrix + (first + row) * kHeadDim + chunk * 8);
#elif BUG == 11  // four elements off: not a multiple of 16 bytes
    ef::cp_async16(chunk_at(tile, row, chunk), matrix + (first + row) * kHeadDim + chunk % 7 * 8 + 4);
#else
    const bool inside = first + row < rows;
    const element* source = matrix + (inside ? (first + row) * kHeadDim + chunk * 8 : 0);
    ef::cp_async16_zfill(chunk_at(tile, row, chunk), source, inside);
#endif
  }
}

EF_DEV float quad_max(float x) {
#if BUG == 9  // half of the warp shuffles
  if (threadIdx.x % 32 < 16)
#endif
    x = ef::fmax(x, ef::shfl_xor(x, 1));
  return ef::fmax(x, ef::shfl_xor(x, 2));
}

// Q, K, V, O: (heads, length, 64), blockIdx.y is the head. scale_log2 is the softmax scale times log2 e.
extern "C" __global__ void __launch_bounds__(kThreads)
flash(element* Q, const element* K, const element* V, element* O, int length, int causal, float scale_log2) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int block_row = blockIdx.x * BLOCK_M, warp_row = warp * 16;
  const long long head = (long long)blockIdx.y * length * kHeadDim;
  Q += head;
  K += head;
  V += head;
  O += head;
  const u32 q_tile = ef::smem_base();
  const u32 k_ring = q_tile + kTileBytes;
#if BUG == 4  // the V ring reaches 4 KB beyond the allocation
  const u32 v_ring = k_ring + kStages * kTileBytes + 4096;
#else
  const u32 v_ring = k_ring + kStages * kTileBytes;
#endif
  int tiles = (length + BLOCK_N - 1) / BLOCK_N;
  if (causal && (int)blockIdx.x + 1 < tiles) tiles = blockIdx.x + 1;
#if BUG == 16  // one lane leaves early
  if (threadIdx.x == 5) return;
#endif

  copy_tile(q_tile, Q, block_row, length);
  copy_tile(k_ring, K, 0, length);
  copy_tile(v_ring, V, 0, length);
  ef::cp_async_commit();

  u32 q[4][4];
  float o[8][4] = {};
  float row_max[2] = {ef::neg_inf(), ef::neg_inf()}, row_sum[2] = {};
  for (int j = 0; j < tiles; ++j) {
    const u32 k_tile = k_ring + j % kStages * kTileBytes, v_tile = v_ring + j % kStages * kTileBytes;
#if BUG == 14  // a tile beyond the last one is fetched and nobody waits for it
    if (true) {
#else
    if (j + 1 < tiles) {
#endif
      copy_tile(k_ring + (j + 1) % kStages * kTileBytes, K, (j + 1) * BLOCK_N, length);
      copy_tile(v_ring + (j + 1) % kStages * kTileBytes, V, (j + 1) * BLOCK_N, length);
    }
    ef::cp_async_commit();
#if BUG != 6  // 6: nobody waits for the copies
    ef::cp_async_wait<1>();
#endif
#if BUG == 15  // a barrier of half of the block waits for all of it
    ef::syncthreads();
    if (warp < 2) ef::bar_sync(2, 128);
#elif BUG != 2  // 2: a thread's own copies have landed, the others' perhaps not
    ef::syncthreads();
#endif
    if (j == 0) {
#pragma unroll
      for (int k = 0; k < 4; ++k) ef::ldmatrix_x4(q[k], chunk_at(q_tile, warp_row + lane % 16, k * 2 + lane / 16));
    }
    float s[8][4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        u32 b[4];
#if BUG == 10  // half a chunk off
        ef::ldmatrix_x4(b, chunk_at(k_tile, n * 8 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2) ^ 8);
#else
        ef::ldmatrix_x4(b, chunk_at(k_tile, n * 8 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
#endif
        ef::mma_m16n8k16(s[n], q[k], b[0], b[1], element());
        ef::mma_m16n8k16(s[n + 1], q[k], b[2], b[3], element());
      }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = j * BLOCK_N + n * 8 + lane % 4 * 2 + e % 2;
        const int row = block_row + warp_row + lane / 4 + e / 2 * 8;
        if (column >= length || (causal && column > row)) s[n][e] = ef::neg_inf();
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float best = row_max[h];
#pragma unroll
      for (int n = 0; n < 8; ++n) best = ef::fmax(best, ef::fmax(s[n][2 * h], s[n][2 * h + 1]));
      best = quad_max(best);
      const float shift = best == ef::neg_inf() ? 0.0f : best * scale_log2;
      const float shrink = ef::ex2(row_max[h] * scale_log2 - shift);
      row_max[h] = best;
      row_sum[h] *= shrink;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          s[n][e] = ef::ex2(ef::fma(s[n][e], scale_log2, -shift));
          row_sum[h] += s[n][e];
          o[n][e] *= shrink;
        }
      }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      u32 p[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[i] = ef::pack2(s[2 * k + i / 2][i % 2 * 2], s[2 * k + i / 2][i % 2 * 2 + 1], element());
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        u32 b[4];
        ef::ldmatrix_x4_trans(b, chunk_at(v_tile, k * 16 + lane % 16, n + lane / 16));
        ef::mma_m16n8k16(o[n], p, b[0], b[1], element());
        ef::mma_m16n8k16(o[n + 1], p, b[2], b[3], element());
      }
    }
#if BUG != 1  // 1: the next step refills a stage that a slow warp may still read
    ef::syncthreads();
#endif
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = row_sum[h];
    sum += ef::shfl_xor(sum, 1);
    sum += ef::shfl_xor(sum, 2);
    const float inverse = ef::rcp(sum);
    int row = block_row + warp_row + lane / 4 + h * 8;
#if BUG == 12  // every second row is written twice
    row &= ~1;
#endif
    if (row < length) {
#pragma unroll
      for (int n = 0; n < 8; ++n)
#if BUG == 13  // the result goes to an input
        ef::stg((u32*)(Q + row * kHeadDim + n * 8 + lane % 4 * 2),
#else
        ef::stg((u32*)(O + row * kHeadDim + n * 8 + lane % 4 * 2),
#endif
                ef::pack2(o[n][2 * h] * inverse, o[n][2 * h + 1] * inverse, element()));
    }
  }
}
EF_EXPORT_KERNEL(flash)
