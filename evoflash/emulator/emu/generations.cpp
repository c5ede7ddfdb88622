// Groups that have ended: their names, and what of them is known.
#include "generations.h"

#include <algorithm>
#include <vector>

#include "block.h"

namespace efemu {
namespace {

struct Generation {
  std::vector<Dim3> blocks;
  int block_threads;  // numbers that a block takes
  std::map<u32, Past> pasts;  // by the agent that stands for them
};

struct LaunchSpan {
  u32 first;       // generation
  bool dependent;  // began before the launch before it had ended
  bool waited;     // and ended after that
};

u32 now_running = 0;
std::map<u32, Generation> generations;  // of this launch and those that it may overlap
std::vector<LaunchSpan> launches;       // the last one began when all before it had ended
int grids_agent = -1;                   // stands for the launches before this one

u32 launch_begin() {
  return launches.empty() ? 0 : launches.back().first;
}

bool knows(const Past& past, Moment moment) {
  const auto known = past.find(moment.generation);
  if (known == past.end()) return false;
  const Known& clocks = known->second.known;
  return agent_of(moment.epoch) < clocks.size() && clocks[agent_of(moment.epoch)] >= clock_of(moment.epoch);
}

bool knows_past(const Actor& actor, Moment moment) {
  for (const auto& [agent, past] : generations[now_running].pasts)
    if (actor.knows(epoch_of(agent, 1)) && knows(past, moment)) return true;
  return false;
}

// Of overlapping launches only the newest has ended for sure: one that did not wait itself can outrun the rest.
bool wait_covers(Moment moment) {
  for (size_t i = launches.size() - 1; i-- > 0;) {
    if (moment.generation >= launches[i].first) return true;
    if (launches[i].dependent && !launches[i].waited) return false;
  }
  return true;
}

void join(Past& into, const Past& from) {
  for (const auto& [at, knowledge] : from) into[at].known.join(knowledge.known);
}

}  // namespace

u32 generation() {
  return now_running;
}

void begin_launch(bool dependent) {
  if (!dependent) {
    generations.clear();
    launches.clear();
  }
  launches.push_back({now_running + 1, dependent, false});
}

void begin_generation() {
  Generation& mine = generations[++now_running];
  for (const Cta& block : group.ctas) mine.blocks.push_back(block.index);
  mine.block_threads = group.ctas[0].warp_count * kWarpSize;
  grids_agent = launches.back().dependent ? group.clocks.add("the grids before this one") : -1;
}

bool before_launch(Moment moment) {
  return moment.generation < launch_begin();
}

bool settled(Moment moment) {
  return moment.generation < launches.front().first;
}

bool ordered_after(Moment moment, const Actor& actor) {
  if (moment.generation == now_running) return actor.knows(moment.epoch);
  if (settled(moment)) return true;
  if (!before_launch(moment)) return knows_past(actor, moment);
  return actor.knows(group.clocks.now(grids_agent)) && wait_covers(moment);
}

std::string name_of(Moment moment) {
  if (moment.generation == now_running) return agent_name(agent_of(moment.epoch));
  const auto known = generations.find(moment.generation);
  if (known == generations.end()) return "an earlier launch";
  const Generation& past = known->second;
  const auto agent = static_cast<int>(agent_of(moment.epoch));
  const auto rank = static_cast<size_t>(agent / past.block_threads);
  if (rank >= past.blocks.size()) return "an asynchronous transfer";
  const Dim3 at = past.blocks[rank];
  return text("thread %d of block (%u,%u,%u)", agent % past.block_threads, at.x, at.y, at.z);
}

int add_past(const Past& past) {
  Past all = past;
  for (const auto& [at, knowledge] : past)
    for (const auto& [agent, older] : generations[at].pasts)
      if (knows(past, {at, epoch_of(agent, 1)})) join(all, older);
  const int agent = group.clocks.add("blocks that ended before");
  generations[now_running].pasts[static_cast<u32>(agent)] = std::move(all);
  return agent;
}

void wait_for_grids() {
  launches.back().waited = true;
  if (grids_agent >= 0) group.clocks.learn(self->id, group.clocks.now(grids_agent));
}

}  // namespace efemu
