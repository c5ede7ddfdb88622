// mbarriers: arrivals, bytes, phases, and the knowledge that passes with them. PTX ISA 9.7.13.15.
#include "mbarrier.h"

#include <algorithm>
#include <map>

#include "cluster.h"
#include "counters.h"
#include "path.h"
#include "phase_order.h"

namespace efemu {
namespace {

constexpr u32 kBarrierBytes = 8;
constexpr u32 kMostArrivals = (1u << 20) - 1;
constexpr long long kMostTransfer = (1 << 20) - 1;
constexpr u32 kTestsInARow = 16;  // that fail before a polling thread is taken for a waiting one
constexpr u32 kTestsInVain = 1 << 22;  // at a line before others go on: some 20 ms

// A copy under way that completes at a barrier.
struct Flight {
  Epoch epoch;
  int line;
  std::vector<u32> order;  // what its thread knew of the order of phases
};

struct Mbarrier {
  bool live;
  int line, gone_line;  // where it was made, and invalidated
  int maker;            // thread
  Epoch made, fenced;   // by the maker; fenced: its fence_mbar_init after that, or 0
  u32 fence_round;      // of the cluster's barrier that the maker had yet to come to at the fence
  int agent;            // that copies to it are: -1 until there are any
  u32 expected, pending;
  long long tx;
  u64 phase;
  int expect_line;  // of the last expect_tx
  // What arrivals and landed copies have brought; as it was when the last phase completed. It grows from phase to
  // phase: a phase completes after those before it.
  Knowledge gathering, done, done_before;  // done_before: when the last phase but one completed
  Work slowest, done_work;
  PhaseOrder order;
  std::vector<u64> passed;  // by warp: the last phase that one of its lanes has seen completed
  std::vector<int> waiting;
  std::vector<Flight> flights;  // in order of their epochs
  Flight last;                  // of all that were begun
};

std::vector<std::map<u32, Mbarrier>> barriers;  // by rank of the block, and address

u32 offset_of(u32 address) {
  return address - kSharedBase;
}

std::string state_of(u32 address, const Mbarrier& barrier) {
  return text("mbarrier at shared offset %u, made at line %d: phase %llu has parity %llu, %u of %u arrivals missing, "
              "tx-count %lld",
              offset_of(address), barrier.line, barrier.phase, barrier.phase & 1, barrier.pending, barrier.expected,
              barrier.tx);
}

[[noreturn]] void refuse_barrier(const char* kind, int line, int line2, const std::string& message) {
  report(kind, line, line2, [&] { return message; });
  abandon_block();
}

Mbarrier* find_barrier(Cta& home, u32 address) {
  auto& of_block = barriers[static_cast<size_t>(home.rank)];
  const auto found = of_block.find(address);
  return found == of_block.end() ? nullptr : &found->second;
}

// Whether all blocks of the cluster have met since the maker's fence: a relaxed arrival is enough for that.
bool met_since_fence(const Mbarrier& barrier) {
  const size_t cluster = static_cast<size_t>(self->cta->rank) / blocks_per_cluster();
  if (!barrier.fenced || group.clusters[cluster].phase <= barrier.fence_round) return false;
  return self->cluster_line == 0 || self->cluster_phase > barrier.fence_round;
}

// Whether the running thread comes after the barrier was made.
void check_made(u32 address, const Mbarrier& barrier, const char* op, int line) {
  if (group.clocks.ordered(barrier.made, self->id) || met_since_fence(barrier)) return;
  report("mbarrier-init-race", line, barrier.line, [&] {
    return text("%s by %s is not ordered after mbar_init of the barrier at shared offset %u by %s; put a block or "
                "cluster barrier between them",
                op, my_name().c_str(), offset_of(address), agent_name(static_cast<u32>(barrier.maker)).c_str());
  });
}

Mbarrier& barrier_at(Cta& home, u32 address, const char* op, int line) {
  if (address % kBarrierBytes)
    refuse_barrier("misaligned-shared", line, 0,
                   text("%s by %s: an mbarrier at shared offset %u; its address is a multiple of %u", op,
                        my_name().c_str(), offset_of(address), kBarrierBytes));
  Mbarrier* barrier = find_barrier(home, address);
  if (!barrier || !barrier->live)
    refuse_barrier("mbarrier-uninit", line, barrier ? barrier->gone_line : 0,
                   text("%s by %s at shared offset %lld, where %s", op, my_name().c_str(),
                        static_cast<long long>(address) - kSharedBase,
                        barrier ? "the mbarrier has been invalidated" : "no mbarrier was made"));
  check_made(address, *barrier, op, line);
  return *barrier;
}

// ---- phases

void end_phase(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.tx != 0) return;
  complete_phase(barrier.order, barrier.phase, barrier.gathering);
  ++barrier.phase;
  barrier.pending = barrier.expected;
  std::swap(barrier.done_before, barrier.done);
  barrier.done = barrier.gathering;
  barrier.done_work = barrier.slowest;
  for (int id : barrier.waiting) {
    Thread& thread = group.threads[static_cast<size_t>(id)];
    if (thread.state == State::blocked) make_ready(thread);  // else it has given up and is to run already
  }
  barrier.waiting.clear();
}

// The bytes can come before they are expected, but not once nobody is left to expect them. After the report the
// phase completes, so that the run goes on.
void check_transfer(u32 address, Mbarrier& barrier, int line) {
  const bool surplus = barrier.pending == 0 && barrier.tx < 0;
  if (!surplus && barrier.tx <= kMostTransfer && barrier.tx >= -kMostTransfer) return;
  report("mbarrier-tx", line, barrier.expect_line ? barrier.expect_line : barrier.line, [&] {
    const std::string state = state_of(address, barrier);
    if (!surplus) return text("the tx-count leaves its range of %lld to either side: %s", kMostTransfer, state.c_str());
    return text("%lld bytes more than the phase expects: %s", -barrier.tx, state.c_str());
  });
  barrier.tx = 0;
}

void expect_bytes(u32 address, Mbarrier& barrier, u32 bytes, int line) {
  if (bytes == 0) return;
  barrier.expect_line = line;
  barrier.tx += bytes;
  if (barrier.tx > kMostTransfer) check_transfer(address, barrier, line);
}

void count_arrivals(u32 address, Mbarrier& barrier, u32 count, const char* op, int line) {
  if (count == 0 || count > kMostArrivals)
    refuse_barrier("mbarrier-count", line, barrier.line,
                   text("%u arrivals at once: give 1 to %u", count, kMostArrivals));
  if (barrier.pending < count)
    refuse_barrier("mbarrier-overarrive", line, barrier.line,
                   text("%s by %s, %u at once, is more than the phase waits for: %s", op, my_name().c_str(), count,
                        state_of(address, barrier).c_str()));
  barrier.pending -= count;
  check_transfer(address, barrier, line);
}

void arrive_at(Cta& home, u32 address, u32 count, u32 bytes, const char* op, int line) {
  note_progress(line);
  ++counters.mbarrier;
  Mbarrier& barrier = barrier_at(home, address, op, line);
  check_arrival(barrier.order, barrier.phase, barrier.done, op, line);
  expect_bytes(address, barrier, bytes, line);
  group.clocks.release(self->id, barrier.gathering);
  leave_path(barrier.slowest);
  count_arrivals(address, barrier, count, op, line);
  end_phase(barrier);
}

// ---- waiting

// A thread's mbarrier and parity in one number, for Wait::object.
u64 object_of(u32 address, u32 parity) {
  return u64{parity} << 32 | address;
}

std::string describe_phase(const Thread& thread) {
  const u32 address = static_cast<u32>(thread.wait.object);
  const Mbarrier* barrier = find_barrier(*thread.cta, address);
  return text("waits for parity %llu; %s", thread.wait.object >> 32, state_of(address, *barrier).c_str());
}

bool completed(const Mbarrier& barrier, u32 parity) {
  return (barrier.phase & 1) != parity;
}

// The running thread has seen a completed phase: it knows what came before. The first lane of a warp takes the
// path along.
bool pass(Mbarrier& barrier, const char* op, int line) {
  if (barrier.phase > 0) check_wait(barrier.order, barrier.phase - 1, barrier.done_before, op, line);
  group.clocks.acquire(self->id, barrier.done);
  self->failed_tests = 0;
  u64& passed = barrier.passed[static_cast<size_t>(self->warp)];
  note_look(barrier.order, passed != barrier.phase, line);
  if (passed != barrier.phase) {
    passed = barrier.phase;
    ++counters.mbarrier;
    follow_path(barrier.done_work);
  }
  return true;
}

// Until the phase of that parity completes; a wait that gives up may end before, with false.
bool wait_for(u32 address, Mbarrier& barrier, u32 parity, bool gives_up, const char* op, int line) {
  if (completed(barrier, parity)) return pass(barrier, op, line);
  const u64 phase = barrier.phase;
  check_wait(barrier.order, phase, barrier.done, op, line);
  barrier.waiting.push_back(self->id);
  wait_here(line, {op, object_of(address, parity), describe_phase, gives_up});
  if (barrier.phase == phase) {
    barrier.waiting.erase(std::find(barrier.waiting.begin(), barrier.waiting.end(), self->id));
    return false;
  }
  if (barrier.phase != phase + 1)
    refuse_barrier("mbarrier-lapped", line, barrier.line,
                   text("%s waited for parity %u of phase %llu; before it looked again, the barrier had gone on: %s. A "
                        "GPU may hang here: nothing may complete the next phase before this thread has seen this one",
                        my_name().c_str(), parity, phase, state_of(address, barrier).c_str()));
  return pass(barrier, op, line);
}

Mbarrier& barrier_to_look_at(u32 address, u32 parity, const char* op, int line) {
  self->line = line;
  Mbarrier& barrier = barrier_at(*cta, address, op, line);
  if (parity > 1)
    refuse_barrier("mbarrier-parity", line, barrier.line, text("%s for parity %u: it is 0 or 1", op, parity));
  return barrier;
}

// ---- copies

// Asynchronous copies see a barrier only after a fence between its making and them.
void check_visible(u32 address, const Mbarrier& barrier, const char* op, int line) {
  if (barrier.fenced && (group.clocks.ordered(barrier.fenced, self->id) || met_since_fence(barrier))) return;
  if (group.clocks.fenced(self->id)[agent_of(barrier.made)] >= clock_of(barrier.made)) return;
  report("missing-proxy-fence", line, barrier.line, [&] {
    return text("%s by %s completes at the mbarrier at shared offset %u: no fence_mbar_init stands between its "
                "mbar_init at line %d and this, so the copy may not see it",
                op, my_name().c_str(), offset_of(address), barrier.line);
  });
}

void require_agent(u32 address, Cta& home, Mbarrier& barrier) {
  if (barrier.agent >= 0) return;
  barrier.agent = group.clocks.add(text("a copy that completes at the mbarrier at shared offset %u%s, made at line %d",
                                        offset_of(address), of_block(home).c_str(), barrier.line));
}

Epoch begin_flight(Mbarrier& barrier, int line) {
  const Epoch epoch = group.clocks.now(barrier.agent);
  barrier.last = {epoch, line, {}};
  barrier.flights.push_back({epoch, line, known_order()});
  group.clocks.tick(barrier.agent);
  return epoch;
}

// Returns the line of the copy. The barrier learns of the copies up to the first that is still under way.
int end_flight(Mbarrier& barrier, Epoch epoch) {
  const auto flight = std::find_if(barrier.flights.begin(), barrier.flights.end(),
                                   [epoch](const Flight& each) { return each.epoch == epoch; });
  if (flight == barrier.flights.end()) {  // of another agent, that does one thing after the other
    barrier.gathering.known.learn(epoch);
    return barrier.line;
  }
  const int line = flight->line;
  learn_order(barrier.gathering, flight->order);  // what came before the copy was begun comes before it has landed
  barrier.flights.erase(flight);
  const Epoch next = barrier.flights.empty() ? group.clocks.now(barrier.agent) : barrier.flights.front().epoch;
  barrier.gathering.known.learn(next - 1);
  return line;
}

// Null, after a report: the barrier is gone.
Mbarrier* barrier_of_landing(Cta& home, u32 address, Epoch epoch, int* line) {
  Mbarrier& barrier = *find_barrier(home, address);
  *line = end_flight(barrier, epoch);
  if (barrier.live) return &barrier;
  report("mbarrier-uninit", *line, barrier.gone_line, [&] {
    return text("a copy lands that completes at shared offset %u, where the mbarrier has been invalidated",
                offset_of(address));
  });
  return nullptr;
}

}  // namespace

