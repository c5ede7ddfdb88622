// What a kernel does, counted: instructions, shared-memory wavefronts and global sectors, in total and for
// each line. The performance model's raw material; estimates nothing.
#pragma once
#include <vector>

#include "interface.h"

namespace efemu {

enum class Access : u32 { lds, sts, ldg, stg, copy_shared, copy_global, ldmatrix, kinds };
constexpr u32 kAccessKinds = static_cast<u32>(Access::kinds);
extern const char* const kAccessNames[kAccessKinds];

// Counted for each warp, but `barrier`, `commit` and `wait` for each thread, `matrices` for each 8x8 one.
struct Counters {
  u64 mma, matrices, shfl, vote, barrier, commit, wait, blocks, threads;
  u64 accesses[kAccessKinds];  // warp instructions
  u64 wavefronts, ideal_wavefronts, read_sectors, write_sectors;
};
extern Counters counters;

// One line's accesses of one kind; `actual` and `ideal` count wavefronts (shared) or 32-byte sectors (global).
struct SiteTotal {
  int line;
  Access access;
  u64 requests, actual, ideal;
};

void reset_counts();

// The running thread's part of a warp's access. Lanes do not run in step: the k-th execution of a line by
// each lane since the warp last converged is taken for one instruction. Inactive: predicated off.
void count_access(Access access, u64 address, u32 bytes, bool active, int line);
void count_ldmatrix(const u64 (&rows)[32], int matrices, int line);

// The warp has converged (a collective, a barrier, the end): what it has begun is complete.
void settle_accesses(int warp);
void settle_all_accesses();

// Lines with accesses, in order.
std::vector<SiteTotal> site_totals();

}  // namespace efemu
