// Rows of attention as they should be, computed on the device, and how far honest 16-bit arithmetic is from them: what the
// references of all kinds of attention share. A reference's text follows this one and says where rows and keys lie, which keys
// a row sees, and what becomes of a score. A block of threads computes some rows that read the same keys; a warp has every
// fourth of them, a lane every 32nd key. Nothing here is meant to be fast.
#include "ef.h"

using ef::u32;
using i64 = long long;

constexpr int kWarps = 4, kThreads = 32 * kWarps, kRowsOfWarp = 4, kRows = kWarps * kRowsOfWarp, kKeys = 32;
constexpr int kMostColumns = 256, kWords = kMostColumns / 64;  // a lane has two columns of each 64
constexpr int kPitch = kMostColumns / 2 + 1;                   // words of a row of keys or values in shared memory
constexpr int kFields = 5;                                     // that are told of a row
constexpr double kLog2e = 1.4426950408889634, kLn2 = 0.6931471805599453;

template <class Real>
struct Weights;
template <>
struct __align__(16) Weights<float> {
  float exact, rounded, lagging, none;
};
template <>
struct __align__(16) Weights<double> {
  double exact;
  float rounded, lagging;
};

struct __align__(8) Two {
  float low, high;
};

static __device__ __forceinline__ void pair_of(float& low, float& high, u32 word, bool is_bf16) {
  if (is_bf16) {
    ef::unpack2(low, high, word, ef::bf16{});
  } else {
    ef::unpack2(low, high, word, ef::f16{});
  }
}

static __device__ __forceinline__ float rounded(float x, bool is_bf16) {
  float low, high;
  pair_of(low, high, is_bf16 ? ef::pack2(x, 0.0f, ef::bf16{}) : ef::pack2(x, 0.0f, ef::f16{}), is_bf16);
  return low;
}

// In fp32 as kernels have it, in fp64 as the compilers' libraries do.
static __device__ __forceinline__ float power_of_two(float x) { return ef::ex2(x); }
static __device__ __forceinline__ float log_of_two(float x) { return ef::lg2(x); }
#if EF_GPU
static __device__ __forceinline__ double power_of_two(double x) { return exp2(x); }
static __device__ __forceinline__ double log_of_two(double x) { return log2(x); }
static __device__ __forceinline__ double tanh_of(double x) { return tanh(x); }
#else
static double power_of_two(double x) { return __builtin_exp2(x); }
static double log_of_two(double x) { return __builtin_log2(x); }
static double tanh_of(double x) { return __builtin_tanh(x); }
#endif

static __device__ __forceinline__ float multiply_add(float a, float b, float c) { return ef::fma(a, b, c); }
static __device__ __forceinline__ double multiply_add(double a, double b, double c) { return a * b + c; }

static __device__ __forceinline__ float larger(float a, float b) { return ef::fmax(a, b); }
static __device__ __forceinline__ double larger(double a, double b) { return a > b ? a : b; }

static __device__ __forceinline__ float of_lane(float x, int step) { return ef::shfl_xor(x, step); }
static __device__ __forceinline__ double of_lane(double x, int step) {
  union {
    double number;
    u32 words[2];
  } bits = {x};
  bits.words[0] = ef::shfl_xor(bits.words[0], step);
  bits.words[1] = ef::shfl_xor(bits.words[1], step);
  return bits.number;
}

template <class Real>
static __device__ __forceinline__ Real warp_max(Real x) {
  for (int step = 16; step > 0; step /= 2) x = larger(x, of_lane(x, step));
  return x;
}

template <class Real>
static __device__ __forceinline__ Real warp_sum(Real x) {
  for (int step = 16; step > 0; step /= 2) x += of_lane(x, step);
  return x;
}

// Of a block's rows, what is the same for all: `words` of a row of keys, types, where results go, by what the output is
// multiplied and in which unit, over powers of two, an LSE is told.
struct Told {
  int words;
  bool is_bf16;
  float* right;
  double* numbers;
  float* per_row;
  float factor;
  double unit;
};

