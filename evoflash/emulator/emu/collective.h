// How a warp-wide primitive meets: each lane deposits its arguments and stops; the last one to come does the
// work for all straight on the others' stacks, and goes on. Four warps meet likewise. The primitives themselves:
// warp.cpp, wmma.cpp, wgmma.cpp.
#pragma once
#include "block.h"
#include "counters.h"

namespace efemu {

constexpr u32 kAllLanes = ~0u;

[[noreturn]] inline void report_divergence(const char* op, int line, const std::string& why, int line2 = 0) {
  report("divergence", line, line2, [&] {
    return text("%s by warp %d, lane %d: %s", op, self->warp - cta->first_warp, self->lane, why.c_str());
  });
  abandon_block();
}

inline void check_meeting(const Warp& warp, const char* op, int line) {
  const Collective& meeting = warp.collective;
  if (warp.at_barrier) report_divergence(op, line, text("lanes %08x wait at a barrier of the block instead", warp.at_barrier));
  if (warp.exited) report_divergence(op, line, text("lanes %08x have exited and cannot take part", warp.exited));
  if (meeting.arrived && (meeting.op != op || meeting.line != line))
    report_divergence(
        op, line, text("lanes %08x wait in %s at line %d instead", meeting.arrived, meeting.op, meeting.line),
        meeting.line);
}

// The arguments of all lanes, while the last one works.
template <class Arguments>
class Lanes {
 public:
  explicit Lanes(const Warp& warp) : warp_(warp) {}
  Arguments& operator[](int lane) const { return *static_cast<Arguments*>(warp_.collective.arguments[lane]); }
  int thread(int lane) const { return warp_.first_thread + lane; }
  bool exists(int lane) const { return warp_.lanes >> lane & 1; }

 private:
  const Warp& warp_;
};

inline std::string describe_meeting(const Thread& thread) {
  const Warp& warp = group.warps[static_cast<size_t>(thread.warp)];
  return text("warp %d: lanes %08x have not come", thread.warp - thread.cta->first_warp,
              warp.lanes & ~warp.collective.arrived);
}

// `work` is called once, by the last lane, with the Lanes.
template <class Arguments, class Work>
void collective(const char* op, int line, Arguments& mine, Work work) {
  self->line = line;
  ++self->segment;
  Warp& warp = group.warps[self->warp];
  check_meeting(warp, op, line);
  Collective& meeting = warp.collective;
  meeting.op = op;
  meeting.line = line;
  meeting.of_warpgroup = false;
  meeting.arguments[self->lane] = &mine;
  meeting.arrived |= 1u << self->lane;
  if (meeting.arrived != warp.lanes) return wait_here(line, {op, 0, describe_meeting});
  settle_accesses(self->warp);
  const Lanes<Arguments> lanes(warp);
  work(lanes);
  meeting.arrived = 0;
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (lanes.exists(lane) && lane != self->lane) make_ready(group.threads[lanes.thread(lane)]);
}

// ---- warpgroups: four whole warps, the first of which is a multiple of four in its block

inline int first_warp_of_group(const Thread& thread) {
  const int in_block = thread.warp - thread.cta->first_warp;
  return thread.cta->first_warp + in_block / kGroupWarps * kGroupWarps;
}

inline void require_warpgroup(const char* op, int line) {
  const int in_block = self->warp - cta->first_warp, first = in_block / kGroupWarps * kGroupWarps;
  if ((first + kGroupWarps) * kWarpSize <= cta->thread_count) return;
  report_divergence(op, line, text("it needs warps %d to %d, all of their lanes; the block has %d threads", first,
                                   first + kGroupWarps - 1, cta->thread_count));
}

// The arguments of a warpgroup's 128 threads, while the last one works.
template <class Arguments>
class GroupLanes {
 public:
  explicit GroupLanes(int first_warp) : warps_(&group.warps[static_cast<size_t>(first_warp)]) {}
  Arguments& operator[](int lane) const {
    return *static_cast<Arguments*>(warps_[lane / kWarpSize].collective.arguments[lane % kWarpSize]);
  }
  int thread(int lane) const { return warps_->first_thread + lane; }

 private:
  const Warp* warps_;
};

inline std::string describe_warpgroup(const Thread& thread) {
  const int first = first_warp_of_group(thread);
  std::string missing;
  for (int w = first; w < first + kGroupWarps; ++w) {
    const Collective& meeting = group.warps[static_cast<size_t>(w)].collective;
    const u32 there = meeting.op == thread.wait.op ? meeting.arrived : 0;
    if (there != kAllLanes) missing += text("; warp %d: lanes %08x have not come", w - thread.cta->first_warp, ~there);
  }
  const int in_block = first - thread.cta->first_warp;
  return text("warpgroup of warps %d to %d", in_block, in_block + kGroupWarps - 1) + missing;
}

inline void check_other_warps(int first_warp, const char* op, int line) {
  for (int w = first_warp; w < first_warp + kGroupWarps; ++w) {
    const Warp& warp = group.warps[static_cast<size_t>(w)];
    const int number = w - cta->first_warp;
    if (warp.exited) report_divergence(op, line, text("lanes %08x of warp %d have exited", warp.exited, number));
    const Collective& other = warp.collective;
    if (other.arrived && other.of_warpgroup && (other.op != op || other.line != line))
      report_divergence(op, line, text("warp %d of its warpgroup waits in %s at line %d", number, other.op, other.line),
                        other.line);
  }
}

inline bool warpgroup_has_come(int first_warp, const char* op) {
  for (int w = first_warp; w < first_warp + kGroupWarps; ++w) {
    const Collective& meeting = group.warps[static_cast<size_t>(w)].collective;
    if (meeting.arrived != kAllLanes || meeting.op != op) return false;
  }
  return true;
}

// Like collective(), for the 128 threads of a warpgroup.
template <class Arguments, class Work>
void warpgroup_collective(const char* op, int line, Arguments& mine, Work work) {
  self->line = line;
  ++self->segment;
  require_warpgroup(op, line);
  Warp& warp = group.warps[static_cast<size_t>(self->warp)];
  check_meeting(warp, op, line);
  const int first = first_warp_of_group(*self);
  if (!warp.collective.arrived) check_other_warps(first, op, line);
  Collective& meeting = warp.collective;
  meeting.op = op;
  meeting.line = line;
  meeting.of_warpgroup = true;
  meeting.arguments[self->lane] = &mine;
  meeting.arrived |= 1u << self->lane;
  if (!warpgroup_has_come(first, op)) return wait_here(line, {op, 0, describe_warpgroup});
  for (int w = first; w < first + kGroupWarps; ++w) settle_accesses(w);
  const GroupLanes<Arguments> lanes(first);
  work(lanes);
  for (int w = first; w < first + kGroupWarps; ++w) group.warps[static_cast<size_t>(w)].collective.arrived = 0;
  for (int lane = 0; lane < kGroupThreads; ++lane)
    if (lanes.thread(lane) != self->id) make_ready(group.threads[static_cast<size_t>(lanes.thread(lane))]);
}

inline void require_whole_warp(const char* op, int line) {
  if (group.warps[self->warp].lanes != kAllLanes)
    report_divergence(op, line, "it needs 32 lanes; make the block a multiple of 32 threads");
}

}  // namespace efemu
