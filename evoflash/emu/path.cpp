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

template <class Counts>
void move_growth(Counts& to, Counts& now, Counts& before) {
  for (size_t i = 0; i < sizeof(Counts) / sizeof(u64); ++i) {
    numbers(to)[i] += numbers(now)[i] - numbers(before)[i];
    numbers(before)[i] = numbers(now)[i];
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

void attribute_to(int warp) {
  move_growth(paths[warp].counters, counters, seen.counters);
}

// Weights that tell a warp with much to do from one with little; the model has its own, calibrated ones.
double rough_cycles(const Work& work) {
  const Counters& c = work.counters;
  const Tally& t = work.tally;
  const auto accesses = [&c](Access access) { return static_cast<double>(c.accesses[static_cast<u32>(access)]); };
  const double by_thread = static_cast<double>(c.barrier * 20 + c.commit + c.wait * 2) / kWarpSize;
  const double shared = accesses(Access::lds) + accesses(Access::sts) + accesses(Access::ldmatrix);
  const double global = accesses(Access::ldg) + accesses(Access::stg) + 12 * accesses(Access::copy_shared);
  const double math = static_cast<double>(t.ex2 + t.rcp + t.lg2 + t.fmax + t.fma + t.pack);
  return by_thread + 2 * (shared + global + math) + static_cast<double>(c.wavefronts) +
         static_cast<double>(8 * c.mma + 8 * c.shfl + 8 * c.vote + 500 * t.load_rounds + 25 * t.shared_rounds);
}

Tally for_all_lanes(Tally lane) {
  for (size_t i = 0; i < sizeof(Tally) / sizeof(u64); ++i) numbers(lane)[i] *= kWarpSize;
  return lane;
}

double rough_clock() {
  attribute();
  Work mine = paths[self->warp];
  add(mine.tally, recent[self->id]);
  return rough_cycles(mine);
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
