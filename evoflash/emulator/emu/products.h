// The arithmetic of wgmma: operands out of shared memory or registers into floats, and the product. Checks nothing.
#pragma once
#include "descriptor.h"

namespace efemu {

// Added and multiplied at once, in whatever vectors the machine has.
typedef float EightFloats __attribute__((vector_size(8 * sizeof(float))));

// Eight 16-bit numbers, exactly.
inline void widen_eight(const u16* from, bool is_bf16, float* to) {
  typedef u16 EightHalves __attribute__((vector_size(8 * sizeof(u16))));
  typedef int EightWords __attribute__((vector_size(8 * sizeof(int))));
  EightHalves halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  const EightWords bits = __builtin_convertvector(halves, EightWords);
  EightWords wide = bits << 16;
  if (!is_bf16) {  // as f16_to_float does
    const EightWords magnitude = bits & 0x7fff;
    EightFloats scaled;
    const EightWords shifted = magnitude << 13;
    __builtin_memcpy(&scaled, &shifted, sizeof scaled);
    scaled *= 0x1p112f;
    __builtin_memcpy(&wide, &scaled, sizeof wide);
    wide |= ((magnitude >= 0x7c00) & 0x7f800000) | (bits & 0x8000) << 16;
  }
  __builtin_memcpy(to, &wide, sizeof wide);
}

constexpr int kProductRows = 64, kProductDepth = 16, kProductColumns = 256;

// A row of `a` for each row, a row of `b` for each k.
struct Factors {
  alignas(64) float a[kProductRows][kProductDepth];
  alignas(64) float b[kProductDepth][kProductColumns];
};

class SharedMemory;
// Half `half` of operands of e4m3, which are twice as deep and have as many bytes; k runs along memory.
void unpack_a_codes(Factors& factors, const Operand& a, int half, SharedMemory& shared);
void unpack_b_codes(Factors& factors, const Operand& b, int columns, int half, SharedMemory& shared);
void unpack_a(Factors& factors, const Operand& a, bool is_bf16, SharedMemory& shared);
void unpack_b(Factors& factors, const Operand& b, int columns, bool is_bf16, SharedMemory& shared);
// Lane `lane` of 128 has these four registers: the fragment of mma.m16n8k16, for each warp's 16 rows.
void unpack_a_registers(Factors& factors, int lane, const u32* registers, bool is_bf16);

// d (64 x columns, by rows) += a x b, in order of k; or without d.
void multiply(const Factors& factors, float* d, int columns, bool adds);

}  // namespace efemu