int completing_agent(Cta& home, u32 address, const char* op, int line) {
  Mbarrier& barrier = barrier_at(home, address, op, line);
  check_visible(address, barrier, op, line);
  require_agent(address, home, barrier);
  return barrier.agent;
}

Epoch begin_copy(Cta& home, u32 address, u32 bytes, int line) {
  if (bytes > kMostTransfer)
    refuse_barrier("mbarrier-tx", line, 0,
                   text("a copy of %u bytes: an mbarrier counts to %lld", bytes, kMostTransfer));
  return begin_flight(*find_barrier(home, address), line);
}

Epoch begin_copy_to(Cta& home, u32 target, u32 bytes, u32 address, int line) {
  const int agent = find_barrier(home, address)->agent;
  home.shared.write(target, bytes, group.clocks.on_behalf(agent, self->id), line);
  return begin_copy(home, address, bytes, line);
}

void complete_bytes(Cta& home, u32 address, u32 bytes, Epoch epoch) {
  int line = 0;
  Mbarrier* barrier = barrier_of_landing(home, address, epoch, &line);
  if (!barrier) return;
  barrier->tx -= bytes;
  check_transfer(address, *barrier, line);
  end_phase(*barrier);
}

Epoch begin_arrival(u32 address, bool counted, int line) {
  Mbarrier& barrier = barrier_at(*cta, address, "cp_async_mbar_arrive", line);
  check_arrival(barrier.order, barrier.phase, barrier.done, "cp_async_mbar_arrive", line);
  require_agent(address, *cta, barrier);
  ++counters.mbarrier;
  if (counted) ++barrier.pending;
  return begin_flight(barrier, line);
}

