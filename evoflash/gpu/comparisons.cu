// Outputs and memory compared where they are: see comparisons.py. Each kernel is given a table with a line of numbers
// for each comparison, which blockIdx.y picks; any number of blocks of 256 threads share a comparison.
#include "ef.h"

using ef::u32;
using ef::u32x4;
using i64 = long long;

constexpr int kThreads = 256;
constexpr int kPairLine = 8, kRowsLine = 24, kReachLine = 8;  // numbers in a line

// ---- How many 32-bit words of two parts of memory differ? Without a second one: are not zero. Of each `period` words
// the first `ignored` are not looked at.
extern "C" __global__ void __launch_bounds__(kThreads)
differing_words(const i64* table, u32* answers) {
  const i64* line = table + kPairLine * static_cast<i64>(blockIdx.y);
  const u32* first = reinterpret_cast<const u32*>(ef::ldg(line));
  const u32* second = reinterpret_cast<const u32*>(ef::ldg(line + 1));
  const i64 words = ef::ldg(line + 2), period = ef::ldg(line + 3), ignored = ef::ldg(line + 4);
  const i64 step = static_cast<i64>(kThreads) * gridDim.x, begin = static_cast<i64>(kThreads) * blockIdx.x + threadIdx.x;
  const bool in_groups = period == 0 && second != nullptr && (ef::ldg(line) | ef::ldg(line + 1)) % 16 == 0;
  const i64 groups = in_groups ? words / 4 : 0;
  u32 changed = 0;
  for (i64 at = begin; at < groups; at += step) {
    const u32x4 a = ef::ldg(reinterpret_cast<const u32x4*>(first) + at);
    const u32x4 b = ef::ldg(reinterpret_cast<const u32x4*>(second) + at);
    changed += (a.x != b.x) + (a.y != b.y) + (a.z != b.z) + (a.w != b.w);
  }
  for (i64 at = 4 * groups + begin; at < words; at += step) {
    if (period != 0 && at % period < ignored) continue;
    changed += ef::ldg(first + at) != (second == nullptr ? 0u : ef::ldg(second + at));
  }
  if (changed != 0) ef::atom_add(answers + blockIdx.y, changed);
}
EF_EXPORT_KERNEL(differing_words)

// ---- How many threads find a NaN or an infinity among the 16-bit floats of a part of memory? `exponent` is a mask of the
// exponent's bits in both halves of a word.
static __device__ __forceinline__ bool holds(u32 word, u32 exponent) {
  const u32 found = word & exponent;
  return (found & 0xffffu) == (exponent & 0xffffu) || found >> 16 == exponent >> 16;
}

extern "C" __global__ void __launch_bounds__(kThreads)
non_finite(const i64* table, u32* answers) {
  const i64* line = table + kPairLine * static_cast<i64>(blockIdx.y);
  const u32* values = reinterpret_cast<const u32*>(ef::ldg(line));
  const i64 words = ef::ldg(line + 1), groups = ef::ldg(line) % 16 == 0 ? words / 4 : 0;
  const u32 exponent = static_cast<u32>(ef::ldg(line + 2));
  const i64 step = static_cast<i64>(kThreads) * gridDim.x, begin = static_cast<i64>(kThreads) * blockIdx.x + threadIdx.x;
  bool found = false;
  for (i64 at = begin; at < groups; at += step) {
    const u32x4 x = ef::ldg(reinterpret_cast<const u32x4*>(values) + at);
    found |= holds(x.x, exponent) | holds(x.y, exponent) | holds(x.z, exponent) | holds(x.w, exponent);
  }
  for (i64 at = 4 * groups + begin; at < words; at += step) found |= holds(ef::ldg(values + at), exponent);
  if (found) ef::atom_add(answers + blockIdx.y, 1u);
}
EF_EXPORT_KERNEL(non_finite)

// ---- How far are rows of 16-bit numbers, and one fp32 number for each of them, from what they should be?
struct Found {
  double squared;          // sum of squared errors
  double before_squared;   // sum of squares of what they should be
  double worst;            // the largest squared error of an element over the mean square of its row
  double row, column;      // where that is
  double number;           // the largest error of a number over what is allowed
  double number_error;     // that error
  double number_row;       // where that is
  double broken;           // elements that are no finite distance away
};
constexpr int kFields = 9;

