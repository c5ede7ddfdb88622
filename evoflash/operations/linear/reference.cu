// y = x W^T as it should be, summed in fp64 on the device, and how far honest fp32 arithmetic is from it: see
// DeviceReference. A block of threads computes 16 columns of y, block of k after block of k; nothing here is meant to be
// fast.
#include "ef.h"

using ef::bf16;
using ef::u32;
using i64 = long long;

constexpr int kThreads = 128, kColumns = 16, kRows = 64, kEach = kRows * kColumns / kThreads;
constexpr int kBlock = 128, kPitch = kBlock + 1;  // of k; words of a row in shared memory
constexpr int kFields = 5;                        // that are told of a row
constexpr int kBlocked = 1, kOneScale = 2;        // what scales W has

// 128 columns of some rows as floats, in the place of those before; zeros behind the last row and the last column.
static __device__ __forceinline__ void load_tile(u32 tile, const u32* source, int first, int count, int rows, int begin, int k,
                                                 bool is_e4m3) {
  const int of_word = is_e4m3 ? 4 : 2, words = kBlock / of_word;
  for (int at = threadIdx.x; at < count * words; at += kThreads) {
    const int row = at / words, column = at % words * of_word;
    const bool is_there = first + row < rows && begin + column < k;
    const u32 word = is_there ? ef::ldg(source + (static_cast<i64>(first + row) * k + begin + column) / of_word) : 0u;
    float numbers[4];
    if (is_e4m3) {
      u32 pairs[2];
      ef::f16_of_e4m3(pairs, word);
      ef::unpack2(numbers[0], numbers[1], pairs[0], ef::f16());
      ef::unpack2(numbers[2], numbers[3], pairs[1], ef::f16());
    } else {
      ef::unpack2(numbers[0], numbers[1], word, bf16());
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < of_word) ef::sts(tile + 4 * (row * kPitch + column + i), numbers[i]);
    }
  }
}

static __device__ __forceinline__ float rounded(float x) {
  float low, high;
  ef::unpack2(low, high, ef::pack2(x, 0.0f, bf16()), bf16());
  return low;
}

// `places` holds the first column of each block. `right` and `honest`: (m, n).
extern "C" __global__ void __launch_bounds__(kThreads)
right_columns(const u32* x, const u32* w, const float* w_scale, const float* x_scale, const bf16* bias, const bf16* residual,
              const int* places, float* right, float* honest, float* per_row, int m, int n, int k, int x_scale_row,
              int scales_of_w, int is_e4m3_w, int is_e4m3_x) {
  const u32 tile_x = ef::smem_static<4 * (kRows + kColumns) * kPitch>(), tile_w = tile_x + 4 * kRows * kPitch;
  const int first = ef::ldg(places + blockIdx.x), column = threadIdx.x % kColumns, begin_row = threadIdx.x / kColumns;
  const int in_reach = first + column < n ? first + column : n - 1, blocks = (k + kBlock - 1) / kBlock;
  constexpr int kApart = kThreads / kColumns;  // rows of a thread
  double exact[kEach] = {};
  float plain[kEach] = {};
  for (int block = 0; block < blocks; ++block) {
    ef::syncthreads();
    load_tile(tile_x, x, 0, (m + kApart - 1) / kApart * kApart, m, block * kBlock, k, is_e4m3_x != 0);
    load_tile(tile_w, w, first, kColumns, n, block * kBlock, k, is_e4m3_w != 0);
    ef::syncthreads();
    double part[kEach] = {};
    float sum[kEach] = {};
    for (int c = 0; c < kBlock; ++c) {
      const float weight = ef::lds<float>(tile_w + 4 * (column * kPitch + c));
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (begin_row + i * kApart >= m) continue;
        const float number = ef::lds<float>(tile_x + 4 * ((begin_row + i * kApart) * kPitch + c));
        part[i] += static_cast<double>(weight) * number;
        sum[i] = ef::fma(weight, number, sum[i]);
      }
    }
    float factor = 1.0f;
    if (scales_of_w == kBlocked) factor = ef::ldg(w_scale + static_cast<i64>(in_reach / kBlock) * blocks + block);
    if (scales_of_w == kOneScale) factor = ef::ldg(w_scale);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = begin_row + i * kApart;
      const float of_x = is_e4m3_x != 0 && row < m ? ef::ldg(x_scale + static_cast<i64>(block) * x_scale_row + row) : 1.0f;
      exact[i] += part[i] * factor * of_x;
      plain[i] += sum[i] * (factor * of_x);
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = begin_row + i * kApart;
    if (row >= m || first + column >= n) continue;
    const i64 at = static_cast<i64>(row) * n + first + column;
    if (bias) {
      const float added = ef::to_f32(ef::ldg(bias + first + column));
      exact[i] += added, plain[i] += added;
    }
    if (residual) {
      const float added = ef::to_f32(ef::ldg(residual + at));
      exact[i] += added, plain[i] += added;
    }
    ef::stg(right + at, static_cast<float>(exact[i]));
    ef::stg(honest + at, rounded(plain[i]));
  }
}
EF_EXPORT_KERNEL(right_columns)

// Of each row, a block of threads for one: the sum of squares; the squared errors' sum and the largest error of honest
// arithmetic, of which there is one kind, told twice. The parameters are those of the kernel before.
extern "C" __global__ void __launch_bounds__(kThreads)
told_of_rows(const u32* x, const u32* w, const float* w_scale, const float* x_scale, const bf16* bias, const bf16* residual,
             const int* places, float* right, float* honest, float* per_row, int m, int n, int k, int x_scale_row,
             int scales_of_w, int is_e4m3_w, int is_e4m3_x) {
  const u32 shared = ef::smem_static<4 * 3 * kThreads>();
  float squares = 0, off = 0, furthest = 0;
  for (int column = threadIdx.x; column < n; column += kThreads) {
    const i64 at = static_cast<i64>(blockIdx.x) * n + column;
    const float is = ef::ldg(static_cast<const float*>(right) + at), found = ef::ldg(static_cast<const float*>(honest) + at);
    const float error = found < is ? is - found : found - is;
    squares += is * is, off += error * error, furthest = ef::fmax(furthest, error);
  }
  ef::sts(shared + 4 * threadIdx.x, squares);
  ef::sts(shared + 4 * (kThreads + threadIdx.x), off);
  ef::sts(shared + 4 * (2 * kThreads + threadIdx.x), furthest);
  ef::syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kThreads; ++i) {
    squares += ef::lds<float>(shared + 4 * i);
    off += ef::lds<float>(shared + 4 * (kThreads + i));
    furthest = ef::fmax(furthest, ef::lds<float>(shared + 4 * (2 * kThreads + i)));
  }
  const float told[kFields] = {squares, off, furthest, off, furthest};
#pragma unroll
  for (int field = 0; field < kFields; ++field) ef::stg(per_row + blockIdx.x * kFields + field, told[field]);
}
EF_EXPORT_KERNEL(told_of_rows)
