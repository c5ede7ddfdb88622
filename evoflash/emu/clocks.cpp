// Joining vector clocks.
#include "clocks.h"

#include "block.h"

namespace efemu {
namespace {

void join(u32* into, const u32* from, int agents) {
  for (int i = 0; i < agents; ++i) into[i] = into[i] > from[i] ? into[i] : from[i];
}

}  // namespace

void Clocks::reset(int agents) {
  agents_ = agents;
  known_.assign(static_cast<size_t>(agents) * agents, 0);
  for (int i = 0; i < agents; ++i) row(i)[i] = 1;
}

void Clocks::release(int agent, Knowledge& to) {
  if (to.empty()) to.assign(agents_, 0);
  join(to.data(), row(agent), agents_);
  if (++row(agent)[agent] < kClockEnd) return;
  add_report("emulator-limit", self->line, 0, text("more than %u barriers in one thread", kClockEnd - 2));
  abandon_block();
}

void Clocks::acquire(int agent, const Knowledge& from) {
  if (!from.empty()) join(row(agent), from.data(), agents_);
}

}  // namespace efemu
