// The primitives on the host: the names of ef_ptx.h, checked and counted by the CPU emulator.
//
// Made for g++; no standard headers. The last parameter of most primitives is never given: it is the line
// of the kernel's text that the call stands on.
#pragma once
#include "../emu/interface.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __shared__ static  // one block runs at a time
#define threadIdx (::efemu::context->thread_index)
#define blockIdx (::efemu::context->block_index)
#define blockDim (::efemu::context->block_dim)
#define gridDim (::efemu::context->grid_dim)

#define EF_DEV static inline
#define EF_EXPORT_KERNEL(name) \
  extern "C" {                 \
  ::efemu::Kernel efemu_kernel_##name = ::efemu::describe(name); \
  }
#define EF_LINE int line = __builtin_LINE()

namespace ef {

using efemu::u16;
using efemu::u32;
using efemu::u64;

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct alignas(8) u32x2 {
  u32 x, y;
};
struct alignas(16) u32x4 {
  u32 x, y, z, w;
};

// Their registers hold the elements in an order that the emulator draws anew for each launch.
template <class T>
struct wmma_a {
  u32 x[8];
};
template <class T>
struct wmma_b_row {
  u32 x[8];
};
template <class T>
struct wmma_b_col {
  u32 x[8];
};
struct wmma_c {
  float x[8];
};

template <class T>
constexpr bool is_register_size = sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16;

EF_DEV u32 smem_base() {
  return efemu::kSharedBase;
}

template <int BYTES>
EF_DEV u32 smem_static(EF_LINE) {
  static_assert(BYTES > 0, "smem_static: a number of bytes");
  return efemu::static_shared(BYTES, line);
}

template <class T>
EF_DEV T lds(u32 address, EF_LINE) {
  static_assert(is_register_size<T>, "lds loads 2, 4, 8 or 16 bytes");
  T value;
  __builtin_memcpy(&value, efemu::read_shared(address, sizeof(T), line), sizeof(T));
  return value;
}

template <class T>
EF_DEV void sts(u32 address, T value, EF_LINE) {
  static_assert(is_register_size<T>, "sts stores 2, 4, 8 or 16 bytes");
  __builtin_memcpy(efemu::write_shared(address, sizeof(T), line), &value, sizeof(T));
}

template <class T>
EF_DEV T ldg(const T* source, EF_LINE) {
  static_assert(is_register_size<T>, "ldg loads 2, 4, 8 or 16 bytes");
  T value;
  __builtin_memcpy(&value, efemu::read_global(source, sizeof(T), line), sizeof(T));
  return value;
}

template <class T>
EF_DEV void stg(T* target, T value, EF_LINE) {
  static_assert(is_register_size<T>, "stg stores 2, 4, 8 or 16 bytes");
  __builtin_memcpy(efemu::write_global(target, sizeof(T), line), &value, sizeof(T));
}

EF_DEV void stg_cs(u32x4* target, u32x4 value, EF_LINE) {
  stg(target, value, line);
}

EF_DEV void cp_async16(u32 target, const void* source, EF_LINE) {
  efemu::copy_async(target, source, true, line);
}

EF_DEV void cp_async16_zfill(u32 target, const void* source, bool inside, EF_LINE) {
  efemu::copy_async(target, source, inside, line);
}

template <int kL2Bytes>
EF_DEV void cp_async16_zfill_l2(u32 target, const void* source, bool inside, EF_LINE) {
  static_assert(kL2Bytes == 64 || kL2Bytes == 128 || kL2Bytes == 256, "cp_async16_zfill_l2: 64, 128 or 256");
  efemu::copy_async(target, source, inside, line);
}

EF_DEV void cp_async16_zfill_l1(u32 target, const void* source, bool inside, EF_LINE) {
  efemu::copy_async(target, source, inside, line);
}

EF_DEV void cp_async4_zfill(u32 target, const void* source, bool inside, EF_LINE) {
  efemu::copy_async(target, source, inside, line, 4);
}

EF_DEV void cp_async8_zfill(u32 target, const void* source, bool inside, EF_LINE) {
  efemu::copy_async(target, source, inside, line, 8);
}

EF_DEV void cp_async_commit(EF_LINE) {
  efemu::commit_copies(line);
}

template <int N>
EF_DEV void cp_async_wait(EF_LINE) {
  static_assert(N >= 0, "cp_async_wait: a number of groups");
  efemu::wait_copies(N, line);
}

EF_DEV void ldmatrix_x2(u32 (&r)[2], u32 row, EF_LINE) {
  efemu::load_matrices(r, 2, false, row, line);
}

EF_DEV void ldmatrix_x2_trans(u32 (&r)[2], u32 row, EF_LINE) {
  efemu::load_matrices(r, 2, true, row, line);
}

EF_DEV void ldmatrix_x4(u32 (&r)[4], u32 row, EF_LINE) {
  efemu::load_matrices(r, 4, false, row, line);
}

EF_DEV void ldmatrix_x4_trans(u32 (&r)[4], u32 row, EF_LINE) {
  efemu::load_matrices(r, 4, true, row, line);
}

EF_DEV void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16, EF_LINE) {
  const u32 b[2] = {b0, b1};
  efemu::multiply_tiles(d, a, b, false, line);
}

