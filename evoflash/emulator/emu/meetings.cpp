// Primitives of some lanes of a warp, as plain CUDA's *_sync functions have them, and what else its names need.
//
// All lanes of a mask that have not ended have to come to the same call (CUDA programming guide, warp shuffle
// functions). Lanes of other masks may be elsewhere meanwhile.
#include "meetings.h"

#include <algorithm>

#include "collective.h"
#include "global.h"

namespace efemu {
namespace {

std::string describe_masked(const Thread& thread) {
  const Warp& warp = group.warps[static_cast<size_t>(thread.warp)];
  for (const Meeting& meeting : warp.meetings)
    if (meeting.arrived >> thread.lane & 1)
      return text("mask %08x of warp %d: lanes %08x have not come", meeting.mask, thread.warp - thread.cta->first_warp,
                  meeting.mask & warp.lanes & ~warp.exited & ~meeting.arrived);
  return "";
}

void order_memory(const Warp& warp, u32 lanes) {
  static Knowledge knowledge;
  knowledge.clear();
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (lanes >> lane & 1) group.clocks.release(warp.first_thread + lane, knowledge);
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (lanes >> lane & 1) group.clocks.acquire(warp.first_thread + lane, knowledge);
}

// The last lane has come, or those that are missing have ended.
void finish(Warp& warp, size_t at, int runner) {
  const Meeting done = warp.meetings[at];
  warp.meetings.erase(warp.meetings.begin() + static_cast<std::ptrdiff_t>(at));
  if (done.work)
    done.work(done.arguments, done.arrived);
  else
    order_memory(warp, done.arrived);
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (done.arrived >> lane & 1 && lane != runner) make_ready(group.threads[static_cast<size_t>(warp.first_thread + lane)]);
}

bool is_complete(const Warp& warp, const Meeting& meeting) {
  return meeting.arrived == (meeting.mask & warp.lanes & ~warp.exited);
}

void check_mask(const Warp& warp, const char* op, u32 mask, int line) {
  if (!(mask >> self->lane & 1)) report_divergence(op, line, text("its mask %08x leaves out the lane itself", mask));
  if (const u32 elsewhere = warp.at_barrier & mask)
    report_divergence(op, line, text("lanes %08x wait at a barrier of the block instead", elsewhere),
                      group.threads[static_cast<size_t>(warp.first_thread + __builtin_ctz(elsewhere))].line);
}

}  // namespace

void meet(const char* op, u32 mask, void* mine, void (*work)(void* const*, u32), int line) {
  note_progress(line);
  self->line = line;
  ++self->segment;
  Warp& warp = group.warps[static_cast<size_t>(self->warp)];
  check_mask(warp, op, mask, line);
  size_t at = warp.meetings.size();
  for (size_t i = 0; i < warp.meetings.size(); ++i) {
    const Meeting& other = warp.meetings[i];
    if (other.mask == mask)
      at = i;
    else if (other.arrived & mask && other.mask >> self->lane & 1)
      report_divergence(op, line, text("its mask is %08x, that of lanes %08x is %08x", mask, other.arrived, other.mask),
                        other.line);
  }
  if (at == warp.meetings.size()) warp.meetings.push_back({op, line, mask, 0, {}, work});
  Meeting& meeting = warp.meetings[at];
  if (meeting.op != op || (work && meeting.line != line))
    report_divergence(op, line, text("lanes %08x wait in %s at line %d instead", meeting.arrived, meeting.op, meeting.line),
                      meeting.line);
  meeting.arguments[self->lane] = mine;
  meeting.arrived |= 1u << self->lane;
  if (!is_complete(warp, meeting)) return wait_here(line, {op, mask, describe_masked});
  settle_accesses(self->warp);
  finish(warp, at, self->lane);
}

void leave_meetings(Thread& thread) {
  Warp& warp = group.warps[static_cast<size_t>(thread.warp)];
  for (size_t at = warp.meetings.size(); at-- > 0;)
    if (is_complete(warp, warp.meetings[at])) finish(warp, at, thread.lane);
}

const Meeting* meeting_without(const Warp& warp, int lane) {
  for (const Meeting& meeting : warp.meetings)
    if (meeting.mask >> lane & 1 && !(meeting.arrived >> lane & 1)) return &meeting;
  return nullptr;
}

u32 active_lanes(int line) {
  note_progress(line);
  Warp& warp = group.warps[static_cast<size_t>(self->warp)];
  const u32 mine = 1u << self->lane;
  const auto here = [&] {
    return std::find_if(warp.gatherings.begin(), warp.gatherings.end(),
                        [line](const Gathering& gathering) { return gathering.line == line; });
  };
  auto gathering = here();
  if (gathering == warp.gatherings.end()) gathering = warp.gatherings.insert(gathering, {line, 0});
  gathering->arrived |= mine;
  if (gathering->arrived != (warp.lanes & ~warp.exited)) {
    // Until no other thread can go on: who has not come by then is in another branch.
    wait_here(line, {"__activemask", 0, nullptr, true});
    gathering = here();
    if (gathering == warp.gatherings.end() || !(gathering->arrived & mine)) return static_cast<u32>(self->answer);
  }
  const u32 arrived = gathering->arrived;
  warp.gatherings.erase(gathering);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (!(arrived >> lane & 1)) continue;
    Thread& thread = group.threads[static_cast<size_t>(warp.first_thread + lane)];
    thread.answer = static_cast<int>(arrived);
    if (thread.state == State::blocked) make_ready(thread);
  }
  return arrived;
}

u32 lane_number() {
  return static_cast<u32>(self->lane);
}

void* shared_array(const void* key, u64 bytes, const char* name, int line) {
  void* const found = cta->shared.reserve_array(key, static_cast<u32>(bytes), name, line);
  if (!found) abandon_block();
  return found;
}

void* dynamic_shared() {
  return cta->shared.dynamic_begin();
}

u32 shared_address(const void* pointer) {
  return cta->shared.address_of(pointer);
}

void* shared_pointer(u32 address) {
  return cta->shared.at(address);
}

bool begin_atomic(void* target, u32 bytes, int line) {
  for (Cta& home : group.ctas) {
    if (!home.shared.holds(target, bytes) && !(&home == cta && !near_buffer(target) && home.shared.is_near(target))) continue;
    if (!home.shared.admits_plain(target, bytes, true, "atomic", line)) abandon_block();
    note_progress(line);
    const u32 at = home.shared.address_of(target);
    count_access(Access::sts, at, bytes, true, line);
    home.shared.change(at, bytes, group.clocks.actor(self->id), line);
    return true;
  }
  if (!admits_global(target, bytes, true, line)) return false;
  count_access(Access::stg, reinterpret_cast<u64>(target), bytes, true, line);
  pass_on(target, bytes, Passing::change, {false, false}, line);
  return true;
}

void stop_kernel(const char* kind, const char* why, int line) {
  report(kind, line, 0, [&] { return text("%s by %s", why, my_name().c_str()); });
  abandon_block();
}

}  // namespace efemu
