// flash_simt: Scalar online-softmax attention on FP32 fused multiply-adds, no tensor cores; lanes_per_row lanes share a row.
// genome f92351196992e4c5 (family version 1), for d=64,dtype=fp16,full,gqa=1,sm_89, by evoflash 0.1.0
// bands=1 batch=4 block_n=32 ctas_per_sm=1 epilogue=vector exp_form=exp2 kv_home=smem_async
// lanes_per_row=4 pad=0 q_home=registers reduction=shuffle rows_per_lane=1 smem_home=dynamic
// softmax=online split=dims stages=2 unroll=1 vec=4 warps=4
#include "ef.h"

using ef::u32;
using element = ef::f16;
using packed = ef::u32x2;  // kVec elements, as they are loaded

constexpr int kHeadDim = 64;
constexpr int kGqaRatio = 1;  // query heads per key/value head
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kLanes = 4;  // that share a query row
constexpr int kRows = 1;  // query rows of a lane
constexpr int BLOCK_M = kThreads / kLanes * kRows;
constexpr int kVec = 4;
constexpr int kSlice = kHeadDim / kLanes;  // elements of an output row in one lane
constexpr int kQuery = kSlice;  // elements of a query row that a lane multiplies
constexpr int kBatch = 4;  // keys that a lane scores at a time
constexpr int BLOCK_N = 32;
constexpr int kStages = 2;  // slots of the ring; one holds a K tile and its V tile
constexpr u32 kRowBytes = 2 * kHeadDim;
constexpr u32 kTileBytes = BLOCK_N * kRowBytes;

// Shared memory, in bytes from its beginning.
constexpr u32 kTilesAt = 0;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// Shared address of byte `offset`.
EF_DEV u32 shared_at(u32 offset) {
  return ef::smem_base() + offset;
}

// The floats of one load.
EF_DEV void unpack(float (&x)[kVec], packed loaded) {
  ef::unpack2(x[0], x[1], loaded.x, element());
  ef::unpack2(x[2], x[3], loaded.y, element());
}

// Load `chunk` of row `row` in a tile.
EF_DEV packed load_chunk(u32 tile, int row, int chunk) {
  return ef::lds<packed>(tile + row * kRowBytes + chunk * u32(sizeof(packed)));
}

// Starts the copy of rows [first, first + BLOCK_N) of a matrix to a tile; rows from `rows` on become zeros.
EF_DEV void copy_tile(u32 tile, const element* matrix, long long row_stride, int first, int rows) {
  for (int i = threadIdx.x; i < BLOCK_N * kHeadDim / 8; i += kThreads) {
    const int row = i / (kHeadDim / 8), column = i % (kHeadDim / 8) * 8;
    const bool inside = first + row < rows;
    const element* source = matrix + (inside ? (first + row) * row_stride : 0) + column;
    ef::cp_async16_zfill(tile + row * kRowBytes + 2 * column, source, inside);
  }
}

// Sum over the lanes that share a row.
EF_DEV float sum_over_lanes(float x) {
#pragma unroll
  for (int mask = 1; mask < kLanes; mask *= 2) x = x + ef::shfl_xor(x, mask);
  return x;
}

// e^(scale * score - shift), with log2 e in both already.
EF_DEV float weight(float score, float scale, float shift) {
  return ef::ex2(ef::fma(score, scale, -shift));
}

// What a row's weights are shifted by; a row that has seen no key yet has no maximum.
EF_DEV float shift_of(float row_max, float scale) {
  return row_max == ef::neg_inf() ? 0.0f : ef::mul(row_max, scale);
}

// How much a row shrinks when its shift grows; exactly 1 when it stays, or every key would add a rounding error.
EF_DEV float shrink_of(float row_max, float scale, float shift) {
  return row_max == ef::neg_inf() ? 0.0f : ef::ex2(shift_of(row_max, scale) - shift);
}

// Raw scores of keys [first, first + kBatch) with each row of the lane.
EF_DEV void score(float (&s)[kRows][kBatch], const float (&q)[kRows][kQuery],
                  u32 tile, int first) {
  const int sub = threadIdx.x % kLanes;
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int b = 0; b < kBatch; ++b) s[r][b] = 0.0f;
#pragma unroll
  for (int c = 0; c < kSlice / kVec; ++c) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      float k[kVec];
      unpack(k, load_chunk(tile, first + b, c * kLanes + sub));
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int e = 0; e < kVec; ++e) s[r][b] = ef::fma(q[r][c * kVec + e], k[e], s[r][b]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int b = 0; b < kBatch; ++b) s[r][b] = sum_over_lanes(s[r][b]);
}

// O += weights * V for one key.
EF_DEV void add_value(float (&o)[kRows][kSlice], const float (&weights)[kRows],
                      u32 tile, int first) {
  const int sub = threadIdx.x % kLanes;
#pragma unroll
  for (int c = 0; c < kSlice / kVec; ++c) {
    float v[kVec];
    unpack(v, load_chunk(tile, first, c * kLanes + sub));
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int e = 0; e < kVec; ++e) o[r][c * kVec + e] = ef::fma(weights[r], v[e], o[r][c * kVec + e]);
  }
}

