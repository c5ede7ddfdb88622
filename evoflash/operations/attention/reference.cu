// Attention as it should be, in fp32 on the device, and how far honest 16-bit arithmetic is from it: see
// device_reference.py. One warp computes four rows of one head; nothing here is meant to be fast.
#include "ef.h"

using ef::u32;
using ef::u32x4;
using i64 = long long;

constexpr int kWarps = 4, kRowsOfWarp = 4, kRows = kWarps * kRowsOfWarp, kKeys = 32;
constexpr int kMostColumns = 256, kWords = kMostColumns / 64;  // a lane has two columns of each 64
constexpr int kPitch = kMostColumns / 2 + 1;                   // words of a row of keys or values in shared memory
constexpr int kFields = 5;                                     // that are told of a row
constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

struct __align__(16) Weights {
  float exact, rounded, lagging, none;
};

struct __align__(8) Two {
  float low, high;
};

static __device__ __forceinline__ float from_bits(u32 bits, bool is_bf16) {
  float low, high;
  if (is_bf16) {
    ef::unpack2(low, high, bits, ef::bf16{});
  } else {
    ef::unpack2(low, high, bits, ef::f16{});
  }
  return low;
}

static __device__ __forceinline__ void pair_of(float& low, float& high, u32 word, bool is_bf16) {
  if (is_bf16) {
    ef::unpack2(low, high, word, ef::bf16{});
  } else {
    ef::unpack2(low, high, word, ef::f16{});
  }
}

static __device__ __forceinline__ float rounded(float x, bool is_bf16) {
  return from_bits(is_bf16 ? ef::pack2(x, 0.0f, ef::bf16{}) : ef::pack2(x, 0.0f, ef::f16{}), is_bf16);
}

// A tile of keys or values takes the place of the one before, once all threads have read that; zeros behind
// the last key. All threads of the block must come here.
static __device__ __forceinline__ void load_tile(u32 tile, const u32* source, int first, int keys, int words) {
  ef::syncthreads();
  for (int at = threadIdx.x; at < kKeys * words; at += 32 * kWarps) {
    const int key = at / words, word = at % words;
    const u32 value = first + key < keys ? ef::ldg(source + static_cast<i64>(first + key) * words + word) : 0u;
    ef::sts(tile + 4 * (key * kPitch + word), value);
  }
  ef::syncthreads();
}

// The scores of this lane's key against the warp's rows, in powers of two.
static __device__ __forceinline__ void scores_of(float* scores, u32 tile, u32 queries, int words, float factor,
                                                 bool is_bf16) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) scores[row] = 0;
  for (int word = 0; word < words; ++word) {
    float low, high;
    pair_of(low, high, ef::lds<u32>(tile + 4 * (lane * kPitch + word)), is_bf16);
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
      const Two query = ef::lds<Two>(queries + 4 * (row * kMostColumns + 2 * word));
      scores[row] = ef::fma(low, query.low, ef::fma(high, query.high, scores[row]));
    }
  }
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) scores[row] *= factor;
}

static __device__ __forceinline__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = ef::fmax(x, ef::shfl_xor(x, step));
  return x;
}

static __device__ __forceinline__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += ef::shfl_xor(x, step);
  return x;
}

