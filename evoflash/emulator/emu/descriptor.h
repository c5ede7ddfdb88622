// wgmma's matrix descriptors: where in shared memory an operand's elements are. Checks the descriptor; touches
// no memory.
#pragma once
#include "float16.h"

namespace efemu {

constexpr u32 kPiece = 16;  // bytes: eight elements

// An operand of 16-bit elements: `mn` (a row of A, a column of B) by k. It is read in pieces: along k
// where it is K-major, along mn where it is MN-major.
struct Operand {
  u32 start, leading, stride;  // bytes
  u32 width;                   // 16-byte pieces in a row of the swizzle's pattern; 1: none
  bool mn_major;
};

// Reports what is wrong with it ("wgmma-descriptor"); `name` is "A" or "B".
Operand read_descriptor(u64 descriptor, bool mn_major, const char* name, int line);

// The shared address of the piece that begins at (mn, k); the one of the two that runs is a multiple of 8.
u32 piece_address(const Operand& operand, u32 mn, u32 k);

}  // namespace efemu
