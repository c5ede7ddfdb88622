// wgmma: matrix products that the four warps of a warpgroup start together and wait for later. sm_90a.
//
// D is 64 x N in registers, A is 64 x 16 in registers or shared memory, B is 16 x N in shared memory; of e4m3 both are 32 deep. From wgmma_ss or
// wgmma_rs to the wgmma_wait that covers it, the registers of D and A are in flight: not to be read or written.
#pragma once
#include "ef_base.h"
#include "ef_wgmma_shapes.h"

namespace ef {

#if !EF_GPU
// An index into registers that may be in flight, with the line that it stands on.
struct register_index {
  int i, line;
  register_index(int i EF_LINE) : i(i), line(line) {}
};

// Registers of a wgmma, with what the emulator knows of them; an access in flight is reported. A copy reads them all;
// those whose scope ends are out of anybody's reach, which is no access.
template <class T, int N, bool ACCUMULATOR>
struct in_flight_registers {
  T x[N];
  mutable efemu::InFlight state = {};
  in_flight_registers() = default;
  in_flight_registers(const in_flight_registers& other) { *this = other; }
  in_flight_registers& operator=(const in_flight_registers& other) {
    other.touch(other.state.line);
    touch(state.line);
    for (int i = 0; i < N; ++i) x[i] = other.x[i];
    return *this;
  }
  ~in_flight_registers() {
    if (state.line != 0) efemu::forget_in_flight(state);
  }
  void touch(int line) const {
    if (state.line != 0) efemu::touched_in_flight(state, ACCUMULATOR, line);
    state.touched = efemu::context->fences;
  }
  T& operator[](register_index at) {
    touch(at.line);
    return x[at.i];
  }
  const T& operator[](register_index at) const {
    touch(at.line);
    return x[at.i];
  }
};
#endif

// One thread's N floats of a 64 x 2N accumulator: of warp w, lane l, element 4j + 2h + e is row 16w + l/4 + 8h,
// column 8j + 2(l%4) + e.
#if EF_GPU
template <int N>
struct acc {
  float x[N];
  __device__ __forceinline__ float& operator[](int i) { return x[i]; }
  __device__ __forceinline__ const float& operator[](int i) const { return x[i]; }
};
#else
template <int N>
struct acc : in_flight_registers<float, N, true> {};
#endif

// One thread's part of operand A in registers, 64 x 16: for each warp what mma_m16n8k16 takes as A.
#if EF_GPU
struct frag {
  u32 x[4];
  __device__ __forceinline__ u32& operator[](int i) { return x[i]; }
  __device__ __forceinline__ const u32& operator[](int i) const { return x[i]; }
};
#else
struct frag : in_flight_registers<u32, 4, false> {};
#endif

// How an operand's 16-byte chunks are permuted in shared memory, as make_desc encodes it.
enum wgmma_swizzle : u32 { SWIZZLE_NONE = 0, SWIZZLE_128B = 1, SWIZZLE_64B = 2, SWIZZLE_32B = 3 };

// Describes an operand in shared memory: address, the two byte offsets of its layout (leading, stride), swizzle.
EF_DEV u64 make_desc(u32 address, u32 leading_bytes, u32 stride_bytes, wgmma_swizzle swizzle) {
  const u64 low = (address & 0x3ffffu) >> 4 | (leading_bytes & 0x3ffffu) >> 4 << 16;
  const u64 high = (stride_bytes & 0x3ffffu) >> 4 | static_cast<u32>(swizzle) << 30;
  return low | high << 32;
}

// Orders this warpgroup's accesses to the registers of D and A before the wgmma that follow.
EF_DEV void wgmma_fence(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
  efemu::wgmma_fence(line);
#endif
}

// Closes the warpgroup's group of wgmma; an empty group is legal.
EF_DEV void wgmma_commit(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  efemu::wgmma_commit(line);
#endif
}

// Waits until at most N of the warpgroup's newest groups are still under way.
template <int N>
EF_DEV void wgmma_wait(EF_ONLY_LINE) {
  static_assert(N >= 0 && N <= 7, "wgmma_wait: 0 to 7 groups");
#if EF_GPU
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#else
  efemu::wgmma_wait(N, line);
#endif
}

// Keeps the compiler from moving accesses to an accumulator across this place; no instruction.
template <int N>
EF_DEV void wgmma_fence_acc(acc<N>& d) {
#if EF_GPU
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d.x[i])::"memory");
#else
  static_cast<void>(d);
#endif
}

// Keeps the compiler from moving accesses to operand A's registers across this place; no instruction.
EF_DEV void wgmma_fence_frag(frag& a) {
#if EF_GPU
#pragma unroll
  for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a.x[i])::"memory");
#else
  static_cast<void>(a);
#endif
}

// Starts d = a b + d, or a b where not `scale_d`. TRANS 0: k runs along memory; 1: a's rows or b's columns do.
template <int TRANS_A, int TRANS_B, int N, class T>
EF_DEV void wgmma_ss(acc<N>& d, u64 a, u64 b, bool scale_d, T type EF_LINE) {
  static_assert(N >= 4 && N <= 128 && N % 4 == 0, "wgmma_ss: acc<4> to acc<128>, in steps of 4");
#if EF_GPU
  wgmma_shape_ss<TRANS_A, TRANS_B>(d.x, a, b, scale_d, type);
#else
  const efemu::WgmmaShape shape = {2 * N, TRANS_A != 0, TRANS_B != 0, is_bf16<T>, false};
  efemu::wgmma(shape, d.x, &d.state, nullptr, nullptr, a, b, scale_d, line);
#endif
}

// wgmma_ss of e4m3: A is 64 x 32, B is 32 x N, k runs along memory in both. The tensor cores keep some 14 bits of what they
// add up: a sum over many k is to be divided, and its parts added in float.
template <int N>
EF_DEV void wgmma_ss_e4m3(acc<N>& d, u64 a, u64 b, bool scale_d EF_LINE) {
  static_assert(N >= 4 && N <= 128 && N % 4 == 0, "wgmma_ss_e4m3: acc<4> to acc<128>, in steps of 4");
#if EF_GPU
  wgmma_shape_e4m3(d.x, a, b, scale_d);
#else
  const efemu::WgmmaShape shape = {2 * N, false, false, false, true};
  efemu::wgmma(shape, d.x, &d.state, nullptr, nullptr, a, b, scale_d, line);
#endif
}

// wgmma_ss with A in registers.
template <int TRANS_B, int N, class T>
EF_DEV void wgmma_rs(acc<N>& d, const frag& a, u64 b, bool scale_d, T type EF_LINE) {
  static_assert(N >= 4 && N <= 128 && N % 4 == 0, "wgmma_rs: acc<4> to acc<128>, in steps of 4");
#if EF_GPU
  wgmma_shape_rs<TRANS_B>(d.x, a.x, b, scale_d, type);
#else
  const efemu::WgmmaShape shape = {2 * N, false, TRANS_B != 0, is_bf16<T>, false};
  efemu::wgmma(shape, d.x, &d.state, a.x, &a.state, 0, b, scale_d, line);
#endif
}

}  // namespace ef
