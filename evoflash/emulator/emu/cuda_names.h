// The names of plain CUDA for a kernel that is compiled for the emulator: built-in variables, vector types, barriers,
// warp functions, atomics, arithmetic. Half precision, WMMA, cooperative groups and PTX stand in headers of their own.
//
// What a function here reads through a pointer or a reference is seen like the kernel's own accesses (plain_accesses.h);
// those marked EFEMU_OWN tell the emulator themselves.
#pragma once
#include "seen_layer.h"
#include "meetings.h"

#define EFEMU_HERE inline __attribute__((always_inline))
#define EFEMU_AT int line = __builtin_LINE()
#undef __restrict__
#define __restrict__ __restrict
#define __host__
#define __noinline__ __attribute__((noinline))
#define __inline__ inline
#define __grid_constant__
#define __constant__
#define __maxnreg__(...)
#define __CUDA_ARCH__ 900
#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F __builtin_nanf("")
#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_huge_valf()
#endif
#define M_PI 3.14159265358979323846
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_SQRT2 1.41421356237309504880
#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <limits>
#include <type_traits>

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long ulong;
constexpr int warpSize = 32;

struct alignas(1) char1 { signed char x; };
EFEMU_HERE char1 make_char1(signed char x) { return {x}; }
struct alignas(2) char2 { signed char x, y; };
EFEMU_HERE char2 make_char2(signed char x, signed char y) { return {x, y}; }
struct alignas(1) char3 { signed char x, y, z; };
EFEMU_HERE char3 make_char3(signed char x, signed char y, signed char z) { return {x, y, z}; }
struct alignas(4) char4 { signed char x, y, z, w; };
EFEMU_HERE char4 make_char4(signed char x, signed char y, signed char z, signed char w) { return {x, y, z, w}; }
struct alignas(1) uchar1 { unsigned char x; };
EFEMU_HERE uchar1 make_uchar1(unsigned char x) { return {x}; }
struct alignas(2) uchar2 { unsigned char x, y; };
EFEMU_HERE uchar2 make_uchar2(unsigned char x, unsigned char y) { return {x, y}; }
struct alignas(1) uchar3 { unsigned char x, y, z; };
EFEMU_HERE uchar3 make_uchar3(unsigned char x, unsigned char y, unsigned char z) { return {x, y, z}; }
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
EFEMU_HERE uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) { return {x, y, z, w}; }
struct alignas(2) short1 { short x; };
EFEMU_HERE short1 make_short1(short x) { return {x}; }
struct alignas(4) short2 { short x, y; };
EFEMU_HERE short2 make_short2(short x, short y) { return {x, y}; }
struct alignas(2) short3 { short x, y, z; };
EFEMU_HERE short3 make_short3(short x, short y, short z) { return {x, y, z}; }
struct alignas(8) short4 { short x, y, z, w; };
EFEMU_HERE short4 make_short4(short x, short y, short z, short w) { return {x, y, z, w}; }
struct alignas(2) ushort1 { unsigned short x; };
EFEMU_HERE ushort1 make_ushort1(unsigned short x) { return {x}; }
struct alignas(4) ushort2 { unsigned short x, y; };
EFEMU_HERE ushort2 make_ushort2(unsigned short x, unsigned short y) { return {x, y}; }
struct alignas(2) ushort3 { unsigned short x, y, z; };
EFEMU_HERE ushort3 make_ushort3(unsigned short x, unsigned short y, unsigned short z) { return {x, y, z}; }
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
EFEMU_HERE ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w) { return {x, y, z, w}; }
struct alignas(4) int1 { int x; };
EFEMU_HERE int1 make_int1(int x) { return {x}; }
struct alignas(8) int2 { int x, y; };
EFEMU_HERE int2 make_int2(int x, int y) { return {x, y}; }
struct alignas(4) int3 { int x, y, z; };
EFEMU_HERE int3 make_int3(int x, int y, int z) { return {x, y, z}; }
struct alignas(16) int4 { int x, y, z, w; };
EFEMU_HERE int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
struct alignas(4) uint1 { unsigned int x; };
EFEMU_HERE uint1 make_uint1(unsigned int x) { return {x}; }
struct alignas(8) uint2 { unsigned int x, y; };
EFEMU_HERE uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
struct alignas(4) uint3 { unsigned int x, y, z; };
EFEMU_HERE uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) { return {x, y, z}; }
struct alignas(16) uint4 { unsigned int x, y, z, w; };
EFEMU_HERE uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
struct alignas(8) long1 { long x; };
EFEMU_HERE long1 make_long1(long x) { return {x}; }
struct alignas(16) long2 { long x, y; };
EFEMU_HERE long2 make_long2(long x, long y) { return {x, y}; }
struct alignas(8) long3 { long x, y, z; };
EFEMU_HERE long3 make_long3(long x, long y, long z) { return {x, y, z}; }
struct alignas(16) long4 { long x, y, z, w; };
EFEMU_HERE long4 make_long4(long x, long y, long z, long w) { return {x, y, z, w}; }
struct alignas(8) ulong1 { unsigned long x; };
EFEMU_HERE ulong1 make_ulong1(unsigned long x) { return {x}; }
struct alignas(16) ulong2 { unsigned long x, y; };
EFEMU_HERE ulong2 make_ulong2(unsigned long x, unsigned long y) { return {x, y}; }
struct alignas(8) ulong3 { unsigned long x, y, z; };
EFEMU_HERE ulong3 make_ulong3(unsigned long x, unsigned long y, unsigned long z) { return {x, y, z}; }
struct alignas(16) ulong4 { unsigned long x, y, z, w; };
EFEMU_HERE ulong4 make_ulong4(unsigned long x, unsigned long y, unsigned long z, unsigned long w) { return {x, y, z, w}; }
struct alignas(8) longlong1 { long long x; };
EFEMU_HERE longlong1 make_longlong1(long long x) { return {x}; }
struct alignas(16) longlong2 { long long x, y; };
EFEMU_HERE longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
struct alignas(8) longlong3 { long long x, y, z; };
EFEMU_HERE longlong3 make_longlong3(long long x, long long y, long long z) { return {x, y, z}; }
struct alignas(16) longlong4 { long long x, y, z, w; };
EFEMU_HERE longlong4 make_longlong4(long long x, long long y, long long z, long long w) { return {x, y, z, w}; }
struct alignas(8) ulonglong1 { unsigned long long x; };
EFEMU_HERE ulonglong1 make_ulonglong1(unsigned long long x) { return {x}; }
struct alignas(16) ulonglong2 { unsigned long long x, y; };
EFEMU_HERE ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
struct alignas(8) ulonglong3 { unsigned long long x, y, z; };
EFEMU_HERE ulonglong3 make_ulonglong3(unsigned long long x, unsigned long long y, unsigned long long z) { return {x, y, z}; }
struct alignas(16) ulonglong4 { unsigned long long x, y, z, w; };
EFEMU_HERE ulonglong4 make_ulonglong4(unsigned long long x, unsigned long long y, unsigned long long z, unsigned long long w) { return {x, y, z, w}; }
struct alignas(4) float1 { float x; };
EFEMU_HERE float1 make_float1(float x) { return {x}; }
struct alignas(8) float2 { float x, y; };
EFEMU_HERE float2 make_float2(float x, float y) { return {x, y}; }
struct alignas(4) float3 { float x, y, z; };
EFEMU_HERE float3 make_float3(float x, float y, float z) { return {x, y, z}; }
struct alignas(16) float4 { float x, y, z, w; };
EFEMU_HERE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct alignas(8) double1 { double x; };
EFEMU_HERE double1 make_double1(double x) { return {x}; }
struct alignas(16) double2 { double x, y; };
EFEMU_HERE double2 make_double2(double x, double y) { return {x, y}; }
struct alignas(8) double3 { double x, y, z; };
EFEMU_HERE double3 make_double3(double x, double y, double z) { return {x, y, z}; }
struct alignas(16) double4 { double x, y, z, w; };
EFEMU_HERE double4 make_double4(double x, double y, double z, double w) { return {x, y, z, w}; }
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  dim3(const ::efemu::Dim3& of) : x(of.x), y(of.y), z(of.z) {}
};

