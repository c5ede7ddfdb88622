// Clusters: whose shared memory an address names, whether that block is there, and the cluster's barrier.
//
// That a block has begun, and that it does not end too early, is judged by who can know of what, not by what
// happens to have run: every schedule finds a missing cluster_sync.
#include "cluster.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "counters.h"
#include "mbarrier.h"
#include "path.h"

namespace efemu {
namespace {

constexpr u32 kPlainBits = (1u << kRankShift) - 1;

alignas(16) u8 cluster_scratch[16];  // where faulty accesses end

void* poisoned_cluster_scratch() {
  std::memset(cluster_scratch, 0xff, sizeof cluster_scratch);
  return cluster_scratch;
}

size_t cluster_of(const Cta& home) {
  return static_cast<size_t>(home.rank / blocks_per_cluster());
}

Cta* first_block(size_t cluster) {
  return &group.ctas[cluster * static_cast<size_t>(blocks_per_cluster())];
}

ClusterBarrier& my_cluster() {
  return group.clusters[cluster_of(*cta)];
}

int live_threads(size_t cluster) {
  int count = 0;
  for (int i = 0; i < blocks_per_cluster(); ++i) count += first_block(cluster)[i].live_threads;
  return count;
}

// ---- who is there

bool knows_of_start(const Cta& peer) {
  const u32* known = group.clocks.known(self->id);
  const u32* const begin = known + peer.first_thread;
  return group.clocks.ordered(group.clocks.now(my_cluster().started), self->id) ||
         std::any_of(begin, begin + peer.thread_count, [](u32 clock) { return clock > 0; });
}

bool is_there(const Cta& peer, int line) {
  if (peer.live_threads == 0) {
    report("dsmem-exited", line, 0, [&] {
      return text("%s reaches into the shared memory of block %d of its cluster, which has ended; let that block wait "
                  "(cluster_sync before its end)",
                  my_name().c_str(), rank_in_cluster(peer));
    });
    return false;
  }
  if (knows_of_start(peer)) return true;
  report("dsmem-not-started", line, 0, [&] {
    return text("%s reaches into the shared memory of block %d of its cluster, which may not have begun; a "
                "cluster_sync must come first",
                my_name().c_str(), rank_in_cluster(peer));
  });
  return true;
}

bool leaves_unseen(const Cta& home, const Visit& visit) {
  for (int i = 0; i < home.thread_count; ++i)
    if (group.clocks.ordered(visit.epoch, home.first_thread + i)) return false;
  return true;
}

// The block has ended. What others did in its shared memory must have been before that.
void check_visits(const Cta& home) {
  for (const Visit& visit : home.visits) {
    if (!leaves_unseen(home, visit)) continue;
    report("dsmem-exited", visit.line, 0, [&] {
      return text("%s reaches into the shared memory of block %d of its cluster, and that block ends without having "
                  "waited for it (cluster_sync before its end)",
                  agent_name(agent_of(visit.epoch)).c_str(), rank_in_cluster(home));
    });
  }
}

// ---- the barrier

[[noreturn]] void refuse_cluster(int line, int line2, const std::string& message) {
  report("cluster-barrier", line, line2, [&] { return message; });
  abandon_block();
}

void check_cluster_convergence(Barrier& round, int line) {
  int& first = round.line_of_warp[static_cast<size_t>(self->warp - first_block(cluster_of(*cta))->first_warp)];
  if (first == 0) first = line;
  if (first == line) return;
  report("divergence", line, first, [&] {
    return text("warp %d diverged: its lanes come to the cluster's barrier from line %d and, lane %d, from line %d",
                self->warp - cta->first_warp, first, self->lane, line);
  });
}

void open_round(Barrier& round) {
  round.arrived = 0;
  round.knowledge.clear();
  round.slowest = {};
  round.line_of_warp.assign(static_cast<size_t>(blocks_per_cluster() * cta->warp_count), 0);
}

void close_round(ClusterBarrier& barrier) {
  Barrier& round = barrier.rounds[barrier.phase & 1];
  round.in_use = false;
  ++barrier.phase;
  for (int id : round.waiting) make_ready(group.threads[static_cast<size_t>(id)]);
  round.waiting.clear();
}

std::string describe_cluster_barrier(const Thread& thread) {
  const size_t cluster = cluster_of(*thread.cta);
  const ClusterBarrier& barrier = group.clusters[cluster];
  std::string missing;
  for (int i = 0; i < blocks_per_cluster(); ++i) {
    const Cta& block = first_block(cluster)[i];
    int come = 0;
    for (int t = 0; t < block.thread_count; ++t) {
      const Thread& other = group.threads[static_cast<size_t>(block.first_thread + t)];
      come += other.state != State::exited && other.cluster_line != 0 && other.cluster_phase == barrier.phase;
    }
    if (come < block.live_threads) missing += text("; of block %d: %d of %d", i, come, block.live_threads);
  }
  return text("the cluster's barrier: %d of %d threads have come", barrier.rounds[barrier.phase & 1].arrived,
              live_threads(cluster)) +
         missing;
}

// The warp goes on from where the slowest of those that came was. Its lanes go on one by one, and what the first of them
// begin is complete when the others have done the same.
void join_cluster_path(const Barrier& round) {
  Warp& warp = group.warps[static_cast<size_t>(self->warp)];
  if (std::exchange(warp.cluster_rounds, self->cluster_phase + 1) == self->cluster_phase + 1)
    pass_path();
  else
    take_path(round.slowest);
}

}  // namespace

int blocks_per_cluster() {
  return static_cast<int>(group.cluster.x * group.cluster.y * group.cluster.z);
}

Cta* resolve_cluster(u32 cluster_address, u32* address, int line) {
  *address = cluster_address & kPlainBits;
  if (cluster_address == *address) return cta;
  const int rank = static_cast<int>(cluster_address >> kRankShift) - 1;
  if (rank >= blocks_per_cluster()) {
    report("cluster-rank", line, 0, [&] {
      return text("%s names block %d of its cluster, which has %d", my_name().c_str(), rank, blocks_per_cluster());
    });
    return nullptr;
  }
  Cta* const peer = first_block(cluster_of(*cta)) + rank;
  return peer == cta || is_there(*peer, line) ? peer : nullptr;
}

void visit(Cta& home, Epoch epoch, int line) {
  if (&home == cta) return;
  for (Visit& known : home.visits)
    if (agent_of(known.epoch) == agent_of(epoch)) {
      known = {epoch, line};
      return;
    }
  home.visits.push_back({epoch, line});
}

void reset_clusters() {
  group.clusters.assign(group.ctas.size() / static_cast<size_t>(blocks_per_cluster()), {});
  if (blocks_per_cluster() == 1) return;
  for (ClusterBarrier& barrier : group.clusters) barrier.started = group.clocks.add("the start of the cluster");
}

void leave_cluster(Thread& thread) {
  if (cta->live_threads == 0) check_visits(*cta);
  ClusterBarrier& barrier = my_cluster();
  const Barrier& round = barrier.rounds[barrier.phase & 1];
  const bool had_come = thread.cluster_line != 0 && thread.cluster_phase == barrier.phase;
  if (had_come) --barrier.rounds[barrier.phase & 1].arrived;
  if (round.in_use && round.arrived > 0 && round.arrived == live_threads(cluster_of(*cta))) close_round(barrier);
}

// ---- entry points

u32 cluster_rank(int line) {
  self->line = line;
  return static_cast<u32>(rank_in_cluster(*cta));
}

u32 cluster_size(int line) {
  self->line = line;
  return static_cast<u32>(blocks_per_cluster());
}

void cluster_arrive(bool release, int line) {
  note_progress(line);
  ++counters.barrier;
  ++self->segment;
  if (self->cluster_line)
    refuse_cluster(line, self->cluster_line,
                   text("%s arrives at the cluster's barrier again without having waited for its arrival at line %d",
                        my_name().c_str(), self->cluster_line));
  ClusterBarrier& barrier = my_cluster();
  Barrier& round = barrier.rounds[barrier.phase & 1];
  if (!std::exchange(round.in_use, true)) open_round(round);
  check_cluster_convergence(round, line);
  self->cluster_line = line;
  self->cluster_phase = barrier.phase;
  if (release) group.clocks.release(self->id, round.knowledge);
  join_arrival(round);
  if (++round.arrived == live_threads(cluster_of(*cta))) close_round(barrier);
}

void cluster_wait(int line) {
  note_progress(line);
  if (!self->cluster_line)
    refuse_cluster(line, 0, text("%s waits at the cluster's barrier without having arrived", my_name().c_str()));
  ClusterBarrier& barrier = my_cluster();
  Barrier& round = barrier.rounds[self->cluster_phase & 1];
  if (self->cluster_phase == barrier.phase) {
    round.waiting.push_back(self->id);
    wait_here(line, {"cluster_wait", 0, describe_cluster_barrier});
  }
  self->cluster_line = 0;
  group.clocks.acquire(self->id, round.knowledge);
  if (blocks_per_cluster() > 1) group.clocks.learn(self->id, group.clocks.now(barrier.started));
  join_cluster_path(round);
}

u32 map_shared(u32 address, u32 rank, int line) {
  self->line = line;
  const bool plain = (address & kPlainBits) == address;
  if (plain && rank < static_cast<u32>(blocks_per_cluster())) return address | (rank + 1) << kRankShift;
  report("cluster-rank", line, 0, [&] {
    return plain ? text("%s maps into block %u of its cluster, which has %d", my_name().c_str(), rank,
                        blocks_per_cluster())
                 : text("%s maps %08x, which is no address of its own shared memory", my_name().c_str(), address);
  });
  return address;
}

const void* read_cluster(u32 cluster_address, u32 bytes, int line) {
  note_read(cluster_address, line);
  u32 address;
  Cta* const home = resolve_cluster(cluster_address, &address, line);
  if (!home || !home->shared.admits(address, bytes, "read", line)) return poisoned_cluster_scratch();
  visit(*home, group.clocks.now(self->id), line);
  home->shared.read(address, bytes, group.clocks.actor(self->id), line);
  count_access(Access::lds, address, bytes, true, line);
  return home->shared.at(address);
}

void* write_cluster(u32 cluster_address, u32 bytes, int line) {
  note_progress(line);
  u32 address;
  Cta* const home = resolve_cluster(cluster_address, &address, line);
  if (!home || !home->shared.admits(address, bytes, "write", line)) return poisoned_cluster_scratch();
  visit(*home, group.clocks.now(self->id), line);
  home->shared.write(address, bytes, group.clocks.actor(self->id), line);
  count_access(Access::sts, address, bytes, true, line);
  return home->shared.at(address);
}

// Asynchronous, but in the generic proxy: what it overwrites needs no proxy fence.
void store_async(u32 cluster_address, const void* value, u32 bytes, u32 cluster_barrier, int line) {
  constexpr const char* op = "sts_async";
  note_progress(line);
  u32 target, barrier;
  Cta* const home = resolve_cluster(cluster_address, &target, line);
  Cta* const counting = resolve_cluster(cluster_barrier, &barrier, line);
  if (!home || !counting || !home->shared.admits(target, bytes, op, line)) abandon_block();
  if (home != counting)
    report("cluster-rank", line, 0, [&] {
      return text("%s by %s: target and barrier are of different blocks, %d and %d of the cluster", op,
                  my_name().c_str(), rank_in_cluster(*home), rank_in_cluster(*counting));
    });
  if (home != counting) abandon_block();
  const int agent = completing_agent(*home, barrier, op, line);
  home->shared.write(target, bytes, {group.clocks.now(agent), group.clocks.known(self->id), nullptr}, line);
  const Epoch epoch = begin_copy(*home, barrier, bytes, line);
  count_access(Access::sts, target, bytes, true, line);
  std::array<u8, 16> kept{};
  std::memcpy(kept.data(), value, bytes);
  deliver(line, [=] {
    std::memcpy(home->shared.at(target), kept.data(), bytes);
    complete_bytes(*home, barrier, bytes, epoch);
  });
}

}  // namespace efemu