// Takes a batch of scores into a row: what the row has so far shrinks, the scores become weights.
EF_DEV void take(float (&s)[kBatch], float& row_max, float& row_sum, float (&o)[kSlice], float scale) {
  float best = row_max;
#pragma unroll
  for (int b = 0; b < kBatch; ++b) best = ef::fmax(best, s[b]);
  const float shift = shift_of(best, scale), shrink = shrink_of(row_max, scale, shift);
  row_max = best;
  row_sum *= shrink;
#pragma unroll
  for (int i = 0; i < kSlice; ++i) o[i] *= shrink;
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    s[b] = weight(s[b], scale, shift);
    row_sum += s[b];
  }
}

// Q, O: (batch, heads, seq_q, head_dim); K, V: (batch, kv_heads, seq_kv, head_dim); strides in elements.
// LSE: dense (batch, heads, seq_q), natural logarithm, may be null.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_simt(const element* Q, const element* K, const element* V, element* O, float* LSE,
           int seq_q, int seq_kv, int heads, int kv_heads,
           long long q_batch, long long q_head, long long q_row,
           long long k_batch, long long k_head, long long k_row,
           long long v_batch, long long v_head, long long v_row,
           long long o_batch, long long o_head, long long o_row, float scale) {
  const int head = blockIdx.y, batch = blockIdx.z;
  const int sub = threadIdx.x % kLanes;  // this lane's place among those that share its rows
  const int block_row = int(blockIdx.x) * BLOCK_M;
  Q += batch * q_batch + head * q_head;
  K += batch * k_batch + (head / kGqaRatio) * k_head;
  V += batch * v_batch + (head / kGqaRatio) * v_head;
  O += batch * o_batch + head * o_head;
  const float scale_log2 = scale * kLog2e;

  // Keys to walk: all of them.
  const int tiles = (seq_kv + BLOCK_N - 1) / BLOCK_N;
  // One commit group a step: K tile and V tile together. Past the end the group is empty.
  auto fetch = [&](int tile) {
    if (tile < tiles) {
      const u32 slot = shared_at(kTilesAt) + tile % kStages * (2 * kTileBytes);
      copy_tile(slot, K, k_row, tile * BLOCK_N, seq_kv);
      copy_tile(slot + kTileBytes, V, v_row, tile * BLOCK_N, seq_kv);
    }
    ef::cp_async_commit();
  };

  const int first_row = block_row + threadIdx.x / kLanes * kRows;  // of this lane
  const element* q_at[kRows];  // rows past the end stand in for the last one and are never stored
#pragma unroll
  for (int r = 0; r < kRows; ++r) q_at[r] = Q + (first_row + r < seq_q ? first_row + r : seq_q - 1) * q_row;
  float q[kRows][kQuery];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kQuery / kVec; ++c) {
      float x[kVec];
      unpack(x, ef::ldg((const packed*)q_at[r] + c * kLanes + sub));
#pragma unroll
      for (int e = 0; e < kVec; ++e) q[r][c * kVec + e] = x[e];
    }

  float o[kRows][kSlice] = {};
  float row_max[kRows], row_sum[kRows] = {};  // maxima in units of the raw scores
#pragma unroll
  for (int r = 0; r < kRows; ++r) row_max[r] = ef::neg_inf();

  fetch(0);
#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    const u32 k_tile = shared_at(kTilesAt) + j % kStages * (2 * kTileBytes);
    const u32 v_tile = k_tile + kTileBytes;
    ef::cp_async_wait<0>();
    ef::syncthreads();  // tile j is here for every thread, and every warp has left tile j - 1
    fetch(j + 1);
#pragma unroll 1
    for (int first = 0; first < BLOCK_N; first += kBatch) {
      float s[kRows][kBatch];
      score(s, q, k_tile, first);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int b = 0; b < kBatch; ++b)
          if (j * BLOCK_N + first + b >= seq_kv) s[r][b] = ef::neg_inf();
#pragma unroll
      for (int r = 0; r < kRows; ++r) take(s[r], row_max[r], row_sum[r], o[r], scale_log2);
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        float weights[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          weights[r] = s[r][b];
        add_value(o, weights, v_tile, first + b);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = row_sum[r];
    const float inverse = sum == 0.0f ? 0.0f : ef::rcp(sum);  // a fully masked row gives O = 0
    const int row = first_row + r;
    if (row < seq_q) {
      if (LSE && sub == 0) {
        const float lse = sum == 0.0f ? ef::neg_inf() : row_max[r] * scale + ef::lg2(sum) * kLn2;
        ef::stg(LSE + ((long long)batch * heads + head) * seq_q + row, lse);
      }
#pragma unroll
      for (int c = 0; c < kSlice / kVec; ++c) {
        element* target = O + row * o_row + (c * kLanes + sub) * kVec;
        u32 pairs[kVec / 2];
#pragma unroll
        for (int e = 0; e < kVec; e += 2)
          pairs[e / 2] = ef::pack2(o[r][c * kVec + e] * inverse, o[r][c * kVec + e + 1] * inverse, element());
        ef::stg((packed*)target, packed{pairs[0], pairs[1]});
      }
    }
  }
}
EF_EXPORT_KERNEL(flash_simt)