// ---- shared memory

namespace efemu {

template <class T>
EFEMU_OWN inline T* dynamic_array() {
  return static_cast<T*>(dynamic_shared());
}

}  // namespace efemu

inline EFEMU_OWN size_t __cvta_generic_to_shared(const void* pointer) { return ::efemu::shared_address(pointer); }
inline EFEMU_OWN void* __cvta_shared_to_generic(size_t address) {
  return ::efemu::shared_pointer(static_cast<::efemu::u32>(address));
}
inline EFEMU_OWN size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
inline EFEMU_OWN bool __isShared(const void* pointer) { return ::efemu::shared_address(pointer) < (1u << 20); }

// ---- barriers, fences

inline EFEMU_OWN void __syncthreads(EFEMU_AT) { ::efemu::sync_block(line); }
inline EFEMU_OWN int __syncthreads_count(int predicate, EFEMU_AT) { return ::efemu::sync_block_count(predicate != 0, line); }
inline EFEMU_OWN int __syncthreads_or(int predicate, EFEMU_AT) { return ::efemu::sync_block_count(predicate != 0, line) > 0; }
inline EFEMU_OWN int __syncthreads_and(int predicate, EFEMU_AT) { return ::efemu::sync_block_count(predicate == 0, line) == 0; }
inline EFEMU_OWN void __syncwarp(unsigned mask = ~0u, EFEMU_AT) { ::efemu::meet("__syncwarp", mask, nullptr, nullptr, line); }
inline EFEMU_OWN void __threadfence(EFEMU_AT) { ::efemu::fence_gpu(line); }
inline EFEMU_OWN void __threadfence_block(EFEMU_AT) { ::efemu::fence_gpu(line); }
inline EFEMU_OWN void __threadfence_system(EFEMU_AT) { ::efemu::fence_gpu(line); }
inline EFEMU_OWN void __nanosleep(unsigned, EFEMU_AT) {}
#define __trap() ::efemu::stop_kernel("trap", "__trap()", __LINE__)
#undef assert
#define assert(condition) ((condition) ? (void)0 : ::efemu::stop_kernel("trap", "assert(" #condition ") failed", __LINE__))
template <class... T>
inline EFEMU_OWN int printf(const char*, const T&...) { return 0; }

