// Which phase of an mbarrier a wait or an arrival meets, whenever it comes: by happens-before, not by the schedule.
// Counts no arrivals and wakes nobody: mbarrier.cpp.
//
// A wait names a parity, an arrival nothing: which phase they meet goes by when they come. Both are right only where
// the phase before is complete whenever they come, and a phase may complete only when those who waited for the one
// before have seen that.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "block.h"

namespace efemu {

// A warp has seen a phase completed.
struct Look {
  Epoch epoch;
  int thread, line;  // of its first lane there
};

// The phases of one barrier.
struct PhaseOrder {
  int line;                           // where the barrier was made
  std::function<std::string()> state;  // of the barrier, for reports
  // The agent whose clock counts completed phases, those of a barrier that was in its place before (`earlier`) among
  // them, so that a thread's row says how many of them it comes after.
  int agent;
  u64 earlier;
  std::vector<Look> looks;  // at the last phase that completed
};

// A barrier is made, in a new place or where one was whose `phases` have completed.
PhaseOrder begin_phases(int line, std::function<std::string()> state);
PhaseOrder begin_phases(int line, std::function<std::string()> state, const PhaseOrder& before, u64 phases);

// The running thread waits for phase `phase`, or arrives in it: reports where it might meet another one. `gathered` was
// known when the phase before completed.
void check_wait(const PhaseOrder& order, u64 phase, const Knowledge& gathered, const char* op, int line);
void check_arrival(const PhaseOrder& order, u64 phase, const Knowledge& gathered, const char* op, int line);

// The running thread sees that a phase has completed; `first`: of its warp.
void note_look(PhaseOrder& order, bool first, int line);
// Phase `phase` completes, of which `gathering` is known: reports warps that saw the phase before and that it may come
// too early for. Whoever acquires `gathering` comes after it.
void complete_phase(PhaseOrder& order, u64 phase, Knowledge& gathering);

// What the running thread does next without a release of what it knows of threads: an epoch of its warp's agent, which
// it knows of. 0: there are too many agents.
Epoch next_of_warp();
// What the running thread knows of these agents, and its way to those who hear of a copy that the thread has begun.
std::vector<u32> known_order();
void learn_order(Knowledge& knowledge, const std::vector<u32>& order);

void reset_phase_order();

}  // namespace efemu
