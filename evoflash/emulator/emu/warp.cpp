// Warp-wide primitives: votes, shuffles, reductions, ldmatrix and stmatrix, mma. How lanes meet: collective.h.
#include <algorithm>
#include <cstring>
#include <random>

#include "collective.h"
#include "products.h"

namespace efemu {

namespace {

[[noreturn]] void report_left_behind(const Collective& meeting, const std::string& who) {
  report("divergence", meeting.line, 0, [&] {
    return text("%s ended while %s wait for it in %s at line %d", my_name().c_str(), who.c_str(), meeting.op,
                meeting.line);
  });
  abandon_block();
}

}  // namespace

void leave_collectives(Thread& thread) {
  Warp& warp = group.warps[thread.warp];
  warp.exited |= 1u << thread.lane;
  leave_meetings(thread);
  const Collective& meeting = warp.collective;
  if (meeting.arrived) report_left_behind(meeting, text("lanes %08x of its warp", meeting.arrived));
  const int first = first_warp_of_group(thread), end = thread.cta->first_warp + thread.cta->warp_count;
  for (int w = first; w < std::min(first + kGroupWarps, end); ++w) {
    const Collective& other = group.warps[static_cast<size_t>(w)].collective;
    if (other.arrived && other.of_warpgroup)
      report_left_behind(other, text("warp %d of its warpgroup", w - thread.cta->first_warp));
  }
}

// ---- shuffles, votes, syncwarp

namespace {

struct Shuffle {
  u32 value, result;
  int from;
};

u32 shuffle(const char* op, u32 value, int from_lane, int line) {
  Shuffle mine{value, 0, from_lane & (kWarpSize - 1)};
  collective(op, line, mine, [line, op](Lanes<Shuffle> lanes) {
    ++counters.shfl;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if (!lanes.exists(lane)) continue;
      const int from = lanes[lane].from;
      if (!lanes.exists(from)) report_divergence(op, line, text("lane %d does not exist", from));
      lanes[lane].result = lanes[from].value;
    }
  });
  return mine.result;
}

struct Vote {
  bool condition;
  u32 yes;  // lanes
};

u32 vote(const char* op, bool condition, int line) {
  Vote mine{condition, 0};
  collective(op, line, mine, [](Lanes<Vote> lanes) {
    ++counters.vote;
    u32 yes = 0;
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes.exists(lane) && lanes[lane].condition) yes |= 1u << lane;
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes.exists(lane)) lanes[lane].yes = yes;
  });
  return mine.yes;
}

struct Part {
  Reduction kind;
  bool is_signed;
  u32 value;
};

u32 reduced(const Part& a, u32 b) {
  if (a.kind == Reduction::add) return a.value + b;
  const bool less = a.is_signed ? static_cast<int>(b) < static_cast<int>(a.value) : b < a.value;
  return less == (a.kind == Reduction::min) ? b : a.value;
}

u32 elected = 0;  // among the lanes that are there, in order

}  // namespace

void draw_elected_lane(u32 seed) {
  elected = std::mt19937(seed ^ 0xe1ec7u)() % kWarpSize;
}

u32 shuffle_xor(u32 value, int lane_mask, int line) {
  return shuffle("shfl_xor", value, self->lane ^ lane_mask, line);
}

u32 shuffle_index(u32 value, int lane, int line) {
  return shuffle("shfl_idx", value, lane, line);
}

u32 shuffle_up(u32 value, int distance, int line) {
  distance &= kWarpSize - 1;
  return shuffle("shfl_up", value, self->lane < distance ? self->lane : self->lane - distance, line);
}

u32 shuffle_down(u32 value, int distance, int line) {
  distance &= kWarpSize - 1;
  return shuffle("shfl_down", value, self->lane + distance < kWarpSize ? self->lane + distance : self->lane, line);
}

bool vote_any(bool condition, int line) {
  return vote("any_sync", condition, line) != 0;
}

bool vote_all(bool condition, int line) {
  return vote("all_sync", condition, line) == group.warps[self->warp].lanes;
}

u32 vote_ballot(bool condition, int line) {
  return vote("ballot_sync", condition, line);
}

bool elect_lane(int line) {
  u32 lanes = vote("elect_one", true, line);
  for (u32 i = elected % static_cast<u32>(__builtin_popcount(lanes)); i > 0; --i) lanes &= lanes - 1;
  return __builtin_ctz(lanes) == self->lane;
}

