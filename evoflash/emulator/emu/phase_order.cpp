// The order of an mbarrier's phases.
#include "phase_order.h"

#include <algorithm>

namespace efemu {
namespace {

constexpr int kUnwatched = -1;  // in the place of an agent
constexpr int kSpare = 256;     // agents that are left for copies and products, where threads are many

// Agents that stand for order alone: one for the phases of each barrier, and for each warp one whose clock counts the
// phases that the warp has seen completed and its relaxed arrivals. Copies and relaxed arrivals hand on what is known
// of these.
std::vector<int> order_agents, warp_agents;  // warp_agents: by warp; kUnwatched: none yet

int add_order_agent(std::string name) {
  if (group.clocks.agents() > kMostAgents - kSpare) return kUnwatched;
  order_agents.push_back(group.clocks.add(std::move(name)));
  return order_agents.back();
}

// What completes the first `phases` phases.
Epoch completion_of(const PhaseOrder& order, u64 phases) {
  return epoch_of(static_cast<u32>(order.agent), static_cast<u32>(order.earlier + phases));
}

// Whether the running thread comes after all that has been gathered for phases that have completed.
bool comes_after(const PhaseOrder& order, const Knowledge& gathered) {
  const u32* known = group.clocks.known(self->id);
  for (size_t agent = 0; agent < gathered.known.size(); ++agent)
    if (known[agent] < gathered.known[agent] && static_cast<int>(agent) != order.agent) return false;
  return true;
}

// How many phases the running thread knows to be complete.
u64 known_phases(const PhaseOrder& order) {
  const u64 known = group.clocks.known(self->id)[order.agent];
  return known > order.earlier ? known - order.earlier : 0;
}

void check_phase(const PhaseOrder& order, u64 phase, const Knowledge& gathered, const char* op, const char* mistaken,
                 int line) {
  if (phase == 0 || order.agent == kUnwatched || known_phases(order) >= phase) return;
  if (!comes_after(order, gathered))
    report("mbarrier-phase-race", line, order.line, [&] {
      return text("%s by %s in phase %llu is not ordered after the end of phase %llu: %s. The thread knows of %llu "
                  "completed phases; %s",
                  op, my_name().c_str(), phase, phase - 1, mistaken, known_phases(order), order.state().c_str());
    });
  group.clocks.learn(self->id, completion_of(order, phase));
}

bool is_known(const Knowledge& knowledge, Epoch epoch) {
  return agent_of(epoch) < knowledge.known.size() && knowledge.known[agent_of(epoch)] >= clock_of(epoch);
}

}  // namespace

PhaseOrder begin_phases(int line, std::function<std::string()> state) {
  return {line, std::move(state), add_order_agent("the phases of an mbarrier"), 0, {}};
}

PhaseOrder begin_phases(int line, std::function<std::string()> state, const PhaseOrder& before, u64 phases) {
  return {line, std::move(state), before.agent, before.earlier + phases, {}};
}

void check_wait(const PhaseOrder& order, u64 phase, const Knowledge& gathered, const char* op, int line) {
  check_phase(order, phase, gathered, op, "a moment earlier it takes the one before that, of the same parity", line);
}

void check_arrival(const PhaseOrder& order, u64 phase, const Knowledge& gathered, const char* op, int line) {
  check_phase(order, phase, gathered, op, "a moment earlier it counts for that one", line);
}

Epoch next_of_warp() {
  int& agent = warp_agents[static_cast<size_t>(self->warp)];
  if (agent == kUnwatched) agent = add_order_agent("the warp of " + my_name());
  if (agent == kUnwatched) return 0;
  group.clocks.tick(agent);
  group.clocks.learn(self->id, group.clocks.now(agent));
  return group.clocks.now(agent);
}

void note_look(PhaseOrder& order, bool first, int line) {
  if (first) {
    if (const Epoch epoch = next_of_warp()) order.looks.push_back({epoch, self->id, line});
  } else if (const int agent = warp_agents[static_cast<size_t>(self->warp)]; agent != kUnwatched) {
    group.clocks.learn(self->id, group.clocks.now(agent));  // the lanes of a warp go together
  }
}

void complete_phase(PhaseOrder& order, u64 phase, Knowledge& gathering) {
  for (const Look& look : order.looks) {
    if (is_known(gathering, look.epoch)) continue;
    report("mbarrier-lapped", look.line, order.line, [&] {
      return text("%s waited for phase %llu, and nothing orders its wait before the end of phase %llu: a moment later "
                  "it would wait for phase %llu; %s",
                  agent_name(static_cast<u32>(look.thread)).c_str(), phase - 1, phase, phase + 1,
                  order.state().c_str());
    });
  }
  order.looks.clear();
  if (order.agent != kUnwatched) gathering.known.learn(completion_of(order, phase + 1));
}

std::vector<u32> known_order() {
  std::vector<u32> order(order_agents.size());
  const u32* known = group.clocks.known(self->id);
  for (size_t i = 0; i < order.size(); ++i) order[i] = known[order_agents[i]];
  return order;
}

void learn_order(Knowledge& knowledge, const std::vector<u32>& order) {
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i]) knowledge.known.learn(epoch_of(static_cast<u32>(order_agents[i]), order[i]));
}

void reset_phase_order() {
  order_agents.clear();
  warp_agents.assign(group.warps.size(), kUnwatched);
}

}  // namespace efemu
