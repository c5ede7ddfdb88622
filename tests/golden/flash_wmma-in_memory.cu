// flash_wmma: Forward attention on WMMA 16x16x16 tiles: scores and probabilities pass through shared memory.
// genome 83be6e2c39be8037 (family version 1), for d=80,dtype=bf16,causal,gqa=4,sm_90a, by evoflash 0.1.0
// block_m=48 block_n=32 copy=sync ctas_per_sm=1 epilogue=vectorised k_layout=transposed o_home=smem pad=16
// pv=wmma q_home=fragments rescale=online rows_per_warp=16 softmax=serial unroll=1 vec=16 warps_n=2
#include "ef.h"

using ef::u32;
using element = ef::bf16;
struct alignas(8) Pair {
  float x, y;
};
struct alignas(16) Quad {
  float x, y, z, w;
};

constexpr int kHeadDim = 80;
constexpr int kGqaRatio = 4;  // query heads per key/value head
constexpr int BLOCK_M = 48;
constexpr int BLOCK_N = 32;
constexpr int kRowsPerWarp = 16;
constexpr int kWarpsM = BLOCK_M / kRowsPerWarp, kWarpsN = 2;  // the warps' grid over a tile of scores
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kTilesM = kRowsPerWarp / 16;  // 16x16 tiles of the scores that a warp multiplies
constexpr int kTilesN = BLOCK_N / (16 * kWarpsN);
constexpr int kTilesD = 3;  // and of the output, side by side
// Rows in shared memory, in elements. WMMA wants them at multiples of a fragment's size: 32 bytes of f16 or
// float, 16 of bf16.
constexpr int kRowPitch = kHeadDim + 16;
constexpr int kProbPitch = BLOCK_N + 16;
constexpr int kScorePitch = BLOCK_N + 8;
constexpr int kOutPitch = kHeadDim + 8;
constexpr u32 kKeyBytes = kHeadDim * kProbPitch * 2;  // K transposed: a row of it is a column of head_dim
constexpr u32 kValueBytes = BLOCK_N * kRowPitch * 2;
// All threads share all rows: scores, softmax and output are handed over at block barriers.
constexpr int kOwners = kThreads;
constexpr int kOwnedRows = BLOCK_M;
constexpr int kRowGroups = kOwners;  // one thread a row
constexpr int kRowsEach = (kOwnedRows + kRowGroups - 1) / kRowGroups;
// A thread's part of the output: every kRowThreads-th row, every kLanesD-th chunk of 8 columns.
constexpr int kLanesD = 2;
constexpr int kRowThreads = kOwners / kLanesD;
constexpr int kRowsHeld = (kOwnedRows + kRowThreads - 1) / kRowThreads;
constexpr int kChunksHeld = kHeadDim / 8 / kLanesD;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// Copies rows [first, first + ROWS) of a matrix into a tile, 16 bytes at a time; rows from `rows` on become zeros.
template <int ROWS>
EF_DEV void copy_tile(u32 tile, const element* matrix, long long row_stride, int first, int rows) {
  constexpr int kElements = 8, kPieces = kHeadDim / kElements;
#pragma unroll 4
  for (int i = threadIdx.x; i < ROWS * kPieces; i += kThreads) {
    const int row = i / kPieces, column = i % kPieces * kElements;
    const bool inside = first + row < rows;
    const element* source = matrix + (inside ? (first + row) * row_stride : 0) + column;
    ef::sts(tile + (row * kRowPitch + column) * 2, inside ? ef::ldg((const ef::u32x4*)source) : ef::u32x4{});
  }
}

