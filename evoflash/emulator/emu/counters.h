// What a kernel does, counted: instructions, shared-memory wavefronts and global sectors, in total and for
// each line. The performance model's raw material; estimates nothing.
#pragma once
#include <vector>

#include "interface.h"

namespace efemu {

enum class Access : u32 { lds, sts, ldg, stg, copy_shared, copy_global, ldmatrix, stmatrix, kinds };
constexpr u32 kAccessKinds = static_cast<u32>(Access::kinds);
extern const char* const kAccessNames[kAccessKinds];

// Products that follow the last one on the same accumulator at this distance, or a larger one, wait no longer.
constexpr u32 kProductDistances = 6;

// Counted for each warp, but `barrier`, `commit` and `wait` for each thread, `matrices` and `stored_matrices` for
// each 8x8 one, `wgmma` and its multiplications for each warpgroup.
// mma_after[i]: those whose accumulator the warp's mma i + 1 before it has written, and so has to finish first.
struct Counters {
  u64 mma, mma_after[kProductDistances], matrices, shfl, vote, barrier, commit, wait, blocks, threads;
  u64 accesses[kAccessKinds];  // warp instructions
  u64 wavefronts, ideal_wavefronts, read_sectors, write_sectors;
  u64 load_sectors;  // of the read sectors, those of plain loads, which go through the first-level cache
  u64 l1_misses;     // of those, the ones that a small such cache does not hold
  u64 stored_matrices;
  u64 wgmma, wgmma_macs;
  u64 tma, tma_bytes;  // bulk copies, TMA's boxes among them, and what they move, boxes' outside parts included
  u64 mbarrier;        // operations by threads; but a phase that a warp's lanes see completed counts once
};
extern Counters counters;

// One line's accesses of one kind; `actual` and `ideal` count wavefronts (shared) or 32-byte sectors (global).
struct SiteTotal {
  int line;
  Access access;
  u64 requests, actual, ideal;
};

void reset_counts();
void begin_block_counts(int warps);

// One m16n8k16 product of the running warp; the accumulator's address is its name.
void count_mma(const void* accumulator);

// The running thread's part of a warp's access. Lanes do not run in step: the k-th execution of a line by
// each lane since the warp last converged is taken for one instruction. Inactive: predicated off.
//
// Loads that a thread makes with no collective, barrier or ex2 between them are one round: they can be under
// way together, and what follows waits for them once.
void count_access(Access access, u64 address, u32 bytes, bool active, int line);
void count_ldmatrix(const u64 (&rows)[32], int matrices, int line);
void count_stmatrix(const u64 (&rows)[32], int matrices, int line);
// A whole warp's shared access at once, where a primitive makes it for all lanes together.
void count_warp_access(Access access, const u64 (&addresses)[32], u32 bytes, int line);

// The warp has converged (a collective, a barrier, the end): what it has begun is complete.
void settle_accesses(int warp);
void settle_all_accesses();

// Lines with accesses, in order.
std::vector<SiteTotal> site_totals();

}  // namespace efemu