// ---- warps

namespace efemu {

template <class T>
struct Passed {
  T value, result;
  int from;
};

// Lanes that did not come give nothing: what is read of them is poison.
template <class T>
EFEMU_OWN inline void pass_values(void* const* given, u32 lanes) {
  T nothing;
  __builtin_memset(static_cast<void*>(&nothing), 0xff, sizeof(T));  // not of another's: memset is looked at
  for (int lane = 0; lane < 32; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    auto& mine = *static_cast<Passed<T>*>(given[lane]);
    mine.result = lanes >> mine.from & 1 ? static_cast<Passed<T>*>(given[mine.from])->value : nothing;
  }
}

template <class T>
EFEMU_OWN inline T pass_value(const char* op, u32 mask, T value, int from, int line) {
  Passed<T> mine{value, value, from};
  meet(op, mask, &mine, pass_values<T>, line);
  return mine.result;
}

struct Ballot {
  bool mine;
  u32 yes;
};

EFEMU_OWN inline void count_ballot(void* const* given, u32 lanes) {
  u32 yes = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1 && static_cast<Ballot*>(given[lane])->mine) yes |= 1u << lane;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) static_cast<Ballot*>(given[lane])->yes = yes;
}

EFEMU_OWN inline u32 ballot(const char* op, u32 mask, bool mine, int line) {
  Ballot vote{mine, 0};
  meet(op, mask, &vote, count_ballot, line);
  return vote.yes;
}

template <class T>
struct Reduced {
  T value;
  T (*join)(T, T);
};

template <class T>
EFEMU_OWN inline void reduce_values(void* const* given, u32 lanes) {
  const int first = __builtin_ctz(lanes);
  T all = static_cast<Reduced<T>*>(given[first])->value;
  for (int lane = first + 1; lane < 32; ++lane)
    if (lanes >> lane & 1) all = static_cast<Reduced<T>*>(given[lane])->join(all, static_cast<Reduced<T>*>(given[lane])->value);
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) static_cast<Reduced<T>*>(given[lane])->value = all;
}