u32 reduce_warp(Reduction kind, u32 value, bool is_signed, int line) {
  static const char* const names[] = {"redux_add", "redux_min", "redux_max"};
  Part mine{kind, is_signed, value};
  collective(names[static_cast<u32>(kind)], line, mine, [](Lanes<Part> lanes) {
    ++counters.vote;
    Part all{};
    bool begun = false;
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes.exists(lane)) {
        all = begun ? Part{lanes[lane].kind, lanes[lane].is_signed, reduced(lanes[lane], all.value)} : lanes[lane];
        begun = true;
      }
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes.exists(lane)) lanes[lane].value = all.value;
  });
  return mine.value;
}

void sync_warp(int line) {
  bool nothing = false;
  // Alone among these it orders memory: shuffles, votes, ldmatrix and mma do not.
  collective("syncwarp", line, nothing, [](Lanes<bool> lanes) {
    static Knowledge knowledge;
    knowledge.clear();
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes.exists(lane)) group.clocks.release(lanes.thread(lane), knowledge);
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes.exists(lane)) group.clocks.acquire(lanes.thread(lane), knowledge);
  });
}

// ---- ldmatrix

namespace {

constexpr int kRows = 8;  // of an 8x8 matrix, 16 bytes each

struct Load {
  u32* registers;
  u32 row;
};

// Row `row` of matrix `matrix` as 8 elements; its address is that of lane 8 * matrix + row, which also
// counts as its reader.
const u16* read_row(const Lanes<Load>& lanes, int lane, int line) {
  static const u16 poison[kRows] = {0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff};
  const u32 address = lanes[lane].row;
  if (!cta->shared.admits(address, 2 * kRows, "ldmatrix", line)) return poison;
  cta->shared.read(address, 2 * kRows, group.clocks.actor(lanes.thread(lane)), line);
  return reinterpret_cast<const u16*>(cta->shared.at(address));
}

void load_matrix(const Lanes<Load>& lanes, int matrix, bool transposed, int line) {
  const u16* rows[kRows];
  for (int row = 0; row < kRows; ++row) rows[row] = read_row(lanes, matrix * kRows + row, line);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int major = lane / 4, minor = lane % 4 * 2;
    const u32 lo = transposed ? rows[minor][major] : rows[major][minor];
    const u32 hi = transposed ? rows[minor + 1][major] : rows[major][minor + 1];
    lanes[lane].registers[matrix] = lo | hi << 16;
  }
}

void count_rows(const Lanes<Load>& lanes, int count, int line) {
  u64 addresses[kWarpSize];
  for (int lane = 0; lane < kWarpSize; ++lane) addresses[lane] = lanes[lane].row;
  count_ldmatrix(addresses, count, line);
}

}  // namespace

void load_matrices(u32* registers, int count, bool transposed, u32 row, int line) {
  static const char* const names[] = {"ldmatrix_x1",       "ldmatrix_x1_trans", "ldmatrix_x2",
                                      "ldmatrix_x2_trans", "ldmatrix_x4",       "ldmatrix_x4_trans"};
  const char* op = names[count / 2 * 2 + transposed];
  require_whole_warp(op, line);
  Load mine{registers, row};
  collective(op, line, mine, [=](const Lanes<Load>& lanes) {
    for (int matrix = 0; matrix < count; ++matrix) load_matrix(lanes, matrix, transposed, line);
    count_rows(lanes, count, line);
  });
}

// ---- stmatrix

namespace {

struct Store {
  const u32* registers;
  u32 row;
};

// Two elements of each of four lanes make a row, or transposed, one of each of eight.
void gather_row(const Lanes<Store>& lanes, int matrix, int row, bool transposed, u16 (&elements)[kRows]) {
  for (int i = 0; i < kRows; ++i) {
    const int lane = transposed ? i * 4 + row / 2 : row * 4 + i / 2;
    elements[i] = static_cast<u16>(lanes[lane].registers[matrix] >> 16 * ((transposed ? row : i) % 2));
  }
}

// The lane whose address the row has counts as its writer.
void store_row(const Lanes<Store>& lanes, int lane, bool transposed, int line) {
  u16 elements[kRows];
  gather_row(lanes, lane / kRows, lane % kRows, transposed, elements);
  const u32 address = lanes[lane].row;
  if (!cta->shared.admits(address, 2 * kRows, "stmatrix", line)) return;
  cta->shared.write(address, 2 * kRows, group.clocks.actor(lanes.thread(lane)), line);
  std::memcpy(cta->shared.at(address), elements, sizeof elements);
}

}  // namespace

