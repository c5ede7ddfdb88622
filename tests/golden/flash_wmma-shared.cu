// flash_wmma: Forward attention on WMMA 16x16x16 tiles: scores and probabilities pass through shared memory.
// genome 178c6981b9a420d9 (family version 1), for d=64,dtype=fp16,full,gqa=1,sm_89, by evoflash 0.1.0
// block_m=48 block_n=32 copy=async_cg ctas_per_sm=1 epilogue=vectorised lanes_per_row=4 o_home=registers
// pad=16 pv=wmma q_home=smem rows_per_warp=16 softmax=shuffle stages=2 unroll=1 vec=16 waits=joint
// warps_n=2
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
constexpr int BLOCK_M = 48;
constexpr int BLOCK_N = 32;
constexpr int kRowsPerWarp = 16;
constexpr int kWarpsM = BLOCK_M / kRowsPerWarp, kWarpsN = 2;  // the warps' grid over a tile of scores
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kStages = 2;  // slots of the ring; one holds a K tile and its V tile
constexpr int kTilesM = kRowsPerWarp / 16;  // 16x16 tiles of the scores that a warp multiplies
constexpr int kTilesN = BLOCK_N / (16 * kWarpsN);
constexpr int kTilesD = 2;  // and of the output, side by side
// Rows in shared memory, in elements. WMMA wants them at multiples of a fragment's size: 32 bytes of f16 or
// float, 16 of bf16.
constexpr int kRowPitch = kHeadDim + 16;
constexpr int kProbPitch = BLOCK_N + 16;
constexpr int kScorePitch = kHeadDim + 8;  // for the scores, and for P V after them in the same place
constexpr int kOutPitch = kScorePitch;
constexpr u32 kKeyBytes = BLOCK_N * kRowPitch * 2;
constexpr u32 kValueBytes = BLOCK_N * kRowPitch * 2;
// All threads share all rows: scores, softmax and output are handed over at block barriers.
constexpr int kOwners = kThreads;
constexpr int kOwnedRows = BLOCK_M;
constexpr int kLanesPerRow = 4;
constexpr int kRowGroups = kOwners / kLanesPerRow;  // rows that are worked on at once
constexpr int kRowsEach = (kOwnedRows + kRowGroups - 1) / kRowGroups;
// A thread's part of the output: every kRowThreads-th row, every kLanesD-th chunk of 8 columns.
constexpr int kLanesD = 8;
constexpr int kRowThreads = kOwners / kLanesD;
constexpr int kRowsHeld = (kOwnedRows + kRowThreads - 1) / kRowThreads;
constexpr int kChunksHeld = kHeadDim / 8 / kLanesD;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// Starts the copy of rows [first, first + ROWS) of a matrix into a tile; rows from `rows` on become zeros.
template <int ROWS>
EF_DEV void copy_tile(u32 tile, const element* matrix, long long row_stride, int first, int rows) {
  constexpr int kElements = 8, kPieces = kHeadDim / kElements;
#pragma unroll 4
  for (int i = threadIdx.x; i < ROWS * kPieces; i += kThreads) {
    const int row = i / kPieces, column = i % kPieces * kElements;
    const bool inside = first + row < rows;
    const element* source = matrix + (inside ? (first + row) * row_stride : 0) + column;
    ef::cp_async16_zfill(tile + (row * kRowPitch + column) * 2, source, inside);
  }
}

// Maximum and sum over the lanes that share a row.
EF_DEV float row_maximum(float x) {
#pragma unroll
  for (int other = 1; other < kLanesPerRow; other *= 2) x = ef::fmax(x, ef::shfl_xor(x, other));
  return x;
}
EF_DEV float row_total(float x) {
#pragma unroll
  for (int other = 1; other < kLanesPerRow; other *= 2) x += ef::shfl_xor(x, other);
  return x;
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
  const u32 ring = q_tile + BLOCK_M * kRowPitch * 2;
  const u32 scores = ring + kStages * (kKeyBytes + kValueBytes);
  const u32 out = scores;  // P V takes the place of the scores, which nobody needs any more
  const u32 probs = scores + BLOCK_M * kScorePitch * 4;
  const u32 shrinks = probs + BLOCK_M * kProbPitch * 2;  // by how much each row's output shrinks in this step
  const u32 inverses = shrinks + BLOCK_M * 4;  // 1 / sum of each row, at the end

  const int tiles = (seq_kv + BLOCK_N - 1) / BLOCK_N;

  // One commit group a step: K tile and V tile together. Past the end the group is empty.
  auto fetch = [&](int tile) {
    const u32 slot = ring + tile % kStages * (kKeyBytes + kValueBytes);
    if (tile < tiles) {
      copy_tile<BLOCK_N>(slot, K, k_row, tile * BLOCK_N, seq_kv);
      copy_tile<BLOCK_N>(slot + kKeyBytes, V, v_row, tile * BLOCK_N, seq_kv);
    }
    ef::cp_async_commit();
  };

  copy_tile<BLOCK_M>(q_tile, Q, q_row, block_row, seq_q);
  ef::cp_async_commit();
  fetch(0);

  const int member = threadIdx.x;
  // Softmax: this thread's rows are first_row + i * kRowGroups, its column pairs from `part` on.
  const int first_row = member / kLanesPerRow, part = member % kLanesPerRow;
  float row_max[kRowsEach], row_sum[kRowsEach] = {};  // maxima in units of the raw scores
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) row_max[i] = ef::neg_inf();
  const float scale_log2 = scale * kLog2e;
  // Output: this thread's rows are held_row + r * kRowThreads, its chunks held_chunk + c * kLanesD.
  const int held_row = member / kLanesD, held_chunk = member % kLanesD;
  float o[kRowsHeld][kChunksHeld][8] = {};
  auto column_of = [&](int d) { return (warp_n + d * kWarpsN) * 16; };
  auto out_at = [&](int m, int d) { return out + ((tile_row + m * 16) * kOutPitch + column_of(d)) * 4; };