// A tile of keys or values takes the place of the one before, once all threads have read that; zeros from key `end` on. All
// threads of the block must come here.
template <class Call>
static __device__ __forceinline__ void load_tile(u32 tile, const Call& call, bool has_values, int first, int end, int words) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 found[kKeys / kWarps][kWords];
#pragma unroll
  for (int at = 0; at < kKeys / kWarps; ++at) {
    const int key = first + at * kWarps + warp;
    const u32* source = key >= end ? nullptr : has_values ? call.value(key) : call.key(key);
#pragma unroll
    for (int i = 0; i < kWords; ++i) found[at][i] = source && lane + 32 * i < words ? ef::ldg(source + lane + 32 * i) : 0u;
  }
  ef::syncthreads();
#pragma unroll
  for (int at = 0; at < kKeys / kWarps; ++at) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (lane + 32 * i < words) ef::sts(tile + 4 * ((at * kWarps + warp) * kPitch + lane + 32 * i), found[at][i]);
    }
  }
  ef::syncthreads();
}

// The scores of this lane's key against the warp's rows, in powers of two.
template <class Real, class Call>
static __device__ __forceinline__ void scores_of(Real* scores, const Call& call, int rows, u32 tile, u32 queries,
                                                 const Told& told) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) scores[row] = 0;
  for (int word = 0; word < told.words; ++word) {
    float low, high;
    pair_of(low, high, ef::lds<u32>(tile + 4 * (lane * kPitch + word)), told.is_bf16);
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
      if (row >= rows) continue;
      const Two query = ef::lds<Two>(queries + 4 * (row * kWarps * kMostColumns + 2 * word));
      scores[row] = multiply_add(Real(low), Real(query.low), multiply_add(Real(high), Real(query.high), scores[row]));
    }
  }
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) {
    if (row < rows) scores[row] = call.score(scores[row]);
  }
}

// O in fp32 and LSE in fp64 of a block's rows, and of each row the sum of squares; of honest arithmetic, with the row's maximum
// and with one that lags, the sum of squared errors and the largest error. `call` says:
//   count, begin, end                     rows of the block, and the keys that any of them sees: begin <= key < end
//   query(row), key(at), value(at)        where their words begin
//   oldest(row), behind(row)              the first key that a row sees, and the one behind the last
//   score(product)                        what becomes of a product of a query and a key, in powers of two
//   sink(row)                             a score without a value, in powers of two; minus infinity: none
//   place(row)                            where the row's results stand, counted in rows
template <class Real, class Call>
static __device__ __forceinline__ void compute_rows(const Call& call, const Told& told) {
  const u32 tile = ef::smem_static<4 * (kKeys * kPitch + kRows * kMostColumns) + 16 * kRows * kKeys>();
  const u32 queries_of_all = tile + 4 * kKeys * kPitch, weights = queries_of_all + 4 * kRows * kMostColumns;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, words = told.words;
  const bool is_bf16 = told.is_bf16;
  const int rows = (call.count - warp + kWarps - 1) / kWarps;  // of this warp
  const float between = 1.0f + (is_bf16 ? 0.00390625f : 0.00048828125f);  // half a step above 1

  for (int at = threadIdx.x; at < kRows * words; at += kThreads) {
    const int row = at / words;
    float low = 0, high = 0;
    if (row < call.count) pair_of(low, high, ef::ldg(call.query(row) + at % words), is_bf16);
    ef::sts(queries_of_all + 4 * (row * kMostColumns + 2 * (at % words)), low);
    ef::sts(queries_of_all + 4 * (row * kMostColumns + 2 * (at % words) + 1), high);
  }
  const u32 queries = queries_of_all + 4 * warp * kMostColumns;

  int oldest[kRowsOfWarp], behind[kRowsOfWarp];
  Real top[kRowsOfWarp], scores[kRowsOfWarp];
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) {
    const int number = row * kWarps + warp;
    oldest[row] = row < rows ? call.oldest(number) : 0;
    behind[row] = row < rows ? call.behind(number) : 0;
    top[row] = ef::neg_inf();
  }
  for (int first = call.begin; first < call.end; first += kKeys) {
    load_tile(tile, call, false, first, call.end, words);
    scores_of(scores, call, rows, tile, queries, told);
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
      if (first + lane >= oldest[row] && first + lane < behind[row]) top[row] = larger(top[row], scores[row]);
    }
  }
