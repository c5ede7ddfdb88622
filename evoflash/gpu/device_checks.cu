// Questions about device memory, answered where it is: see device_checks.py. Each kernel adds to *answer once for each
// thread that found something, so 0 is a no. Groups are of 16 bytes; any grid of 256 threads will do.
#include "ef.h"

using ef::u32;
using i64 = long long;

// Does any bit of `count` groups differ?
extern "C" __global__ void __launch_bounds__(256)
differ(const ef::u32x4* first, const ef::u32x4* second, i64 count, u32* answer) {
  const i64 step = 256ll * gridDim.x;
  u32 changed = 0;
  for (i64 at = 256ll * blockIdx.x + threadIdx.x; at < count; at += step) {
    const ef::u32x4 a = ef::ldg(first + at), b = ef::ldg(second + at);
    changed |= (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w);
  }
  if (changed != 0) ef::atom_add(answer, 1u);
}
EF_EXPORT_KERNEL(differ)

// Is the exponent all ones in either half of a word? `exponent` is that mask in both halves.
static __device__ __forceinline__ bool holds(u32 word, u32 exponent) {
  const u32 found = word & exponent;
  return (found & 0xffffu) == (exponent & 0xffffu) || found >> 16 == exponent >> 16;
}

// Is any of the 16-bit floats in `count` groups a NaN or infinite?
extern "C" __global__ void __launch_bounds__(256)
non_finite(const ef::u32x4* values, i64 count, u32 exponent, u32* answer) {
  const i64 step = 256ll * gridDim.x;
  bool found = false;
  for (i64 at = 256ll * blockIdx.x + threadIdx.x; at < count; at += step) {
    const ef::u32x4 x = ef::ldg(values + at);
    found |= holds(x.x, exponent) | holds(x.y, exponent) | holds(x.z, exponent) | holds(x.w, exponent);
  }
  if (found) ef::atom_add(answer, 1u);
}
EF_EXPORT_KERNEL(non_finite)