EF_DEV void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16, EF_LINE) {
  const u32 b[2] = {b0, b1};
  efemu::multiply_tiles(d, a, b, true, line);
}

EF_DEV void wmma_load_a(wmma_a<f16>& a, u32 address, int stride, EF_LINE) {
  efemu::wmma_load_operand(a.x, false, false, address, stride, line);
}

EF_DEV void wmma_load_a(wmma_a<bf16>& a, u32 address, int stride, EF_LINE) {
  efemu::wmma_load_operand(a.x, true, false, address, stride, line);
}

EF_DEV void wmma_load_b_row(wmma_b_row<f16>& b, u32 address, int stride, EF_LINE) {
  efemu::wmma_load_operand(b.x, false, false, address, stride, line);
}

EF_DEV void wmma_load_b_row(wmma_b_row<bf16>& b, u32 address, int stride, EF_LINE) {
  efemu::wmma_load_operand(b.x, true, false, address, stride, line);
}

EF_DEV void wmma_load_b_col(wmma_b_col<f16>& b, u32 address, int stride, EF_LINE) {
  efemu::wmma_load_operand(b.x, false, true, address, stride, line);
}

EF_DEV void wmma_load_b_col(wmma_b_col<bf16>& b, u32 address, int stride, EF_LINE) {
  efemu::wmma_load_operand(b.x, true, true, address, stride, line);
}

EF_DEV void wmma_load_c(wmma_c& c, u32 address, int stride, EF_LINE) {
  efemu::wmma_load_accumulator(c.x, address, stride, line);
}

EF_DEV void wmma_store_c(u32 address, const wmma_c& c, int stride, EF_LINE) {
  efemu::wmma_store_accumulator(c.x, address, stride, line);
}

EF_DEV void wmma_fill(wmma_c& c, float value) {
  for (float& element : c.x) element = value;
}

EF_DEV void wmma_scale(wmma_c& c, float factor) {
  for (float& element : c.x) element *= factor;
}

EF_DEV void wmma_mma(wmma_c& c, const wmma_a<f16>& a, const wmma_b_row<f16>& b, EF_LINE) {
  efemu::wmma_multiply(c.x, a.x, b.x, false, line);
}

EF_DEV void wmma_mma(wmma_c& c, const wmma_a<bf16>& a, const wmma_b_row<bf16>& b, EF_LINE) {
  efemu::wmma_multiply(c.x, a.x, b.x, true, line);
}

EF_DEV void wmma_mma(wmma_c& c, const wmma_a<f16>& a, const wmma_b_col<f16>& b, EF_LINE) {
  efemu::wmma_multiply(c.x, a.x, b.x, false, line);
}

EF_DEV void wmma_mma(wmma_c& c, const wmma_a<bf16>& a, const wmma_b_col<bf16>& b, EF_LINE) {
  efemu::wmma_multiply(c.x, a.x, b.x, true, line);
}

// The sum over k in float, then one rounding to f16 when it is added.
EF_DEV void mma_m16n8k16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1, f16, EF_LINE) {
  const u32 b[2] = {b0, b1};
  float product[4] = {};
  efemu::multiply_tiles(product, a, b, false, line);
  for (int h = 0; h < 2; ++h) {
    const float lo = efemu::f16_to_float(static_cast<u16>(d[h])) + product[2 * h];
    const float hi = efemu::f16_to_float(static_cast<u16>(d[h] >> 16)) + product[2 * h + 1];
    d[h] = efemu::float_to_f16(lo) | static_cast<u32>(efemu::float_to_f16(hi)) << 16;
  }
}

