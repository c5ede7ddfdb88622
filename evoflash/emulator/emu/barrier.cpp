// Barriers of the block: syncthreads and the sixteen named ones.
#include "block.h"
#include "counters.h"
#include "path.h"

namespace efemu {
namespace {

[[noreturn]] void refuse(int line, int line2, const std::string& message) {
  report("named-barrier", line, line2, [&] { return message; });
  abandon_block();
}

// bar.sync is executed by whole warps: lanes that come from different places have diverged.
void check_convergence(Barrier& barrier, int line) {
  int& first = barrier.line_of_warp[static_cast<size_t>(self->warp - cta->first_warp)];
  if (first == 0) first = line;
  if (first == line) return;
  report("divergence", line, first, [&] {
    return text("warp %d diverged: its lanes come to one barrier from line %d and, lane %d, from line %d", self->warp - cta->first_warp,
                first, self->lane, line);
  });
}

// Who comes again must know that the round before is over: else it may count twice in that one.
void check_reuse(const Barrier& barrier, int id, int line) {
  for (const Arrival& before : barrier.before) {
    if (group.clocks.ordered(before.epoch, self->id)) continue;
    report("named-barrier", line, before.line, [&] {
      return text("%s comes to barrier %d and does not know that %s has come to its round before, at line %d: it may "
                  "be counted in that round instead; wait for the others before arriving again",
                  my_name().c_str(), id, agent_name(agent_of(before.epoch)).c_str(), before.line);
    });
    return;
  }
}

// The first thread of a warp stands for it.
void note_arrival(Barrier& barrier, int id, int line) {
  u32& lanes = barrier.lanes_of_warp[static_cast<size_t>(self->warp - cta->first_warp)];
  const u32 mine = 1u << self->lane;
  if (lanes & mine)
    report("named-barrier", line, barrier.line, [&] {
      return text("%s comes to barrier %d twice in one round, which began at line %d: it counts in another's place",
                  my_name().c_str(), id, barrier.line);
    });
  if (lanes == 0) {
    check_reuse(barrier, id, line);
    barrier.arrivals.push_back({group.clocks.now(self->id), line});
  }
  lanes |= mine;
}

void begin_round(Barrier& barrier, bool whole_block, int threads, int line) {
  barrier.in_use = true;
  barrier.whole_block = whole_block;
  barrier.expected = threads;
  barrier.arrived = 0;
  barrier.any = false;
  barrier.line = line;
  barrier.line_of_warp.assign(static_cast<size_t>(cta->warp_count), 0);
  barrier.lanes_of_warp.assign(static_cast<size_t>(cta->warp_count), 0);
  barrier.knowledge.clear();
  barrier.slowest = {};
}

bool complete(const Barrier& barrier) {
  return barrier.arrived == (barrier.whole_block ? cta->live_threads : barrier.expected);
}

void end_round(Barrier& barrier) {
  barrier.in_use = false;
  barrier.before.swap(barrier.arrivals);
  barrier.arrivals.clear();
  join_paths(barrier);
  for (int id : barrier.waiting) {
    group.clocks.acquire(id, barrier.knowledge);
    group.threads[id].answer = barrier.any;
    if (id != self->id) make_ready(group.threads[id]);
  }
  barrier.waiting.clear();
}

void check_use(const Barrier& barrier, int id, int threads, int line) {
  if (!barrier.in_use || barrier.expected == threads) return;
  refuse(line, barrier.line,
         text("barrier %d is used with %d threads at line %d and with %d at line %d", id, threads, line,
              barrier.expected, barrier.line));
}

std::string describe_barrier(const Thread& thread) {
  const Barrier& barrier = thread.cta->barriers[thread.wait.object];
  const int expected = barrier.whole_block ? thread.cta->live_threads : barrier.expected;
  return text("barrier %llu: %d of %d threads have come", thread.wait.object, barrier.arrived, expected);
}

void arrive(int id, int threads, bool whole_block, bool waits, int line, bool vote = false) {
  note_progress(line);
  ++counters.barrier;
  ++self->segment;
  Barrier& barrier = cta->barriers[id];
  check_use(barrier, id, threads, line);
  if (!barrier.in_use) begin_round(barrier, whole_block, threads, line);
  note_arrival(barrier, id, line);
  check_convergence(barrier, line);
  group.clocks.release(self->id, barrier.knowledge);
  ++barrier.arrived;
  barrier.any |= vote;
  if (waits)
    barrier.waiting.push_back(self->id);
  else
    join_arrival(barrier);
  if (complete(barrier))
    end_round(barrier);
  else if (waits)
    wait_here(line, {whole_block ? "syncthreads" : "bar_sync", static_cast<u64>(id), describe_barrier});
}

void arrive_named(int id, int threads, bool waits, int line) {
  const int block_threads = cta->thread_count;
  if (id < 0 || id >= kBarriers) refuse(line, 0, text("barrier %d does not exist: use 0 to %d", id, kBarriers - 1));
  if (threads <= 0 || threads % kWarpSize)
    refuse(line, 0, text("barrier %d for %d threads: give a multiple of %d", id, threads, kWarpSize));
  if (threads > block_threads)
    refuse(line, 0, text("barrier %d waits for %d threads; the block has %d", id, threads, block_threads));
  arrive(id, threads, false, waits, line);
}

}  // namespace

void sync_block(int line) {
  arrive(0, cta->thread_count, true, true, line);
}

bool sync_block_or(bool condition, int line) {
  arrive(0, cta->thread_count, true, true, line, condition);
  return self->answer;
}

void barrier_sync(int id, int threads, int line) {
  arrive_named(id, threads, true, line);
}

void barrier_arrive(int id, int threads, int line) {
  arrive_named(id, threads, false, line);
}

// __syncthreads waits for the threads that have not exited, so an exit can be what it was waiting for.
void leave_barriers(Thread&) {
  for (Barrier& barrier : cta->barriers)
    if (barrier.in_use && barrier.whole_block && barrier.arrived > 0 && complete(barrier)) end_round(barrier);
}

}  // namespace efemu
