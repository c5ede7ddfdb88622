// 64 x N x 16 products for wgmma, in float. Sums run in order of k; tensor cores align and truncate partial sums,
// so results are compared with a tolerance, except for small integers.
#include "products.h"

#include <cstring>

#include "shared.h"

namespace efemu {
namespace {

// Where the processor has eight floats in a register, they are used: a product then takes a quarter of the time. The
// sums are the same bit for bit, since nothing is contracted.
#if defined(__x86_64__) && defined(__GLIBC__)
#define EFEMU_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define EFEMU_WIDE
#endif

constexpr int kPieceElements = 8;
using Elements = float[kPieceElements];

// Calls `place(mn, k, elements)` for each piece of an operand of `extent` rows or columns.
template <class Place>
void for_each_piece(const Operand& operand, u32 extent, bool is_bf16, SharedMemory& shared, Place place) {
  const u32 mn_step = operand.mn_major ? kPieceElements : 1, k_step = operand.mn_major ? 1 : kPieceElements;
  for (u32 mn = 0; mn < extent; mn += mn_step)
    for (u32 k = 0; k < kProductDepth; k += k_step) {
      Elements elements;
      widen_eight(reinterpret_cast<const u16*>(shared.at(piece_address(operand, mn, k))), is_bf16, elements);
      place(mn, k, elements);
    }
}

// The number of each e4m3's code.
struct NumbersOfCodes {
  float of[256];
  NumbersOfCodes() {
    for (u32 code = 0; code < 256; ++code) {
      const u32 exponent = code >> 3 & 15, fraction = code & 7;
      float size = exponent ? static_cast<float>(8 + fraction) * 0x1p-10f : static_cast<float>(fraction) * 0x1p-9f;
      for (u32 i = 0; i < exponent; ++i) size *= 2;
      if ((code & 0x7f) == 0x7f) size = float_of(0x7fc00000);
      of[code] = code & 0x80 ? -size : size;
    }
  }
};

// Calls `place(mn, k, number)` for each number of a half of an operand of e4m3.
template <class Place>
void for_each_code(const Operand& operand, u32 extent, int half, SharedMemory& shared, Place place) {
  static const NumbersOfCodes numbers;
  for (u32 mn = 0; mn < extent; ++mn) {
    const u8* const codes = shared.at(piece_address(operand, mn, static_cast<u32>(half) * kPieceElements));
    for (u32 k = 0; k < kProductDepth; ++k) place(mn, k, numbers.of[codes[k]]);
  }
}

}  // namespace

void unpack_a_codes(Factors& factors, const Operand& a, int half, SharedMemory& shared) {
  for_each_code(a, kProductRows, half, shared, [&](u32 mn, u32 k, float number) { factors.a[mn][k] = number; });
}

void unpack_b_codes(Factors& factors, const Operand& b, int columns, int half, SharedMemory& shared) {
  for_each_code(b, static_cast<u32>(columns), half, shared,
                [&](u32 mn, u32 k, float number) { factors.b[k][mn] = number; });
}

void unpack_a(Factors& factors, const Operand& a, bool is_bf16, SharedMemory& shared) {
  for_each_piece(a, kProductRows, is_bf16, shared, [&](u32 mn, u32 k, const Elements& elements) {
    if (!a.mn_major)
      std::memcpy(&factors.a[mn][k], elements, sizeof elements);
    else
      for (u32 i = 0; i < kPieceElements; ++i) factors.a[mn + i][k] = elements[i];
  });
}

void unpack_b(Factors& factors, const Operand& b, int columns, bool is_bf16, SharedMemory& shared) {
  for_each_piece(b, static_cast<u32>(columns), is_bf16, shared, [&](u32 mn, u32 k, const Elements& elements) {
    if (b.mn_major)
      std::memcpy(&factors.b[k][mn], elements, sizeof elements);
    else
      for (u32 i = 0; i < kPieceElements; ++i) factors.b[k + i][mn] = elements[i];
  });
}

void unpack_a_registers(Factors& factors, int lane, const u32* registers, bool is_bf16) {
  const auto to_float = [=](u32 bits) {
    return is_bf16 ? bf16_to_float(static_cast<u16>(bits)) : f16_to_float(static_cast<u16>(bits));
  };
  const int row = lane / 32 * 16 + lane % 32 / 4, column = lane % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    float* const at = &factors.a[row + i % 2 * 8][column + i / 2 * 8];
    at[0] = to_float(registers[i]);
    at[1] = to_float(registers[i] >> 16);
  }
}

namespace {

// Four rows by eight columns at a time stay in registers while k runs.
__attribute__((always_inline)) inline void multiply_block(const Factors& factors, float* d, int columns, int row,
                                                          int column, bool adds) {
  EightFloats sums[4] = {};
  if (adds)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) std::memcpy(&sums[i], d + (row + i) * columns + column, sizeof sums[i]);
  for (int k = 0; k < kProductDepth; ++k) {
    EightFloats b;
    std::memcpy(&b, &factors.b[k][column], sizeof b);
#pragma GCC unroll 4  // or the sums lie on the stack
    for (int i = 0; i < 4; ++i) sums[i] += factors.a[row + i][k] * b;
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) std::memcpy(d + (row + i) * columns + column, &sums[i], sizeof sums[i]);
}

}  // namespace

EFEMU_WIDE void multiply(const Factors& factors, float* d, int columns, bool adds) {
  for (int column = 0; column < columns; column += 8)
    for (int row = 0; row < kProductRows; row += 4) multiply_block(factors, d, columns, row, column, adds);
}

}  // namespace efemu
