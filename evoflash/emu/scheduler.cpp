// Which fiber runs next, and the three ways of never ending: deadlock, livelock, time-out.
#include "block.h"

#include <algorithm>
#include <map>

#include "fiber.h"
#include "path.h"

namespace efemu {

Context* context = nullptr;
Block block;
Thread* self = nullptr;
Policy policy;
std::mt19937 chance;
volatile std::sig_atomic_t expired = 0;

namespace {

constexpr u32 kBudget = 4096;          // accesses of one turn
constexpr u32 kPollQuantum = 256;      // repeated reads after which a thread counts as polling
constexpr u32 kPollQuanta = 4;         // of every runnable thread before a livelock is declared
constexpr u32 kIdleReads = 256 << 10;  // and this many in all: some 20 ms

// Runnable threads in the order of their turns.
class ReadyQueue {
 public:
  void reset(size_t capacity) {
    slots_.assign(capacity, nullptr);
    head_ = count_ = 0;
  }
  bool empty() const { return count_ == 0; }
  void push(Thread* thread) { slots_[(head_ + count_++) % slots_.size()] = thread; }
  Thread* pop() {
    if (policy.schedule == Schedule::random && count_ > 1)
      std::swap(slots_[head_], slots_[(head_ + chance() % count_) % slots_.size()]);
    Thread* thread = slots_[head_];
    head_ = (head_ + 1) % slots_.size();
    --count_;
    return thread;
  }