template <class T>
EFEMU_OWN inline T reduce(const char* op, u32 mask, T value, T (*join)(T, T), int line) {
  Reduced<T> mine{value, join};
  meet(op, mask, &mine, reduce_values<T>, line);
  return mine.value;
}

}  // namespace efemu

template <class T>
inline EFEMU_OWN T __shfl_sync(unsigned mask, T value, int from, int width = 32, EFEMU_AT) {
  const int lane = ::efemu::lane_number(), base = lane & ~(width - 1);
  return ::efemu::pass_value("__shfl_sync", mask, value, base + (from & (width - 1)), line);
}
template <class T>
inline EFEMU_OWN T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EFEMU_AT) {
  const int lane = ::efemu::lane_number(), from = lane ^ bits;
  return ::efemu::pass_value("__shfl_xor_sync", mask, value, from < (lane & ~(width - 1)) + width ? from : lane, line);
}
template <class T>
inline EFEMU_OWN T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, EFEMU_AT) {
  const int lane = ::efemu::lane_number(), from = lane - static_cast<int>(distance);
  return ::efemu::pass_value("__shfl_up_sync", mask, value, from >= (lane & ~(width - 1)) ? from : lane, line);
}
template <class T>
inline EFEMU_OWN T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, EFEMU_AT) {
  const int lane = ::efemu::lane_number(), from = lane + static_cast<int>(distance);
  return ::efemu::pass_value("__shfl_down_sync", mask, value, from < (lane & ~(width - 1)) + width ? from : lane, line);
}
inline EFEMU_OWN unsigned __ballot_sync(unsigned mask, int predicate, EFEMU_AT) { return ::efemu::ballot("__ballot_sync", mask, predicate != 0, line); }
inline EFEMU_OWN int __any_sync(unsigned mask, int predicate, EFEMU_AT) { return ::efemu::ballot("__any_sync", mask, predicate != 0, line) != 0; }
inline EFEMU_OWN int __all_sync(unsigned mask, int predicate, EFEMU_AT) { return ::efemu::ballot("__all_sync", mask, predicate == 0, line) == 0; }
inline EFEMU_OWN unsigned __activemask(EFEMU_AT) { return ::efemu::active_lanes(line); }
inline EFEMU_OWN int __reduce_add_sync(unsigned mask, int value, EFEMU_AT) {
  return ::efemu::reduce<int>("__reduce_add_sync", mask, value, [](int a, int b) -> int { return a + b; }, line);
}
inline EFEMU_OWN unsigned __reduce_add_sync(unsigned mask, unsigned value, EFEMU_AT) {
  return ::efemu::reduce<unsigned>("__reduce_add_sync", mask, value, [](unsigned a, unsigned b) -> unsigned { return a + b; }, line);
}
inline EFEMU_OWN int __reduce_min_sync(unsigned mask, int value, EFEMU_AT) {
  return ::efemu::reduce<int>("__reduce_min_sync", mask, value, [](int a, int b) -> int { return b < a ? b : a; }, line);
}
inline EFEMU_OWN unsigned __reduce_min_sync(unsigned mask, unsigned value, EFEMU_AT) {
  return ::efemu::reduce<unsigned>("__reduce_min_sync", mask, value, [](unsigned a, unsigned b) -> unsigned { return b < a ? b : a; }, line);
}
inline EFEMU_OWN int __reduce_max_sync(unsigned mask, int value, EFEMU_AT) {
  return ::efemu::reduce<int>("__reduce_max_sync", mask, value, [](int a, int b) -> int { return a < b ? b : a; }, line);
}
inline EFEMU_OWN unsigned __reduce_max_sync(unsigned mask, unsigned value, EFEMU_AT) {
  return ::efemu::reduce<unsigned>("__reduce_max_sync", mask, value, [](unsigned a, unsigned b) -> unsigned { return a < b ? b : a; }, line);
}
inline EFEMU_OWN unsigned __reduce_and_sync(unsigned mask, unsigned value, EFEMU_AT) {
  return ::efemu::reduce<unsigned>("__reduce_and_sync", mask, value, [](unsigned a, unsigned b) -> unsigned { return a & b; }, line);
}
inline EFEMU_OWN unsigned __reduce_or_sync(unsigned mask, unsigned value, EFEMU_AT) {
  return ::efemu::reduce<unsigned>("__reduce_or_sync", mask, value, [](unsigned a, unsigned b) -> unsigned { return a | b; }, line);
}
inline EFEMU_OWN unsigned __reduce_xor_sync(unsigned mask, unsigned value, EFEMU_AT) {
  return ::efemu::reduce<unsigned>("__reduce_xor_sync", mask, value, [](unsigned a, unsigned b) -> unsigned { return a ^ b; }, line);
}

