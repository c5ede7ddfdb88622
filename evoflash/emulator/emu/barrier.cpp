// Barriers of the block: syncthreads and the sixteen named ones, as PTX's bar instructions have them.
//
// They count warps: a warp adds 32 to a round, whoever of it comes, and all of its lanes that have not ended have to
// come together (PTX ISA, barrier and exit: a barrier waits for the threads of a warp that have not exited). So a warp
// counts here once all of these are there; where some wait elsewhere, that is a finding.
#include "block.h"
#include "counters.h"
#include "meetings.h"
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

size_t warp_in_block(const Thread& thread) {
  return static_cast<size_t>(thread.warp - thread.cta->first_warp);
}

// The lanes of the thread's warp that have come in this round, and those that are still to come.
u32 lanes_here(const Barrier& barrier, const Thread& thread) {
  return barrier.in_use ? barrier.lanes_of_warp[warp_in_block(thread)] : 0;
}

u32 lanes_missing(const Barrier& barrier, const Thread& thread) {
  const Warp& warp = group.warps[static_cast<size_t>(thread.warp)];
  return warp.lanes & ~warp.exited & ~lanes_here(barrier, thread);
}

const char* name_of_wait(const Barrier& barrier) {
  return barrier.whole_block ? "syncthreads" : "bar_sync";
}