void complete_arrival(Cta& home, u32 address, Epoch epoch, Epoch copies) {
  int line = 0;
  Mbarrier* barrier = barrier_of_landing(home, address, epoch, &line);
  if (!barrier) return;
  barrier->gathering.known.learn(copies);
  if (barrier->pending == 0) {
    report("mbarrier-overarrive", line, barrier->line, [&] {
      return text("the arrival of the copies before this is more than the phase waits for: %s",
                  state_of(address, *barrier).c_str());
    });
    return;
  }
  --barrier->pending;
  check_transfer(address, *barrier, line);
  end_phase(*barrier);
}

void reset_mbarriers() {
  barriers.clear();
  barriers.resize(group.ctas.size());
  reset_phase_order();
}

namespace {

bool known_in_block(const Cta& home, Epoch epoch) {
  for (int i = 0; i < home.thread_count; ++i)
    if (group.clocks.ordered(epoch, home.first_thread + i)) return true;
  return false;
}

}  // namespace

void leave_mbarriers(Cta& home) {
  for (const auto& [address, barrier] : barriers[static_cast<size_t>(home.rank)]) {
    if (barrier.last.epoch && !known_in_block(home, barrier.last.epoch)) {
      report("async-at-exit", barrier.last.line, barrier.line, [&, at = address] {
        return text("the block ended and no thread of it had waited for this copy, which completes at the mbarrier at "
                    "shared offset %u",
                    offset_of(at));
      });
    } else if (barrier.live && barrier.tx != 0) {
      report("mbarrier-tx", barrier.expect_line ? barrier.expect_line : barrier.line, barrier.line, [&, at = address] {
        return text("the block ended with bytes that were expected and never came, or came and were not expected: %s",
                    state_of(at, barrier).c_str());
      });
    }
  }
}