// ---- atomics

namespace efemu {

template <class T, class Change>
EFEMU_OWN inline T change_atomically(T* target, int line, Change change) {
  T old;
  if (!begin_atomic(target, sizeof(T), line)) {
    __builtin_memset(static_cast<void*>(&old), 0xff, sizeof(T));
    return old;
  }
  old = *target;
  *target = change(old);
  return old;
}

}  // namespace efemu

#define EFEMU_ATOMIC(name, T, expression)                                                          \
  inline EFEMU_OWN T name(T* target, T value, EFEMU_AT) {                                          \
    return ::efemu::change_atomically(target, line, [value](T old) EFEMU_OWN -> T { return expression; }); \
  }
#define EFEMU_INTEGER_ATOMICS(T)                            \
  EFEMU_ATOMIC(atomicAdd, T, old + value)                   \
  EFEMU_ATOMIC(atomicSub, T, old - value)                   \
  EFEMU_ATOMIC(atomicExch, T, (static_cast<void>(old), value)) \
  EFEMU_ATOMIC(atomicMin, T, value < old ? value : old)     \
  EFEMU_ATOMIC(atomicMax, T, old < value ? value : old)     \
  EFEMU_ATOMIC(atomicAnd, T, old & value)                   \
  EFEMU_ATOMIC(atomicOr, T, old | value)                    \
  EFEMU_ATOMIC(atomicXor, T, old ^ value)                   \
  inline EFEMU_OWN T atomicCAS(T* target, T compare, T value, EFEMU_AT) { \
    return ::efemu::change_atomically(target, line, [=](T old) -> T { return old == compare ? value : old; }); \
  }
EFEMU_INTEGER_ATOMICS(int)
EFEMU_INTEGER_ATOMICS(unsigned int)
EFEMU_INTEGER_ATOMICS(long long)
EFEMU_INTEGER_ATOMICS(unsigned long long)
EFEMU_ATOMIC(atomicAdd, float, old + value)
EFEMU_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
EFEMU_ATOMIC(atomicAdd, double, old + value)
EFEMU_ATOMIC(atomicInc, unsigned int, old >= value ? 0 : old + 1)
EFEMU_ATOMIC(atomicDec, unsigned int, old == 0 || old > value ? value : old - 1)
#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd

// ---- loads and stores with a cache hint

#define EFEMU_LOAD(name) \
  template <class T>     \
  EFEMU_HERE T name(const T* source) { return *source; }
EFEMU_LOAD(__ldg)
EFEMU_LOAD(__ldcg)
EFEMU_LOAD(__ldca)
EFEMU_LOAD(__ldcs)
EFEMU_LOAD(__ldlu)
EFEMU_LOAD(__ldcv)
#define EFEMU_STORE(name) \
  template <class T, class U> \
  EFEMU_HERE void name(T* target, U value) { *target = value; }
EFEMU_STORE(__stwb)
EFEMU_STORE(__stcg)
EFEMU_STORE(__stcs)
EFEMU_STORE(__stwt)

// ---- asynchronous copies (cuda_pipeline.h)

inline EFEMU_OWN void __pipeline_memcpy_async(void* target, const void* source, size_t bytes, size_t zeros = 0, EFEMU_AT) {
  if (bytes != 4 && bytes != 8 && bytes != 16) ::efemu::stop_kernel("misaligned-shared", "__pipeline_memcpy_async of other than 4, 8 or 16 bytes", line);
  ::efemu::copy_async(::efemu::shared_address(target), source, zeros < bytes, line, static_cast<::efemu::u32>(bytes));
}
inline EFEMU_OWN void __pipeline_commit(EFEMU_AT) { ::efemu::commit_copies(line); }
inline EFEMU_OWN void __pipeline_wait_prior(int pending, EFEMU_AT) { ::efemu::wait_copies(pending, line); }