// O in fp32 and LSE in fp64 of blocks of rows: `places` holds of each block its head (counted through all batches), its
// first row, and where its rows are stored; those past the last query are not. Of a row per_row holds: the sum of squares; of honest arithmetic, with the row's maximum and with one that lags, the sum of
// squared errors and the largest error.
extern "C" __global__ void __launch_bounds__(32 * kWarps)
right_rows(const u32* q, const u32* k, const u32* v, const int* places, float* right, double* numbers, float* per_row,
           int seq_q, int seq_kv, int heads, int kv_heads, int head_dim, int is_bf16_given, int is_causal, float scale) {
  const u32 shared = ef::smem_static<4 * (kKeys * kPitch + kRows * kMostColumns) + 16 * kRows * kKeys>();
  const u32 tile = shared, weights = shared + 4 * kKeys * kPitch + 4 * kRows * kMostColumns;
  const u32 queries_of_all = shared + 4 * kKeys * kPitch;
  const bool is_bf16 = is_bf16_given != 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, words = head_dim / 2;
  const i64 group = ef::ldg(places + 3 * blockIdx.x);
  const int begin = ef::ldg(places + 3 * blockIdx.x + 1);
  const int head = static_cast<int>(group % heads);
  const i64 kv_group = group / heads * kv_heads + head / (heads / kv_heads);
  const u32* keys = k + kv_group * seq_kv * words;
  const u32* values = v + kv_group * seq_kv * words;
  const float factor = scale * kLog2e;
  const float between = 1.0f + (is_bf16 ? 0.00390625f : 0.00048828125f);  // half a step above 1

  for (int at = threadIdx.x; at < kRows * words; at += 32 * kWarps) {
    const int row = begin + at / words;
    float low = 0, high = 0;
    if (row < seq_q) pair_of(low, high, ef::ldg(q + (group * seq_q + row) * words + at % words), is_bf16);
    ef::sts(queries_of_all + 4 * (at / words * kMostColumns + 2 * (at % words)), low);
    ef::sts(queries_of_all + 4 * (at / words * kMostColumns + 2 * (at % words) + 1), high);
  }
  const u32 queries = queries_of_all + 4 * warp * kRowsOfWarp * kMostColumns;

  int seen[kRowsOfWarp], most = 0;
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) {
    const int number = begin + warp * kRowsOfWarp + row;
    const int newest = is_causal ? number + 1 + seq_kv - seq_q : seq_kv;
    seen[row] = number >= seq_q || newest < 0 ? 0 : newest < seq_kv ? newest : seq_kv;
  }
  const int last = begin + kRows - 1 < seq_q ? begin + kRows - 1 : seq_q - 1;
  most = is_causal ? last + 1 + seq_kv - seq_q : seq_kv;
  if (most > seq_kv) most = seq_kv;

  float top[kRowsOfWarp], scores[kRowsOfWarp];
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) top[row] = ef::neg_inf();
  for (int first = 0; first < most; first += kKeys) {
    load_tile(tile, keys, first, seq_kv, words);
    scores_of(scores, tile, queries, words, factor, is_bf16);
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
      if (first + lane < seen[row]) top[row] = ef::fmax(top[row], scores[row]);
    }
  }
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) top[row] = warp_max(top[row]);

  double total[kRowsOfWarp] = {};
  float exact[kRowsOfWarp][kWords][2] = {}, plain[kRowsOfWarp][kWords][2] = {}, lagging[kRowsOfWarp][kWords][2] = {};
  for (int first = 0; first < most; first += kKeys) {
    load_tile(tile, keys, first, seq_kv, words);
    scores_of(scores, tile, queries, words, factor, is_bf16);
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
      const float weight = first + lane < seen[row] ? ef::ex2(scores[row] - top[row]) : 0.0f;
      total[row] += weight;
      const Weights each = {weight, rounded(weight, is_bf16), rounded(weight * between, is_bf16), 0.0f};
      ef::sts(weights + 16 * ((warp * kRowsOfWarp + row) * kKeys + lane), each);
    }
    load_tile(tile, values, first, seq_kv, words);
#pragma unroll 1
    for (int key = 0; key < kKeys; ++key) {
      Weights each[kRowsOfWarp];
#pragma unroll
      for (int row = 0; row < kRowsOfWarp; ++row) {
        each[row] = ef::lds<Weights>(weights + 16 * ((warp * kRowsOfWarp + row) * kKeys + key));
      }
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        if (lane + 32 * i >= words) continue;
        float value[2];
        pair_of(value[0], value[1], ef::lds<u32>(tile + 4 * (key * kPitch + lane + 32 * i)), is_bf16);
#pragma unroll
        for (int row = 0; row < kRowsOfWarp; ++row) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            exact[row][i][half] = ef::fma(each[row].exact, value[half], exact[row][i][half]);
            plain[row][i][half] = ef::fma(each[row].rounded, value[half], plain[row][i][half]);
            lagging[row][i][half] = ef::fma(each[row].lagging, value[half], lagging[row][i][half]);
          }
        }
      }
    }
  }

#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) {
    const int number = warp * kRowsOfWarp + row;
    const float sum = warp_sum(static_cast<float>(total[row]));
    const float whole = seen[row] > 0 ? sum : 1.0f;
    float squares = 0, off[2] = {}, furthest[2] = {};
    const i64 at = ef::ldg(places + 3 * blockIdx.x + 2) + number;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (lane + 32 * i >= words) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float is = exact[row][i][half] / whole;
        const float honest[2] = {rounded(plain[row][i][half] / whole, is_bf16),
                                 rounded(lagging[row][i][half] / (whole * between), is_bf16)};
        if (begin + number < seq_q) ef::stg(right + at * head_dim + 2 * (lane + 32 * i) + half, is);
        squares += is * is;
#pragma unroll
        for (int kind = 0; kind < 2; ++kind) {
          const float error = honest[kind] < is ? is - honest[kind] : honest[kind] - is;
          off[kind] += error * error;
          furthest[kind] = ef::fmax(furthest[kind], error);
        }
      }
    }
    const float told[kFields] = {warp_sum(squares), warp_sum(off[0]), warp_max(furthest[0]), warp_sum(off[1]),
                                 warp_max(furthest[1])};
    if (lane != 0 || begin + number >= seq_q) continue;
    const double lse = seen[row] > 0 ? (static_cast<double>(top[row]) + ef::lg2(sum)) * kLn2 : ef::neg_inf();
    ef::stg(numbers + at, lse);
#pragma unroll
    for (int field = 0; field < kFields; ++field) ef::stg(per_row + at * kFields + field, told[field]);
  }
}
EF_EXPORT_KERNEL(right_rows)