// Copies a K tile and turns it over: keys run along the rows. Neighbouring threads take neighbouring keys, so
// that their stores meet in no bank.
EF_DEV void copy_keys(u32 tile, const element* matrix, long long row_stride, int first, int rows) {
  constexpr int kElements = 8, kPieces = kHeadDim / kElements;
  union Piece {
    ef::u32x4 whole;
    element each[kElements];
  };
#pragma unroll 4
  for (int i = threadIdx.x; i < BLOCK_N * kPieces; i += kThreads) {
    const int key = i % BLOCK_N, column = i / BLOCK_N * kElements;
    Piece piece = {};
    const element* source = matrix + (first + key) * row_stride + column;
    if (first + key < rows) piece.whole = ef::ldg((const ef::u32x4*)source);
#pragma unroll
    for (int e = 0; e < kElements; ++e) ef::sts(tile + ((column + e) * kProbPitch + key) * 2, piece.each[e]);
  }
}

// Q, O: (batch, heads, seq_q, head_dim); K, V: (batch, kv_heads, seq_kv, head_dim); strides in elements.
// LSE: dense (batch, heads, seq_q), natural logarithm, may be null.
// Causal, bottom-right aligned: query i sees keys j <= i + seq_kv - seq_q.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_wmma(const element* Q, const element* K, const element* V, element* O, float* LSE,
           int seq_q, int seq_kv, int heads, int kv_heads,
           long long q_batch, long long q_head, long long q_row,
           long long k_batch, long long k_head, long long k_row,
           long long v_batch, long long v_head, long long v_row,
           long long o_batch, long long o_head, long long o_row, float scale) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / kWarpsN, warp_n = warp % kWarpsN;
  const int tile_row = warp_m * kRowsPerWarp;  // of the warp's tiles, within the block
  const int head = blockIdx.y, batch = blockIdx.z;
  // The last query block sees the most keys: it is launched first, so that the short ones fill the end.
  const int block_row = (int(gridDim.x) - 1 - int(blockIdx.x)) * BLOCK_M;
  Q += batch * q_batch + head * q_head;
  K += batch * k_batch + (head / kGqaRatio) * k_head;
  V += batch * v_batch + (head / kGqaRatio) * v_head;
  O += batch * o_batch + head * o_head;

  const u32 q_tile = ef::smem_base();
  const u32 k_tile = q_tile + BLOCK_M * kRowPitch * 2;
  const u32 v_tile = k_tile + kKeyBytes;
  const u32 scores = v_tile + kValueBytes;
  const u32 out = scores + BLOCK_M * kScorePitch * 4;
  const u32 probs = out + BLOCK_M * kOutPitch * 4;
  const u32 shrinks = probs + BLOCK_M * kProbPitch * 2;  // by how much each row's output shrinks in this step
  const u32 inverses = shrinks + BLOCK_M * 4;  // 1 / sum of each row, at the end

  // Keys that the block's last row sees; tiles beyond it are never touched.
  const int diagonal = seq_kv - seq_q;
  const int last_row = (block_row + BLOCK_M < seq_q ? block_row + BLOCK_M : seq_q) - 1;
  const int visible = last_row + diagonal + 1 > 0 ? last_row + diagonal + 1 : 0;
  const int tiles = (visible + BLOCK_N - 1) / BLOCK_N;

  if (tiles > 0) copy_tile<BLOCK_M>(q_tile, Q, q_row, block_row, seq_q);

  // Q stays in fragments for the whole loop.
  ef::wmma_a<element> q[kTilesM][kHeadDim / 16];
  ef::syncthreads();
  if (tiles > 0) {
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int k = 0; k < kHeadDim / 16; ++k)
        ef::wmma_load_a(q[m][k], q_tile + ((tile_row + m * 16) * kRowPitch + k * 16) * 2, kRowPitch);
  }

  const int member = threadIdx.x;
  // Softmax: this thread's rows are first_row + i * kRowGroups.
  const int first_row = member;
  float row_max[kRowsEach], row_sum[kRowsEach] = {};  // maxima in units of the raw scores
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) row_max[i] = ef::neg_inf();
  const float scale_log2 = scale * kLog2e;
  // Output: this thread's rows are held_row + r * kRowThreads, its chunks held_chunk + c * kLanesD.
  const int held_row = member / kLanesD, held_chunk = member % kLanesD;
  // Tile d of the output: the warps of a row take turns, and the last turn is not everybody's.
  auto column_of = [&](int d) { return (warp_n + d * kWarpsN) * 16; };
  auto out_at = [&](int m, int d) { return out + ((tile_row + m * 16) * kOutPitch + column_of(d)) * 4; };
  // Shrinks the warp's tiles of the output in shared memory, where the rows are known.
  auto shrink_output = [&] {
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = lane / 4 + half * 8;
        const float shrink = ef::lds<float>(shrinks + (tile_row + m * 16 + row) * 4);
#pragma unroll
        for (int d = 0; d < kTilesD; ++d) if (column_of(d) < kHeadDim) {
          const u32 at = out_at(m, d) + (row * kOutPitch + lane % 4 * 4) * 4;
          const Quad before = ef::lds<Quad>(at);
          ef::sts(at, Quad{before.x * shrink, before.y * shrink, before.z * shrink, before.w * shrink});
        }
      }
    ef::syncwarp();
  };
  {
    ef::wmma_c zero;
    ef::wmma_fill(zero, 0.0f);
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int d = 0; d < kTilesD; ++d) if (column_of(d) < kHeadDim) ef::wmma_store_c(out_at(m, d), zero, kOutPitch);
    ef::syncwarp();
  }