// ---- arithmetic

extern "C" {
float expf(float) noexcept;
double exp(double) noexcept;
float exp2f(float) noexcept;
double exp2(double) noexcept;
float exp10f(float) noexcept;
double exp10(double) noexcept;
float expm1f(float) noexcept;
double expm1(double) noexcept;
float logf(float) noexcept;
double log(double) noexcept;
float log2f(float) noexcept;
double log2(double) noexcept;
float log10f(float) noexcept;
double log10(double) noexcept;
float log1pf(float) noexcept;
double log1p(double) noexcept;
float sqrtf(float) noexcept;
double sqrt(double) noexcept;
float cbrtf(float) noexcept;
double cbrt(double) noexcept;
float sinf(float) noexcept;
double sin(double) noexcept;
float cosf(float) noexcept;
double cos(double) noexcept;
float tanf(float) noexcept;
double tan(double) noexcept;
float asinf(float) noexcept;
double asin(double) noexcept;
float acosf(float) noexcept;
double acos(double) noexcept;
float atanf(float) noexcept;
double atan(double) noexcept;
float sinhf(float) noexcept;
double sinh(double) noexcept;
float coshf(float) noexcept;
double cosh(double) noexcept;
float tanhf(float) noexcept;
double tanh(double) noexcept;
float asinhf(float) noexcept;
double asinh(double) noexcept;
float acoshf(float) noexcept;
double acosh(double) noexcept;
float atanhf(float) noexcept;
double atanh(double) noexcept;
float erff(float) noexcept;
double erf(double) noexcept;
float erfcf(float) noexcept;
double erfc(double) noexcept;
float floorf(float) noexcept;
double floor(double) noexcept;
float ceilf(float) noexcept;
double ceil(double) noexcept;
float truncf(float) noexcept;
double trunc(double) noexcept;
float roundf(float) noexcept;
double round(double) noexcept;
float rintf(float) noexcept;
double rint(double) noexcept;
float nearbyintf(float) noexcept;
double nearbyint(double) noexcept;
float fabsf(float) noexcept;
double fabs(double) noexcept;
float lgammaf(float) noexcept;
double lgamma(double) noexcept;
float tgammaf(float) noexcept;
double tgamma(double) noexcept;
float powf(float, float) noexcept;
double pow(double, double) noexcept;
float fmaxf(float, float) noexcept;
double fmax(double, double) noexcept;
float fminf(float, float) noexcept;
double fmin(double, double) noexcept;
float fmodf(float, float) noexcept;
double fmod(double, double) noexcept;
float atan2f(float, float) noexcept;
double atan2(double, double) noexcept;
float hypotf(float, float) noexcept;
double hypot(double, double) noexcept;
float copysignf(float, float) noexcept;
double copysign(double, double) noexcept;
float fdimf(float, float) noexcept;
double fdim(double, double) noexcept;
float remainderf(float, float) noexcept;
double remainder(double, double) noexcept;
float fmaf(float, float, float) noexcept;
double fma(double, double, double) noexcept;
float ldexpf(float, int) noexcept;
double ldexp(double, int) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
}
EFEMU_HERE float exp(float x) { return expf(x); }
EFEMU_HERE float exp2(float x) { return exp2f(x); }
EFEMU_HERE float log(float x) { return logf(x); }
EFEMU_HERE float log2(float x) { return log2f(x); }
EFEMU_HERE float log10(float x) { return log10f(x); }
EFEMU_HERE float log1p(float x) { return log1pf(x); }
EFEMU_HERE float expm1(float x) { return expm1f(x); }
EFEMU_HERE float sqrt(float x) { return sqrtf(x); }
EFEMU_HERE float sin(float x) { return sinf(x); }
EFEMU_HERE float cos(float x) { return cosf(x); }
EFEMU_HERE float tan(float x) { return tanf(x); }
EFEMU_HERE float tanh(float x) { return tanhf(x); }
EFEMU_HERE float erf(float x) { return erff(x); }
EFEMU_HERE float floor(float x) { return floorf(x); }
EFEMU_HERE float ceil(float x) { return ceilf(x); }
EFEMU_HERE float trunc(float x) { return truncf(x); }
EFEMU_HERE float round(float x) { return roundf(x); }
EFEMU_HERE float rint(float x) { return rintf(x); }
EFEMU_HERE float fabs(float x) { return fabsf(x); }
EFEMU_HERE float pow(float x, float y) { return powf(x, y); }
EFEMU_HERE float fmax(float x, float y) { return fmaxf(x, y); }
EFEMU_HERE float fmin(float x, float y) { return fminf(x, y); }
EFEMU_HERE float fmod(float x, float y) { return fmodf(x, y); }
EFEMU_HERE float fma(float x, float y, float z) { return fmaf(x, y, z); }
EFEMU_HERE float abs(float x) { return fabsf(x); }
EFEMU_HERE double abs(double x) { return fabs(x); }
EFEMU_HERE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
EFEMU_HERE float rsqrt(float x) { return rsqrtf(x); }
EFEMU_HERE double rsqrt(double x) { return 1.0 / sqrt(x); }
EFEMU_HERE float __expf(float x) { return expf(x); }
EFEMU_HERE float __exp2f(float x) { return exp2f(x); }
EFEMU_HERE float __exp10f(float x) { return exp10f(x); }
EFEMU_HERE float __logf(float x) { return logf(x); }
EFEMU_HERE float __log2f(float x) { return log2f(x); }
EFEMU_HERE float __log10f(float x) { return log10f(x); }
EFEMU_HERE float __powf(float x, float y) { return powf(x, y); }
EFEMU_HERE float __sinf(float x) { return sinf(x); }
EFEMU_HERE float __cosf(float x) { return cosf(x); }
EFEMU_HERE float __tanhf(float x) { return tanhf(x); }
EFEMU_HERE float __fdividef(float x, float y) { return x / y; }
EFEMU_HERE float fdividef(float x, float y) { return x / y; }
EFEMU_HERE float __saturatef(float x) { return x < 0 || x != x ? 0.0f : x > 1 ? 1.0f : x; }
EFEMU_HERE float __frsqrt_rn(float x) { return rsqrtf(x); }
EFEMU_HERE float __fadd_rn(float x, float y) { return x + y; }
EFEMU_HERE float __fsub_rn(float x, float y) { return x - y; }
EFEMU_HERE float __fmul_rn(float x, float y) { return x * y; }
EFEMU_HERE float __fdiv_rn(float x, float y) { return x / y; }
EFEMU_HERE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
EFEMU_HERE float __frcp_rn(float x) { return 1.0f / x; }
EFEMU_HERE float __fsqrt_rn(float x) { return sqrtf(x); }
EFEMU_HERE float __fadd_rz(float x, float y) { return x + y; }
EFEMU_HERE float __fsub_rz(float x, float y) { return x - y; }
EFEMU_HERE float __fmul_rz(float x, float y) { return x * y; }
EFEMU_HERE float __fdiv_rz(float x, float y) { return x / y; }
EFEMU_HERE float __fmaf_rz(float x, float y, float z) { return fmaf(x, y, z); }
EFEMU_HERE float __frcp_rz(float x) { return 1.0f / x; }
EFEMU_HERE float __fsqrt_rz(float x) { return sqrtf(x); }
EFEMU_HERE float __fadd_ru(float x, float y) { return x + y; }
EFEMU_HERE float __fsub_ru(float x, float y) { return x - y; }
EFEMU_HERE float __fmul_ru(float x, float y) { return x * y; }
EFEMU_HERE float __fdiv_ru(float x, float y) { return x / y; }
EFEMU_HERE float __fmaf_ru(float x, float y, float z) { return fmaf(x, y, z); }
EFEMU_HERE float __frcp_ru(float x) { return 1.0f / x; }
EFEMU_HERE float __fsqrt_ru(float x) { return sqrtf(x); }
EFEMU_HERE float __fadd_rd(float x, float y) { return x + y; }
EFEMU_HERE float __fsub_rd(float x, float y) { return x - y; }
EFEMU_HERE float __fmul_rd(float x, float y) { return x * y; }
EFEMU_HERE float __fdiv_rd(float x, float y) { return x / y; }
EFEMU_HERE float __fmaf_rd(float x, float y, float z) { return fmaf(x, y, z); }
EFEMU_HERE float __frcp_rd(float x) { return 1.0f / x; }
EFEMU_HERE float __fsqrt_rd(float x) { return sqrtf(x); }
EFEMU_HERE int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
EFEMU_HERE int __float2int_rz(float x) { return static_cast<int>(x); }
EFEMU_HERE int __float2int_rd(float x) { return static_cast<int>(floorf(x)); }
EFEMU_HERE int __float2int_ru(float x) { return static_cast<int>(ceilf(x)); }
EFEMU_HERE unsigned __float2uint_rn(float x) { return static_cast<unsigned>(rintf(x)); }
EFEMU_HERE float __int2float_rn(int x) { return static_cast<float>(x); }
EFEMU_HERE float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
EFEMU_HERE float __double2float_rn(double x) { return static_cast<float>(x); }
EFEMU_HERE int __float_as_int(float x) { return static_cast<int>(::efemu::bits_of(x)); }
EFEMU_HERE unsigned __float_as_uint(float x) { return ::efemu::bits_of(x); }
EFEMU_HERE float __int_as_float(int x) { return ::efemu::float_of(static_cast<unsigned>(x)); }
EFEMU_HERE float __uint_as_float(unsigned x) { return ::efemu::float_of(x); }
EFEMU_HERE int __popc(unsigned x) { return __builtin_popcount(x); }
EFEMU_HERE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EFEMU_HERE int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
EFEMU_HERE int __ffs(int x) { return __builtin_ffs(x); }
EFEMU_HERE int __mul24(int x, int y) { return x * y; }
EFEMU_HERE unsigned __umul24(unsigned x, unsigned y) { return x * y; }
EFEMU_HERE int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
EFEMU_HERE unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32); }
EFEMU_HERE unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
EFEMU_HERE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int at = 0; at < 4; ++at) result |= static_cast<unsigned>(both >> 8 * (selector >> 4 * at & 7) & 0xff) << 8 * at;
  return result;
}
EFEMU_HERE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) << (by & 31) >> 32);
}
EFEMU_HERE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) >> (by & 31));
}
#undef isinf
#undef isnan
#undef isfinite
EFEMU_HERE bool isinf(float x) { return __builtin_isinf(x); }
EFEMU_HERE bool isnan(float x) { return __builtin_isnan(x); }
EFEMU_HERE bool isfinite(float x) { return __builtin_isfinite(x); }
template <class T, class U>
EFEMU_HERE std::common_type_t<T, U> max(T x, U y) {
  using C = std::common_type_t<T, U>;
  if constexpr (std::is_floating_point_v<C>) return static_cast<C>(x) < static_cast<C>(y) || static_cast<C>(x) != static_cast<C>(x) ? static_cast<C>(y) : static_cast<C>(x);
  else return static_cast<C>(x) < static_cast<C>(y) ? static_cast<C>(y) : static_cast<C>(x);
}
template <class T, class U>
EFEMU_HERE std::common_type_t<T, U> min(T x, U y) {
  using C = std::common_type_t<T, U>;
  if constexpr (std::is_floating_point_v<C>) return static_cast<C>(y) < static_cast<C>(x) || static_cast<C>(x) != static_cast<C>(x) ? static_cast<C>(y) : static_cast<C>(x);
  else return static_cast<C>(y) < static_cast<C>(x) ? static_cast<C>(y) : static_cast<C>(x);
}
namespace std {
using ::max;
using ::min;
using ::isinf;
using ::isnan;
using ::exp;
using ::exp2;
using ::log;
using ::log2;
using ::sqrt;
using ::fabs;
using ::abs;
using ::pow;
using ::fmax;
using ::fmin;
using ::floor;
using ::ceil;
using ::tanh;
using ::round;
}  // namespace std
EFEMU_HERE long long clock64() { return 0; }
EFEMU_HERE int clock() { return 0; }

#include "cuda_half.h"
#include "cuda_groups.h"
#include "cuda_wmma.h"
#include "cuda_ptx.h"
