// What blocks do together through atomics and flags: the last one combines, tiles are drawn from a counter, turns
// are taken. FAULT=n chooses what is wrong with it, 0 nothing; tests prepend it. Blocks of 64 threads.
#include "ef.h"

using ef::u32;

// Each block leaves a number for each thread, and the last to come adds them up. workspace: numbers, then a counter.
extern "C" __global__ void __launch_bounds__(64) combine(int* workspace, int* out) {
  const int thread = threadIdx.x, blocks = gridDim.x;
  u32* const counter = (u32*)workspace + 64 * blocks;
  const u32 smem = ef::smem_base();
  ef::stg(workspace + 64 * blockIdx.x + thread, int(100 * blockIdx.x) + thread);
#if FAULT != 3  // 3: the other threads may not have written yet
  ef::syncthreads();
#endif
  if (thread == 0) {
#if FAULT == 4  // a plain counter
    const u32 before = ef::ldg((const u32*)counter);
    ef::stg(counter, before + 1);
    ef::fence_gpu();
#elif FAULT == 5  // the order in the atomic itself
    const u32 before = ef::atom_inc_acq_rel(counter, blocks - 1);
#elif FAULT == 6  // the last block resets the counter itself
    ef::fence_gpu();
    const u32 before = ef::atom_add(counter, 1u);
    ef::fence_gpu();
    if (before == u32(blocks - 1)) ef::stg(counter, 0u);
#elif FAULT == 7  // every block does
    ef::fence_gpu();
    const u32 before = ef::atom_add(counter, 1u);
    ef::stg(counter, before + 1);
    ef::fence_gpu();
#elif FAULT == 8  // the atomic publishes, and does not look
    ef::red_add_release(counter, 1);
    const u32 before = ef::atom_add(counter, 0u) - 1;
#else
#if FAULT != 1  // 1: what was written before need not be visible
    ef::fence_gpu();
#endif
    const u32 before = ef::atom_inc(counter, blocks - 1);
#if FAULT != 2  // 2: what is read after may have been read before
    ef::fence_gpu();
#endif
#endif
    ef::sts(smem, int(before == u32(blocks - 1)));
  }
  ef::syncthreads();
  if (ef::lds<int>(smem)) {
    int sum = 0;
    for (int i = 0; i < blocks; ++i) sum += ef::ldg((const int*)workspace + 64 * i + thread);
    ef::stg(out + thread, sum);
  }
}
EF_EXPORT_KERNEL(combine)

// Blocks draw tiles of 64 numbers until there are none left; the last to end makes the counters ready for the next
// launch. counters: tiles drawn, blocks done.
extern "C" __global__ void __launch_bounds__(64) draw(u32* workspace, int* out, int tiles) {
  const int thread = threadIdx.x;
  const u32 smem = ef::smem_base();
  for (;;) {
    if (thread == 0) ef::sts(smem, ef::atom_add(workspace, 1u));
    ef::syncthreads();
    const int tile = ef::lds<int>(smem);
    ef::syncthreads();
    if (tile >= tiles) break;
    ef::stg(out + 64 * tile + thread, 1000 * tile + thread);
  }
  if (thread == 0 && ef::atom_inc(workspace + 1, gridDim.x - 1) == gridDim.x - 1) ef::atom_exch(workspace, 0);
}
EF_EXPORT_KERNEL(draw)

// Blocks take turns, the last one first: each adds to what the one before it left. workspace: numbers, then a flag.
extern "C" __global__ void __launch_bounds__(64) turns(int* workspace, int* out) {
  const int thread = threadIdx.x;
  const u32 turn = gridDim.x - 1 - blockIdx.x;
  u32* const flag = (u32*)workspace + 64;
  if (thread == 0) {
#if FAULT == 11  // a plain load sees nothing of it, or too early
    while (ef::ldg((const u32*)flag) != turn) {
    }
#elif FAULT == 12  // relaxed, with a fence behind it
    while (ef::atom_add(flag, 0u) != turn) {
    }
    ef::fence_gpu();
#elif FAULT == 13  // relaxed, with nothing behind it
    while (ef::atom_add(flag, 0u) != turn) {
    }
#elif FAULT == 14  // a lock that is taken with compare-and-swap and given away with a store
    while (ef::atom_cas(flag, turn, 1000) != turn) {
    }
    ef::fence_gpu();
#else
    while (ef::ldg_acquire((const u32*)flag) != turn) {
    }
#endif
  }
  ef::syncthreads();
  const int sum = ef::ldg((const int*)workspace + thread) + int(blockIdx.x) + thread;
  ef::stg(workspace + thread, sum);
#if FAULT != 15  // 15: others may still be writing
  ef::syncthreads();
#endif
  if (thread == 0) {
#if FAULT == 16  // a plain store
    ef::stg(flag, turn + 1);
#elif FAULT == 17  // relaxed, with nothing before it
    ef::atom_exch(flag, turn + 1);
#elif FAULT == 12 || FAULT == 13
    ef::fence_gpu();
    ef::atom_exch(flag, turn + 1);
#else
    ef::stg_release(flag, turn + 1);
#endif
  }
  if (turn == gridDim.x - 1) ef::stg(out + thread, sum);
}
EF_EXPORT_KERNEL(turns)