static __device__ __forceinline__ void merge(Found& into, const Found& other) {
  into.squared += other.squared;
  into.before_squared += other.before_squared;
  into.broken += other.broken;
  if (other.worst > into.worst || (other.worst == into.worst && other.row < into.row)) {
    into.worst = other.worst;
    into.row = other.row;
    into.column = other.column;
  }
  if (other.number > into.number || (other.number == into.number && other.number_row < into.number_row)) {
    into.number = other.number;
    into.number_error = other.number_error;
    into.number_row = other.number_row;
  }
}

static __device__ __forceinline__ void unpack(float* values, u32x4 packed, bool is_bf16) {
  const u32 words[4] = {packed.x, packed.y, packed.z, packed.w};
  for (int i = 0; i < 4; ++i) {
    if (is_bf16) {
      ef::unpack2(values[2 * i], values[2 * i + 1], words[i], ef::bf16{});
    } else {
      ef::unpack2(values[2 * i], values[2 * i + 1], words[i], ef::f16{});
    }
  }
}

// Eight numbers of one run's output, or the sums of two runs'.
static __device__ __forceinline__ void load_sum(float* values, i64 first, i64 second, i64 element, bool is_bf16) {
  unpack(values, ef::ldg(reinterpret_cast<const u32x4*>(first + 2 * element)), is_bf16);
  if (second == 0) return;
  float more[8];
  unpack(more, ef::ldg(reinterpret_cast<const u32x4*>(second + 2 * element)), is_bf16);
  for (int i = 0; i < 8; ++i) values[i] += more[i];
}

static __device__ __forceinline__ double distance(double a, double b) { return a < b ? b - a : a - b; }

static __device__ __forceinline__ void look_at_number(Found& found, const i64* line, i64 row) {
  const double infinity = -ef::neg_inf();
  const double right = ef::ldg(reinterpret_cast<const double*>(ef::ldg(line + 11)) + row);
  const i64 numbers = ef::ldg(line + 16);  // which number is the row's; without: that of the same place
  const i64 place = numbers == 0 ? row : ef::ldg(reinterpret_cast<const i64*>(numbers) + row);
  const double got = ef::ldg(reinterpret_cast<const float*>(ef::ldg(line + 15)) + place);
  const double size = distance(right, 0.0);
  const double absolute = ef::ldg(reinterpret_cast<const double*>(line) + 12);
  const double relative = ef::ldg(reinterpret_cast<const double*>(line) + 13);
  const double least = ef::ldg(reinterpret_cast<const double*>(line) + 14);
  double error = got == right ? 0.0 : distance(got, right);
  if (!(error < infinity)) error = infinity;
  double allowed = absolute + (size < infinity ? relative * size : 0.0);
  if (allowed < least) allowed = least;
  if (error / allowed > found.number) {
    found.number = error / allowed;
    found.number_error = error;
    found.number_row = static_cast<double>(row);
  }
}

static __device__ __forceinline__ void look_at_row(Found& found, const i64* line, i64 row) {
  const i64 right = ef::ldg(line), is_single = ef::ldg(line + 1), columns = ef::ldg(line + 9);
  const i64 old_first = ef::ldg(line + 2), old_second = ef::ldg(line + 3), old_at = ef::ldg(line + 4);
  const i64 new_first = ef::ldg(line + 5), new_second = ef::ldg(line + 6), new_at = ef::ldg(line + 7);
  const bool is_bf16 = ef::ldg(line + 10) != 0;
  const i64 dense = row * columns;
  const i64 from = old_at == 0 ? dense : ef::ldg(reinterpret_cast<const i64*>(old_at) + row);
  const i64 to = new_at == 0 ? dense : ef::ldg(reinterpret_cast<const i64*>(new_at) + row);
  const double infinity = -ef::neg_inf();
  double squared = 0, before = 0, worst = 0;
  i64 worst_column = 0;
  for (i64 column = 0; column < columns; column += 8) {
    float got[8], old[8];
    load_sum(got, new_first, new_second, to + column, is_bf16);
    if (right == 0) load_sum(old, old_first, old_second, from + column, is_bf16);
    for (int i = 0; i < 8; ++i) {
      const i64 at = dense + column + i;
      double is = right == 0 ? old[i] : 0.0;
      if (right != 0) {
        is = is_single ? ef::ldg(reinterpret_cast<const float*>(right) + at)
                       : ef::ldg(reinterpret_cast<const double*>(right) + at);
      }
      const double error = distance(got[i], is);
      squared += error * error;
      before += is * is;
      if (!(error < infinity)) found.broken += 1;
      if (error > worst) {
        worst = error;
        worst_column = column + i;
      }
    }
  }
  found.squared += squared;
  found.before_squared += before;
  if (worst == 0) return;
  const double over = before > 0 ? worst * worst * static_cast<double>(columns) / before : infinity;
  if (over > found.worst) {
    found.worst = over;
    found.row = static_cast<double>(row);
    found.column = static_cast<double>(worst_column);
  }
}

