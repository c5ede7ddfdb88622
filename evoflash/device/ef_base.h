// What all primitives share: which side is compiled, the macros of a kernel's text, types. No primitives.
//
// Layout rule, relied on by evoflash/layer.py, which copies out just what an exported kernel uses: blocks with a blank
// line between them and none inside; a comment, then one top-level function, type or constant. Shared memory is named
// by 32-bit addresses (bytes, from smem_base()), never by pointers, so that the emulator can check each access.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define EF_GPU 1
#else
#define EF_GPU 0
#include "../emu/interface.h"
#endif

#if EF_GPU
#define EF_DEV static __device__ __forceinline__
#define EF_EXPORT_KERNEL(name)
#else
#define EF_DEV static inline
#define EF_EXPORT_KERNEL(name) \
  extern "C" {                 \
  ::efemu::Kernel efemu_kernel_##name = ::efemu::describe(name); \
  }
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)
#define threadIdx (::efemu::context->thread_index)
#define blockIdx (::efemu::context->block_index)
#define blockDim (::efemu::context->block_dim)
#define gridDim (::efemu::context->grid_dim)
#endif

// The last parameter of a primitive, never given: the line of the kernel's text that the call stands on.
#if EF_GPU
#define EF_LINE
#define EF_ONLY_LINE
#else
#define EF_LINE , int line = __builtin_LINE()
#define EF_ONLY_LINE int line = __builtin_LINE()
#endif

namespace ef {

#if EF_GPU
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
#else
using efemu::u16;
using efemu::u32;
using efemu::u64;
#endif

// 16-bit floats as stored in memory; arithmetic happens in float or in mma.
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

// Register pairs and quads for 8- and 16-byte accesses.
struct __align__(8) u32x2 {
  u32 x, y;
};
struct __align__(16) u32x4 {
  u32 x, y, z, w;
};

// Whether one instruction moves a T between registers and memory.
template <class T>
constexpr bool is_register_size = sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16;

#if !EF_GPU
// What the emulator asks of an element type.
template <class T>
constexpr bool is_bf16 = false;
template <>
constexpr bool is_bf16<bf16> = true;
#endif

}  // namespace ef