void store_matrices(u32 row, const u32* registers, int count, bool transposed, int line) {
  static const char* const names[] = {"stmatrix_x1",       "stmatrix_x1_trans", "stmatrix_x2",
                                      "stmatrix_x2_trans", "stmatrix_x4",       "stmatrix_x4_trans"};
  const char* op = names[count / 2 * 2 + transposed];
  note_progress(line);
  require_whole_warp(op, line);
  Store mine{registers, row};
  collective(op, line, mine, [=](const Lanes<Store>& lanes) {
    for (int lane = 0; lane < count * kRows; ++lane) store_row(lanes, lane, transposed, line);
    u64 addresses[kWarpSize];
    for (int lane = 0; lane < kWarpSize; ++lane) addresses[lane] = lanes[lane].row;
    count_stmatrix(addresses, count, line);
  });
}

// ---- mma

namespace {

struct Product {
  float* d;
  const u32 *a, *b;
};

// One 16x16 by 16x8 product, unpacked. Sums run in order of k in float; tensor cores align and truncate
// partial sums, so results are compared with a tolerance, except for small integers.
struct Tiles {
  u16 a_bits[16][16], b_bits[16][8];
  float d[16][8];
  EightFloats b[16];
};

// A in floats, and what it was made of: a warp multiplies one A by many B, while other warps do the same.
struct Widened {
  u16 bits[16][16];
  bool is_bf16;
  float a[16][16];
};
Widened widened[16];  // by warp, the last digit of its number

void gather_operands(Tiles& tiles, const Lanes<Product>& lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const Product& part = lanes[lane];
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 4; ++i)
      std::memcpy(&tiles.a_bits[group + i % 2 * 8][pair + i / 2 * 8], &part.a[i], sizeof(u32));
    for (int i = 0; i < 2; ++i) {
      tiles.b_bits[pair + i * 8][group] = static_cast<u16>(part.b[i]);
      tiles.b_bits[pair + i * 8 + 1][group] = static_cast<u16>(part.b[i] >> 16);
    }
  }
}

void widen_a(Widened& to, const Tiles& tiles, bool is_bf16) {
  if (to.is_bf16 == is_bf16 && std::memcmp(to.bits, tiles.a_bits, sizeof to.bits) == 0) return;
  std::memcpy(to.bits, tiles.a_bits, sizeof to.bits);
  to.is_bf16 = is_bf16;
  for (int i = 0; i < 16; ++i) {
    widen_eight(&to.bits[i][0], is_bf16, &to.a[i][0]);
    widen_eight(&to.bits[i][8], is_bf16, &to.a[i][8]);
  }
}

template <bool kIn>
void move_accumulator(Tiles& tiles, const Lanes<Product>& lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane)
    for (int half = 0; half < 2; ++half) {
      float* const place = &tiles.d[lane / 4 + half * 8][lane % 4 * 2];
      float* const registers = lanes[lane].d + half * 2;
      std::memcpy(kIn ? place : registers, kIn ? registers : place, 2 * sizeof(float));
    }
}

void multiply(Tiles& tiles, const float (&a)[16][16]) {
  for (int row = 0; row < 16; ++row) {
    EightFloats sum;
    std::memcpy(&sum, tiles.d[row], sizeof sum);
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) sum += a[row][k] * tiles.b[k];
    std::memcpy(tiles.d[row], &sum, sizeof sum);
  }
}

}  // namespace

void multiply_tiles(float* d, const u32* a, const u32* b, bool is_bf16, int line) {
  require_whole_warp("mma_m16n8k16", line);
  Product mine{d, a, b};
  collective("mma_m16n8k16", line, mine, [is_bf16](const Lanes<Product>& lanes) {
    count_mma(lanes[0].d);
    alignas(64) static Tiles tiles;
    gather_operands(tiles, lanes);
    Widened& left = widened[self->warp % 16];
    widen_a(left, tiles, is_bf16);
    for (int i = 0; i < 16; ++i) widen_eight(tiles.b_bits[i], is_bf16, reinterpret_cast<float*>(&tiles.b[i]));
    move_accumulator<true>(tiles, lanes);
    multiply(tiles, left.a);
    move_accumulator<false>(tiles, lanes);
  });
}

}  // namespace efemu
