// Vector clocks: who can know of which access. Exact happens-before, no guessing.
//
// An agent is whatever reads or writes shared memory at its own pace: a thread today; a TMA queue or the
// tensor core's reads get numbers after the threads' when those primitives come.
#pragma once
#include <vector>

#include "float16.h"

namespace efemu {

// An agent and its clock in one word: 12 bits and 20. Clocks start at 1, so 0 means "never".
using Epoch = u32;
constexpr u32 kClockBits = 20;
constexpr u32 kClockEnd = 1u << kClockBits;
inline u32 agent_of(Epoch epoch) { return epoch >> kClockBits; }
inline u32 clock_of(Epoch epoch) { return epoch & (kClockEnd - 1); }
inline Epoch epoch_of(u32 agent, u32 clock) { return agent << kClockBits | clock; }

// What has been made known at a barrier: the latest clock of each agent.
using Knowledge = std::vector<u32>;

class Clocks {
 public:
  void reset(int agents);
  Epoch now(int agent) const { return epoch_of(agent, row(agent)[agent]); }
  // Whether what happened at `epoch` is ordered before what `observer` does next.
  bool ordered(Epoch epoch, int observer) const { return row(observer)[agent_of(epoch)] >= clock_of(epoch); }
  // The agent adds what it knows, and what it does from now on is news.
  void release(int agent, Knowledge& to);
  void acquire(int agent, const Knowledge& from);

 private:
  u32* row(int agent) { return &known_[static_cast<size_t>(agent) * agents_]; }
  const u32* row(int agent) const { return &known_[static_cast<size_t>(agent) * agents_]; }
  int agents_ = 0;
  std::vector<u32> known_;  // agents x agents: row a is what a knows of everyone
};

}  // namespace efemu
