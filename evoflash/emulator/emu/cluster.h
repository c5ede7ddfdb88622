// Clusters: blocks that reach one another's shared memory, and the barrier of all their threads.
//
// A cluster address holds the rank of its block in the cluster, plus one, in bits 24 to 31 and the plain shared
// address below; with zeros on top it is the running block's own. Which block it names: resolve_cluster, in block.h.
#pragma once
#include "block.h"

namespace efemu {

constexpr u32 kRankShift = 24;

int blocks_per_cluster();
inline int rank_in_cluster(const Cta& home) { return home.rank % blocks_per_cluster(); }

// Something at `epoch` reaches into the shared memory of `home`, another block than the one that asked for it:
// home must know of that epoch before it ends. Remote arrivals at an mbarrier count (with the thread's epoch before
// its release; relaxed ones with that of an agent for its warp), and transfers by their agents' epochs.
void visit(Cta& home, Epoch epoch, int line);

void reset_clusters();
// The thread has ended: the cluster's barrier counts it no longer, and its block may be gone.
void leave_cluster(Thread& thread);

}  // namespace efemu
