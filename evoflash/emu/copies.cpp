// cp.async: copies that land when the delivery policy says, at the latest when their thread waits for them.
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
  self->copies.push_back({target, source, inside, false, line, self->open_group, bytes, rough_clock()});
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
    cta->shared.complete(copy->target, copy->bytes, group.clocks.now(self->id));
  }
  if (copy != copies.begin()) count_wait(line, rough_clock() - (copy - 1)->started);
  copies.erase(copies.begin(), copy);
}

// The copies are no longer the thread's to wait for: who waits at the barrier may read them.
void copies_arrive(u32 barrier, bool counted, int line) {
  note_progress(line);
  const Epoch epoch = begin_arrival(barrier, counted, line);
  std::vector<Copy> copies;
  copies.swap(self->copies);
  Cta* const home = cta;
  const u32 thread = static_cast<u32>(self->id);
  deliver(line, [=]() mutable {
    for (Copy& copy : copies) {
      land(copy, *home);
      home->shared.hand_over(copy.target, copy.bytes, thread, epoch);
    }
    complete_arrival(*home, barrier, epoch);
  });
}

void leave_copies(Thread& thread) {
  if (thread.copies.empty()) return;
  const Copy& first = thread.copies.front();
  report("async-at-exit", first.line, 0, [&] {
    return text("%s ended with copies under way (%zu), the first from line %d%s", my_name().c_str(),
                thread.copies.size(), first.line, first.group == thread.open_group ? " (never committed)" : "");
  });
  for (Copy& copy : thread.copies) land(copy, *thread.cta);
}

}  // namespace efemu
