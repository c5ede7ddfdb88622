// Bulk copies of plain rows of bytes, and the groups in which all copies out of shared memory are waited for.
#include "bulk.h"

#include <algorithm>
#include <cstring>

#include "cluster.h"
#include "counters.h"
#include "global.h"
#include "mbarrier.h"

namespace efemu {
namespace {

constexpr u32 kBulkAlignment = 16;

// A copy out of shared memory that has not been waited for.
struct CopyOut {
  u64 number;
  int line;
  u32 group;
  bool landed;
};

// One thread's. Its groups are the clock of the agents that read and that write: a group's epoch ends when it is
// committed.
struct CopiesOut {
  int reads, writes;  // -1 until there are any
  u32 open_group;
  u64 started;
  std::vector<CopyOut> copies;  // oldest first
  u32 waits_before;             // while it waits: for the groups before this one
};
std::vector<CopiesOut> copies_out_of;  // by thread

CopiesOut& mine() {
  return copies_out_of[static_cast<size_t>(self->id)];
}

bool landed_before(const CopiesOut& all, u32 group_end) {
  return std::all_of(all.copies.begin(), all.copies.end(),
                     [group_end](const CopyOut& copy) { return copy.landed || copy.group >= group_end; });
}

void note_landing(int thread, u64 number) {
  CopiesOut& all = copies_out_of[static_cast<size_t>(thread)];
  for (CopyOut& copy : all.copies)
    if (copy.number == number) copy.landed = true;
  Thread& waiting = group.threads[static_cast<size_t>(thread)];
  if (all.waits_before && waiting.state == State::blocked && landed_before(all, all.waits_before)) make_ready(waiting);
}

std::string describe_copies_out(const Thread& thread) {
  const CopiesOut& all = copies_out_of[static_cast<size_t>(thread.id)];
  return text("for its groups before number %u; %zu copies have not been waited for", all.waits_before,
              all.copies.size());
}

bool check_size(u32 bytes, const char* op, int line) {
  if (bytes > 0 && bytes % kBulkAlignment == 0) return true;
  report("bulk-size", line, 0, [&] {
    return text("%s of %u bytes by %s: it copies a multiple of %u", op, bytes, my_name().c_str(), kBulkAlignment);
  });
  return false;
}

bool check_global_row(const void* first, u32 bytes, bool writes, const char* op, int line) {
  if (!admits_bulk(first, bytes, writes, op, line)) return false;
  if (reinterpret_cast<u64>(first) % kBulkAlignment == 0) return true;
  report("misaligned-global", line, 0, [&] {
    return text("%s by %s at %s: not a multiple of %u", op, my_name().c_str(), describe_global(first).c_str(),
                kBulkAlignment);
  });
  return false;
}

void count_bulk(u32 bytes) {
  ++counters.tma;
  counters.tma_bytes += bytes;
}

// Checks and counts a row that goes out; false: do not copy it.
bool admits_row_out(void* target, u32 source, u32 bytes, bool adds, const char* op, int line) {
  note_progress(line);
  count_bulk(bytes);
  if (!check_size(bytes, op, line) || !check_global_row(target, bytes, true, op, line)) return false;
  if (!cta->shared.admits(source, bytes, kBulkAlignment, op, line)) return false;
  counters.write_sectors += sectors_of(target, bytes);
  const CopyingOut actors = copies_out();
  cta->shared.read(source, bytes, actors.reads, line);
  (adds ? note_atomic : note_global_write)(target, bytes, actors.writes, line);
  return true;
}

[[noreturn]] void refuse_copy(int line, const std::string& message) {
  report("cluster-rank", line, 0, [&] { return message; });
  abandon_block();
}

u32 plain(u32 cluster_address) {
  return cluster_address & ((1u << kRankShift) - 1);
}

Destination resolve_both(u32 target, u32 barrier, const char* op, int line) {
  Destination to{};
  to.home = resolve_cluster(target, &to.target, line);
  Cta* const counting = resolve_cluster(barrier, &to.barrier, line);
  if (!to.home || !counting) abandon_block();
  if (to.home != counting)
    refuse_copy(line, text("%s by %s: the target is in block %d of the cluster, the barrier in block %d", op,
                           my_name().c_str(), rank_in_cluster(*to.home), rank_in_cluster(*counting)));
  return to;
}

template <class T, class ToFloat, class FromFloat>
void add_rounded(T* target, const T* source, u32 count, ToFloat to_float, FromFloat from_float) {
  for (u32 i = 0; i < count; ++i) target[i] = from_float(to_float(target[i]) + to_float(source[i]));
}

}  // namespace

CopyingOut copies_out() {
  CopiesOut& all = mine();
  if (all.reads < 0) {
    const std::string name = "a bulk copy that " + my_name() + " started";
    all.reads = group.clocks.add(name);
    all.writes = group.clocks.add(name);
  }
  return {group.clocks.on_behalf(all.reads, self->id), group.clocks.on_behalf(all.writes, self->id, Space::global)};
}

void start_copy_out(int line, std::function<void()> land) {
  CopiesOut& all = mine();
  const u64 number = ++all.started;
  const int thread = self->id;
  all.copies.push_back({number, line, all.open_group, false});
  deliver(line, [land = std::move(land), thread, number] {
    land();
    note_landing(thread, number);
  });
}

std::vector<Destination> destinations(u32 target, u32 barrier, u32 mask, const char* op, int line) {
  if (mask == 0) return {resolve_both(target, barrier, op, line)};
  const u32 blocks = static_cast<u32>(blocks_per_cluster());
  if (mask >> blocks)
    refuse_copy(line, text("%s by %s to the blocks of mask %04x: its cluster has %u", op, my_name().c_str(), mask,
                           blocks));
  std::vector<Destination> all;
  for (u32 rank = 0; rank < blocks; ++rank) {
    const u32 in_block = (rank + 1) << kRankShift;
    if (mask >> rank & 1) all.push_back(resolve_both(plain(target) | in_block, plain(barrier) | in_block, op, line));
  }
  return all;
}

void add_elements(void* target, const void* source, u32 bytes, Element element) {
  if (element == Element::f32) {
    float* const to = static_cast<float*>(target);
    for (u32 i = 0; i < bytes / 4; ++i) to[i] += static_cast<const float*>(source)[i];
  } else if (element == Element::f16) {
    add_rounded(static_cast<u16*>(target), static_cast<const u16*>(source), bytes / 2, f16_to_float, float_to_f16);
  } else {
    add_rounded(static_cast<u16*>(target), static_cast<const u16*>(source), bytes / 2, bf16_to_float, float_to_bf16);
  }
}

u64 sectors_of(const void* first, u64 bytes) {
  constexpr u64 kSectorBytes = 32;
  const u64 begin = reinterpret_cast<u64>(first);
  return (begin + bytes - 1) / kSectorBytes - begin / kSectorBytes + 1;
}

void reset_bulk_copies() {
  copies_out_of.assign(group.threads.size(), {-1, -1, 0, 0, {}, 0});
}

void leave_bulk_copies(Thread& thread) {
  const CopiesOut& all = copies_out_of[static_cast<size_t>(thread.id)];
  if (all.copies.empty()) return;
  const CopyOut& first = all.copies.front();
  report("async-at-exit", first.line, 0, [&] {
    return text("%s ended without having waited until its bulk copies had read shared memory (%zu of them, the first "
                "from line %d%s); use bulk_commit and bulk_wait_read<0>",
                my_name().c_str(), all.copies.size(), first.line,
                first.group == all.open_group ? ", never committed" : "");
  });
}

// ---- entry points

void fence_proxy_async_shared(int line) {
  self->line = line;
  group.clocks.fence_proxies(self->id, Space::shared);
}

void fence_proxy_async_global(int line) {
  self->line = line;
  group.clocks.fence_proxies(self->id, Space::global);
}

void bulk_load(u32 target, const void* source, u32 bytes, u32 barrier, u32 mask, int line) {
  constexpr const char* op = "bulk_load";
  note_progress(line);
  count_bulk(bytes);
  if (!check_size(bytes, op, line) || !check_global_row(source, bytes, false, op, line)) abandon_block();
  counters.read_sectors += sectors_of(source, bytes);
  const std::vector<Destination> all = destinations(target, barrier, mask, op, line);
  for (const Destination& to : all) {
    if (!to.home->shared.admits(to.target, bytes, kBulkAlignment, op, line)) abandon_block();
    const int agent = completing_agent(*to.home, to.barrier, op, line);
    if (&to == &all.front())
      note_global_read(source, bytes, group.clocks.on_behalf(agent, self->id, Space::global), line);
    const Epoch epoch = begin_copy_to(*to.home, to.target, bytes, to.barrier, line);
    deliver(line, [=] {
      std::memcpy(to.home->shared.at(to.target), source, bytes);
      complete_bytes(*to.home, to.barrier, bytes, epoch);
    });
  }
}

// A hint: what it may name is checked as for a load, and who else writes there does not matter.
void bulk_prefetch(const void* source, u32 bytes, int line) {
  constexpr const char* op = "bulk_prefetch";
  note_progress(line);
  if (!check_size(bytes, op, line) || !check_global_row(source, bytes, false, op, line)) abandon_block();
}

void bulk_store(void* target, u32 source, u32 bytes, int line) {
  if (!admits_row_out(target, source, bytes, false, "bulk_store", line)) return;
  Cta* const from = cta;
  start_copy_out(line, [=] { std::memcpy(target, from->shared.at(source), bytes); });
}

void bulk_reduce_add(float* target, u32 source, u32 bytes, int line) {
  if (!admits_row_out(target, source, bytes, true, "bulk_reduce_add", line)) return;
  Cta* const from = cta;
  start_copy_out(line, [=] { add_elements(target, from->shared.at(source), bytes, Element::f32); });
}

// Its completion at the barrier of the other block says that the source has been read as well.
void bulk_copy_cluster(u32 cluster_target, u32 source, u32 bytes, u32 cluster_barrier, int line) {
  constexpr const char* op = "bulk_copy_cluster";
  note_progress(line);
  count_bulk(bytes);
  if (!check_size(bytes, op, line)) abandon_block();
  const Destination to = resolve_both(cluster_target, cluster_barrier, op, line);
  if (!to.home->shared.admits(to.target, bytes, kBulkAlignment, op, line)) abandon_block();
  if (!cta->shared.admits(source, bytes, kBulkAlignment, op, line)) abandon_block();
  const int agent = completing_agent(*to.home, to.barrier, op, line);
  cta->shared.read(source, bytes, group.clocks.on_behalf(agent, self->id), line);
  const Epoch epoch = begin_copy_to(*to.home, to.target, bytes, to.barrier, line);
  cta->visits.push_back({epoch, line});  // its own memory must outlive the reading
  Cta* const from = cta;
  deliver(line, [=] {
    std::memcpy(to.home->shared.at(to.target), from->shared.at(source), bytes);
    complete_bytes(*to.home, to.barrier, bytes, epoch);
  });
}

void bulk_commit(int line) {
  self->line = line;
  CopiesOut& all = mine();
  ++all.open_group;
  if (all.reads < 0) return;
  group.clocks.tick(all.reads);
  group.clocks.tick(all.writes);
}

void bulk_wait(int pending, bool only_reads, int line) {
  self->line = line;
  CopiesOut& all = mine();
  const u32 end = all.open_group - std::min(static_cast<u32>(pending), all.open_group);
  if (!landed_before(all, end)) {
    all.waits_before = end;
    wait_here(line, {only_reads ? "bulk_wait_read" : "bulk_wait", 0, describe_copies_out});
    all.waits_before = 0;
  }
  const auto left = std::find_if(all.copies.begin(), all.copies.end(),
                                 [end](const CopyOut& copy) { return copy.group >= end; });
  all.copies.erase(all.copies.begin(), left);
  if (all.reads < 0) return;
  // The agents' clocks went on with each commit since they were added.
  const u32 clock = clock_of(group.clocks.now(all.reads));
  const int newest = static_cast<int>(clock) - static_cast<int>(all.open_group - end) - 1;
  if (newest < 1) return;
  group.clocks.learn(self->id, epoch_of(static_cast<u32>(all.reads), static_cast<u32>(newest)));
  if (!only_reads) group.clocks.learn(self->id, epoch_of(static_cast<u32>(all.writes), static_cast<u32>(newest)));
}

}  // namespace efemu