static __device__ __forceinline__ void store_found(ef::u32 address, const Found& found) {
  const double fields[kFields] = {found.squared, found.before_squared, found.worst, found.row, found.column,
                                  found.number, found.number_error, found.number_row, found.broken};
  for (int i = 0; i < kFields; ++i) ef::sts(address + 8 * i, fields[i]);
}

static __device__ __forceinline__ Found load_found(ef::u32 address) {
  double fields[kFields];
  for (int i = 0; i < kFields; ++i) fields[i] = ef::lds<double>(address + 8 * i);
  return {fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6], fields[7], fields[8]};
}

// Writes a Found for each block of each comparison.
extern "C" __global__ void __launch_bounds__(kThreads)
measured_rows(const i64* table, double* answers) {
  const u32 shared = ef::smem_static<8 * kFields * kThreads>();
  const i64* line = table + kRowsLine * static_cast<i64>(blockIdx.y);
  const i64 rows = ef::ldg(line + 8), step = static_cast<i64>(kThreads) * gridDim.x;
  const bool has_rows = ef::ldg(line + 5) != 0, has_numbers = ef::ldg(line + 15) != 0;
  Found found = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  for (i64 row = static_cast<i64>(kThreads) * blockIdx.x + threadIdx.x; row < rows; row += step) {
    if (has_rows) look_at_row(found, line, row);
    if (has_numbers) look_at_number(found, line, row);
  }
  const int me = threadIdx.x;
  store_found(shared + 8 * kFields * me, found);
  for (int half = kThreads / 2; half > 0; half /= 2) {
    ef::syncthreads();
    if (me < half) {
      merge(found, load_found(shared + 8 * kFields * (me + half)));
      store_found(shared + 8 * kFields * me, found);
    }
  }
  if (me != 0) return;
  double* answer = answers + kFields * (static_cast<i64>(blockIdx.y) * gridDim.x + blockIdx.x);
  const double fields[kFields] = {found.squared, found.before_squared, found.worst, found.row, found.column,
                                  found.number, found.number_error, found.number_row, found.broken};
  for (int i = 0; i < kFields; ++i) ef::stg(answer + i, fields[i]);
}
EF_EXPORT_KERNEL(measured_rows)

// ---- Which rows, of any group, are changed to the bit? Counts those before `first` that are, and those from there on
// that are not.
extern "C" __global__ void __launch_bounds__(kThreads)
reached_rows(const i64* table, u32* answers) {
  const i64* line = table + kReachLine * static_cast<i64>(blockIdx.y);
  const u32x4* before = reinterpret_cast<const u32x4*>(ef::ldg(line));
  const u32x4* after = reinterpret_cast<const u32x4*>(ef::ldg(line + 1));
  const i64 groups = ef::ldg(line + 2), rows = ef::ldg(line + 3), pieces = ef::ldg(line + 4), first = ef::ldg(line + 5);
  const i64 step = static_cast<i64>(kThreads) * gridDim.x;
  for (i64 row = static_cast<i64>(kThreads) * blockIdx.x + threadIdx.x; row < rows; row += step) {
    u32 changed = 0;
    for (i64 group = 0; group < groups; ++group) {
      const i64 begin = (group * rows + row) * pieces;
      for (i64 at = begin; at < begin + pieces; ++at) {
        const u32x4 a = ef::ldg(before + at), b = ef::ldg(after + at);
        changed |= (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w);
      }
    }
    if (row < first && changed != 0) ef::atom_add(answers + 2 * blockIdx.y, 1u);
    if (row >= first && changed == 0) ef::atom_add(answers + 2 * blockIdx.y + 1, 1u);
  }
}
EF_EXPORT_KERNEL(reached_rows)
