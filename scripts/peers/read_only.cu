// Reads two arrays of `count` groups of 16 bytes each and keeps nothing: what memory gives a kernel that only reads.
// `never` is a word that the data does not add up to. Any grid of 512 threads will do; see read_only.py.
#include "ef.h"

using ef::u32;
using i64 = long long;

static __device__ __forceinline__ u32 mixed(const ef::u32x4* from, i64 count) {
  constexpr int unroll = 8;  // loads of a thread in flight
  const i64 step = 512ll * gridDim.x;
  i64 at = 512ll * blockIdx.x + threadIdx.x;
  u32 sum = 0;
  for (; at + (unroll - 1) * step < count; at += unroll * step) {
    ef::u32x4 x[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) x[i] = ef::ldg(from + at + i * step);
#pragma unroll
    for (int i = 0; i < unroll; ++i) sum ^= x[i].x ^ x[i].y ^ x[i].z ^ x[i].w;
  }
  for (; at < count; at += step) {
    const ef::u32x4 x = ef::ldg(from + at);
    sum ^= x.x ^ x.y ^ x.z ^ x.w;
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(512)
read_only(const ef::u32x4* first, const ef::u32x4* second, i64 count, u32 never, u32* answer) {
  if ((mixed(first, count) ^ mixed(second, count)) == never) ef::atom_add(answer, 1u);
}
EF_EXPORT_KERNEL(read_only)
