// setmaxnreg: the pool of registers of a block, and who waits for more of them.
#include <algorithm>

#include "collective.h"

namespace efemu {
namespace {

constexpr int kFileRegisters = 65536, kMostEach = 255, kUnit = 8;
constexpr int kFewestAsked = 24, kMostAsked = 256;

struct Adjustment {
  int count;
  bool increase;
};

// A GPU gives whole units; unless told, as many as a block alone on its multiprocessor may have.
int registers_at_launch(const Shape& shape, int threads) {
  const int given = static_cast<int>(shape.registers);
  if (given) return (given + kUnit - 1) / kUnit * kUnit;
  return std::min(kMostEach, kFileRegisters / threads) / kUnit * kUnit;
}

void complain(int line, int line2, const std::string& what) {
  report("setmaxnreg", line, line2, [&] { return what; });
}

std::string warp_name(int warp) {
  return text("warp %d", warp - cta->first_warp);
}

// What the warp will have: where it asks for the wrong direction, what it has.
int checked_count(const Registers& mine, const Adjustment& wanted, int line) {
  if (wanted.count < kFewestAsked || wanted.count > kMostAsked || wanted.count % kUnit)
    complain(line, 0,
             text("%d registers: ask for %d to %d, in steps of %d", wanted.count, kFewestAsked, kMostAsked, kUnit));
  if (wanted.increase ? wanted.count >= mine.each : wanted.count <= mine.each) return wanted.count;
  complain(line, mine.line, text("%s %s to %d registers a thread: it has %d already", warp_name(self->warp).c_str(),
                                 wanted.increase ? "increases" : "decreases", wanted.count, mine.each));
  return mine.each;
}

// All warps of a warpgroup execute the same one, and know that the others have done the last before the next.
void check_warpgroup(const Registers& mine, int line) {
  require_warpgroup("setmaxnreg", line);
  const int first = first_warp_of_group(*self);
  for (int w = first; w < first + kGroupWarps; ++w) {
    const Registers& other = group.warps[static_cast<size_t>(w)].registers;
    if (other.changes == mine.changes + 1 && other.line != line)
      complain(line, other.line, text("%s executes another one than %s of its warpgroup, at line %d",
                                      warp_name(self->warp).c_str(), warp_name(w).c_str(), other.line));
    const bool unknown = other.changes == mine.changes && mine.changes && !group.clocks.ordered(other.last, self->id);
    if (w != self->warp && (unknown || other.changes < mine.changes))
      complain(line, mine.line,
               text("%s executes it again, and no barrier tells it that %s has executed the one at line %d",
                    warp_name(self->warp).c_str(), warp_name(w).c_str(), mine.line));
  }
}

int lacking(const Registers& registers) {
  return (registers.wanted - registers.each) * kWarpSize;
}

void grant(Warp& warp, Cta& home) {
  Registers& registers = warp.registers;
  home.free_registers -= lacking(registers);
  registers.each = registers.wanted;
  registers.wanted = 0;
}

// Registers have come back: whoever can go on with them does, in order of the warps.
void serve_waiting(Cta& home) {
  for (int w = home.first_warp; w < home.first_warp + home.warp_count; ++w) {
    Warp& warp = group.warps[static_cast<size_t>(w)];
    if (!warp.registers.wanted || lacking(warp.registers) > home.free_registers) continue;
    grant(warp, home);
    // Lanes that have not come to wait yet will see that there is nothing left to wait for.
    for (int lane = 0; lane < kWarpSize; ++lane) {
      Thread& thread = group.threads[static_cast<size_t>(warp.first_thread + lane)];
      if (thread.state == State::blocked) make_ready(thread);
    }
  }
}

void adjust(Warp& warp, const Adjustment& asked, int line) {
  Registers& mine = warp.registers;
  const int count = checked_count(mine, asked, line);
  check_warpgroup(mine, line);
  ++mine.changes;
  mine.line = line;
  mine.last = group.clocks.now(self->id);
  mine.wanted = count;
  if (lacking(mine) > cta->free_registers) return;
  grant(warp, *cta);
  serve_waiting(*cta);
}

std::string describe_pool(const Thread& thread) {
  const Registers& registers = group.warps[static_cast<size_t>(thread.warp)].registers;
  return text("the block's register pool: warp %d wants %d for each thread and has %d, which takes %d more; %d of %d "
              "are free",
              thread.warp - thread.cta->first_warp, registers.wanted, registers.each, lacking(registers),
              thread.cta->free_registers, thread.cta->registers);
}

}  // namespace

void begin_registers(Cta& home, const Shape& shape) {
  const int each = registers_at_launch(shape, home.thread_count);
  home.registers = each * kWarpSize * home.warp_count;
  home.free_registers = 0;
  for (int w = 0; w < home.warp_count; ++w)
    group.warps[static_cast<size_t>(home.first_warp + w)].registers.each = each;
}

void set_registers(int count, bool increase, int line) {
  const char* const op = increase ? "setmaxnreg_inc" : "setmaxnreg_dec";
  note_progress(line);
  require_whole_warp(op, line);
  Warp& warp = group.warps[static_cast<size_t>(self->warp)];
  Adjustment mine{count, increase};
  collective(op, line, mine, [&](const Lanes<Adjustment>& lanes) {
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes[lane].count != count)
        report_divergence(op, line, text("lane %d asks for %d registers", lane, lanes[lane].count));
    adjust(warp, mine, line);
  });
  while (warp.registers.wanted) wait_here(line, {op, 0, describe_pool});
}

// The last thread of a warp: its warpgroup must have executed as many as it did.
void leave_registers(Thread& thread) {
  const Warp& warp = group.warps[static_cast<size_t>(thread.warp)];
  if (warp.exited != warp.lanes) return;
  const int first = first_warp_of_group(thread), end = thread.cta->first_warp + thread.cta->warp_count;
  for (int w = first; w < std::min(first + kGroupWarps, end); ++w) {
    const Warp& other = group.warps[static_cast<size_t>(w)];
    if (other.exited != other.lanes || other.registers.changes == warp.registers.changes) continue;
    const bool fewer = warp.registers.changes < other.registers.changes;
    complain((fewer ? other : warp).registers.line, 0,
             text("%s of the same warpgroup ended without executing this one: all four warps must",
                  warp_name(fewer ? thread.warp : w).c_str()));
  }
}

}  // namespace efemu
