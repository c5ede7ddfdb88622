// flash_simt: Scalar online-softmax attention on FP32 fused multiply-adds, no tensor cores; lanes_per_row lanes share a row.
// genome aa78a63f7ef356c1 (family version 1), for d=80,dtype=bf16,causal,gqa=4,sm_89, by evoflash 0.1.0
// bands=2 batch=2 block_n=16 ctas_per_sm=1 epilogue=vector exp_form=exp2 kv_home=smem lanes_per_row=4
// loop_order=kv_outer pad=8 q_home=smem reduction=serial rows_per_lane=1 skip_masked=True smem_home=static
// softmax=two_pass split=keys sync=block unroll=1 vec=4 warps=2
#include "ef.h"

using ef::u32;
using element = ef::bf16;
using packed = ef::u32x2;  // kVec elements, as they are loaded

constexpr int kHeadDim = 80;
constexpr int kGqaRatio = 4;  // query heads per key/value head
constexpr int kWarps = 2;
constexpr int kThreads = 32 * kWarps;
constexpr int kLanes = 4;  // that share a query row
constexpr int kRows = 1;  // query rows of a lane
constexpr int kBands = 2;
constexpr int kBandRows = kThreads / kLanes * kRows;  // query rows at a time
constexpr int BLOCK_M = kBands * kBandRows;
constexpr int kVec = 4;
constexpr int kChunks = kHeadDim / kVec;  // loads that make a row
constexpr int kSlice = kHeadDim / kLanes;  // elements of an output row in one lane
constexpr int kQuery = kHeadDim;  // elements of a query row that a lane multiplies
constexpr int kBatch = 2;  // keys that a lane scores at a time
constexpr int kStep = kBatch * kLanes;  // keys that the lanes of a row score at a time
constexpr int BLOCK_N = 16;
constexpr u32 kRowBytes = 2 * (kHeadDim + 8);  // 16 bytes of padding shift each row by four banks
constexpr u32 kTileBytes = BLOCK_N * kRowBytes;

// Shared memory, in bytes from its beginning.
constexpr u32 kQueriesAt = 0;
constexpr u32 kTilesAt = kQueriesAt + BLOCK_M * kRowBytes;
constexpr u32 kStateAt = kTilesAt + 2 * kTileBytes;  // output, maxima and sums of the bands that wait for their turn
constexpr u32 kScratchAt = kStateAt + 4 * kThreads * kBands * kRows * (kSlice + 2);  // a part and a result of each thread's reduction
constexpr u32 kSmemBytes = kScratchAt + 8 * kThreads;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// Shared address of byte `offset`.
EF_DEV u32 shared_at(u32 offset) {
  return ef::smem_static<kSmemBytes>() + offset;
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

// Copies rows [first, first + BLOCK_N) of a matrix to a tile; rows from `rows` on become zeros.
EF_DEV void copy_tile(u32 tile, const element* matrix, long long row_stride, int first, int rows) {
  for (int i = threadIdx.x; i < BLOCK_N * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    packed value = {};
    if (first + row < rows) value = ef::ldg((const packed*)(matrix + (first + row) * row_stride) + chunk);
    ef::sts(tile + row * kRowBytes + chunk * u32(sizeof(packed)), value);
  }
}

// Sum over the lanes that share a row: the first of them goes through the others' parts.
EF_DEV float sum_over_lanes(float x) {
  const u32 mine = shared_at(kScratchAt) + threadIdx.x * 8, first = mine - threadIdx.x % kLanes * 8;
  ef::sts(mine, x);
  ef::syncthreads();
  if (threadIdx.x % kLanes == 0) {
    for (int lane = 1; lane < kLanes; ++lane) x = x + ef::lds<float>(mine + lane * 8);
    ef::sts(mine + 4, x);
  }
  ef::syncthreads();
  return ef::lds<float>(first + 4);  // the next reduction writes here after its first barrier
}

// Maximum over the lanes that share a row: the first of them goes through the others' parts.
EF_DEV float max_over_lanes(float x) {
  const u32 mine = shared_at(kScratchAt) + threadIdx.x * 8, first = mine - threadIdx.x % kLanes * 8;
  ef::sts(mine, x);
  ef::syncthreads();
  if (threadIdx.x % kLanes == 0) {
    for (int lane = 1; lane < kLanes; ++lane) x = ef::fmax(x, ef::lds<float>(mine + lane * 8));
    ef::sts(mine + 4, x);
  }
  ef::syncthreads();
  return ef::lds<float>(first + 4);  // the next reduction writes here after its first barrier
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
EF_DEV void score(float (&s)[kRows][kBatch], u32 q_at,
                  u32 tile, int first) {
  const int sub = threadIdx.x % kLanes;
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int b = 0; b < kBatch; ++b) s[r][b] = 0.0f;
#pragma unroll 1
  for (int c = 0; c < kQuery / kVec; ++c) {
    float q[kRows][kVec];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      unpack(q[r], ef::lds<packed>(q_at + r * kRowBytes + (c) * u32(sizeof(packed))));
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      float k[kVec];
      unpack(k, load_chunk(tile, first + b * kLanes + sub, c));
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int e = 0; e < kVec; ++e) s[r][b] = ef::fma(q[r][e], k[e], s[r][b]);
    }
  }
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