// ---- entry points

void mbarrier_init(u32 address, u32 count, int line) {
  note_progress(line);
  ++counters.mbarrier;
  if (!cta->shared.admits(address, kBarrierBytes, "mbar_init", line)) abandon_block();
  if (count == 0 || count > kMostArrivals)
    refuse_barrier("mbarrier-count", line, 0, text("an mbarrier for %u arrivals: give 1 to %u", count, kMostArrivals));
  Mbarrier& barrier = barriers[static_cast<size_t>(cta->rank)].try_emplace(address).first->second;
  if (barrier.live)
    refuse_barrier("mbarrier-reinit", line, barrier.line,
                   text("%s makes an mbarrier at shared offset %u, where there is one: use mbar_inval before",
                        my_name().c_str(), offset_of(address)));
  const bool first = barrier.line == 0;
  const Flight last = barrier.last;
  const int agent = first ? -1 : barrier.agent;
  const auto state = [address, &barrier] { return state_of(address, barrier); };
  PhaseOrder order = first ? begin_phases(line, state) : begin_phases(line, state, barrier.order, barrier.phase);
  cta->shared.write(address, kBarrierBytes, group.clocks.actor(self->id), line);
  cta->shared.make_barrier(address, line);
  barrier = {};
  barrier.live = true;
  barrier.line = line;
  barrier.maker = self->id;
  barrier.made = group.clocks.now(self->id);
  barrier.agent = agent;
  barrier.last = last;
  barrier.order = std::move(order);
  barrier.expected = barrier.pending = count;
  barrier.passed.assign(group.warps.size(), 0);
}