#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) {
    if (row < rows) top[row] = larger(warp_max(top[row]), call.sink(row * kWarps + warp));
  }

  double total[kRowsOfWarp] = {};
  Real exact[kRowsOfWarp][kWords][2] = {};
  float plain[kRowsOfWarp][kWords][2] = {}, lagging[kRowsOfWarp][kWords][2] = {};
  for (int first = call.begin; first < call.end; first += kKeys) {
    load_tile(tile, call, false, first, call.end, words);
    scores_of(scores, call, rows, tile, queries, told);
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
      if (row >= rows) continue;
      const bool is_seen = first + lane >= oldest[row] && first + lane < behind[row];
      const Real weight = is_seen ? power_of_two(scores[row] - top[row]) : Real(0);
      const float single = static_cast<float>(weight);
      total[row] += weight;
      Weights<Real> each = {};
      each.exact = weight, each.rounded = rounded(single, is_bf16), each.lagging = rounded(single * between, is_bf16);
      ef::sts(weights + 16 * ((row * kWarps + warp) * kKeys + lane), each);
    }
    load_tile(tile, call, true, first, call.end, words);
#pragma unroll 1
    for (int key = 0; key < kKeys; ++key) {
      Weights<Real> each[kRowsOfWarp];
#pragma unroll
      for (int row = 0; row < kRowsOfWarp; ++row) {
        if (row < rows) each[row] = ef::lds<Weights<Real>>(weights + 16 * ((row * kWarps + warp) * kKeys + key));
      }
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        if (lane + 32 * i >= words) continue;
        float value[2];
        pair_of(value[0], value[1], ef::lds<u32>(tile + 4 * (key * kPitch + lane + 32 * i)), is_bf16);
#pragma unroll
        for (int row = 0; row < kRowsOfWarp; ++row) {
          if (row >= rows) continue;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            exact[row][i][half] = multiply_add(each[row].exact, Real(value[half]), exact[row][i][half]);
            plain[row][i][half] = ef::fma(each[row].rounded, value[half], plain[row][i][half]);
            lagging[row][i][half] = ef::fma(each[row].lagging, value[half], lagging[row][i][half]);
          }
        }
      }
    }
  }

#pragma unroll
  for (int row = 0; row < kRowsOfWarp; ++row) {
    if (row >= rows) continue;
    const i64 at = call.place(row * kWarps + warp);
    const Real sink = call.sink(row * kWarps + warp);
    const bool is_empty = top[row] == ef::neg_inf();
    const Real sum = warp_sum(static_cast<Real>(total[row])) + (is_empty ? Real(0) : power_of_two(sink - top[row]));
    const Real whole = is_empty ? Real(1) : sum;
    const float single = static_cast<float>(whole);
    float squares = 0, off[2] = {}, furthest[2] = {};
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (lane + 32 * i >= words) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float is = static_cast<float>(exact[row][i][half] / whole * told.factor);
        const float honest[2] = {rounded(plain[row][i][half] / single * told.factor, is_bf16),
                                 rounded(lagging[row][i][half] / (single * between) * told.factor, is_bf16)};
        ef::stg(told.right + at * 2 * words + 2 * (lane + 32 * i) + half, is);
        squares += is * is;
#pragma unroll
        for (int kind = 0; kind < 2; ++kind) {
          const float error = honest[kind] < is ? is - honest[kind] : honest[kind] - is;
          off[kind] += error * error;
          furthest[kind] = ef::fmax(furthest[kind], error);
        }
      }
    }
    const float of_row[kFields] = {warp_sum(squares), warp_sum(off[0]), warp_max(furthest[0]), warp_sum(off[1]),
                                   warp_max(furthest[1])};
    if (lane != 0) continue;
    const double lse = is_empty ? ef::neg_inf() : (static_cast<double>(top[row]) + log_of_two(sum)) * told.unit;
    ef::stg(told.numbers + at, lse);
#pragma unroll
    for (int field = 0; field < kFields; ++field) ef::stg(told.per_row + at * kFields + field, of_row[field]);
  }
}