// Takes a batch of scores into a row's maximum and sum, those of this lane's keys.
EF_DEV void note(const float (&s)[kBatch], float& row_max, float& row_sum, float scale) {
  float best = row_max;
#pragma unroll
  for (int b = 0; b < kBatch; ++b) best = ef::fmax(best, s[b]);
  const float shift = shift_of(best, scale);
  row_sum *= shrink_of(row_max, scale, shift);
  row_max = best;
#pragma unroll
  for (int b = 0; b < kBatch; ++b) row_sum += weight(s[b], scale, shift);
}

// Shared address of float `index` of a band's state in this thread: nobody else touches it.
EF_DEV u32 state_at(int band, int index) {
  return shared_at(kStateAt) + ((band * kRows * (kSlice + 2) + index) * kThreads + threadIdx.x) * 4;
}

// Maxima and sums of a band, from and to shared memory.
EF_DEV void load_statistics(float (&row_max)[kRows], float (&row_sum)[kRows], int band) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    row_max[r] = ef::lds<float>(state_at(band, 2 * r));
    row_sum[r] = ef::lds<float>(state_at(band, 2 * r + 1));
  }
}
EF_DEV void store_statistics(const float (&row_max)[kRows], const float (&row_sum)[kRows], int band) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    ef::sts(state_at(band, 2 * r), row_max[r]);
    ef::sts(state_at(band, 2 * r + 1), row_sum[r]);
  }
}

// The output of a band so far, from and to shared memory.
EF_DEV void load_output(float (&o)[kRows][kSlice], int band) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int i = 0; i < kSlice; ++i) o[r][i] = ef::lds<float>(state_at(band, 2 * kRows + r * kSlice + i));
}
EF_DEV void store_output(const float (&o)[kRows][kSlice], int band) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int i = 0; i < kSlice; ++i) ef::sts(state_at(band, 2 * kRows + r * kSlice + i), o[r][i]);
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

  // Each warp brings its own rows of Q.
  constexpr int kWarpRows = kBandRows / kWarps;
  for (int band = 0; band < kBands; ++band)
    for (int i = threadIdx.x % 32; i < kWarpRows * kChunks; i += 32) {
      const int row = band * kBandRows + threadIdx.x / 32 * kWarpRows + i / kChunks, chunk = i % kChunks;
      packed value = {};
      if (block_row + row < seq_q) value = ef::ldg((const packed*)(Q + (block_row + row) * q_row) + chunk);
      ef::sts(shared_at(kQueriesAt) + row * kRowBytes + chunk * u32(sizeof(packed)), value);
    }
  ef::syncthreads();

  // Keys to walk: those that the last row of these sees; what lies beyond is never touched.
  const int last_row = (block_row + BLOCK_M < seq_q ? block_row + BLOCK_M : seq_q) - 1;
  const int visible = last_row + diagonal + 1 > 0 ? last_row + diagonal + 1 : 0;
  const int tiles = (visible + BLOCK_N - 1) / BLOCK_N;

  for (int band = 0; band < kBands; ++band) {
    const float o[kRows][kSlice] = {}, row_sum[kRows] = {};
    float row_max[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) row_max[r] = ef::neg_inf();
    store_statistics(row_max, row_sum, band);
    store_output(o, band);
  }

  // First walk: the maximum and the sum of each row.