#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    copy_keys(k_tile, K, k_row, j * BLOCK_N, seq_kv);
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
#pragma unroll
      for (int k = 0; k < kHeadDim / 16; ++k) {
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          const int key = (warp_n * kTilesN + n) * 16;
          ef::wmma_b_row<element> b;
          ef::wmma_load_b_row(b, k_tile + (k * 16 * kProbPitch + key) * 2, kProbPitch);
#pragma unroll
          for (int m = 0; m < kTilesM; ++m) ef::wmma_mma(s[m][n], q[m][k], b);
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
      const int row_limit = block_row + row + diagonal + 1;
      const int columns = (row_limit < seq_kv ? row_limit : seq_kv) - j * BLOCK_N;  // of this tile that the row sees
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

    // O = O shrink + P V, from shared memory and back.
    shrink_output();
    ef::wmma_c o[kTilesM][kTilesD];
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int d = 0; d < kTilesD; ++d) if (column_of(d) < kHeadDim) ef::wmma_load_c(o[m][d], out_at(m, d), kOutPitch);
#pragma unroll 1
    for (int k = 0; k < BLOCK_N / 16; ++k) {
      ef::wmma_a<element> p[kTilesM];
#pragma unroll
      for (int m = 0; m < kTilesM; ++m)
        ef::wmma_load_a(p[m], probs + ((tile_row + m * 16) * kProbPitch + k * 16) * 2, kProbPitch);
#pragma unroll
      for (int d = 0; d < kTilesD; ++d) if (column_of(d) < kHeadDim) {
        ef::wmma_b_row<element> v;
        ef::wmma_load_b_row(v, v_tile + (k * 16 * kRowPitch + column_of(d)) * 2, kRowPitch);
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) ef::wmma_mma(o[m][d], p[m], v);
      }
    }
    ef::syncwarp();  // WMMA does not say which lanes have read what is now overwritten
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int d = 0; d < kTilesD; ++d) if (column_of(d) < kHeadDim) ef::wmma_store_c(out_at(m, d), o[m][d], kOutPitch);
    ef::syncwarp();
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
    if (held_row + r * kRowThreads < kOwnedRows && block_row + row < seq_q) {
      const float inverse = ef::lds<float>(inverses + row * 4);
#pragma unroll
      for (int c = 0; c < kChunksHeld; ++c) {
        const int column = (held_chunk + c * kLanesD) * 8;
        element* target = O + (block_row + row) * o_row + column;
        const u32 at = out + (row * kOutPitch + column) * 4;
        const Quad lo = ef::lds<Quad>(at), hi = ef::lds<Quad>(at + 16);
        const float sum[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
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
