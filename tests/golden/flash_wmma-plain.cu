// flash_wmma: Forward attention on WMMA 16x16x16 tiles: scores and probabilities pass through shared memory.
// genome 5a6d988572099d32 (family version 1), for d=64,dtype=fp16,full,gqa=1,sm_89, by evoflash 0.1.0
// block_m=32 block_n=32 copy=sync ctas_per_sm=1 epilogue=plain k_layout=columns pad=0 pv=scalar
// q_home=smem rows_per_warp=16 softmax=serial unroll=1 vec=4 warps_n=2
#include "ef.h"

using ef::u32;
using element = ef::f16;
struct alignas(8) Pair {
  float x, y;
};
struct alignas(16) Quad {
  float x, y, z, w;
};

constexpr int kHeadDim = 64;
constexpr int kGqaRatio = 1;  // query heads per key/value head
constexpr int BLOCK_M = 32;
constexpr int BLOCK_N = 32;
constexpr int kRowsPerWarp = 16;
constexpr int kWarpsM = BLOCK_M / kRowsPerWarp, kWarpsN = 2;  // the warps' grid over a tile of scores
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kTilesM = kRowsPerWarp / 16;  // 16x16 tiles of the scores that a warp multiplies
constexpr int kTilesN = BLOCK_N / (16 * kWarpsN);
// Rows in shared memory, in elements. WMMA wants them at multiples of a fragment's size: 32 bytes of f16 or
// float, 16 of bf16.
constexpr int kRowPitch = kHeadDim;
constexpr int kProbPitch = BLOCK_N;
constexpr int kScorePitch = BLOCK_N;
constexpr u32 kKeyBytes = BLOCK_N * kRowPitch * 2;
constexpr u32 kValueBytes = BLOCK_N * kRowPitch * 2;
// All threads share all rows: scores, softmax and output are handed over at block barriers.
constexpr int kOwners = kThreads;
constexpr int kOwnedRows = BLOCK_M;
constexpr int kRowGroups = kOwners;  // one thread a row
constexpr int kRowsEach = (kOwnedRows + kRowGroups - 1) / kRowGroups;
// A thread's part of the output: every kRowThreads-th row, every kLanesD-th chunk of 8 columns.
constexpr int kLanesD = 8;
constexpr int kRowThreads = kOwners / kLanesD;
constexpr int kRowsHeld = (kOwnedRows + kRowThreads - 1) / kRowThreads;
constexpr int kChunksHeld = kHeadDim / 8 / kLanesD;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// Copies rows [first, first + ROWS) of a matrix into a tile, 4 bytes at a time; rows from `rows` on become zeros.
template <int ROWS>
EF_DEV void copy_tile(u32 tile, const element* matrix, long long row_stride, int first, int rows) {
  constexpr int kElements = 2, kPieces = kHeadDim / kElements;
#pragma unroll 4
  for (int i = threadIdx.x; i < ROWS * kPieces; i += kThreads) {
    const int row = i / kPieces, column = i % kPieces * kElements;
    const bool inside = first + row < rows;
    const element* source = matrix + (inside ? (first + row) * row_stride : 0) + column;
    ef::sts(tile + (row * kRowPitch + column) * 2, inside ? ef::ldg((const u32*)source) : u32{});
  }
}

