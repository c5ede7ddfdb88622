// Joining vector clocks.
#include "clocks.h"

#include <algorithm>

#include "block.h"

namespace efemu {
namespace {

constexpr size_t kSpareAgents = 32;

Stamp new_stamp() {
  static Stamp last = kZeros;
  return ++last;
}

struct Change {
  u32 gained, kept;  // not 0: some clocks were later on the one side, or on the other
};

// The two never overlap. Threads of a large cluster know of thousands of others.
#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
Change join_part(u32* __restrict into, const u32* __restrict from) {
  Change change{0, 0};
  for (size_t i = 0; i < kPartAgents; ++i) {
    // As signed numbers, which they fit: SSE2 compares no others.
    const u32 later = static_cast<int>(into[i]) > static_cast<int>(from[i]) ? into[i] : from[i];
    change.gained |= later ^ into[i];
    change.kept |= later ^ from[i];
    into[i] = later;
  }
  return change;
}

// The stamp of a part that was joined.
Stamp stamp_after(Change change, Stamp into, Stamp from) {
  if (!change.kept) return from;
  return change.gained ? new_stamp() : into;
}

[[noreturn]] void give_up(const std::string& message) {
  add_report("emulator-limit", self->line, 0, message);
  abandon_block();
}

}  // namespace

void Known::clear() {
  clocks_.clear();
  stamps_.clear();
  covered_.clear();
}

void Known::make_room(size_t parts) {
  if (stamps_.size() >= parts) return;
  clocks_.resize(parts * kPartAgents, 0);
  stamps_.resize(parts, kZeros);
  covered_.resize(parts, kZeros);
}

void Known::join(const u32* clocks, const Stamp* stamps, size_t parts) {
  make_room(parts);
  for (size_t part = 0; part < parts; ++part) {
    if (stamps[part] == stamps_[part] || stamps[part] == covered_[part]) continue;
    const Change change = join_part(&clocks_[part * kPartAgents], clocks + part * kPartAgents);
    covered_[part] = stamps[part];
    stamps_[part] = stamp_after(change, stamps_[part], stamps[part]);
  }
}

void Known::learn(Epoch epoch) {
  const u32 agent = agent_of(epoch);
  make_room(parts_of(agent + size_t{1}));
  if (clocks_[agent] >= clock_of(epoch)) return;
  clocks_[agent] = clock_of(epoch);
  stamps_[agent / kPartAgents] = new_stamp();
}

void Clocks::Rows::reset(size_t agents) {
  stride = parts_of(agents) * kPartAgents;
  clocks.assign(stride * stride, 0);
  stamps.assign(stride * parts_of(stride), kZeros);
}

void Clocks::Rows::widen(size_t agents) {
  Rows wider;
  wider.reset(agents);
  for (size_t i = 0; i < stride; ++i) {
    const int agent = static_cast<int>(i);
    std::copy_n(row(agent), stride, wider.row(agent));
    std::copy_n(stamps_of(agent), parts_of(stride), wider.stamps_of(agent));
  }
  *this = std::move(wider);
}

void Clocks::Rows::join(int agent, const u32* from, const Stamp* from_stamps, size_t parts) {
  u32* const mine = row(agent);
  Stamp* const my_stamps = stamps_of(agent);
  for (size_t part = 0; part < parts; ++part) {
    if (from_stamps[part] == my_stamps[part] || from_stamps[part] == kZeros) continue;
    const Change change = join_part(mine + part * kPartAgents, from + part * kPartAgents);
    my_stamps[part] = stamp_after(change, my_stamps[part], from_stamps[part]);
  }
}

void Clocks::Rows::set(int agent, u32 of, u32 clock) {
  row(agent)[of] = clock;
  stamps_of(agent)[of / kPartAgents] = new_stamp();
}

void Clocks::reset(int threads) {
  threads_ = agents_ = threads;
  known_.reset(static_cast<size_t>(threads) + kSpareAgents);
  for (auto& rows : fenced_) rows = {};
  unfenced_.assign(known_.stride, 0);
  names_.clear();
  for (size_t i = 0; i < known_.stride; ++i) known_.set(static_cast<int>(i), static_cast<u32>(i), 1);
}

int Clocks::add(std::string name) {
  if (agents_ == kMostAgents) give_up(text("more than %d threads and asynchronous agents", kMostAgents));
  if (static_cast<size_t>(agents_) == known_.stride) widen();
  names_.push_back(std::move(name));
  return agents_++;
}

void Clocks::widen() {
  const size_t old = known_.stride;
  for (Rows* rows : {&known_, &fenced_[0], &fenced_[1]})
    if (!rows->empty()) rows->widen(old + std::max(kSpareAgents, old / 8));
  unfenced_.resize(known_.stride, 0);
  for (size_t i = old; i < known_.stride; ++i) known_.set(static_cast<int>(i), static_cast<u32>(i), 1);
}

void Clocks::release(int agent, Knowledge& to) {
  to.known.join(known_.row(agent), known_.stamps_of(agent), parts());
  for (Space space : kSpaces)
    if (const Rows& rows = fenced_[static_cast<u32>(space)]; !rows.empty())
      to.fenced(space).join(rows.row(agent), rows.stamps_of(agent), parts());
  tick(agent);
}

void Clocks::release_asynchronous(int agent, Knowledge& to) {
  const u32* const known = row(agent);
  for (int other = threads_; other < agents_; ++other)
    if (known[other]) to.known.learn(epoch_of(static_cast<u32>(other), known[other]));
}

void Clocks::tick(int agent) {
  const u32 now = row(agent)[agent] + 1;
  if (now == kClockEnd) give_up(text("more than %u barriers in one thread", kClockEnd - 2));
  known_.set(agent, static_cast<u32>(agent), now);
}

void Clocks::acquire(int agent, const Knowledge& from) {
  known_.join(agent, from.known.clocks(), from.known.stamps(), parts_of(from.known.size()));
  for (Space space : kSpaces)
    if (const Known& fenced = from.fenced(space); !fenced.empty())
      fenced_rows(space).join(agent, fenced.clocks(), fenced.stamps(), parts_of(fenced.size()));
}

Clocks::Rows& Clocks::fenced_rows(Space space) {
  Rows& rows = fenced_[static_cast<u32>(space)];
  if (rows.empty()) rows.reset(known_.stride);
  return rows;
}

void Clocks::learn(int agent, Epoch epoch) {
  if (row(agent)[agent_of(epoch)] < clock_of(epoch)) known_.set(agent, agent_of(epoch), clock_of(epoch));
}

void Crowd::reset(int first_thread, int threads) {
  first_ = first_thread;
  count_ = threads;
  known_.clear();
  fenced_.clear();
}

bool Crowd::knows(Epoch epoch) {
  u32 least = kClockEnd;
  for (int i = first_; i < first_ + count_; ++i) least = std::min(least, group.clocks.known(i)[agent_of(epoch)]);
  known_[agent_of(epoch)] = least;
  return least >= clock_of(epoch);
}

bool Crowd::sees(Epoch epoch) {
  u32 least = kClockEnd;
  for (int i = first_; i < first_ + count_; ++i) least = std::min(least, group.clocks.fenced(i)[agent_of(epoch)]);
  fenced_[agent_of(epoch)] = least;
  return least >= clock_of(epoch);
}

const u32* Crowd::known() {
  known_.resize(static_cast<size_t>(group.clocks.agents()), 0);
  return known_.data();
}

const u32* Crowd::fenced() {
  fenced_.resize(static_cast<size_t>(group.clocks.agents()), 0);
  return fenced_.data();
}

void Clocks::fence_proxies(int agent, Space space) {
  fenced_rows(space).join(agent, known_.row(agent), known_.stamps_of(agent), parts());
  tick(agent);
}

}  // namespace efemu