void mbarrier_invalidate(u32 address, int line) {
  note_progress(line);
  ++counters.mbarrier;
  Mbarrier& barrier = barrier_at(*cta, address, "mbar_inval", line);
  if (!barrier.waiting.empty())
    refuse_barrier("mbarrier-inval", line, barrier.line,
                   text("%s invalidates an mbarrier for which %zu threads wait: %s", my_name().c_str(),
                        barrier.waiting.size(), state_of(address, barrier).c_str()));
  if (barrier.last.epoch && !group.clocks.ordered(barrier.last.epoch, self->id))
    refuse_barrier("mbarrier-inval", line, barrier.last.line,
                   text("%s invalidates an mbarrier and has not waited there for the copy of line %d: %s",
                        my_name().c_str(), barrier.last.line, state_of(address, barrier).c_str()));
  barrier.live = false;
  barrier.gone_line = line;
  cta->shared.unmake_barrier(address);
}

void mbarrier_arrive(u32 address, u32 count, u32 bytes, int line) {
  arrive_at(*cta, address, count, bytes, "mbar_arrive", line);
}

void mbarrier_arrive_cluster(u32 cluster_address, u32 count, u32 bytes, int line) {
  u32 address = 0;
  Cta* home = resolve_cluster(cluster_address, &address, line);
  if (!home) abandon_block();
  if (home != cta) visit(*home, group.clocks.now(self->id), line);
  arrive_at(*home, address, count, bytes, "mbar_arrive_cluster", line);
}

// What is known by it is of other agents than threads alone, and the arrival is one's that stands for its warp: who
// waits for it knows of it, as does who comes after the thread in another way.
void mbarrier_arrive_cluster_async(u32 cluster_address, int line) {
  constexpr const char* op = "mbar_arrive_cluster_async";
  u32 address = 0;
  Cta* home = resolve_cluster(cluster_address, &address, line);
  if (!home) abandon_block();
  note_progress(line);
  ++counters.mbarrier;
  Mbarrier& barrier = barrier_at(*home, address, op, line);
  check_arrival(barrier.order, barrier.phase, barrier.done, op, line);
  const Epoch epoch = next_of_warp();
  if (home != cta && epoch) visit(*home, epoch, line);
  group.clocks.release_asynchronous(self->id, barrier.gathering);
  leave_path(barrier.slowest);
  count_arrivals(address, barrier, 1, op, line);
  end_phase(barrier);
}

void mbarrier_expect(u32 address, u32 bytes, int line) {
  note_progress(line);
  ++counters.mbarrier;
  Mbarrier& barrier = barrier_at(*cta, address, "mbar_expect_tx", line);
  check_arrival(barrier.order, barrier.phase, barrier.done, "mbar_expect_tx", line);
  expect_bytes(address, barrier, bytes, line);
  end_phase(barrier);
}

// A thread that polls without end is taken to wait: on a GPU time passes as well.
bool mbarrier_test(u32 address, u32 parity, int line) {
  Mbarrier& barrier = barrier_to_look_at(address, parity, "mbar_test_wait", line);
  if (completed(barrier, parity)) return pass(barrier, "mbar_test_wait", line);
  if (asks_in_vain(line, 1, kTestsInVain)) return false;
  note_read(address, line);
  if (++self->failed_tests % kTestsInARow == 0) return wait_for(address, barrier, parity, true, "mbar_test_wait", line);
  return false;
}

// A try may always be in vain; random schedules show what a kernel makes of that.
bool mbarrier_try(u32 address, u32 parity, int line) {
  Mbarrier& barrier = barrier_to_look_at(address, parity, "mbar_try_wait", line);
  if (!completed(barrier, parity) && asks_in_vain(line, 1, kTestsInVain)) return false;
  note_read(address, line);
  if (policy.schedule == Schedule::random && !completed(barrier, parity) && chance() % 8 == 0) {
    give_way();
    return completed(barrier, parity) && pass(barrier, "mbar_try_wait", line);
  }
  return wait_for(address, barrier, parity, true, "mbar_try_wait", line);
}

void mbarrier_wait(u32 address, u32 parity, int line) {
  note_read(address, line);
  Mbarrier& barrier = barrier_to_look_at(address, parity, "mbar_wait", line);
  wait_for(address, barrier, parity, false, "mbar_wait", line);
}

void fence_mbarrier_init(int line) {
  self->line = line;
  const size_t cluster = static_cast<size_t>(cta->rank) / blocks_per_cluster();
  const u32 round = self->cluster_line ? self->cluster_phase + 1 : group.clusters[cluster].phase;
  for (auto& [address, barrier] : barriers[static_cast<size_t>(cta->rank)]) {
    if (barrier.maker != self->id || barrier.fenced) continue;
    barrier.fenced = group.clocks.now(self->id);
    barrier.fence_round = round;
  }
}

}  // namespace efemu
