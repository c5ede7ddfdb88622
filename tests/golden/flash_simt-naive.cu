// flash_simt: Scalar online-softmax attention on FP32 fused multiply-adds, no tensor cores; lanes_per_row lanes share a row.
// genome c7845df2d336227a (family version 1), for d=64,dtype=fp16,full,gqa=1,sm_89, by evoflash 0.1.0
// bands=1 batch=1 ctas_per_sm=1 exp_form=exp kv_home=global lanes_per_row=1 q_home=global rows_per_lane=1
// softmax=online unroll=1 vec=1 warps=4
#include "ef.h"

using ef::u32;
using element = ef::f16;
using packed = element;  // kVec elements, as they are loaded

constexpr int kHeadDim = 64;
constexpr int kGqaRatio = 1;  // query heads per key/value head
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = 1;  // query rows of a lane
constexpr int BLOCK_M = kThreads * kRows;
constexpr int kVec = 1;
constexpr int kSlice = kHeadDim;  // elements of an output row in one lane
constexpr int kBatch = 1;  // keys that a lane scores at a time
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// The floats of one load.
EF_DEV void unpack(float (&x)[kVec], packed loaded) {
  x[0] = ef::to_f32(loaded);
}

// Load `chunk` of row `row` of a matrix; a row past the end stands in for the last one, and is masked later.
EF_DEV packed load_chunk(const element* matrix, long long row_stride, int row, int rows, int chunk) {
  return ef::ldg((const packed*)(matrix + (row < rows ? row : rows - 1) * row_stride) + chunk);
}

// e^(scale * score - shift).
EF_DEV float weight(float score, float scale, float shift) {
  return ef::ex2(ef::fma(score, scale, -shift) * kLog2e);
}

// What a row's weights are shifted by; a row that has seen no key yet has no maximum.
EF_DEV float shift_of(float row_max, float scale) {
  return row_max == ef::neg_inf() ? 0.0f : ef::mul(row_max, scale);
}

// How much a row shrinks when its shift grows; exactly 1 when it stays, or every key would add a rounding error.
EF_DEV float shrink_of(float row_max, float scale, float shift) {
  return row_max == ef::neg_inf() ? 0.0f : ef::ex2((shift_of(row_max, scale) - shift) * kLog2e);
}

// Raw scores of keys [first, first + kBatch) with each row of the lane.
EF_DEV void score(float (&s)[kRows][kBatch], const element* const (&q_at)[kRows],
                  const element* matrix, long long row_stride, int first, int seq_kv) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int b = 0; b < kBatch; ++b) s[r][b] = 0.0f;
#pragma unroll 1
  for (int c = 0; c < kSlice / kVec; ++c) {
    float q[kRows][kVec];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      unpack(q[r], ef::ldg((const packed*)q_at[r] + c));
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      float k[kVec];
      unpack(k, load_chunk(matrix, row_stride, first + b, seq_kv, c));
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int e = 0; e < kVec; ++e) s[r][b] = ef::fma(q[r][e], k[e], s[r][b]);
    }
  }
}

// O += weights * V for one key.
EF_DEV void add_value(float (&o)[kRows][kSlice], const float (&weights)[kRows],
                      const element* matrix, long long row_stride, int first, int seq_kv) {
#pragma unroll
  for (int c = 0; c < kSlice / kVec; ++c) {
    float v[kVec];
    unpack(v, load_chunk(matrix, row_stride, first, seq_kv, c));
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
  const int block_row = int(blockIdx.x) * BLOCK_M;
  Q += batch * q_batch + head * q_head;
  K += batch * k_batch + (head / kGqaRatio) * k_head;
  V += batch * v_batch + (head / kGqaRatio) * v_head;
  O += batch * o_batch + head * o_head;

  // Keys to walk: all of them.
  const int keys = seq_kv;

  const int first_row = block_row + threadIdx.x * kRows;  // of this lane
  const element* q_at[kRows];  // rows past the end stand in for the last one and are never stored
#pragma unroll
  for (int r = 0; r < kRows; ++r) q_at[r] = Q + (first_row + r < seq_q ? first_row + r : seq_q - 1) * q_row;

  float o[kRows][kSlice] = {};
  float row_max[kRows], row_sum[kRows] = {};  // maxima in units of the raw scores
#pragma unroll
  for (int r = 0; r < kRows; ++r) row_max[r] = ef::neg_inf();

#pragma unroll 1
  for (int first = 0; first < keys; first += kBatch) {
    float s[kRows][kBatch];
    score(s, q_at, K, k_row, first, seq_kv);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        if (first + b >= seq_kv) s[r][b] = ef::neg_inf();
#pragma unroll
    for (int r = 0; r < kRows; ++r) take(s[r], row_max[r], row_sum[r], o[r], scale);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      float weights[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        weights[r] = s[r][b];
      add_value(o, weights, V, v_row, first + b, seq_kv);
    }
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = row_sum[r];
    const float inverse = sum == 0.0f ? 0.0f : ef::rcp(sum);  // a fully masked row gives O = 0
    const int row = first_row + r;
    if (row < seq_q) {
      if (LSE) {
        const float lse = sum == 0.0f ? ef::neg_inf() : row_max[r] * scale + ef::lg2(sum) * kLn2;
        ef::stg(LSE + ((long long)batch * heads + head) * seq_q + row, lse);
      }
#pragma unroll
      for (int c = 0; c < kSlice / kVec; ++c) {
        element* target = O + row * o_row + c * kVec;
#pragma unroll
        for (int e = 0; e < kVec; ++e) ef::stg(target + e, ef::from_f32(o[r][c * kVec + e] * inverse, element()));
      }
    }
  }
}
EF_EXPORT_KERNEL(flash_simt)
