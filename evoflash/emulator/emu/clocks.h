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

// Clocks lie in parts of so many agents. A part has a stamp: where two stamps are equal, so are the clocks. Much of
// what a thread of a cluster hears it knows already: of other blocks, at each barrier of its own. Joins leave that out.
constexpr size_t kPartAgents = 64;
using Stamp = u64;
constexpr Stamp kZeros = 0;  // of a part of which nothing is known
inline size_t parts_of(size_t agents) { return (agents + kPartAgents - 1) / kPartAgents; }

// The latest clock of each agent that is known.
class Known {
 public:
  bool empty() const { return clocks_.empty(); }
  size_t size() const { return clocks_.size(); }  // whole parts; clocks are 0 where there are no agents yet
  u32 operator[](size_t agent) const { return clocks_[agent]; }
  const u32* clocks() const { return clocks_.data(); }
  const Stamp* stamps() const { return stamps_.data(); }
  void clear();
  void join(const Known& from) { join(from.clocks(), from.stamps(), parts_of(from.size())); }
  void join(const u32* clocks, const Stamp* stamps, size_t parts);
  void learn(Epoch epoch);

 private:
  void make_room(size_t parts);

  std::vector<u32> clocks_;
  std::vector<Stamp> stamps_, covered_;  // covered: the last one that had nothing new, which many come with
};

// What has been made known at a barrier: the latest clock of each agent, and for each space the latest whose
// generic writes were fenced for the async proxy.
struct Knowledge {
  Known known, fenced_of[2];

  bool empty() const { return known.empty(); }
  Known& fenced(Space space) { return fenced_of[static_cast<u32>(space)]; }
  const Known& fenced(Space space) const { return fenced_of[static_cast<u32>(space)]; }
  void join(const Knowledge& from) {
    known.join(from.known);
    for (Space space : kSpaces) fenced(space).join(from.fenced(space));
  }
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
  std::vector<u32> known_, fenced_;  // the least of any
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
  // The agent hears of one epoch.
  void learn(int agent, Epoch epoch);
  // fence.proxy.async: generic writes to the space that the agent knows of are visible to async accesses ordered
  // after this; what it writes from now on is not.
  void fence_proxies(int agent, Space space);

  const u32* known(int agent) const { return row(agent); }
  const u32* fenced(int agent) const { return fenced_row(agent, Space::shared); }

 private:
  // A row for each agent, of what it knows of everyone.
  struct Rows {
    std::vector<u32> clocks;
    std::vector<Stamp> stamps;
    size_t stride = 0;

    bool empty() const { return clocks.empty(); }
    u32* row(int agent) { return &clocks[static_cast<size_t>(agent) * stride]; }
    const u32* row(int agent) const { return &clocks[static_cast<size_t>(agent) * stride]; }
    Stamp* stamps_of(int agent) { return &stamps[static_cast<size_t>(agent) * parts_of(stride)]; }
    const Stamp* stamps_of(int agent) const { return &stamps[static_cast<size_t>(agent) * parts_of(stride)]; }
    void reset(size_t agents);
    void widen(size_t agents);
    void join(int agent, const u32* clocks, const Stamp* stamps, size_t parts);
    void set(int agent, u32 of, u32 clock);
  };

  const u32* row(int agent) const { return known_.row(agent); }
  const u32* fenced_row(int agent, Space space) const {
    const Rows& rows = fenced_[static_cast<u32>(space)];
    return rows.empty() ? unfenced_.data() : rows.row(agent);
  }
  Rows& fenced_rows(Space space);
  size_t parts() const { return parts_of(static_cast<size_t>(agents_)); }
  void widen();

  int threads_ = 0, agents_ = 0;
  Rows known_;
  Rows fenced_[2];             // by space; empty until somebody has fenced,
  std::vector<u32> unfenced_;  // and this, of zeros, is everyone's row
  std::vector<std::string> names_;
};

}  // namespace efemu
