// Which fiber runs next, and the three ways of never ending: deadlock, livelock, time-out.
#include "block.h"

#include <algorithm>
#include <map>

#include "bulk.h"
#include "cluster.h"
#include "counters.h"
#include "fiber.h"
#include "generations.h"
#include "global.h"
#include "mbarrier.h"
#include "path.h"
#include "plain_accesses.h"
#include "ready_queue.h"

namespace efemu {

Context* context = nullptr;
Group group;
Thread* self = nullptr;
Cta* cta = nullptr;
Policy policy;
std::mt19937 chance;
volatile std::sig_atomic_t expired = 0;

namespace {

constexpr u32 kBudget = 4096;          // accesses of one turn
constexpr u32 kPollQuantum = 256;      // repeated reads after which a thread counts as polling
constexpr u32 kPollQuanta = 4;         // of every runnable thread before a livelock is declared
constexpr u32 kIdleReads = 256 << 10;  // and this many in all: some 20 ms
constexpr u32 kReadsInVain = 1 << 14;  // repeated reads at a line before others go on
constexpr u32 kVainRounds = 32;        // of waits given up by all before nothing is expected of another one

ReadyQueue ready;
Stacks stacks;
void* main_stack = nullptr;
const Kernel* kernel = nullptr;
void** kernel_arguments = nullptr;
bool abandoned = false;
// Who was the first to ask in vain at a line, and how often.
struct Vain {
  int thread;
  u32 times;
};
std::map<int, Vain> in_vain;
u32 idle_reads = 0;  // by polling threads since anybody made progress
u32 vain_rounds = 0;  // since then, in which all waits that can be given up were

void resume(Thread& next) {
  next.state = State::running;
  context = &next.context;
  self = &next;
  cta = next.cta;
}

void switch_to(Thread& next) {
  Thread& previous = *self;
  attribute_before(next);
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
  report("TIMEOUT", line, 0, [&] {
    return text("the CPU limit passed; %s was at line %d; %s", my_name().c_str(), line, blocks_begun().c_str());
  });
  abandon_block();
}

std::string describe_wait(const Thread& thread) {
  const std::string what = text("%s at line %d", thread.wait.op, thread.line);
  return what + (thread.wait.describe ? " (" + thread.wait.describe(thread) + ")" : "");
}

// "threads 0-31: syncthreads at line 7 (...)", for each group of threads of each block; what tells them apart.
template <class Describe>
std::string list_threads(Describe describe) {
  std::map<std::pair<int, std::string>, std::vector<int>> groups;
  for (const Thread& thread : group.threads) {
    const std::string what = describe(thread);
    if (!what.empty()) groups[{thread.cta->rank, what}].push_back(number_in_block(thread));
  }
  std::string out;
  for (const auto& [key, threads] : groups) {
    const std::string home = of_block(group.ctas[static_cast<size_t>(key.first)]);
    out += "; threads " + ranges(threads) + home + ": " + key.second;
  }
  return out;
}

bool runnable(const Thread& thread) {
  return thread.state == State::ready || thread.state == State::running;
}

void report_deadlock() {
  report_parted_warps();
  const auto blocked = std::find_if(group.threads.begin(), group.threads.end(),
                                    [](const Thread& thread) { return thread.state == State::blocked; });
  report("DEADLOCK", blocked->line, 0, [] {
    return "no thread can go on; a GPU would hang here" + list_threads([](const Thread& thread) -> std::string {
             if (number_in_block(thread) >= thread.cta->thread_count) return "";
             return thread.state == State::exited ? "exited" : describe_wait(thread);
           });
  });
}

bool everyone_polls() {
  return std::none_of(group.threads.begin(), group.threads.end(), [](const Thread& thread) {
    return runnable(thread) && thread.polling.quanta < kPollQuanta;
  });
}

bool polls_global(const Thread& thread) {
  const auto is_global = [](u64 address) { return near_buffer(reinterpret_cast<const void*>(address)); };
  return runnable(thread) && std::any_of(thread.polling.recent, thread.polling.recent + 4, is_global);
}

// Blocks that wait for a block that has not begun wait for ever, and on a GPU too if it must wait for room.
std::string absent_blocks() {
  const Dim3 grid = self->context.grid_dim;
  const u64 blocks = u64{grid.x} * grid.y * grid.z;
  if (blocks == group.ctas.size() || std::none_of(group.threads.begin(), group.threads.end(), polls_global)) return "";
  return text("; only %zu of %llu blocks were resident: blocks that wait for one another need `resident`",
              group.ctas.size(), blocks);
}

void report_livelock() {
  report("LIVELOCK", self->line, 0, [] {
    return "threads poll memory that nobody will change" + list_threads([](const Thread& thread) -> std::string {
             return runnable(thread) ? text("line %d", thread.line) : "";
           }) + absent_blocks();
  });
}

// All waits that can be given up are. False: there are none, or that has been in vain too often.
bool give_up_waits() {
  if (vain_rounds++ >= kVainRounds) return false;
  bool any = false;
  for (Thread& thread : group.threads) {
    if (thread.state != State::blocked || !thread.wait.gives_up) continue;
    make_ready(thread);
    any = true;
  }
  return any;
}

// A copy lands, or else waits are given up. False: nothing can happen by itself any more.
bool wait_in_vain() {
  if (!deliver_one()) return give_up_waits();
  vain_rounds = 0;
  return true;
}

// Null: nobody can go on, ever.
Thread* pick() {
  while (ready.waits_for_copies() && deliver_one()) vain_rounds = 0;
  while (ready.empty())
    if (!wait_in_vain()) return nullptr;
  Thread* next = ready.pop();
  land_by_chance(*next);
  deliver_by_chance();
  return next;
}

void run_thread() {
  kernel->call(kernel->function, kernel_arguments);
  Thread& done = *self;
  check_time(done.line);
  leave_copies(done);
  leave_collectives(done);
  leave_products(done);
  leave_registers(done);
  done.state = State::exited;
  --cta->live_threads;
  --group.live_threads;
  leave_barriers(done);
  leave_bulk_copies(done);
  if (cta->live_threads == 0) leave_mbarriers(*cta);
  leave_cluster(done);
  idle_reads = vain_rounds = 0;
  if (Thread* next = pick()) switch_to(*next);
  if (group.live_threads > 0) {
    report_deadlock();
    abandoned = true;
  }
  return_to_main();
}

Dim3 position(u64 number, Dim3 grid) {
  return {static_cast<u32>(number % grid.x), static_cast<u32>(number / grid.x % grid.y),
          static_cast<u32>(number / grid.x / grid.y)};
}

void reset_thread(Thread& thread, int id, Cta& home, const Shape& shape) {
  const Dim3 dim = shape.block;
  const u32 i = static_cast<u32>(id - home.first_thread);
  thread.context = {{i % dim.x, i / dim.x % dim.y, i / (dim.x * dim.y)}, home.index, dim, shape.grid, 1};
  thread.id = id;
  thread.warp = id / kWarpSize;
  thread.lane = id % kWarpSize;
  thread.cta = &home;
  thread.state = State::exited;
  thread.line = 0;
  thread.wait = {};
  thread.budget = kBudget;
  thread.called_from.clear();
  thread.polling = {};
  thread.copies.clear();
  thread.copying_agent = -1;
  thread.open_group = 0;
  thread.segment = 1;
  thread.load_round = thread.shared_round = {};
  thread.failed_tests = 0;
  thread.cluster_line = 0;
  thread.cluster_phase = 0;
  thread.fenced.clear();
  thread.seen.clear();
  thread.stack = stacks.start(id, run_thread);
}

void reset_cta(Cta& home, int rank, u64 number, const Shape& shape) {
  const int threads = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  home.rank = rank;
  home.number = number;
  home.index = position(number, shape.grid);
  home.warp_count = (threads + kWarpSize - 1) / kWarpSize;
  home.first_warp = rank * home.warp_count;
  home.first_thread = home.first_warp * kWarpSize;
  home.thread_count = home.live_threads = threads;
  home.shared.reset(shape.smem_bytes);
  for (Barrier& barrier : home.barriers) barrier = {};
  home.visits.clear();
  for (int w = 0; w < home.warp_count; ++w) {
    const int lanes = std::min(kWarpSize, threads - w * kWarpSize);
    Warp& warp = group.warps[static_cast<size_t>(home.first_warp + w)];
    warp = {};
    warp.first_thread = home.first_thread + w * kWarpSize;
    warp.lanes = lanes == kWarpSize ? ~0u : (1u << lanes) - 1;
  }
  begin_registers(home, shape);
}

void reset_group(const Shape& shape, const std::vector<u64>& numbers) {
  const int blocks = static_cast<int>(numbers.size());
  const int warps = (static_cast<int>(shape.block.x * shape.block.y * shape.block.z) + kWarpSize - 1) / kWarpSize;
  const int threads = blocks * warps * kWarpSize;
  group.cluster = shape.cluster;
  group.strangers = !shape.resident && numbers.size() > shape.cluster.x * shape.cluster.y * shape.cluster.z;
  group.ctas.resize(numbers.size());
  group.warps.resize(static_cast<size_t>(blocks * warps));
  group.threads.resize(static_cast<size_t>(threads));
  group.clocks.reset(threads);
  begin_block_counts(blocks * warps);
  begin_paths(threads, blocks * warps);
  stacks.reserve(threads);
  ready.reset(static_cast<size_t>(threads));
  begin_products();
  group.live_threads = 0;
  for (int rank = 0; rank < blocks; ++rank) {
    Cta& home = group.ctas[static_cast<size_t>(rank)];
    reset_cta(home, rank, numbers[static_cast<size_t>(rank)], shape);
    group.live_threads += home.thread_count;
    for (int i = 0; i < warps * kWarpSize; ++i) {
      Thread& thread = group.threads[static_cast<size_t>(home.first_thread + i)];
      reset_thread(thread, home.first_thread + i, home, shape);
      if (i < home.thread_count) make_ready(thread);
    }
  }
  reset_clusters();
  reset_mbarriers();
  in_vain.clear();
  reset_bulk_copies();
  begin_generation();
}

}  // namespace

std::string blocks_begun() {
  const Dim3 grid = self->context.grid_dim;
  return text("%llu of the grid's %llu blocks had begun", counters.blocks, u64{grid.x} * grid.y * grid.z);
}

bool run_group(const Kernel& entry, void** arguments, const Shape& shape, const std::vector<u64>& numbers) {
  kernel = &entry;
  kernel_arguments = arguments;
  abandoned = false;
  idle_reads = vain_rounds = 0;
  reset_group(shape, numbers);
  Thread* first = pick();
  resume(*first);
  efemu_switch_stack(&main_stack, first->stack);
  if (abandoned)
    forget_deliveries();
  else
    deliver_all();
  settle_overwrite();
  self = nullptr;
  return !abandoned;
}

void make_ready(Thread& thread) {
  thread.state = State::ready;
  ready.push(&thread);
}

void wait_here(int line, const Wait& wait) {
  check_time(line);
  self->state = State::blocked;
  self->wait = wait;
  self->line = line;
  self->polling.quanta = 0;
  Thread* next = pick();
  if (!next) {
    report_deadlock();
    abandon_block();
  }
  if (next == self)
    self->state = State::running;
  else
    switch_to(*next);
}

void give_way() {
  self->budget = kBudget;
  self->state = State::ready;
  ready.push_behind(self);
  Thread* next = pick();
  if (next == self)
    self->state = State::running;
  else
    switch_to(*next);
}

std::string of_block(const Cta& home) {
  const Dim3& at = home.index;
  if (group.ctas.size() == 1) return "";
  return group.strangers ? text(" of block (%u,%u,%u)", at.x, at.y, at.z) : text(" of block %d", home.rank);
}

std::string agent_name(u32 agent) {
  if (!group.clocks.is_thread(agent)) return group.clocks.name(agent);
  const Thread& thread = group.threads[agent];
  return text("thread %d", number_in_block(thread)) + of_block(*thread.cta);
}

void abandon_block() {
  abandoned = true;
  return_to_main();
  __builtin_unreachable();
}

bool is_parameter(const void* address, size_t bytes) {
  const char* const at = static_cast<const char*>(address);
  for (u32 i = 0; i < kernel->parameters; ++i) {
    const char* const begin = static_cast<const char*>(kernel_arguments[i]);
    if (at >= begin && at + bytes <= begin + kernel->sizes_bytes[i]) return true;
  }
  return false;
}

bool in_stacks(const void* address) {
  return stacks.contains(address);
}

int stack_owner(const void* address) {
  return stacks.owner(address);
}

void note_progress(int line) {
  self->line = line;
  self->polling.repeats = self->polling.quanta = 0;
  idle_reads = vain_rounds = 0;
  check_time(line);
  if (--self->budget == 0) give_way();
}

bool asks_in_vain(int line, u32 times, u32 most) {
  Vain& vain = in_vain.try_emplace(line, Vain{self->id, 0}).first->second;
  return vain.thread == self->id && (vain.times += times) <= most;
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
    if (asks_in_vain(line, kPollQuantum, kReadsInVain)) return;
    ++polling.quanta;
    idle_reads += kPollQuantum;
    if (idle_reads >= kIdleReads && everyone_polls()) {
      if (!wait_in_vain()) {
        report_livelock();
        abandon_block();
      }
      idle_reads = 0;
    }
    give_way();
  }
}

}  // namespace efemu
