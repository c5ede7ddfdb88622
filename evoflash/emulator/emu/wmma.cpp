// WMMA 16x16x16: fragments whose layout nobody may know. Which lane and register hold an element is drawn
// anew for each launch, so that a kernel which assumes the hardware's (or any) layout computes nonsense.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "collective.h"

namespace efemu {
namespace {

constexpr int kSide = 16;
constexpr int kElements = kSide * kSide;
constexpr int kRegisters = 8;  // of a lane in any fragment; a bf16 operand uses four
constexpr u32 kPieceBytes = 16;

// Where a fragment keeps its elements: for each, in row-major order, 8 * lane + slot. A slot is a float of an
// accumulator, or half a register of an operand.
using Places = u16[kElements];

struct Scramble {
  Places operand, accumulator;
  // The lanes that touch memory for the i-th piece. Others read than write: nothing promises that a tile loaded
  // and stored again in place goes through the same lanes, so a syncwarp must stand between.
  int reader[kWarpSize], writer[kWarpSize];
};
Scramble scramble;

void shuffle_places(Places& places, std::mt19937& draw) {
  std::iota(std::begin(places), std::end(places), u16{0});
  std::shuffle(std::begin(places), std::end(places), draw);
}

// A bf16 operand fills its registers; an f16 one has twice as many, and keeps each element in the register of
// a pair that the low bit of its place names.
u16& operand_slot(u32* registers, bool is_bf16, u32 slot) {
  const u32 half = is_bf16 ? slot : slot / 2 * 4 + slot % 2 * 3;
  return reinterpret_cast<u16*>(registers)[half];
}

struct TileAccess {
  void* fragment;
  u32 address;
  int stride;
};

// "The starting address of each row or column must be aligned with the size of the fragment in bytes" (PTX
// ISA, wmma, address alignment): 32 bytes for f16 and for the accumulator, 16 for bf16. The C++ guide asks for
// less of the stride; the ISA's word counts.
bool admits_rows(const Lanes<TileAccess>& lanes, const char* op, u32 element_bytes, u32 align_bytes, int line) {
  const u32 address = lanes[0].address;
  const int stride = lanes[0].stride;
  for (int lane = 1; lane < kWarpSize; ++lane)
    if (lanes[lane].address != address || lanes[lane].stride != stride)
      report_divergence(op, line, text("lane %d gives another address or stride than lane 0", lane));
  if (address % align_bytes || static_cast<u32>(stride) * element_bytes % align_bytes) {
    report("misaligned-shared", line, 0, [&] {
      return text("%s at shared offset %u with a stride of %d elements: its rows must begin at multiples of %u bytes",
                  op, address - kSharedBase, stride, align_bytes);
    });
    return false;
  }
  return true;
}

u32 row_at(const TileAccess& access, int row, u32 element_bytes) {
  return access.address + static_cast<u32>(row * access.stride) * element_bytes;
}

// ---- counting: fragments reach memory as the known hardware moves them (an approximation: nothing promises it)

// Operands as one ldmatrix of four 8x8 matrices.
void count_operand(const TileAccess& access, int line) {
  u64 rows[kWarpSize];
  for (int lane = 0; lane < kWarpSize; ++lane)
    rows[lane] = row_at(access, lane % 16, 2) + static_cast<u32>(lane / 16) * kPieceBytes;
  count_ldmatrix(rows, 4, line);
}

// Accumulators as four accesses of 8 bytes a lane, in the layout of mma's: row lane / 4, columns lane % 4 * 2.
void count_accumulator(const TileAccess& access, Access kind, int line) {
  for (int part = 0; part < 4; ++part) {
    u64 addresses[kWarpSize];
    for (int lane = 0; lane < kWarpSize; ++lane)
      addresses[lane] = row_at(access, lane / 4 + part / 2 * 8, 4) + static_cast<u32>(lane % 4 * 2 + part % 2 * 8) * 4;
    count_warp_access(kind, addresses, 8, line);
  }
}

// ---- load and store

void load_operand(const Lanes<TileAccess>& lanes, bool is_bf16, bool transposed, const char* op, int line) {
  u16 tile[kElements];
  std::memset(tile, 0xff, sizeof tile);  // a NaN, where nothing can be read
  if (admits_rows(lanes, op, 2, is_bf16 ? 16 : 32, line)) {
    for (int piece = 0; piece < 2 * kSide; ++piece) {
      const u32 address = row_at(lanes[0], piece / 2, 2) + static_cast<u32>(piece % 2) * kPieceBytes;
      if (!cta->shared.admits(address, kPieceBytes, op, line)) continue;
      cta->shared.read(address, kPieceBytes, group.clocks.actor(lanes.thread(scramble.reader[piece])), line);
      std::memcpy(tile + piece * 8, cta->shared.at(address), kPieceBytes);
    }
    count_operand(lanes[0], line);
  }
  for (int lane = 0; lane < kWarpSize; ++lane)
    std::memset(lanes[lane].fragment, 0xff, (is_bf16 ? 4 : kRegisters) * sizeof(u32));
  for (int element = 0; element < kElements; ++element) {
    const int row = element / kSide, column = element % kSide;
    const u16 place = scramble.operand[element];
    operand_slot(static_cast<u32*>(lanes[place / 8].fragment), is_bf16, place % 8) =
        tile[transposed ? column * kSide + row : element];
  }
}

// Visits the 64 pieces of an accumulator in memory, with the first of its four elements; the lanes that touch
// them have nothing to do with where the fragment keeps them.
template <class Visit>
void each_piece(const Lanes<TileAccess>& lanes, const int (&agents)[kWarpSize], const char* op, int line, Visit visit) {
  if (!admits_rows(lanes, op, 4, 32, line)) return;
  for (int piece = 0; piece < 4 * kSide; ++piece) {
    const u32 address = row_at(lanes[0], piece / 4, 4) + static_cast<u32>(piece % 4) * kPieceBytes;
    if (cta->shared.admits(address, kPieceBytes, op, line))
      visit(address, lanes.thread(agents[piece % kWarpSize]), piece * 4);
  }
}

float& accumulator_slot(void* fragment, int slot) {
  return static_cast<float*>(fragment)[slot];
}

// ---- multiply

struct FragmentProduct {
  float* d;
  u32 *a, *b;
};

template <float (*ToFloat)(u16)>
void multiply_fragments(const Lanes<FragmentProduct>& lanes, bool is_bf16) {
  static float a[kSide][kSide], b[kSide][kSide];
  for (int element = 0; element < kElements; ++element) {
    const u16 place = scramble.operand[element];
    const FragmentProduct& part = lanes[place / 8];
    a[element / kSide][element % kSide] = ToFloat(operand_slot(part.a, is_bf16, place % 8));
    b[element / kSide][element % kSide] = ToFloat(operand_slot(part.b, is_bf16, place % 8));
  }
  for (int row = 0; row < kSide; ++row) {
    float sum[kSide];
    const u16* places = scramble.accumulator + row * kSide;
    for (int column = 0; column < kSide; ++column) sum[column] = lanes[places[column] / 8].d[places[column] % 8];
    for (int k = 0; k < kSide; ++k)
      for (int column = 0; column < kSide; ++column) sum[column] += a[row][k] * b[k][column];
    for (int column = 0; column < kSide; ++column) lanes[places[column] / 8].d[places[column] % 8] = sum[column];
  }
}

}  // namespace

void scramble_fragments(u32 seed) {
  std::mt19937 draw(seed);
  shuffle_places(scramble.operand, draw);
  shuffle_places(scramble.accumulator, draw);
  for (auto* agents : {&scramble.reader, &scramble.writer}) {
    std::iota(std::begin(*agents), std::end(*agents), 0);
    std::shuffle(std::begin(*agents), std::end(*agents), draw);
  }
}

void wmma_load_operand(u32* registers, bool is_bf16, bool transposed, u32 address, int stride, int line) {
  const char* op = transposed ? "wmma_load (columns)" : "wmma_load (rows)";
  require_whole_warp(op, line);
  TileAccess mine{registers, address, stride};
  collective(op, line, mine,
             [=](const Lanes<TileAccess>& lanes) { load_operand(lanes, is_bf16, transposed, op, line); });
}

void wmma_load_accumulator(float* registers, u32 address, int stride, int line) {
  require_whole_warp("wmma_load_c", line);
  std::fill(registers, registers + kRegisters, float_of(~0u));
  TileAccess mine{registers, address, stride};
  collective("wmma_load_c", line, mine, [line](const Lanes<TileAccess>& lanes) {
    each_piece(lanes, scramble.reader, "wmma_load_c", line, [&](u32 at, int thread, int first) {
      cta->shared.read(at, kPieceBytes, group.clocks.actor(thread), line);
      float values[4];
      std::memcpy(values, cta->shared.at(at), sizeof values);
      for (int i = 0; i < 4; ++i) {
        const u16 place = scramble.accumulator[first + i];
        accumulator_slot(lanes[place / 8].fragment, place % 8) = values[i];
      }
    });
    count_accumulator(lanes[0], Access::lds, line);
  });
}

void wmma_store_accumulator(const float* registers, u32 address, int stride, int line) {
  require_whole_warp("wmma_store_c", line);
  TileAccess mine{const_cast<float*>(registers), address, stride};
  collective("wmma_store_c", line, mine, [line](const Lanes<TileAccess>& lanes) {
    each_piece(lanes, scramble.writer, "wmma_store_c", line, [&](u32 at, int thread, int first) {
      cta->shared.write(at, kPieceBytes, group.clocks.actor(thread), line);
      float values[4];
      for (int i = 0; i < 4; ++i) {
        const u16 place = scramble.accumulator[first + i];
        values[i] = accumulator_slot(lanes[place / 8].fragment, place % 8);
      }
      std::memcpy(cta->shared.at(at), values, sizeof values);
    });
    count_accumulator(lanes[0], Access::sts, line);
  });
}

void wmma_multiply(float* d, const u32* a, const u32* b, bool is_bf16, int line) {
  require_whole_warp("wmma_mma", line);
  FragmentProduct mine{d, const_cast<u32*>(a), const_cast<u32*>(b)};
  collective("wmma_mma", line, mine, [is_bf16](const Lanes<FragmentProduct>& lanes) {
    // The tensor cores do it as two m16n8k16, each on half of the accumulator.
    count_mma(lanes[0].d);
    count_mma(lanes[0].d + kRegisters / 2);
    if (is_bf16)
      multiply_fragments<bf16_to_float>(lanes, is_bf16);
    else
      multiply_fragments<f16_to_float>(lanes, is_bf16);
  });
}

}  // namespace efemu
