// One wgmma in each shape and type; operands lie in shared memory as images made beforehand, described at run time.
// A block is a case: it copies its images of A and B, does one product, and stores its accumulator as it lies in
// registers. Blocks of 128 threads.
#include "ef.h"

using ef::u32;
using ef::u32x4;
using ef::u64;

constexpr u32 kB = 8192;  // of B in shared memory, behind A

// What a block does: images in units of 16 bytes, descriptors' fields in bytes.
struct Task {
  u32 a_image, a_size, a_start, a_leading, a_stride, a_swizzle;
  u32 b_image, b_size, b_start, b_leading, b_stride, b_swizzle;
  u32 scale_d;
};

EF_DEV Task task_of(const u32* tasks) {
  const u32* const at = tasks + 16 * blockIdx.x;
  return {ef::ldg(at), ef::ldg(at + 1), ef::ldg(at + 2), ef::ldg(at + 3), ef::ldg(at + 4), ef::ldg(at + 5),
          ef::ldg(at + 6), ef::ldg(at + 7), ef::ldg(at + 8), ef::ldg(at + 9), ef::ldg(at + 10), ef::ldg(at + 11),
          ef::ldg(at + 12)};
}

EF_DEV void copy(u32 target, const u32x4* image, u32 size) {
  for (u32 i = threadIdx.x; i < size; i += 128) ef::sts(target + 16 * i, ef::ldg(image + i));
}

EF_DEV void copied() {
  ef::fence_proxy_async();
  ef::syncthreads();
}

// An accumulator that shows where each of its elements is.
template <int N>
EF_DEV void begin(ef::acc<N>& d) {
  for (int i = 0; i < N; ++i) d[i] = float((threadIdx.x * 7 + i * 3) % 17) - 8.0f;
  ef::wgmma_fence_acc(d);
  ef::wgmma_fence();
}

EF_DEV u32 bits(float value) {
#if EF_GPU
  return __float_as_uint(value);
#else
  return efemu::bits_of(value);
#endif
}

template <int N>
EF_DEV void end(ef::acc<N>& d, u32x4* out) {
  ef::wgmma_commit();
  ef::wgmma_wait<0>();
  ef::wgmma_fence_acc(d);
  u32x4* const mine = out + (128 * blockIdx.x + threadIdx.x) * (N / 4);
  for (int i = 0; i < N; i += 4) ef::stg(mine + i / 4, u32x4{bits(d[i]), bits(d[i + 1]), bits(d[i + 2]), bits(d[i + 3])});
}

template <int N, class Multiply>
EF_DEV void from_shared_by(const u32* tasks, const u32x4* images, u32x4* out, Multiply multiply) {
  const Task task = task_of(tasks);
  const u32 smem = ef::smem_base();
  copy(smem, images + task.a_image, task.a_size);
  copy(smem + kB, images + task.b_image, task.b_size);
  copied();
  ef::acc<N> d;
  begin(d);
  const u64 a = ef::make_desc(smem + task.a_start, task.a_leading, task.a_stride, ef::wgmma_swizzle(task.a_swizzle));
  const u64 b = ef::make_desc(smem + kB + task.b_start, task.b_leading, task.b_stride, ef::wgmma_swizzle(task.b_swizzle));
  multiply(d, a, b, task.scale_d != 0);
  end(d, out);
}

template <int A, int B, int N, class T>
EF_DEV void from_shared(const u32* tasks, const u32x4* images, u32x4* out) {
  from_shared_by<N>(tasks, images, out, [](ef::acc<N>& d, u64 a, u64 b, bool adds) { ef::wgmma_ss<A, B>(d, a, b, adds, T()); });
}

template <int N>
EF_DEV void codes_from_shared(const u32* tasks, const u32x4* images, u32x4* out) {
  from_shared_by<N>(tasks, images, out, [](ef::acc<N>& d, u64 a, u64 b, bool adds) { ef::wgmma_ss_e4m3(d, a, b, adds); });
}

// A's image is its registers, four for each thread.
template <int B, int N, class T>
EF_DEV void from_registers(const u32* tasks, const u32x4* images, u32x4* out) {
  const Task task = task_of(tasks);
  const u32 smem = ef::smem_base();
  copy(smem + kB, images + task.b_image, task.b_size);
  copied();
  const u32x4 mine = ef::ldg(images + task.a_image + threadIdx.x);
  ef::frag a;
  a[0] = mine.x;
  a[1] = mine.y;
  a[2] = mine.z;
  a[3] = mine.w;
  ef::wgmma_fence_frag(a);
  ef::acc<N> d;
  begin(d);
  const u64 b = ef::make_desc(smem + kB + task.b_start, task.b_leading, task.b_stride, ef::wgmma_swizzle(task.b_swizzle));
  ef::wgmma_rs<B>(d, a, b, task.scale_d != 0, T());
  end(d, out);
  ef::wgmma_fence_frag(a);
}
