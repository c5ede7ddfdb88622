// Vector clocks: who can know of which access, and which of them the async proxy can see. Exact
// happens-before, no guessing.
//
// An agent is whatever touches memory at its own pace: a thread; the loads that complete at one mbarrier; the
// reads of one warpgroup's wgmma or of one thread's bulk copies. Threads are numbered first, the others as they
// appear.
#pragma once
#include <string>
#include <vector>

#include "float16.h"

namespace efemu {

// An agent and its clock in one word: 12 bits and 20. Clocks start at 1, so 0 means "never".
using Epoch = u32;
constexpr u32 kClockBits = 20;
constexpr u32 kClockEnd = 1u << kClockBits;
constexpr int kMostAgents = 1 << (32 - kClockBits);
inline u32 agent_of(Epoch epoch) { return epoch >> kClockBits; }
inline u32 clock_of(Epoch epoch) { return epoch & (kClockEnd - 1); }
inline Epoch epoch_of(u32 agent, u32 clock) { return agent << kClockBits | clock; }

// The memory that a fence between the proxies is for.
enum class Space : u32 { shared, global };
constexpr Space kSpaces[] = {Space::shared, Space::global};

// What has been made known at a barrier: the latest clock of each agent, and for each space the latest whose
// generic writes were fenced for the async proxy.
struct Knowledge {
  std::vector<u32> known, fenced_of[2];

  bool empty() const { return known.empty(); }
  std::vector<u32>& fenced(Space space) { return fenced_of[static_cast<u32>(space)]; }
  const std::vector<u32>& fenced(Space space) const { return fenced_of[static_cast<u32>(space)]; }
  void clear() {
    known.clear();
    for (Space space : kSpaces) fenced(space).clear();
  }
};

// What all threads of a range know: a warpgroup's, whose wgmma reads shared memory for all of them at once.
//
// Nobody forgets, so what was once found to be known to all is so for ever: the minimum over the threads is
// looked up anew only for what is not known by the last look.
class Crowd {
 public:
  void reset(int first_thread, int threads);
  bool knows(Epoch epoch);
  bool sees(Epoch epoch);
  // As many entries as there are agents.
  const u32* known();
  const u32* fenced();

 private:
  int first_ = 0, count_ = 0;
  Knowledge least_;
};

// Who touches memory, when, and what it knows then. An access through the async proxy has `fenced` as well.
struct Actor {
  Epoch now;
  const u32* known;
  const u32* fenced;       // null: the generic proxy
  Crowd* crowd = nullptr;  // whose knowledge it is, where it is many threads'

  bool knows(Epoch epoch) const { return known[agent_of(epoch)] >= clock_of(epoch) || (crowd && crowd->knows(epoch)); }
  bool sees(Epoch epoch) const {
    return !fenced || fenced[agent_of(epoch)] >= clock_of(epoch) || (crowd && crowd->sees(epoch));
  }
};

class Clocks {
 public:
  void reset(int threads);
  // A new agent that is no thread; `name` is for reports: "the TMA loads to the mbarrier at offset 1024".
  int add(std::string name);
  int agents() const { return agents_; }
  bool is_thread(u32 agent) const { return static_cast<int>(agent) < threads_; }
  const std::string& name(u32 agent) const { return names_[agent - static_cast<u32>(threads_)]; }

  Epoch now(int agent) const { return epoch_of(static_cast<u32>(agent), row(agent)[agent]); }
  // The agent as a toucher of memory through the generic proxy; or another agent that touches memory of the space
  // on the thread's behalf, through the async proxy, knowing what the thread knows. Good until the next add().
  Actor actor(int agent) const { return {now(agent), row(agent), nullptr}; }
  Actor on_behalf(int agent, int thread, Space space = Space::shared) const {
    return {now(agent), row(thread), fenced_row(thread, space)};
  }
  Actor on_behalf(int agent, Crowd& crowd) const { return {now(agent), crowd.known(), crowd.fenced(), &crowd}; }
  // Whether what happened at `epoch` is ordered before what `observer` does next.
  bool ordered(Epoch epoch, int observer) const { return row(observer)[agent_of(epoch)] >= clock_of(epoch); }

  // The agent adds what it knows, and what it does from now on is news.
  void release(int agent, Knowledge& to);
  // The same of what it knows of other agents than threads alone: what is asynchronous, and has been waited for.
  void release_asynchronous(int agent, Knowledge& to);
  void acquire(int agent, const Knowledge& from);
  // What the agent does from now on is news to everybody.
  void tick(int agent);
  // The agent hears of one epoch; or adds one to what is made known elsewhere.
  void learn(int agent, Epoch epoch);
  void learn(Knowledge& knowledge, Epoch epoch) const;
  // fence.proxy.async: generic writes to the space that the agent knows of are visible to async accesses ordered
  // after this; what it writes from now on is not.
  void fence_proxies(int agent, Space space);

  const u32* known(int agent) const { return row(agent); }
  const u32* fenced(int agent) const { return fenced_row(agent, Space::shared); }

 private:
  u32* row(int agent) { return &known_[static_cast<size_t>(agent) * static_cast<size_t>(stride_)]; }
  const u32* row(int agent) const { return &known_[static_cast<size_t>(agent) * static_cast<size_t>(stride_)]; }
  const u32* fenced_row(int agent, Space space) const {
    const std::vector<u32>& rows = fenced_[static_cast<u32>(space)];
    return rows.empty() ? unfenced_.data() : &rows[static_cast<size_t>(agent) * static_cast<size_t>(stride_)];
  }
  u32* fenced_row(int agent, Space space);
  void widen();

  int threads_ = 0, agents_ = 0, stride_ = 0;
  std::vector<u32> known_;       // stride x stride: row a is what a knows of everyone
  std::vector<u32> fenced_[2];   // the same by space; empty until somebody has fenced,
  std::vector<u32> unfenced_;    // and this, of zeros, is everyone's row
  std::vector<std::string> names_;
};

}  // namespace efemu
