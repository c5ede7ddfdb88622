// The small warp primitives: exchange and reduction ("exchange"), matrices through shared memory ("matrices"), and
// setmaxnreg's pool ("registers", of which tests prepend FAULT=n).
#include "ef.h"

using ef::u32;

constexpr int kResults = 16;

// values: of each thread one; out: kResults of each thread.
extern "C" __global__ void __launch_bounds__(64) exchange(const u32* values, u32* out, int distance) {
  const int thread = threadIdx.x;
  const u32 mine = ef::ldg(values + thread);
  u32* const at = out + thread * kResults;
  ef::stg(at + 0, ef::shfl_up(mine, distance));
  ef::stg(at + 1, ef::shfl_down(mine, distance));
  ef::stg(at + 2, ef::shfl_xor(mine, distance));
  ef::stg(at + 3, ef::ballot_sync(mine & 1));
  ef::stg(at + 4, ef::redux_add(mine));
  ef::stg(at + 5, ef::redux_min(mine));
  ef::stg(at + 6, ef::redux_max(mine));
  ef::stg(at + 7, static_cast<u32>(ef::redux_min(static_cast<int>(mine))));
  ef::stg(at + 8, static_cast<u32>(ef::redux_max(static_cast<int>(mine))));
  ef::stg(at + 9, static_cast<u32>(ef::elect_one()));
  ef::stg(at + 10, static_cast<u32>(ef::elect_one()));
  ef::stg(at + 11, static_cast<u32>(ef::any_sync(mine & 1)) + 2 * static_cast<u32>(ef::all_sync(mine & 1)));
}
EF_EXPORT_KERNEL(exchange)

// registers: 32 x 4. out: for x1, x2, x4 and each of them transposed: 32 x 4 registers read back the same way (128
// words), then the up to 256 elements as they lie in shared memory, two to a word (128 words).
template <class Store, class Load>
EF_DEV u32* through(u32 tile, u32* out, int count, Store store, Load load) {
  const int lane = threadIdx.x;
  u32 back[4] = {};
  ef::syncwarp();
  store(tile + lane % (8 * count) * 16);
#ifndef NO_SYNC
  ef::syncwarp();
#endif
  load(back, tile + lane % (8 * count) * 16);
  for (int i = 0; i < 4; ++i) ef::stg(out + lane * 4 + i, back[i]);
  for (int i = 0; i < count; ++i) ef::stg(out + 128 + lane + 32 * i, ef::lds<u32>(tile + 4 * lane + 128 * i));
  return out + 256;
}

template <int N>
EF_DEV u32 (&first(u32* registers))[N] {
  return reinterpret_cast<u32(&)[N]>(*registers);
}

extern "C" __global__ void __launch_bounds__(32) matrices(const u32* registers, u32* out) {
  const u32 tile = ef::smem_base();
  u32 four[4], two[2], one[1];
  for (int i = 0; i < 4; ++i) four[i] = ef::ldg(registers + threadIdx.x * 4 + i);
  one[0] = two[0] = four[0];
  two[1] = four[1];
  const auto load_one = [](u32* back, u32 row) { ef::ldmatrix_x1(first<1>(back), row); };
  const auto load_one_trans = [](u32* back, u32 row) { ef::ldmatrix_x1_trans(first<1>(back), row); };
  const auto load_two = [](u32* back, u32 row) { ef::ldmatrix_x2(first<2>(back), row); };
  const auto load_two_trans = [](u32* back, u32 row) { ef::ldmatrix_x2_trans(first<2>(back), row); };
  const auto load_four = [](u32* back, u32 row) { ef::ldmatrix_x4(first<4>(back), row); };
  const auto load_four_trans = [](u32* back, u32 row) { ef::ldmatrix_x4_trans(first<4>(back), row); };
  out = through(tile, out, 1, [&](u32 row) { ef::stmatrix_x1(row, one); }, load_one);
  out = through(tile, out, 2, [&](u32 row) { ef::stmatrix_x2(row, two); }, load_two);
  out = through(tile, out, 4, [&](u32 row) { ef::stmatrix_x4(row, four); }, load_four);
  out = through(tile, out, 1, [&](u32 row) { ef::stmatrix_x1_trans(row, one); }, load_one_trans);
  out = through(tile, out, 2, [&](u32 row) { ef::stmatrix_x2_trans(row, two); }, load_two_trans);
  out = through(tile, out, 4, [&](u32 row) { ef::stmatrix_x4_trans(row, four); }, load_four_trans);
}
EF_EXPORT_KERNEL(matrices)

#ifdef FAULT
// Three warpgroups with 168 registers a thread: what the first gives back is what the others ask for.
extern "C" __global__ void __launch_bounds__(384) registers(u32* out) {
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32;
#if FAULT == 0
  if (warpgroup == 0) {
    ef::reg_dec<24>();
  } else {
    ef::reg_inc<240>();
  }
#elif FAULT == 1  // more than there are
  if (warpgroup == 0)
    ef::reg_dec<40>();
  else
    ef::reg_inc<240>();  // the second waits for ever
#elif FAULT == 2  // less than it has
  if (warpgroup == 0) ef::reg_inc<160>();
#elif FAULT == 3  // more than it has
  if (warpgroup == 0) ef::reg_dec<176>();
#elif FAULT == 4  // one warp of four
  if (warp == 0) ef::reg_dec<24>();
#elif FAULT == 5  // warps of one warpgroup at different ones
  if (warp == 0) {
    ef::reg_dec<24>();
  } else if (warp < 4) {
    ef::reg_dec<24>();
  }
#elif FAULT == 6  // half a warp
  if (threadIdx.x < 16)
    ef::reg_dec<24>();
  else
    ef::syncwarp();
#elif FAULT == 7  // twice, without a barrier
  if (warpgroup == 0) {
    ef::reg_dec<80>();
    ef::reg_dec<24>();  // again
  }
#elif FAULT == 8  // twice, with one
  if (warpgroup == 0) {
    ef::reg_dec<80>();
    ef::bar_sync(1, 128);
    ef::reg_dec<24>();
  }
#elif FAULT == 9  // nobody ends, so nobody gives back: what a thread holds at its end is not free
  ef::reg_inc<176>();
#endif
  static_cast<void>(warpgroup + warp);
  ef::stg(out + threadIdx.x, 1u);
}
EF_EXPORT_KERNEL(registers)
#endif
