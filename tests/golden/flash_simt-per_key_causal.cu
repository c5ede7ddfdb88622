// flash_simt: Scalar online-softmax attention on FP32 fused multiply-adds, no tensor cores; lanes_per_row lanes share a row.
// genome 31160e1457f39e7c (family version 1), for d=80,dtype=bf16,causal,gqa=4,sm_89, by evoflash 0.1.0
// bands=1 batch=1 ctas_per_sm=1 epilogue=vector exp_form=exp2 kv_home=global lanes_per_row=2
// q_home=registers rows_per_lane=1 skip_masked=True softmax=online_per_key split=keys unroll=1 vec=8
// warps=1
#include "ef.h"

using ef::u32;
using element = ef::bf16;
using packed = ef::u32x4;  // kVec elements, as they are loaded

constexpr int kHeadDim = 80;
constexpr int kGqaRatio = 4;  // query heads per key/value head
constexpr int kWarps = 1;
constexpr int kThreads = 32 * kWarps;
constexpr int kLanes = 2;  // that share a query row
constexpr int kRows = 1;  // query rows of a lane
constexpr int BLOCK_M = kThreads / kLanes * kRows;
constexpr int kVec = 8;
constexpr int kSlice = kHeadDim / kLanes;  // elements of an output row in one lane
constexpr int kQuery = kHeadDim;  // elements of a query row that a lane multiplies
constexpr int kBatch = 1;  // keys that a lane scores at a time
constexpr int kStep = kBatch * kLanes;  // keys that the lanes of a row score at a time
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// The floats of one load.
EF_DEV void unpack(float (&x)[kVec], packed loaded) {
  ef::unpack2(x[0], x[1], loaded.x, element());
  ef::unpack2(x[2], x[3], loaded.y, element());
  ef::unpack2(x[4], x[5], loaded.z, element());
  ef::unpack2(x[6], x[7], loaded.w, element());
}

// Load `chunk` of row `row` of a matrix; a row past the end stands in for the last one, and is masked later.
EF_DEV packed load_chunk(const element* matrix, long long row_stride, int row, int rows, int chunk) {
  return ef::ldg((const packed*)(matrix + (row < rows ? row : rows - 1) * row_stride) + chunk);
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

// Raw scores of this lane's keys, first + sub + b * kLanes, with each of its rows.
EF_DEV void score(float (&s)[kRows][kBatch], const float (&q)[kRows][kQuery],
                  const element* matrix, long long row_stride, int first, int seq_kv) {
  const int sub = threadIdx.x % kLanes;
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int b = 0; b < kBatch; ++b) s[r][b] = 0.0f;
#pragma unroll
  for (int c = 0; c < kQuery / kVec; ++c) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      float k[kVec];
      unpack(k, load_chunk(matrix, row_stride, first + b * kLanes + sub, seq_kv, c));
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int e = 0; e < kVec; ++e) s[r][b] = ef::fma(q[r][c * kVec + e], k[e], s[r][b]);
    }
  }
}

// O += weights * V for one key.
EF_DEV void add_value(float (&o)[kRows][kSlice], const float (&weights)[kRows],
                      const element* matrix, long long row_stride, int first, int seq_kv) {
  const int sub = threadIdx.x % kLanes;
#pragma unroll
  for (int c = 0; c < kSlice / kVec; ++c) {
    float v[kVec];
    unpack(v, load_chunk(matrix, row_stride, first, seq_kv, c * kLanes + sub));
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int e = 0; e < kVec; ++e) o[r][c * kVec + e] = ef::fma(weights[r], v[e], o[r][c * kVec + e]);
  }
}

// Takes one score into a row: what the row has so far shrinks, the key's weight comes back.
EF_DEV float take(float score, float& row_max, float& row_sum, float (&o)[kSlice], float scale) {
  const float best = ef::fmax(row_max, score), shift = shift_of(best, scale);
  const float shrink = shrink_of(row_max, scale, shift), mine = weight(score, scale, shift);
  row_max = best;
  row_sum = ef::fma(row_sum, shrink, mine);
#pragma unroll
  for (int i = 0; i < kSlice; ++i) o[i] *= shrink;
  return mine;
}