#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    const u32 k_tile = shared_at(kTilesAt);
    copy_tile(k_tile, K, k_row, j * BLOCK_N, seq_kv);
    ef::syncthreads();  // tile j is here for every thread
#pragma unroll 1
    for (int band = 0; band < kBands; ++band) {
      const int first_row = block_row + band * kBandRows + threadIdx.x / kLanes * kRows;  // of this lane
      int limit[kRows];  // keys that each row sees
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int seen = first_row + r + diagonal + 1;
        limit[r] = seen < seq_kv ? seen : seq_kv;
      }
      const u32 q_at = shared_at(kQueriesAt) + (first_row - block_row) * kRowBytes;
      float row_max[kRows], row_sum[kRows];  // maxima in units of the raw scores
      load_statistics(row_max, row_sum, band);
#pragma unroll 1
      for (int first = 0; first < BLOCK_N; first += kStep) {
        float s[kRows][kBatch];
        score(s, q_at, k_tile, first);
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int b = 0; b < kBatch; ++b)
            if (j * BLOCK_N + first + b * kLanes + sub >= limit[r]) s[r][b] = ef::neg_inf();
#pragma unroll
        for (int r = 0; r < kRows; ++r) note(s[r], row_max[r], row_sum[r], scale_log2);
      }
      store_statistics(row_max, row_sum, band);
    }
    ef::syncthreads();  // every warp has left tile j
  }
#pragma unroll 1
  for (int band = 0; band < kBands; ++band) {
    float row_max[kRows], row_sum[kRows];  // maxima in units of the raw scores
    load_statistics(row_max, row_sum, band);
    // Each lane knows its own keys' maximum and sum.
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float best = max_over_lanes(row_max[r]);
      row_sum[r] = sum_over_lanes(row_sum[r] * shrink_of(row_max[r], scale_log2, shift_of(best, scale_log2)));
      row_max[r] = best;
    }
    store_statistics(row_max, row_sum, band);
  }

  // Second walk: the output, with weights that nothing will change.
#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    const u32 k_tile = shared_at(kTilesAt);
    copy_tile(k_tile, K, k_row, j * BLOCK_N, seq_kv);
    const u32 v_tile = k_tile + kTileBytes;
    copy_tile(v_tile, V, v_row, j * BLOCK_N, seq_kv);
    ef::syncthreads();  // tile j is here for every thread
#pragma unroll 1
    for (int band = 0; band < kBands; ++band) {
      const int first_row = block_row + band * kBandRows + threadIdx.x / kLanes * kRows;  // of this lane
      int limit[kRows];  // keys that each row sees
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int seen = first_row + r + diagonal + 1;
        limit[r] = seen < seq_kv ? seen : seq_kv;
      }
      const u32 q_at = shared_at(kQueriesAt) + (first_row - block_row) * kRowBytes;
      float row_max[kRows], row_sum[kRows];  // maxima in units of the raw scores
      load_statistics(row_max, row_sum, band);
      float o[kRows][kSlice];
      load_output(o, band);
#pragma unroll 1
      for (int first = 0; first < BLOCK_N; first += kStep) {
        float s[kRows][kBatch];
        score(s, q_at, k_tile, first);
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int b = 0; b < kBatch; ++b)
            if (j * BLOCK_N + first + b * kLanes + sub >= limit[r]) s[r][b] = ef::neg_inf();
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int b = 0; b < kBatch; ++b) s[r][b] = weight(s[r][b], scale_log2, shift_of(row_max[r], scale_log2));
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
#pragma unroll 1
          for (int source = 0; source < kLanes; ++source) {
            float weights[kRows];  // by the lane that scored the key
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
              weights[r] = ef::shfl_idx(s[r][b], threadIdx.x % 32 - sub + source);
            }
            add_value(o, weights, v_tile, first + b * kLanes + source);
          }
        }
      }
      store_output(o, band);
    }
    ef::syncthreads();  // every warp has left tile j
  }

#pragma unroll 1
  for (int band = 0; band < kBands; ++band) {
    const int first_row = block_row + band * kBandRows + threadIdx.x / kLanes * kRows;
    float o[kRows][kSlice];
    float row_max[kRows], row_sum[kRows];  // maxima in units of the raw scores
    load_statistics(row_max, row_sum, band);
    load_output(o, band);
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
}
EF_EXPORT_KERNEL(flash_simt)