EF_DEV float shfl_xor(float value, int lane_mask, EF_LINE) {
  return efemu::float_of(efemu::shuffle_xor(efemu::bits_of(value), lane_mask, line));
}

EF_DEV int shfl_idx(int value, int lane, EF_LINE) {
  return static_cast<int>(efemu::shuffle_index(static_cast<u32>(value), lane, line));
}

EF_DEV u32 shfl_idx(u32 value, int lane, EF_LINE) {
  return efemu::shuffle_index(value, lane, line);
}

EF_DEV float shfl_idx(float value, int lane, EF_LINE) {
  return efemu::float_of(efemu::shuffle_index(efemu::bits_of(value), lane, line));
}

EF_DEV bool any_sync(bool condition, EF_LINE) {
  return efemu::vote_any(condition, line);
}

EF_DEV bool all_sync(bool condition, EF_LINE) {
  return efemu::vote_all(condition, line);
}

EF_DEV void syncwarp(EF_LINE) {
  efemu::sync_warp(line);
}

EF_DEV void syncthreads(EF_LINE) {
  efemu::sync_block(line);
}

EF_DEV bool syncthreads_or(bool condition, EF_LINE) {
  return efemu::sync_block_or(condition, line);
}

EF_DEV void bar_sync(int id, int threads, EF_LINE) {
  efemu::barrier_sync(id, threads, line);
}

EF_DEV void bar_arrive(int id, int threads, EF_LINE) {
  efemu::barrier_arrive(id, threads, line);
}

// What .ftz does to a subnormal.
EF_DEV float flush(float x) {
  return (efemu::bits_of(x) & 0x7f800000u) == 0 ? __builtin_copysignf(0.0f, x) : x;
}

EF_DEV float ex2(float x) {
  ++efemu::tally.ex2;
  return flush(__builtin_exp2f(flush(x)));
}

EF_DEV float lg2(float x) {
  ++efemu::tally.lg2;
  return __builtin_log2f(flush(x));
}

EF_DEV float rcp(float x) {
  ++efemu::tally.rcp;
  return flush(1.0f / flush(x));
}

EF_DEV float fmax(float a, float b) {
  ++efemu::tally.fmax;
  return a > b || b != b ? a : b;
}

EF_DEV float fma(float a, float b, float c) {
  ++efemu::tally.fma;
  return __builtin_fmaf(a, b, c);
}

EF_DEV float mul(float a, float b) {
  ++efemu::tally.fma;
  return a * b;
}

EF_DEV float sub(float a, float b) {
  ++efemu::tally.fma;
  return a - b;
}

EF_DEV float neg_inf() {
  return -__builtin_inff();
}

EF_DEV float to_f32(f16 value) {
  return efemu::f16_to_float(value.bits);
}

EF_DEV float to_f32(bf16 value) {
  return efemu::bf16_to_float(value.bits);
}

EF_DEV f16 from_f32(float value, f16) {
  return {efemu::float_to_f16(value)};
}

EF_DEV bf16 from_f32(float value, bf16) {
  return {efemu::float_to_bf16(value)};
}

EF_DEV u32 pack2(float lo, float hi, f16) {
  ++efemu::tally.pack;
  return efemu::float_to_f16(lo) | static_cast<u32>(efemu::float_to_f16(hi)) << 16;
}

EF_DEV u32 pack2(float lo, float hi, bf16) {
  ++efemu::tally.pack;
  return efemu::float_to_bf16(lo) | static_cast<u32>(efemu::float_to_bf16(hi)) << 16;
}

EF_DEV void unpack2(float& lo, float& hi, u32 packed, f16) {
  lo = efemu::f16_to_float(static_cast<u16>(packed));
  hi = efemu::f16_to_float(static_cast<u16>(packed >> 16));
}

EF_DEV void unpack2(float& lo, float& hi, u32 packed, bf16) {
  lo = efemu::bf16_to_float(static_cast<u16>(packed));
  hi = efemu::bf16_to_float(static_cast<u16>(packed >> 16));
}

}  // namespace ef

#undef EF_LINE
