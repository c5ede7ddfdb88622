// What the snippets of evoflash/trust/conformance/*.toml share.
#include "ef.h"

using ef::bf16;
using ef::f16;
using ef::u16;
using ef::u32;
using ef::u32x2;
using ef::u32x4;
using ef::u64;

// The type of 2, 4, 8 or 16 bytes.
template <int BYTES>
struct of_bytes;
template <>
struct of_bytes<2> {
  using type = f16;
};
template <>
struct of_bytes<4> {
  using type = u32;
};
template <>
struct of_bytes<8> {
  using type = u32x2;
};
template <>
struct of_bytes<16> {
  using type = u32x4;
};
template <int BYTES>
using bytes_t = typename of_bytes<BYTES>::type;

// Whether two types are one.
template <class T>
EF_DEV constexpr bool same(T, T) { return true; }
template <class T, class U>
EF_DEV constexpr bool same(T, U) { return false; }

EF_DEV u32 bits(float value) {
#if EF_GPU
  return __float_as_uint(value);
#else
  return efemu::bits_of(value);
#endif
}
EF_DEV u32 bits(u32 value) { return value; }
EF_DEV u32 bits(int value) { return static_cast<u32>(value); }
EF_DEV u32 bits(bool value) { return value; }

template <class T>
EF_DEV void put(u32* out, T value) {
  ef::stg(out, bits(value));
}

template <class T>
EF_DEV void put_as(u32* out, int index, T value) {
  ef::stg(reinterpret_cast<T*>(out) + index, value);
}

// An input as a T: any bits for integers, a small integer for floats.
EF_DEV float small(u32 word) { return float(int(word % 9u)) - 4.0f; }
EF_DEV void take(float& value, u32 word) { value = float(int(word % 2001u)) - 1000.0f; }
EF_DEV void take(u32& value, u32 word) { value = word; }
EF_DEV void take(int& value, u32 word) { value = static_cast<int>(word); }
template <class T>
EF_DEV T get(const u32* in) {
  T value;
  take(value, ef::ldg(in));
  return value;
}

// Two small integers in one register.
template <class T>
EF_DEV u32 get_pair(const u32* in) {
  const u32 word = ef::ldg(in);
  return ef::pack2(small(word), small(word >> 16), T());
}

// Which lanes a condition holds in.
EF_DEV bool none(int) { return false; }
EF_DEV bool some(int lane) { return lane % 3 == 1; }
EF_DEV bool every(int) { return true; }

EF_DEV int ones(u32 mask) {
  int count = 0;
  for (; mask; mask &= mask - 1) ++count;
  return count;
}

// Shared memory from `in`, 16 bytes at a time; `bytes` is a multiple of 16.
EF_DEV void fill(u32 target, const u32* in, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x)
    ef::sts(target + 16 * i, ef::ldg(reinterpret_cast<const u32x4*>(in) + i));
}

// Shared memory to `out`.
EF_DEV void dump(u32* out, u32 source, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x)
    ef::stg(reinterpret_cast<u32x4*>(out) + i, ef::lds<u32x4>(source + 16 * i));
}

// Waiting with what sm_80 has.
EF_DEV void poll(u32 bar, u32 parity) {
  while (!ef::mbar_test_wait(bar, parity)) {
  }
}

// mma.sync's accumulators.
using accumulators_f32 = float[4];
using accumulators_f16 = u32[2];
EF_DEV void start(float& d, const u32* in) { take(d, ef::ldg(in)); }
EF_DEV void start(u32& d, const u32* in) { d = get_pair<f16>(in); }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
EF_DEV void load_bulk(u32 target, const void* source, u32 bytes, u32 bar) { ef::bulk_load(target, source, bytes, bar); }
EF_DEV void load_bulk_hint(u32 target, const void* source, u32 bytes, u32 bar) {
  ef::bulk_load_hint(target, source, bytes, bar, ef::l2_evict_first());
}

// Coordinates that depend on the thread.
EF_DEV ef::coords<1> at_1() { return ef::at(threadIdx.x); }
EF_DEV ef::coords<2> at_2() { return ef::at(threadIdx.x, -2); }
EF_DEV ef::coords<3> at_3() { return ef::at(threadIdx.x, -2, 3); }
EF_DEV ef::coords<4> at_4() { return ef::at(threadIdx.x, -2, 3, 4u); }
EF_DEV ef::coords<5> at_5() { return ef::at(threadIdx.x, -2, 3, 4u, threadIdx.x); }
#endif

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr ef::wgmma_swizzle swizzle_0 = ef::SWIZZLE_NONE, swizzle_32 = ef::SWIZZLE_32B;
constexpr ef::wgmma_swizzle swizzle_64 = ef::SWIZZLE_64B, swizzle_128 = ef::SWIZZLE_128B;

// A 64 x 16 A and a 16 x 8 B of f16 for tile_product.
EF_DEV void stage_tiles(u32 smem, const u32* in) {
  for (int i = threadIdx.x; i < 64 * 8 + 8 * 8; i += blockDim.x) ef::sts(smem + 4 * i, get_pair<f16>(in + i));
  ef::fence_proxy_async();
  ef::syncthreads();
}

// Starts d += a b for them; both K-major, without a swizzle.
EF_DEV void tile_product(ef::acc<4>& d, u32 smem) {
  const u64 a = ef::make_desc(smem, 128, 256, ef::SWIZZLE_NONE);
  const u64 b = ef::make_desc(smem + 2048, 128, 256, ef::SWIZZLE_NONE);
  ef::wgmma_ss<0, 0>(d, a, b, true, f16());
}
#endif