// Q, O: (batch, heads, seq_q, head_dim); K, V: (batch, kv_heads, seq_kv, head_dim); strides in elements.
// LSE: dense (batch, heads, seq_q), natural logarithm, may be null.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_wmma(const element* Q, const element* K, const element* V, element* O, float* LSE,
           int seq_q, int seq_kv, int heads, int kv_heads,
           long long q_batch, long long q_head, long long q_row,
           long long k_batch, long long k_head, long long k_row,
           long long v_batch, long long v_head, long long v_row,
           long long o_batch, long long o_head, long long o_row, float scale) {
  const int warp = threadIdx.x / 32;
  const int warp_m = warp / kWarpsN, warp_n = warp % kWarpsN;
  const int tile_row = warp_m * kRowsPerWarp;  // of the warp's tiles, within the block
  const int head = blockIdx.y, batch = blockIdx.z;
  const int block_row = int(blockIdx.x) * BLOCK_M;
  Q += batch * q_batch + head * q_head;
  K += batch * k_batch + (head / kGqaRatio) * k_head;
  V += batch * v_batch + (head / kGqaRatio) * v_head;
  O += batch * o_batch + head * o_head;

  const u32 q_tile = ef::smem_base();
  const u32 k_tile = q_tile + BLOCK_M * kRowPitch * 2;
  const u32 v_tile = k_tile + kKeyBytes;
  const u32 scores = v_tile + kValueBytes;
  const u32 probs = scores + BLOCK_M * kScorePitch * 4;
  const u32 shrinks = probs + BLOCK_M * kProbPitch * 2;  // by how much each row's output shrinks in this step
  const u32 inverses = shrinks + BLOCK_M * 4;  // 1 / sum of each row, at the end

  const int tiles = (seq_kv + BLOCK_N - 1) / BLOCK_N;

  copy_tile<BLOCK_M>(q_tile, Q, q_row, block_row, seq_q);

  const int member = threadIdx.x;
  // Softmax: this thread's rows are first_row + i * kRowGroups.
  const int first_row = member;
  float row_max[kRowsEach], row_sum[kRowsEach] = {};  // maxima in units of the raw scores
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) row_max[i] = ef::neg_inf();
  const float scale_log2 = scale * kLog2e;
  // Output: this thread's rows are held_row + r * kRowThreads, its chunks held_chunk + c * kLanesD.
  const int held_row = member / kLanesD, held_chunk = member % kLanesD;
  float o[kRowsHeld][kChunksHeld][8] = {};

#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    copy_tile<BLOCK_N>(k_tile, K, k_row, j * BLOCK_N, seq_kv);
    copy_tile<BLOCK_N>(v_tile, V, v_row, j * BLOCK_N, seq_kv);
    ef::syncthreads();  // tile j is here for every thread

    // S = Q K^T, into shared memory: which lane holds which score, WMMA does not say.
    {
      auto score_at = [&](int m) { return scores + (tile_row + m * 16) * kScorePitch * 4; };
      ef::wmma_c s[kTilesM][kTilesN];
#pragma unroll
      for (int m = 0; m < kTilesM; ++m)
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) ef::wmma_fill(s[m][n], 0.0f);
#pragma unroll 1
      for (int k = 0; k < kHeadDim / 16; ++k) {
        ef::wmma_a<element> a[kTilesM];
#pragma unroll
        for (int m = 0; m < kTilesM; ++m)
          ef::wmma_load_a(a[m], q_tile + ((tile_row + m * 16) * kRowPitch + k * 16) * 2, kRowPitch);
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          const int key = (warp_n * kTilesN + n) * 16;
          ef::wmma_b_col<element> b;  // a row of K as stored is a column of K^T
          ef::wmma_load_b_col(b, k_tile + (key * kRowPitch + k * 16) * 2, kRowPitch);
#pragma unroll
          for (int m = 0; m < kTilesM; ++m) ef::wmma_mma(s[m][n], a[m], b);
        }
      }
#pragma unroll
      for (int m = 0; m < kTilesM; ++m)
#pragma unroll
        for (int n = 0; n < kTilesN; ++n)
          ef::wmma_store_c(score_at(m) + (warp_n * kTilesN + n) * 16 * 4, s[m][n], kScorePitch);
    }
    ef::syncthreads();  // the scores are here

    // Online softmax: the output so far shrinks whenever a row finds a larger maximum.
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const int row = first_row + i * kRowGroups;
      if (first_row + i * kRowGroups >= kOwnedRows) break;  // no row is left for this thread
      const int columns = seq_kv - j * BLOCK_N;  // of this tile that there are
      float best = row_max[i];
#pragma unroll 4
      for (int column = 0; column < BLOCK_N; column += 2) {
        const Pair s = ef::lds<Pair>(scores + (row * kScorePitch + column) * 4);
        if (column < columns) best = ef::fmax(best, s.x);
        if (column + 1 < columns) best = ef::fmax(best, s.y);
      }
      const float shift = best == ef::neg_inf() ? 0.0f : ef::mul(best, scale_log2);
      const float shrink = ef::ex2(ef::sub(ef::mul(row_max[i], scale_log2), shift));
      row_max[i] = best;
      row_sum[i] *= shrink;
