// Warp-wide primitives: votes, shuffles, ldmatrix, mma. How lanes meet: collective.h.
#include <cstring>

#include "collective.h"

namespace efemu {

void leave_collectives(Thread& thread) {
  Warp& warp = group.warps[thread.warp];
  warp.exited |= 1u << thread.lane;
  const Collective& meeting = warp.collective;
  if (!meeting.arrived) return;
  report("divergence", meeting.line, 0, [&] {
    return text("%s ended while lanes %08x of its warp wait for it in %s at line %d", my_name().c_str(),
                meeting.arrived, meeting.op, meeting.line);
  });
  abandon_block();
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
  bool condition, any, all;
};

Vote vote(const char* op, bool condition, int line) {
  Vote mine{condition, false, true};
  collective(op, line, mine, [](Lanes<Vote> lanes) {
    ++counters.vote;
    bool any = false, all = true;
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes.exists(lane)) {
        any |= lanes[lane].condition;
        all &= lanes[lane].condition;
      }
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes.exists(lane)) lanes[lane].any = any, lanes[lane].all = all;
  });
  return mine;
}

}  // namespace

u32 shuffle_xor(u32 value, int lane_mask, int line) {
  return shuffle("shfl_xor", value, self->lane ^ lane_mask, line);
}

u32 shuffle_index(u32 value, int lane, int line) {
  return shuffle("shfl_idx", value, lane, line);
}

bool vote_any(bool condition, int line) {
  return vote("any_sync", condition, line).any;
}

bool vote_all(bool condition, int line) {
  return vote("all_sync", condition, line).all;
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
  static const char* const names[] = {"ldmatrix_x2", "ldmatrix_x2_trans", "ldmatrix_x4", "ldmatrix_x4_trans"};
  const char* op = names[(count == 4 ? 2 : 0) + transposed];
  require_whole_warp(op, line);
  Load mine{registers, row};
  collective(op, line, mine, [=](const Lanes<Load>& lanes) {
    for (int matrix = 0; matrix < count; ++matrix) load_matrix(lanes, matrix, transposed, line);
    count_rows(lanes, count, line);
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
  float a[16][16], b[16][8], d[16][8];
};

template <float (*ToFloat)(u16)>
void unpack_operands(Tiles& tiles, const Lanes<Product>& lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const Product& part = lanes[lane];
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      float* at = &tiles.a[group + i % 2 * 8][pair + i / 2 * 8];
      at[0] = ToFloat(static_cast<u16>(part.a[i]));
      at[1] = ToFloat(static_cast<u16>(part.a[i] >> 16));
    }
    for (int i = 0; i < 2; ++i) {
      tiles.b[pair + i * 8][group] = ToFloat(static_cast<u16>(part.b[i]));
      tiles.b[pair + i * 8 + 1][group] = ToFloat(static_cast<u16>(part.b[i] >> 16));
    }
  }
}

template <bool kIn>
void move_accumulator(Tiles& tiles, const Lanes<Product>& lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane)
    for (int i = 0; i < 4; ++i) {
      float& place = tiles.d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
      (kIn ? place : lanes[lane].d[i]) = kIn ? lanes[lane].d[i] : place;
    }
}

void multiply(Tiles& tiles) {
  for (int row = 0; row < 16; ++row) {
    float sum[8];
    std::memcpy(sum, tiles.d[row], sizeof sum);
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column) sum[column] += tiles.a[row][k] * tiles.b[k][column];
    std::memcpy(tiles.d[row], sum, sizeof sum);
  }
}

}  // namespace

void multiply_tiles(float* d, const u32* a, const u32* b, bool is_bf16, int line) {
  require_whole_warp("mma_m16n8k16", line);
  Product mine{d, a, b};
  collective("mma_m16n8k16", line, mine, [is_bf16](const Lanes<Product>& lanes) {
    count_mma(lanes[0].d);
    alignas(64) static Tiles tiles;
    if (is_bf16)
      unpack_operands<bf16_to_float>(tiles, lanes);
    else
      unpack_operands<f16_to_float>(tiles, lanes);
    move_accumulator<true>(tiles, lanes);
    multiply(tiles);
    move_accumulator<false>(tiles, lanes);
  });
}

}  // namespace efemu