// Lanes of the running thread's warp wait at another barrier, or in a warp-wide primitive.
void check_siblings(int id, int line) {
  const Warp& warp = group.warps[static_cast<size_t>(self->warp)];
  const Collective& meeting = warp.collective;
  const size_t number = warp_in_block(*self);
  const char* const op = name_of_wait(cta->barriers[id]);
  if (meeting.arrived) {
    report("divergence", line, meeting.line, [&] {
      return text("%s by warp %zu, lane %d: lanes %08x wait in %s at line %d instead", op, number, self->lane,
                  meeting.arrived, meeting.op, meeting.line);
    });
    abandon_block();
  }
  if (const Meeting* masked = meeting_without(warp, self->lane)) {
    report("divergence", line, masked->line, [&] {
      return text("%s by warp %zu, lane %d: lanes %08x wait in %s at line %d instead", op, number, self->lane,
                  masked->arrived, masked->op, masked->line);
    });
    abandon_block();
  }
  if (!warp.at_barrier || warp.barrier == id) return;
  const int their_line = group.threads[static_cast<size_t>(warp.first_thread + __builtin_ctz(warp.at_barrier))].line;
  report("divergence", line, their_line, [&] {
    return text("%s by warp %zu, lane %d: lanes %08x wait at barrier %d at line %d instead", op, number, self->lane,
                warp.at_barrier, warp.barrier, their_line);
  });
  abandon_block();
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

// The warp counts once the last of its lanes has come: one of these, or one that has ended.
void count_warp(Barrier& barrier, const Thread& last) {
  if (lanes_missing(barrier, last)) return;
  barrier.arrived += kWarpSize;
}

void begin_round(Barrier& barrier, bool whole_block, int threads, int line) {
  barrier.in_use = true;
  barrier.whole_block = whole_block;
  barrier.expected = threads;
  barrier.arrived = barrier.threads = 0;
  barrier.votes = 0;
  barrier.line = line;
  barrier.line_of_warp.assign(static_cast<size_t>(cta->warp_count), 0);
  barrier.lanes_of_warp.assign(static_cast<size_t>(cta->warp_count), 0);
  barrier.knowledge.clear();
  barrier.slowest = {};
}

bool complete(const Barrier& barrier) {
  if (!barrier.whole_block) return barrier.arrived == barrier.expected;
  return barrier.arrived > 0 && barrier.threads == cta->live_threads;
}

void end_round(Barrier& barrier) {
  barrier.in_use = false;
  for (int id : barrier.waiting) group.warps[static_cast<size_t>(group.threads[id].warp)].at_barrier = 0;
  barrier.before.swap(barrier.arrivals);
  barrier.arrivals.clear();
  join_paths(barrier);
  for (int id : barrier.waiting) {
    group.clocks.acquire(id, barrier.knowledge);
    group.threads[id].answer = barrier.votes;
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
  const int arrived = barrier.whole_block ? barrier.threads : barrier.arrived;
  const u32 missing = lanes_missing(barrier, thread);
  return text("barrier %llu: %d of %d threads have come", thread.wait.object, arrived, expected) +
         (missing ? text("; lanes %08x of warp %zu have not come", missing, warp_in_block(thread)) : "");
}

void arrive(int id, int threads, bool whole_block, bool waits, int line, int vote = 0) {
  note_progress(line);
  ++counters.barrier;
  ++self->segment;
  Barrier& barrier = cta->barriers[id];
  check_use(barrier, id, threads, line);
  if (!barrier.in_use) begin_round(barrier, whole_block, threads, line);
  if (waits) check_siblings(id, line);
  note_arrival(barrier, id, line);
  check_convergence(barrier, line);
  group.clocks.release(self->id, barrier.knowledge);
  ++barrier.threads;
  count_warp(barrier, *self);
  barrier.votes += vote;
  if (waits) {
    barrier.waiting.push_back(self->id);
    Warp& warp = group.warps[static_cast<size_t>(self->warp)];
    warp.at_barrier |= 1u << self->lane;
    warp.barrier = id;
  } else
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
  if (threads > cta->warp_count * kWarpSize)
    refuse(line, 0, text("barrier %d waits for %d threads; the block has %d", id, threads, block_threads));
  arrive(id, threads, false, waits, line);
}

}  // namespace

void sync_block(int line) {
  arrive(0, cta->thread_count, true, true, line);
}

bool sync_block_or(bool condition, int line) {
  return sync_block_count(condition, line) > 0;
}

int sync_block_count(bool condition, int line) {
  arrive(0, cta->thread_count, true, true, line, condition);
  return self->answer;
}

void barrier_sync(int id, int threads, int line) {
  arrive_named(id, threads, true, line);
}

void barrier_arrive(int id, int threads, int line) {
  arrive_named(id, threads, false, line);
}

// Lanes of the thread's warp have arrived without a wait, for others that were elsewhere at that time.
void report_parted(const Barrier& barrier, const Thread& thread, u32 missing) {
  const size_t warp = warp_in_block(thread);
  report("divergence", barrier.line_of_warp[warp], thread.line, [&] {
    return text("bar_arrive by warp %zu: lanes %08x have come; lanes %08x have not", warp,
                lanes_here(barrier, thread), missing);
  });
}

// Of arrivals without a wait nobody else says that part of a warp has not come.
void report_parted_warps() {
  for (const Thread& thread : group.threads) {
    if (thread.state == State::exited) continue;
    for (int id = 0; id < kBarriers; ++id) {
      const Barrier& barrier = thread.cta->barriers[id];
      const u32 here = lanes_here(barrier, thread), missing = lanes_missing(barrier, thread);
      const Warp& warp = group.warps[static_cast<size_t>(thread.warp)];
      if (!here || !(missing >> thread.lane & 1) || (warp.at_barrier && warp.barrier == id)) continue;
      report_parted(barrier, thread, missing);
    }
  }
}

// __syncthreads waits for the threads that have not ended, and every barrier for lanes of warps that have come, so an
// end can be what it was waiting for.
void leave_barriers(Thread& done) {
  const Warp& warp = group.warps[static_cast<size_t>(done.warp)];
  for (int id = 0; id < kBarriers; ++id) {
    Barrier& barrier = cta->barriers[id];
    if (!barrier.in_use) continue;
    const u32 here = lanes_here(barrier, done);
    if (here && !(here >> done.lane & 1)) {
      if (!warp.at_barrier || warp.barrier != id) report_parted(barrier, done, 1u << done.lane);
      count_warp(barrier, done);
    }
    if (complete(barrier)) end_round(barrier);
  }
}

}  // namespace efemu
