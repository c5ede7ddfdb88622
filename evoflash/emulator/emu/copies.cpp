// cp.async: copies that land when the delivery policy says, at the latest when their thread waits for them.
#include <algorithm>
#include <cstring>

#include "block.h"
#include "counters.h"
#include "global.h"
#include "mbarrier.h"
#include "path.h"

namespace efemu {
namespace {

void land(Copy& copy, Cta& home) {
  if (copy.landed) return;
  copy.landed = true;
  if (copy.inside)
    std::memcpy(home.shared.at(copy.target), copy.source, copy.bytes);
  else
    std::memset(home.shared.at(copy.target), 0, copy.bytes);
}

int copying_agent() {
  if (self->copying_agent < 0) self->copying_agent = group.clocks.add("a cp.async by " + my_name());
  return self->copying_agent;
}

// Who learns of the epoch, at the barrier or by waiting itself, may read the copy.
void hand_over(const Copy& copy, const Thread& thread) {
  thread.cta->shared.hand_over(copy.target, copy.bytes, static_cast<u32>(thread.id), copy.handed);
}

bool lands_at_once() {
  return policy.delivery == Delivery::eager || (policy.delivery == Delivery::random && (chance() & 1));
}

}  // namespace

void copy_async(u32 target, const void* source, bool inside, int line, u32 bytes) {
  note_progress(line);
  count_access(Access::copy_shared, target, bytes, true, line);
  count_access(Access::copy_global, reinterpret_cast<u64>(source), bytes, inside, line);
  if (inside && !admits_global(source, bytes, false, line)) inside = false;
  if (inside) note_global_read(source, bytes, group.clocks.actor(self->id), line);
  if (!cta->shared.admits(target, bytes, "cp.async", line)) return;
  cta->shared.write_pending(target, bytes, group.clocks.actor(self->id), line);
  self->copies.push_back({target, source, inside, false, line, self->open_group, bytes, rough_clock(), 0});
  if (lands_at_once()) land(self->copies.back(), *cta);
}

void land_by_chance(Thread& thread) {
  if (policy.delivery != Delivery::random || thread.copies.empty() || chance() % 8) return;
  land(thread.copies[chance() % thread.copies.size()], *thread.cta);
}

void commit_copies(int line) {
  self->line = line;
  ++counters.commit;
  ++self->open_group;
}

void wait_copies(int pending, int line) {
  self->line = line;
  ++counters.wait;
  std::vector<Copy>& copies = self->copies;
  auto copy = copies.begin();
  for (; copy != copies.end() && copy->group + pending < self->open_group; ++copy) {
    land(*copy, *cta);
    if (copy->handed) {
      hand_over(*copy, *self);
      group.clocks.learn(self->id, copy->handed);
    } else {
      cta->shared.complete(copy->target, copy->bytes, group.clocks.now(self->id));
    }
  }
  if (copy != copies.begin()) count_wait(line, rough_clock() - (copy - 1)->started);
  copies.erase(copies.begin(), copy);
}

// The arrival is for all copies before it, those included of which another barrier has been told.
void copies_arrive(u32 barrier, bool counted, int line) {
  note_progress(line);
  const int agent = copying_agent();
  const Epoch arrival = begin_arrival(barrier, counted, line), epoch = group.clocks.now(agent);
  group.clocks.tick(agent);
  for (Copy& copy : self->copies)
    if (!copy.handed) copy.handed = epoch;
  Thread& thread = *self;
  deliver(line, [=, &thread] {
    for (Copy& copy : thread.copies) {
      if (!copy.handed || copy.handed > epoch) continue;
      land(copy, *thread.cta);
      hand_over(copy, thread);
    }
    complete_arrival(*thread.cta, barrier, arrival, epoch);
  });
}

// Those of which a barrier has been told are for others to wait for.
void leave_copies(Thread& thread) {
  const auto kept = [](const Copy& copy) { return !copy.handed; };
  const auto first = std::find_if(thread.copies.begin(), thread.copies.end(), kept);
  if (first == thread.copies.end()) return;
  report("async-at-exit", first->line, 0, [&] {
    return text("%s ended with copies under way (%td), the first from line %d%s", my_name().c_str(),
                std::count_if(first, thread.copies.end(), kept), first->line,
                first->group == thread.open_group ? " (never committed)" : "");
  });
  for (Copy& copy : thread.copies) land(copy, *thread.cta);
}

}  // namespace efemu