#pragma unroll 4
      for (int column = 0; column < BLOCK_N; column += 2) {
        const Pair s = ef::lds<Pair>(scores + (row * kScorePitch + column) * 4);
        const float x = column < columns ? ef::ex2(ef::fma(s.x, scale_log2, -shift)) : 0.0f;
        const float y = column + 1 < columns ? ef::ex2(ef::fma(s.y, scale_log2, -shift)) : 0.0f;
        row_sum[i] += x + y;
        ef::sts(probs + (row * kProbPitch + column) * 2, ef::pack2(x, y, element()));
      }
      ef::sts(shrinks + row * 4, shrink);
    }
    ef::syncthreads();  // the probabilities are here

    // O = O shrink + P V, one multiply-add at a time.
#pragma unroll
    for (int r = 0; r < kRowsHeld; ++r) {
      const float shrink = ef::lds<float>(shrinks + (held_row + r * kRowThreads) * 4);
#pragma unroll
      for (int c = 0; c < kChunksHeld; ++c)
#pragma unroll
        for (int e = 0; e < 8; ++e) o[r][c][e] *= shrink;
    }
#pragma unroll 1
    for (int key = 0; key < BLOCK_N; key += 2) {
      float p[kRowsHeld][2];
#pragma unroll
      for (int r = 0; r < kRowsHeld; ++r) {
        const int row = held_row + r * kRowThreads;
        ef::unpack2(p[r][0], p[r][1], ef::lds<u32>(probs + (row * kProbPitch + key) * 2), element());
      }
#pragma unroll
      for (int odd = 0; odd < 2; ++odd)
#pragma unroll
        for (int c = 0; c < kChunksHeld; ++c) {
          const int column = (held_chunk + c * kLanesD) * 8;
          const ef::u32x4 packed = ef::lds<ef::u32x4>(v_tile + ((key + odd) * kRowPitch + column) * 2);
          float v[8];
          ef::unpack2(v[0], v[1], packed.x, element());
          ef::unpack2(v[2], v[3], packed.y, element());
          ef::unpack2(v[4], v[5], packed.z, element());
          ef::unpack2(v[6], v[7], packed.w, element());
#pragma unroll
          for (int r = 0; r < kRowsHeld; ++r)
#pragma unroll
            for (int e = 0; e < 8; ++e) o[r][c][e] = ef::fma(p[r][odd], v[e], o[r][c][e]);
        }
    }
    ef::syncthreads();  // every warp has left tile j
  }

#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    if (first_row + i * kRowGroups >= kOwnedRows) break;
    const int row = first_row + i * kRowGroups;
    const float sum = row_sum[i];
    ef::sts(inverses + row * 4, sum == 0.0f ? 0.0f : ef::rcp(sum));  // a fully masked row gives O = 0
    if (LSE && block_row + row < seq_q) {
      const float lse = sum == 0.0f ? ef::neg_inf() : row_max[i] * scale + ef::lg2(sum) * kLn2;
      ef::stg(LSE + ((long long)batch * heads + head) * seq_q + block_row + row, lse);
    }
  }
  ef::syncthreads();
#pragma unroll
  for (int r = 0; r < kRowsHeld; ++r) {
    const int row = held_row + r * kRowThreads;
    if (block_row + row < seq_q) {
      const float inverse = ef::lds<float>(inverses + row * 4);
#pragma unroll
      for (int c = 0; c < kChunksHeld; ++c) {
        const int column = (held_chunk + c * kLanesD) * 8;
        element* target = O + (block_row + row) * o_row + column;
        const float(&sum)[8] = o[r][c];
#pragma unroll
        for (int e = 0; e < 8; ++e) ef::stg(target + e, ef::from_f32(sum[e] * inverse, element()));
      }
    }
  }
}
EF_EXPORT_KERNEL(flash_wmma)
