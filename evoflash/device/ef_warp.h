// What the 32 lanes of a warp do together: shuffles, votes, reductions. All lanes take part, always.
#pragma once
#include "ef_base.h"

namespace ef {

// The value of the lane whose number differs by `lane_mask` (xor); all 32 lanes take part.
EF_DEV float shfl_xor(float value, int lane_mask EF_LINE) {
#if EF_GPU
  return __shfl_xor_sync(0xffffffffu, value, lane_mask);
#else
  return efemu::float_of(efemu::shuffle_xor(efemu::bits_of(value), lane_mask, line));
#endif
}

// The value of the lane whose number differs by `lane_mask` (xor); all 32 lanes take part.
EF_DEV u32 shfl_xor(u32 value, int lane_mask EF_LINE) {
#if EF_GPU
  return __shfl_xor_sync(0xffffffffu, value, lane_mask);
#else
  return efemu::shuffle_xor(value, lane_mask, line);
#endif
}

// The value of the lane `distance` below; lanes below `distance` keep theirs. All 32 lanes take part.
EF_DEV float shfl_up(float value, int distance EF_LINE) {
#if EF_GPU
  return __shfl_up_sync(0xffffffffu, value, distance);
#else
  return efemu::float_of(efemu::shuffle_up(efemu::bits_of(value), distance, line));
#endif
}

// The value of the lane `distance` below; lanes below `distance` keep theirs. All 32 lanes take part.
EF_DEV u32 shfl_up(u32 value, int distance EF_LINE) {
#if EF_GPU
  return __shfl_up_sync(0xffffffffu, value, distance);
#else
  return efemu::shuffle_up(value, distance, line);
#endif
}

// The value of the lane `distance` above; lanes from 32 - `distance` on keep theirs. All 32 lanes take part.
EF_DEV float shfl_down(float value, int distance EF_LINE) {
#if EF_GPU
  return __shfl_down_sync(0xffffffffu, value, distance);
#else
  return efemu::float_of(efemu::shuffle_down(efemu::bits_of(value), distance, line));
#endif
}

// The value of the lane `distance` above; lanes from 32 - `distance` on keep theirs. All 32 lanes take part.
EF_DEV u32 shfl_down(u32 value, int distance EF_LINE) {
#if EF_GPU
  return __shfl_down_sync(0xffffffffu, value, distance);
#else
  return efemu::shuffle_down(value, distance, line);
#endif
}

// The value of lane `lane`; all 32 lanes take part.
EF_DEV int shfl_idx(int value, int lane EF_LINE) {
#if EF_GPU
  return __shfl_sync(0xffffffffu, value, lane);
#else
  return static_cast<int>(efemu::shuffle_index(static_cast<u32>(value), lane, line));
#endif
}

// The value of lane `lane`; all 32 lanes take part.
EF_DEV u32 shfl_idx(u32 value, int lane EF_LINE) {
#if EF_GPU
  return __shfl_sync(0xffffffffu, value, lane);
#else
  return efemu::shuffle_index(value, lane, line);
#endif
}

// The value of lane `lane`; all 32 lanes take part.
EF_DEV float shfl_idx(float value, int lane EF_LINE) {
#if EF_GPU
  return __shfl_sync(0xffffffffu, value, lane);
#else
  return efemu::float_of(efemu::shuffle_index(efemu::bits_of(value), lane, line));
#endif
}

// Whether the condition holds in any lane of the warp; all 32 lanes take part.
EF_DEV bool any_sync(bool condition EF_LINE) {
#if EF_GPU
  return __any_sync(0xffffffffu, condition);
#else
  return efemu::vote_any(condition, line);
#endif
}

// Whether the condition holds in every lane of the warp; all 32 lanes take part.
EF_DEV bool all_sync(bool condition EF_LINE) {
#if EF_GPU
  return __all_sync(0xffffffffu, condition);
#else
  return efemu::vote_all(condition, line);
#endif
}

// In bit l whether the condition holds in lane l of the warp; all 32 lanes take part.
EF_DEV u32 ballot_sync(bool condition EF_LINE) {
#if EF_GPU
  return __ballot_sync(0xffffffffu, condition);
#else
  return efemu::vote_ballot(condition, line);
#endif
}

// True in one lane of the warp, the same each time, but do not count on which; all 32 lanes take part.
EF_DEV bool elect_one(EF_ONLY_LINE) {
#if EF_GPU
#if __CUDA_ARCH__ >= 900
  u32 elected;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(elected));
  return elected != 0;
#else
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane == 0;
#endif
#else
  return efemu::elect_lane(line);
#endif
}

// The sum of all lanes' values; all 32 lanes take part.
EF_DEV int redux_add(int value EF_LINE) {
#if EF_GPU
  int result;
  asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
#else
  return static_cast<int>(efemu::reduce_warp(efemu::Reduction::add, static_cast<u32>(value), true, line));
#endif
}

// The sum of all lanes' values; all 32 lanes take part.
EF_DEV u32 redux_add(u32 value EF_LINE) {
#if EF_GPU
  u32 result;
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
#else
  return efemu::reduce_warp(efemu::Reduction::add, value, false, line);
#endif
}

// The smallest of all lanes' values; all 32 lanes take part.
EF_DEV int redux_min(int value EF_LINE) {
#if EF_GPU
  int result;
  asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
#else
  return static_cast<int>(efemu::reduce_warp(efemu::Reduction::min, static_cast<u32>(value), true, line));
#endif
}

// The smallest of all lanes' values; all 32 lanes take part.
EF_DEV u32 redux_min(u32 value EF_LINE) {
#if EF_GPU
  u32 result;
  asm volatile("redux.sync.min.u32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
#else
  return efemu::reduce_warp(efemu::Reduction::min, value, false, line);
#endif
}

// The largest of all lanes' values; all 32 lanes take part.
EF_DEV int redux_max(int value EF_LINE) {
#if EF_GPU
  int result;
  asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
#else
  return static_cast<int>(efemu::reduce_warp(efemu::Reduction::max, static_cast<u32>(value), true, line));
#endif
}

// The largest of all lanes' values; all 32 lanes take part.
EF_DEV u32 redux_max(u32 value EF_LINE) {
#if EF_GPU
  u32 result;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
#else
  return efemu::reduce_warp(efemu::Reduction::max, value, false, line);
#endif
}

// Waits for the other lanes of the warp and makes their memory accesses visible.
EF_DEV void syncwarp(EF_ONLY_LINE) {
#if EF_GPU
  __syncwarp();
#else
  efemu::sync_warp(line);
#endif
}

}  // namespace ef