// All threads of all blocks add to the same 64 floats.
extern "C" __global__ void __launch_bounds__(64) pile(float* out) {
  const int thread = threadIdx.x;
#if FAULT == 21  // it is set before, though not before others may add
  ef::stg(out + thread, 0.0f);
#endif
  ef::red_add(out + thread, float(blockIdx.x + 1));
#if FAULT == 22  // it is read while others may add
  if (ef::ldg((const float*)out + (thread + 1) % 64) < 0) ef::red_add(out, 1.0f);
#elif FAULT == 23  // the last block sets it, when others may have added or still add
  if (blockIdx.x == gridDim.x - 1) ef::stg(out + (thread + 1) % 64, 0.0f);
#endif
}
EF_EXPORT_KERNEL(pile)

// A histogram in shared memory.
extern "C" __global__ void __launch_bounds__(64) count(int* out) {
  const int thread = threadIdx.x;
  const u32 smem = ef::smem_base(), bin = smem + 4 * (thread % 8);
  if (thread >= 56) ef::sts(bin, 0);
#if FAULT != 31  // 31: some add before it is set
  ef::syncthreads();
#endif
#if FAULT == 32  // some are read before all have added
  if (thread >= 56) ef::stg(out + thread - 56, ef::lds<int>(bin));
#elif FAULT == 33  // some are overwritten before all have added
  if (thread >= 56) ef::sts(bin, 8);
#endif
  ef::atom_add_shared(bin, 1);
#if FAULT != 32 && FAULT != 33
  ef::syncthreads();
  if (thread >= 56) ef::stg(out + thread - 56, ef::lds<int>(bin));
#endif
}
EF_EXPORT_KERNEL(count)

// The last thread to come adds up what all have left in shared memory.
extern "C" __global__ void __launch_bounds__(64) last(int* out) {
  const int thread = threadIdx.x;
  const u32 counter = ef::smem_base(), mine = counter + 16 + 4 * thread;
  if (thread == 0) ef::sts(counter, 0);
  ef::syncthreads();
  ef::sts(mine, thread);
#if FAULT != 41  // 41: what was written before need not be visible
  ef::fence_gpu();
#endif
  const bool is_last = ef::atom_add_shared(counter, 1) == 63;
#if FAULT != 42  // 42: what is read after may have been read before
  ef::fence_gpu();
#endif
  if (!is_last) return;
  ef::sts(counter, 0);  // it has seen all other additions
  int sum = 0;
  for (int i = 0; i < 64; ++i) sum += ef::lds<int>(counter + 16 + 4 * i);
  ef::stg(out, sum);
}
EF_EXPORT_KERNEL(last)

// One thread; what each atomic returns and leaves: 10 and 11 words of global memory, 5 and 5 of shared memory. Then
// subnormal sums in either: global memory flushes them to zero.
extern "C" __global__ void values(int* workspace, int* out) {
  u32* const word = (u32*)workspace;
  float* const real = (float*)workspace + 8;
  ef::stg(out + 0, ef::atom_add(workspace + 0, -7));
  ef::stg(out + 1, int(ef::atom_add(word + 1, 7u)));
  ef::stg((float*)out + 2, ef::atom_add(real, 1.5f));
  ef::stg(out + 3, ef::atom_min(workspace + 3, -3));
  ef::stg(out + 4, int(ef::atom_min(word + 4, 0xfffffffdu)));
  ef::stg(out + 5, ef::atom_max(workspace + 5, -3));
  ef::stg(out + 6, int(ef::atom_max(word + 6, 0xfffffffdu)));
  ef::stg(out + 7, int(ef::atom_inc(word + 7, 2)));
  ef::stg(out + 8, int(ef::atom_cas(word + 9, 9, 90)));
  ef::stg(out + 9, int(ef::atom_cas(word + 10, 9, 90)));
  for (int i = 0; i < 11; ++i) ef::stg(out + 10 + i, ef::ldg((const int*)workspace + i));
  const u32 smem = ef::smem_base();
  for (int i = 0; i < 5; ++i) ef::sts(smem + 4 * i, 5);
  ef::stg(out + 21, ef::atom_add_shared(smem, -7));
  ef::stg(out + 22, ef::atom_min_shared(smem + 4, -3));
  ef::stg(out + 23, ef::atom_max_shared(smem + 8, -3));
  ef::stg(out + 24, int(ef::atom_min_shared(smem + 12, 0xfffffffdu)));
  ef::stg(out + 25, int(ef::atom_max_shared(smem + 16, 0xfffffffdu)));
  for (int i = 0; i < 5; ++i) ef::stg(out + 26 + i, ef::lds<int>(smem + 4 * i));
  ef::atom_add(real + 3, 1e-40f);
  ef::stg(out + 31, ef::ldg((const int*)real + 3));
  ef::sts(smem, 0);
  ef::atom_add_shared(smem, 1e-40f);
  ef::stg(out + 32, ef::lds<int>(smem));
}
EF_EXPORT_KERNEL(values)