#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    const u32 k_tile = ring + j % kStages * (kKeyBytes + kValueBytes);
    const u32 v_tile = k_tile + kKeyBytes;
    ef::cp_async_wait<0>();
    ef::syncthreads();  // tile j is here for every thread, and every warp has left tile j - 1
    fetch(j + kStages - 1);

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
      const int columns = seq_kv - j * BLOCK_N;  // of this tile that there are
      float s[BLOCK_N / kLanesPerRow];
      float best = row_max[i];
#pragma unroll
      for (int p = 0; p < BLOCK_N / kLanesPerRow; p += 2) {
        const int column = p * kLanesPerRow + part * 2;
        const Pair pair = ef::lds<Pair>(scores + (row * kScorePitch + column) * 4);
        s[p] = column < columns ? pair.x : ef::neg_inf();
        s[p + 1] = column + 1 < columns ? pair.y : ef::neg_inf();
        best = ef::fmax(best, ef::fmax(s[p], s[p + 1]));
      }
      best = row_maximum(best);
      const float shift = best == ef::neg_inf() ? 0.0f : ef::mul(best, scale_log2);
      const float shrink = ef::ex2(ef::sub(ef::mul(row_max[i], scale_log2), shift));
      row_max[i] = best;
      row_sum[i] *= shrink;
#pragma unroll
      for (int p = 0; p < BLOCK_N / kLanesPerRow; p += 2) {
        const float x = ef::ex2(ef::fma(s[p], scale_log2, -shift));
        const float y = ef::ex2(ef::fma(s[p + 1], scale_log2, -shift));
        row_sum[i] += x + y;
        ef::sts(probs + (row * kProbPitch + p * kLanesPerRow + part * 2) * 2, ef::pack2(x, y, element()));
      }
      if (part == 0) ef::sts(shrinks + row * 4, shrink);
    }
    ef::syncthreads();  // the probabilities are here

    // P V, through shared memory to the threads that own the rows.
    ef::wmma_c product[kTilesM][kTilesD];
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int d = 0; d < kTilesD; ++d) ef::wmma_fill(product[m][d], 0.0f);
#pragma unroll 1
    for (int k = 0; k < BLOCK_N / 16; ++k) {
      ef::wmma_a<element> p[kTilesM];
#pragma unroll
      for (int m = 0; m < kTilesM; ++m)
        ef::wmma_load_a(p[m], probs + ((tile_row + m * 16) * kProbPitch + k * 16) * 2, kProbPitch);
#pragma unroll
      for (int d = 0; d < kTilesD; ++d) {
        ef::wmma_b_row<element> v;
        ef::wmma_load_b_row(v, v_tile + (k * 16 * kRowPitch + column_of(d)) * 2, kRowPitch);
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) ef::wmma_mma(product[m][d], p[m], v);
      }
    }
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int d = 0; d < kTilesD; ++d) ef::wmma_store_c(out_at(m, d), product[m][d], kOutPitch);
    ef::syncthreads();  // the product is here
    // O = O shrink + P V
#pragma unroll
    for (int r = 0; r < kRowsHeld; ++r) {
      const int row = held_row + r * kRowThreads;
      const float shrink = ef::lds<float>(shrinks + row * 4);
#pragma unroll
      for (int c = 0; c < kChunksHeld; ++c) {
        const u32 at = out + (row * kOutPitch + (held_chunk + c * kLanesD) * 8) * 4;
        const Quad lo = ef::lds<Quad>(at), hi = ef::lds<Quad>(at + 16);
        const float sum[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
#pragma unroll
        for (int e = 0; e < 8; ++e) o[r][c][e] = ef::fma(o[r][c][e], shrink, sum[e]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const int row = first_row + i * kRowGroups;
    const float sum = row_total(row_sum[i]);
    if (part == 0) ef::sts(inverses + row * 4, sum == 0.0f ? 0.0f : ef::rcp(sum));  // a fully masked row gives O = 0
    if (LSE && part == 0 && block_row + row < seq_q) {
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
        const ef::u32x4 packed = {
            ef::pack2(sum[0] * inverse, sum[1] * inverse, element()),
            ef::pack2(sum[2] * inverse, sum[3] * inverse, element()),
            ef::pack2(sum[4] * inverse, sum[5] * inverse, element()),
            ef::pack2(sum[6] * inverse, sum[7] * inverse, element())};
        ef::stg((ef::u32x4*)target, packed);
      }
    }
  }
}
EF_EXPORT_KERNEL(flash_wmma)