 private:
  std::vector<Thread*> slots_;
  size_t head_ = 0, count_ = 0;
};

ReadyQueue ready;
Stacks stacks;
void* main_stack = nullptr;
const Kernel* kernel = nullptr;
void** kernel_arguments = nullptr;
bool abandoned = false;
u32 idle_reads = 0;  // by polling threads since anybody made progress

void resume(Thread& next) {
  next.state = State::running;
  context = &next.context;
  self = &next;
}

void switch_to(Thread& next) {
  Thread& previous = *self;
  attribute();
  resume(next);
  efemu_switch_stack(&previous.stack, next.stack);
}

void return_to_main() {
  void* forgotten;
  attribute();
  efemu_switch_stack(&forgotten, main_stack);
}

void check_time(int line) {
  if (!expired) return;
  report("TIMEOUT", line, 0, [&] { return text("the CPU limit passed; thread %d was at line %d", self->id, line); });
  abandon_block();
}

std::string describe_wait(const Thread& thread) {
  std::string what = text("%s at line %d", thread.waits_in, thread.line);
  if (thread.state == State::at_barrier) {
    const Barrier& barrier = block.barriers[thread.barrier];
    const int expected = barrier.whole_block ? block.live_threads : barrier.expected;
    what += text(" (barrier %d: %d of %d threads have come)", thread.barrier, barrier.arrived, expected);
  } else {
    const Warp& warp = block.warps[thread.warp];
    what += text(" (warp %d: lanes %08x have not come)", thread.warp, warp.lanes & ~warp.collective.arrived);
  }
  return what;
}

void report_deadlock() {
  std::map<std::string, std::vector<int>> groups;
  int line = 0;
  for (const Thread& thread : block.threads) {
    if (thread.state == State::exited) {
      groups["exited"].push_back(thread.id);
      continue;
    }
    groups[describe_wait(thread)].push_back(thread.id);
    line = line ? line : thread.line;
  }
  report("DEADLOCK", line, 0, [&] {
    std::string message = "no thread can go on; a GPU would hang here";
    for (const auto& [what, threads] : groups) message += "; threads " + ranges(threads) + ": " + what;
    return message;
  });
}

bool everyone_polls() {
  for (const Thread& thread : block.threads)
    if ((thread.state == State::ready || thread.state == State::running) && thread.polling.quanta < kPollQuanta)
      return false;
  return true;
}

void report_livelock() {
  std::map<int, std::vector<int>> groups;
  for (const Thread& thread : block.threads)
    if (thread.state == State::ready || thread.state == State::running) groups[thread.line].push_back(thread.id);
  report("LIVELOCK", self->line, 0, [&] {
    std::string message = "threads poll memory that nobody will change";
    for (const auto& [line, threads] : groups) message += text("; threads %s: line %d", ranges(threads).c_str(), line);
    return message;
  });
}

Thread* pick() {
  if (ready.empty()) return nullptr;
  Thread* next = ready.pop();
  land_by_chance(*next);
  return next;
}

void give_way() {
  self->budget = kBudget;
  if (ready.empty()) return;
  make_ready(*self);
  Thread* next = pick();
  if (next == self)
    self->state = State::running;
  else
    switch_to(*next);
}

void run_thread() {
  kernel->call(kernel->function, kernel_arguments);
  Thread& done = *self;
  check_time(done.line);
  leave_copies(done);
  leave_collectives(done);
  done.state = State::exited;
  --block.live_threads;
  leave_barriers(done);
  idle_reads = 0;
  if (Thread* next = pick()) switch_to(*next);
  if (block.live_threads > 0) {
    report_deadlock();
    abandoned = true;
  }
  return_to_main();
}

void reset_thread(Thread& thread, int id, Dim3 grid, Dim3 dim) {
  const u32 i = static_cast<u32>(id);
  thread.context = {{i % dim.x, i / dim.x % dim.y, i / (dim.x * dim.y)}, block.index, dim, grid};
  thread.id = id;
  thread.warp = id / kWarpSize;
  thread.lane = id % kWarpSize;
  thread.line = 0;
  thread.budget = kBudget;
  thread.polling = {};
  thread.copies.clear();
  thread.open_group = 0;
  thread.segment = 1;
  thread.load_round = thread.shared_round = {};
  thread.stack = stacks.start(id, run_thread);
}

void reset_block(Dim3 grid, Dim3 dim, u64 number, u32 smem_bytes) {
  const int threads = static_cast<int>(dim.x * dim.y * dim.z);
  const int warps = (threads + kWarpSize - 1) / kWarpSize;
  block.index = {static_cast<u32>(number % grid.x), static_cast<u32>(number / grid.x % grid.y),
                 static_cast<u32>(number / grid.x / grid.y)};
  block.number = number;
  block.live_threads = threads;
  block.shared.reset(smem_bytes);
  block.clocks.reset(threads);
  for (Barrier& barrier : block.barriers) barrier = {};
  block.warps.assign(warps, Warp());
  for (int w = 0; w < warps; ++w) {
    block.warps[w].first_thread = w * kWarpSize;
    const int lanes = std::min(kWarpSize, threads - w * kWarpSize);
    block.warps[w].lanes = lanes == kWarpSize ? ~0u : (1u << lanes) - 1;
  }
  begin_block_counts(warps);
  begin_paths(threads, warps);
  stacks.reserve(threads);
  ready.reset(threads);
  block.threads.resize(threads);
  for (int id = 0; id < threads; ++id) {
    reset_thread(block.threads[id], id, grid, dim);
    make_ready(block.threads[id]);
  }
}

}  // namespace

bool run_block(const Kernel& entry, void** arguments, Dim3 grid, Dim3 block_dim, u64 number, u32 smem_bytes) {
  kernel = &entry;
  kernel_arguments = arguments;
  abandoned = false;
  idle_reads = 0;
  reset_block(grid, block_dim, number, smem_bytes);
  Thread* first = pick();
  resume(*first);
  efemu_switch_stack(&main_stack, first->stack);
  self = nullptr;
  return !abandoned;
}

void make_ready(Thread& thread) {
  thread.state = State::ready;
  ready.push(&thread);
}

void wait_here(State state, const char* op, int line, int barrier) {
  check_time(line);
  self->state = state;
  self->waits_in = op;
  self->line = line;
  self->barrier = barrier;
  self->polling.quanta = 0;
  Thread* next = pick();
  if (!next) {
    report_deadlock();
    abandon_block();
  }
  switch_to(*next);
}

void abandon_block() {
  abandoned = true;
  return_to_main();
  __builtin_unreachable();
}

bool in_stacks(const void* address) {
  return stacks.contains(address);
}

void note_progress(int line) {
  self->line = line;
  self->polling.repeats = self->polling.quanta = 0;
  idle_reads = 0;
  check_time(line);
  if (--self->budget == 0) give_way();
}

void note_read(u64 address, int line) {
  self->line = line;
  check_time(line);
  Polling& polling = self->polling;
  bool again = false;
  for (u64 known : polling.recent) again |= known == address;
  if (!again) {
    polling.recent[polling.next++ % 4] = address;
    polling.repeats = polling.quanta = 0;
    if (--self->budget == 0) give_way();
  } else if (++polling.repeats == kPollQuantum) {
    polling.repeats = 0;
    ++polling.quanta;
    idle_reads += kPollQuantum;
    if (idle_reads >= kIdleReads && everyone_polls()) {
      report_livelock();
      abandon_block();
    }
    give_way();
  }
}

}  // namespace efemu
