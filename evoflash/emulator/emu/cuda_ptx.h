// Inline PTX that plain kernels write, an instruction a function: kernels/plain_cuda.py puts calls of these in place of
// `asm`. Registers are 32-bit as PTX has them. Included by cuda_names.h.
#pragma once

namespace efemu_ptx {

using u32 = unsigned int;
using u64 = unsigned long long;

// A register of an asm operand ("r", "f", "h", "l") as bits, and back.
template <class T>
EFEMU_HERE u32 bits(const T& value) {
  u32 result = 0;
  __builtin_memcpy(&result, &value, sizeof(T) < 4 ? sizeof(T) : 4);
  return result;
}
template <class T>
EFEMU_HERE void set(T& target, u32 value) {
  __builtin_memcpy(&target, &value, sizeof(T) < 4 ? sizeof(T) : 4);
}

// Which instructions there are: one of these for a name, with its operands in PTX's order.
template <class... T>
EFEMU_OWN inline void load_matrices(int count, bool transposed, int line, u32 address, T&... to) {
  u32 registers[4];
  ::efemu::load_matrices(registers, count, transposed, address, line);
  int at = 0;
  (set(to, registers[at++]), ...);
}
template <class... T>
EFEMU_OWN inline void store_matrices(int count, bool transposed, int line, u32 address, const T&... from) {
  const u32 registers[4] = {bits(from)...};
  ::efemu::store_matrices(address, registers, count, transposed, line);
}

struct Halves {
  u32 d0, d1;
};
// mma.m16n8k16 and m16n8k8, sums in float.
template <class D, class A, class B, class C>
EFEMU_OWN inline void multiply(bool is_bf16, bool is_k8, bool is_half_sum, int line, D (&d)[4], const A (&a)[4], const B (&b)[2], const C (&c)[4]) {
  u32 left[4], right[2];
  float sum[4];
  for (int i = 0; i < 4; ++i) left[i] = is_k8 && i >= 2 ? 0 : bits(a[i]);
  for (int i = 0; i < 2; ++i) right[i] = is_k8 && i >= 1 ? 0 : bits(b[i]);
  for (int i = 0; i < 4; ++i) sum[i] = is_half_sum ? ::efemu::f16_to_float(static_cast<unsigned short>(bits(c[i / 2]) >> 16 * (i % 2))) : ::efemu::float_of(bits(c[i]));
  ::efemu::multiply_tiles(sum, left, right, is_bf16, line);
  if (is_half_sum)
    for (int i = 0; i < 2; ++i)
      set(d[i], ::efemu::float_to_f16(sum[2 * i]) | static_cast<u32>(::efemu::float_to_f16(sum[2 * i + 1])) << 16);
  else
    for (int i = 0; i < 4; ++i) set(d[i], ::efemu::bits_of(sum[i]));
}

EFEMU_OWN inline void copy_async(int line, u32 target, const void* source, u32 bytes, u32 taken) {
  if (taken != bytes && taken != 0) ::efemu::stop_kernel("unseen", "cp.async of a part of its bytes", line);
  ::efemu::copy_async(target, source, taken != 0, line, bytes);
}

}  // namespace efemu_ptx
