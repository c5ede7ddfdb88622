// Barriers of a block, its pool of registers, and the order of dependent grids. Barriers in memory: ef_mbarrier.h.
#pragma once
#include "ef_base.h"

namespace ef {

// Waits for the other threads of the block and makes their memory accesses visible.
EF_DEV void syncthreads(EF_ONLY_LINE) {
#if EF_GPU
  __syncthreads();
#else
  efemu::sync_block(line);
#endif
}

// syncthreads, and whether the condition holds in any thread of the block; all threads take part.
EF_DEV bool syncthreads_or(bool condition EF_LINE) {
#if EF_GPU
  return __syncthreads_or(condition) != 0;
#else
  return efemu::sync_block_or(condition, line);
#endif
}

// Waits at named barrier `id` (1 to 15; 0 is syncthreads's) until `threads` threads have come, warps as wholes.
EF_DEV void bar_sync(int id, int threads EF_LINE) {
#if EF_GPU
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  efemu::barrier_sync(id, threads, line);
#endif
}

// Counts as having come to named barrier `id` without waiting there.
EF_DEV void bar_arrive(int id, int threads EF_LINE) {
#if EF_GPU
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  efemu::barrier_arrive(id, threads, line);
#endif
}

// Gives registers of each thread back to the block, down to R; all warps of a warpgroup, sm_90a.
template <int R>
EF_DEV void reg_dec(EF_ONLY_LINE) {
  static_assert(R >= 24 && R <= 256 && R % 8 == 0, "reg_dec: 24 to 256 registers, in steps of 8");
#if EF_GPU
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(R));
#else
  efemu::set_registers(R, false, line);
#endif
}

// Waits until each thread can have R registers; all warps of a warpgroup, sm_90a.
template <int R>
EF_DEV void reg_inc(EF_ONLY_LINE) {
  static_assert(R >= 24 && R <= 256 && R % 8 == 0, "reg_inc: 24 to 256 registers, in steps of 8");
#if EF_GPU
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(R));
#else
  efemu::set_registers(R, true, line);
#endif
}

// Lets grids that depend on this one start once all its blocks have said so or ended; publishes nothing, sm_90.
EF_DEV void grid_launch_dependents(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#else
  efemu::grid_launch_dependents(line);
#endif
}

// Waits until the grids that this one depends on have ended and their writes are visible, sm_90.
EF_DEV void grid_wait(EF_ONLY_LINE) {
#if EF_GPU
  asm volatile("griddepcontrol.wait;" ::: "memory");
#else
  efemu::grid_wait(line);
#endif
}

}  // namespace ef