// Q, O: (batch, heads, seq_q, head_dim); K, V: (batch, kv_heads, seq_kv, head_dim); strides in elements.
// LSE: dense (batch, heads, seq_q), natural logarithm, may be null.
// Causal, bottom-right aligned: query i sees keys j <= i + seq_kv - seq_q.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_simt(const element* Q, const element* K, const element* V, element* O, float* LSE,
           int seq_q, int seq_kv, int heads, int kv_heads,
           long long q_batch, long long q_head, long long q_row,
           long long k_batch, long long k_head, long long k_row,
           long long v_batch, long long v_head, long long v_row,
           long long o_batch, long long o_head, long long o_row, float scale) {
  const int head = blockIdx.y, batch = blockIdx.z;
  const int sub = threadIdx.x % kLanes;  // this lane's place among those that share its rows
  // The last query block sees the most keys: it is launched first, so that the short ones fill the end.
  const int block_row = (int(gridDim.x) - 1 - int(blockIdx.x)) * BLOCK_M;
  Q += batch * q_batch + head * q_head;
  K += batch * k_batch + (head / kGqaRatio) * k_head;
  V += batch * v_batch + (head / kGqaRatio) * v_head;
  O += batch * o_batch + head * o_head;
  const int diagonal = seq_kv - seq_q;
  const float scale_log2 = scale * kLog2e;

  // Keys to walk: those that the last row of these sees; what lies beyond is never touched.
  const int last_row = (block_row + BLOCK_M < seq_q ? block_row + BLOCK_M : seq_q) - 1;
  const int visible = last_row + diagonal + 1 > 0 ? last_row + diagonal + 1 : 0;
  const int keys = visible;

  const int first_row = block_row + threadIdx.x / kLanes * kRows;  // of this lane
  int limit[kRows];  // keys that each row sees
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int seen = first_row + r + diagonal + 1;
    limit[r] = seen < seq_kv ? seen : seq_kv;
  }
  const element* q_at[kRows];  // rows past the end stand in for the last one and are never stored
#pragma unroll
  for (int r = 0; r < kRows; ++r) q_at[r] = Q + (first_row + r < seq_q ? first_row + r : seq_q - 1) * q_row;
  float q[kRows][kQuery];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kQuery / kVec; ++c) {
      float x[kVec];
      unpack(x, ef::ldg((const packed*)q_at[r] + c));
#pragma unroll
      for (int e = 0; e < kVec; ++e) q[r][c * kVec + e] = x[e];
    }

  float o[kRows][kSlice] = {};
  float row_max[kRows], row_sum[kRows] = {};  // maxima in units of the raw scores
#pragma unroll
  for (int r = 0; r < kRows; ++r) row_max[r] = ef::neg_inf();

#pragma unroll 1
  for (int first = 0; first < keys; first += kStep) {
    float s[kRows][kBatch];
    score(s, q, K, k_row, first, seq_kv);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        if (first + b * kLanes + sub >= limit[r]) s[r][b] = ef::neg_inf();
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
#pragma unroll 1
      for (int source = 0; source < kLanes; ++source) {
        float weights[kRows];  // made from the lane that scored the key
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          weights[r] = ef::shfl_idx(s[r][b], threadIdx.x % 32 - sub + source);
          weights[r] = take(weights[r], row_max[r], row_sum[r], o[r], scale_log2);
        }
        add_value(o, weights, V, v_row, first + b * kLanes + source, seq_kv);
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
        ef::stg((packed*)target, packed{pairs[0], pairs[1], pairs[2], pairs[3]});
      }
    }
  }
}
EF_EXPORT_KERNEL(flash_simt)
