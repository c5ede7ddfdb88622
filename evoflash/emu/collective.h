// How a warp-wide primitive meets: each lane deposits its arguments and stops; the last one to come does the
// work for all straight on the others' stacks, and goes on. The primitives themselves: warp.cpp, wmma.cpp.
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

inline void require_whole_warp(const char* op, int line) {
  if (group.warps[self->warp].lanes != kAllLanes)
    report_divergence(op, line, "it needs 32 lanes; make the block a multiple of 32 threads");
}

}  // namespace efemu
