// Which counts lie on the slowest path: attribution of global counts to warps, and joins at barriers.
#include "path.h"

#include <algorithm>
#include <map>

#include "block.h"

namespace efemu {

Work critical;

namespace {

Work seen;                  // the global counts, as far as they have been attributed
std::vector<Work> paths;    // by warp, since the block began
std::vector<Tally> recent;  // by thread, since its warp's last barrier
std::map<int, WaitTotal> waits;

// Both records are nothing but u64 counts.
template <class Counts>
u64* numbers(Counts& counts) {
  static_assert(sizeof(Counts) % sizeof(u64) == 0, "a record of counts");
  return reinterpret_cast<u64*>(&counts);
}

template <class Counts>
void add(Counts& to, Counts& counts) {
  for (size_t i = 0; i < sizeof(Counts) / sizeof(u64); ++i) numbers(to)[i] += numbers(counts)[i];
}

// Of three different records. It happens at every switch of threads, hence four at a time.
typedef u64 FourCounts __attribute__((vector_size(4 * sizeof(u64)), aligned(sizeof(u64)), may_alias));

template <class Counts>
void move_growth(Counts& to, Counts& now, Counts& before) {
  constexpr size_t kCounts = sizeof(Counts) / sizeof(u64), kFours = kCounts / 4 * 4;
  u64 *const t = numbers(to), *const n = numbers(now), *const b = numbers(before);
#pragma GCC unroll 16
  for (size_t i = 0; i < kFours; i += 4) {
    const FourCounts current = *reinterpret_cast<FourCounts*>(n + i);
    *reinterpret_cast<FourCounts*>(t + i) += current - *reinterpret_cast<FourCounts*>(b + i);
    *reinterpret_cast<FourCounts*>(b + i) = current;
  }
  for (size_t i = kFours; i < kCounts; ++i) {
    t[i] += n[i] - b[i];
    b[i] = n[i];
  }
}

// The most that any lane of the warp has executed since the last barrier.
Tally slowest_lane(int warp) {
  Tally most{};
  const size_t first = static_cast<size_t>(warp) * kWarpSize;
  for (size_t id = first; id < std::min(first + kWarpSize, recent.size()); ++id)
    for (size_t i = 0; i < sizeof(Tally) / sizeof(u64); ++i)
      numbers(most)[i] = std::max(numbers(most)[i], numbers(recent[id])[i]);
  return most;
}

Work path_of(int warp) {
  Work path = paths[warp];
  Tally lane = slowest_lane(warp);
  add(path.tally, lane);
  return path;
}

void keep_slower(Work& slowest, const Work& other) {
  if (rough_cycles(other) > rough_cycles(slowest)) slowest = other;
}

}  // namespace

void reset_paths() {
  critical = {};
  waits.clear();
}

void begin_paths(int threads, int warps) {
  seen = {counters, tally};
  paths.assign(warps, Work());
  recent.assign(threads, Tally());
}

void end_paths() {
  for (const Cta& ended : group.ctas) {
    Work slowest{};
    for (int warp = 0; warp < ended.warp_count; ++warp) keep_slower(slowest, path_of(ended.first_warp + warp));
    add(critical.counters, slowest.counters);
    add(critical.tally, slowest.tally);
  }
}

void attribute() {
  move_growth(paths[self->warp].counters, counters, seen.counters);
  move_growth(recent[self->id], tally, seen.tally);
}

void attribute_before(const Thread& next) {
  if (next.warp != self->warp) move_growth(paths[self->warp].counters, counters, seen.counters);
  if (next.id != self->id) move_growth(recent[self->id], tally, seen.tally);
}

void attribute_to(int warp) {
  move_growth(paths[warp].counters, counters, seen.counters);
}

void attribute_to_warpgroup(int first_warp) {
  const Counters before = seen.counters;
  for (int warp = first_warp; warp < first_warp + kGroupWarps; ++warp) {
    seen.counters = before;
    attribute_to(warp);
  }
}

namespace {

// Weights that tell a warp with much to do from one with little; the model has its own, calibrated ones. They are
// fractions of this many, so that a copy's start costs no divisions: wgmma's products take one part each.
constexpr u64 kParts = 2048;  // Hopper's tensor cores multiply so many in a cycle

u64 parts_of(const Counters& c) {
  const auto accesses = [&c](Access access) { return c.accesses[static_cast<u32>(access)]; };
  const u64 by_thread = c.barrier * 20 + c.commit + c.wait * 2;
  const u64 matrices = accesses(Access::ldmatrix) + accesses(Access::stmatrix);
  const u64 shared = accesses(Access::lds) + accesses(Access::sts) + matrices;
  const u64 global = accesses(Access::ldg) + accesses(Access::stg) + 12 * accesses(Access::copy_shared);
  const u64 whole = 2 * (shared + global) + c.wavefronts + 10 * c.mbarrier + 8 * (c.tma + c.mma + c.shfl + c.vote);
  return whole * kParts + by_thread * (kParts / kWarpSize) + c.tma_bytes * (kParts / 64) + c.wgmma_macs;
}

u64 parts_of(const Tally& t) {
  const u64 math = t.ex2 + t.rcp + t.lg2 + t.fmax + t.fma + t.pack;
  return (2 * math + 500 * t.load_rounds + 25 * t.shared_rounds) * kParts;
}

double cycles_of(u64 parts) {
  return static_cast<double>(static_cast<long long>(parts)) / static_cast<double>(kParts);
}

}  // namespace

double rough_cycles(const Work& work) {
  return cycles_of(parts_of(work.counters) + parts_of(work.tally));
}

Tally for_all_lanes(Tally lane) {
  for (size_t i = 0; i < sizeof(Tally) / sizeof(u64); ++i) numbers(lane)[i] *= kWarpSize;
  return lane;
}

double rough_clock() {
  attribute();
  const Work& warp = paths[self->warp];
  return cycles_of(parts_of(warp.counters) + parts_of(warp.tally) + parts_of(recent[self->id]));
}

void join_arrival(Barrier& barrier) {
  attribute();
  keep_slower(barrier.slowest, path_of(self->warp));
}

namespace {

// One thread for each warp: its first that has not exited.
bool leads_warp(const Thread& thread) {
  const Warp& warp = group.warps[thread.warp];
  return thread.lane == __builtin_ctz(warp.lanes & ~warp.exited);
}

}  // namespace

void join_paths(Barrier& barrier) {
  attribute();
  for (int id : barrier.waiting) {
    const Thread& thread = group.threads[id];
    settle_accesses(thread.warp);
    if (leads_warp(thread)) keep_slower(barrier.slowest, path_of(thread.warp));
  }
  for (int id : barrier.waiting) {
    if (leads_warp(group.threads[id])) paths[group.threads[id].warp] = barrier.slowest;
    recent[id] = {};
  }
}

void take_path(Work slowest) {
  attribute();
  settle_accesses(self->warp);
  keep_slower(slowest, path_of(self->warp));
  paths[self->warp] = slowest;
  recent[self->id] = {};
}

void pass_path() {
  attribute();
  recent[self->id] = {};
}

void leave_path(Work& slowest) {
  attribute();
  keep_slower(slowest, path_of(self->warp));
}

void follow_path(const Work& slowest) {
  attribute();
  if (rough_cycles(slowest) <= rough_cycles(path_of(self->warp))) return;
  paths[self->warp] = slowest;
  std::fill_n(recent.begin() + group.warps[self->warp].first_thread, kWarpSize, Tally());
}

void count_wait(int line, double age) {
  WaitTotal& total = waits[line];
  total.line = line;
  ++total.count;
  total.age += age;
}

std::vector<WaitTotal> wait_totals() {
  std::vector<WaitTotal> out;
  for (const auto& entry : waits) out.push_back(entry.second);
  return out;
}

}  // namespace efemu
