// Joining vector clocks.
#include "clocks.h"

#include <algorithm>

#include "block.h"

namespace efemu {
namespace {

constexpr int kSpareAgents = 32;

// As signed numbers, which they fit: SSE2 compares no others. The two never overlap. Threads of a large cluster know
// of thousands of others, and half of their time in here went by in this loop.
#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
void join(u32* __restrict into, const u32* __restrict from, size_t agents) {
  for (size_t i = 0; i < agents; ++i)
    into[i] = static_cast<int>(into[i]) > static_cast<int>(from[i]) ? into[i] : from[i];
}

[[noreturn]] void give_up(const std::string& message) {
  add_report("emulator-limit", self->line, 0, message);
  abandon_block();
}

void join_row(std::vector<u32>& into, const u32* from, int agents) {
  if (into.size() < static_cast<size_t>(agents)) into.resize(static_cast<size_t>(agents), 0);
  join(into.data(), from, static_cast<size_t>(agents));
}

}  // namespace

void Clocks::reset(int threads) {
  threads_ = agents_ = threads;
  stride_ = threads + kSpareAgents;
  known_.assign(static_cast<size_t>(stride_) * static_cast<size_t>(stride_), 0);
  for (auto& rows : fenced_) rows.clear();
  unfenced_.assign(static_cast<size_t>(stride_), 0);
  names_.clear();
  for (int i = 0; i < stride_; ++i) row(i)[i] = 1;
}

int Clocks::add(std::string name) {
  if (agents_ == kMostAgents) give_up(text("more than %d threads and asynchronous agents", kMostAgents));
  if (agents_ == stride_) widen();
  names_.push_back(std::move(name));
  return agents_++;
}

void Clocks::widen() {
  const auto old = static_cast<size_t>(stride_), now = old + std::max<size_t>(kSpareAgents, old / 8);
  unfenced_.resize(now, 0);
  for (auto* rows : {&known_, &fenced_[0], &fenced_[1]}) {
    if (rows->empty()) continue;
    std::vector<u32> wider(now * now, 0);
    for (size_t i = 0; i < old; ++i) std::copy_n(rows->begin() + static_cast<long>(i * old), old, wider.begin() + static_cast<long>(i * now));
    rows->swap(wider);
  }
  stride_ = static_cast<int>(now);
  for (int i = agents_; i < stride_; ++i) row(i)[i] = 1;
}

void Clocks::release(int agent, Knowledge& to) {
  join_row(to.known, row(agent), agents_);
  for (Space space : kSpaces)
    if (!fenced_[static_cast<u32>(space)].empty()) join_row(to.fenced(space), fenced_row(agent, space), agents_);
  tick(agent);
}

void Clocks::release_asynchronous(int agent, Knowledge& to) {
  std::vector<u32> known(row(agent), row(agent) + agents_);
  std::fill_n(known.begin(), threads_, 0);
  join_row(to.known, known.data(), agents_);
}

void Clocks::tick(int agent) {
  if (++row(agent)[agent] == kClockEnd) give_up(text("more than %u barriers in one thread", kClockEnd - 2));
}

void Clocks::acquire(int agent, const Knowledge& from) {
  join(row(agent), from.known.data(), from.known.size());
  for (Space space : kSpaces)
    if (!from.fenced(space).empty())
      join(fenced_row(agent, space), from.fenced(space).data(), from.fenced(space).size());
}

u32* Clocks::fenced_row(int agent, Space space) {
  std::vector<u32>& rows = fenced_[static_cast<u32>(space)];
  if (rows.empty()) rows.assign(known_.size(), 0);
  return &rows[static_cast<size_t>(agent) * static_cast<size_t>(stride_)];
}

void Clocks::learn(int agent, Epoch epoch) {
  u32& clock = row(agent)[agent_of(epoch)];
  clock = std::max(clock, clock_of(epoch));
}

void Clocks::learn(Knowledge& knowledge, Epoch epoch) const {
  if (knowledge.known.size() < static_cast<size_t>(agents_)) knowledge.known.resize(static_cast<size_t>(agents_), 0);
  u32& clock = knowledge.known[agent_of(epoch)];
  clock = std::max(clock, clock_of(epoch));
}

void Crowd::reset(int first_thread, int threads) {
  first_ = first_thread;
  count_ = threads;
  least_.clear();
}

bool Crowd::knows(Epoch epoch) {
  u32 least = kClockEnd;
  for (int i = first_; i < first_ + count_; ++i) least = std::min(least, group.clocks.known(i)[agent_of(epoch)]);
  least_.known[agent_of(epoch)] = least;
  return least >= clock_of(epoch);
}

bool Crowd::sees(Epoch epoch) {
  u32 least = kClockEnd;
  for (int i = first_; i < first_ + count_; ++i) least = std::min(least, group.clocks.fenced(i)[agent_of(epoch)]);
  least_.fenced(Space::shared)[agent_of(epoch)] = least;
  return least >= clock_of(epoch);
}

const u32* Crowd::known() {
  least_.known.resize(static_cast<size_t>(group.clocks.agents()), 0);
  return least_.known.data();
}

const u32* Crowd::fenced() {
  least_.fenced(Space::shared).resize(static_cast<size_t>(group.clocks.agents()), 0);
  return least_.fenced(Space::shared).data();
}

void Clocks::fence_proxies(int agent, Space space) {
  join(fenced_row(agent, space), row(agent), static_cast<size_t>(agents_));
  tick(agent);
}

}  // namespace efemu
