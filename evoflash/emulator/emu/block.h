// The blocks being emulated: their threads, warps and barriers, and the scheduler that runs them as fibers.
//
// The blocks that run at the same time (one, a cluster, the whole grid where blocks wait for one another, or a few
// that do not: see order.h) are the Group: threads and warps are numbered through all of it. What is one block's own stands in Cta. Agents that
// copy at their own pace (TMA, wgmma) have numbers after the threads' in Clocks, and their deliveries wait in
// deliveries.cpp.
#pragma once
#include <csignal>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "clocks.h"
#include "interface.h"
#include "path.h"
#include "report.h"
#include "shared.h"

namespace efemu {

constexpr int kWarpSize = 32;
constexpr int kGroupWarps = 4;  // of a warpgroup
constexpr int kGroupThreads = kGroupWarps * kWarpSize;
constexpr int kBarriers = 16;

enum class State : u8 { ready, running, blocked, exited };

// A cp.async under way.
struct Copy {
  u32 target;
  const void* source;
  bool inside, landed;
  int line;
  u32 group;
  u32 bytes;
  double started;  // on the rough clock
  Epoch handed;    // of the thread's copying agent, once an mbarrier is told of it as well; 0: none is
};

// How a thread reads: the last few addresses, and how often in a row it read just those.
struct Polling {
  u64 recent[4];
  u32 next, repeats, quanta;
};

// The place of a thread's last load: between which of its collectives and barriers, and after how many ex2.
struct Round {
  u64 segment, ex2;
};

struct Cta;
struct Thread;

// What a blocked thread waits for: the primitive, its object, and how a deadlock report tells of it.
struct Wait {
  const char* op;
  u64 object;
  std::string (*describe)(const Thread& thread);
  bool gives_up = false;  // goes on after a while, though what it waits for has not come
};

struct Thread {
  Context context;
  int id, warp, lane;  // numbered through the group
  Cta* cta;
  State state;
  void* stack;           // where to resume
  int line;              // of the last primitive
  Wait wait;
  int answer;            // of the last vote at a barrier: how many said yes
  u32 budget;            // memory accesses until it must let others run
  std::vector<const void*> called_from;  // of the functions that it is in, see plain_accesses.h
  Polling polling;
  std::vector<Copy> copies;  // not yet waited for, oldest first
  int copying_agent;         // that does those of which mbarriers are told; -1 until there are any
  u32 open_group;            // the group that the next copy joins
  u64 segment;               // collectives and barriers so far, and one
  Round load_round, shared_round;
  u32 failed_tests;          // of mbarriers, since one has passed
  int cluster_line;          // of its arrival at the cluster's barrier, until it has waited there; 0: none
  u32 cluster_phase;         // that it arrived in
  Knowledge fenced;          // what it knew at its last fence_gpu: its relaxed atomics make that known
  Knowledge seen;            // what its relaxed atomics saw: the next fence_gpu makes it its own
};

// A warp-wide primitive in progress: lanes leave their arguments and wait, the last one does the work.
struct Collective {
  const char* op;
  int line;
  bool of_warpgroup;  // three other warps take part
  u32 arrived;
  void* arguments[kWarpSize];
};

// A warp-wide primitive of plain CUDA in progress, of the lanes of a mask: see meetings.cpp.
struct Meeting {
  const char* op;
  int line;
  u32 mask, arrived;
  void* arguments[kWarpSize];
  void (*work)(void* const* arguments, u32 lanes);  // null: it orders memory
};

// Lanes that have come to one __activemask().
struct Gathering {
  int line;
  u32 arrived;
};

// What setmaxnreg has done to a warp.
struct Registers {
  int each;    // of a thread, now
  int wanted;  // the warp waits for that many; 0: it does not wait
  int changes, line;  // executions so far, and where the last one was
  Epoch last;
};

struct Warp {
  int first_thread;
  u32 lanes;   // that exist
  u32 exited;
  u32 at_barrier;  // lanes that wait at the block's barrier of this number
  int barrier;
  Collective collective;
  std::vector<Meeting> meetings;  // of masks that have no lane in common
  std::vector<Gathering> gatherings;
  Registers registers;
  u32 cluster_rounds;  // of the cluster's barrier, that a lane of it has left
};

// A warp's arrival at a barrier, by its first thread.
struct Arrival {
  Epoch epoch;
  int line;
};

struct Barrier {
  bool in_use, whole_block;
  int votes;  // threads of this round that voted yes
  int expected, arrived;  // 32 for each warp
  int threads, line;      // that have come themselves; of the first
  std::vector<int> waiting;       // threads
  std::vector<int> line_of_warp;  // where each warp's first thread of this round came from; 0: none yet
  std::vector<u32> lanes_of_warp;         // that have come in this round
  std::vector<Arrival> arrivals, before;  // of this round; of the one before
  Knowledge knowledge;
  Work slowest;  // of the warps that have come
};

// An access to a block's shared memory from another block.
struct Visit {
  Epoch epoch;
  int line;
};

// One block. Its threads are group.threads[first_thread] and the `thread_count - 1` after it.
struct Cta {
  int rank;  // in the group
  Dim3 index;
  u64 number;  // of the block in the grid
  int first_thread, thread_count, first_warp, warp_count;
  int live_threads;
  Barrier barriers[kBarriers];
  SharedMemory shared;
  std::vector<Visit> visits;  // by other blocks of its cluster: the latest of each agent
  int free_registers, registers;  // in setmaxnreg's pool, and the block's in all
};

// The barrier of all threads of a cluster. Threads may still be to wait for one phase while others arrive for the
// next, so two rounds are kept.
struct ClusterBarrier {
  Barrier rounds[2];  // of even and of odd phases; the one that is filling has the parity of `phase`
  u32 phase;
  int started;  // the agent whose first epoch says that all blocks run
};

// The blocks that are resident together. Blocks begin at a multiple of 32 threads: places between them are
// threads that have exited from the start.
struct Group {
  std::vector<Cta> ctas;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<ClusterBarrier> clusters;  // their blocks follow one another in ctas
  Clocks clocks;
  int live_threads;
  Dim3 cluster;  // its shape in blocks; the group is one cluster, or all clusters of the grid
  bool strangers;  // or a few clusters that may not wait for one another
};

enum class Delivery : u32 { eager, lazy, random };
enum class Schedule : u32 { fifo, random };

struct Policy {
  Delivery delivery;
  Schedule schedule;
};

extern Group group;
extern Thread* self;  // the running one; null outside of run_group
extern Cta* cta;      // its block
extern Policy policy;
extern std::mt19937 chance;

struct Shape {
  Dim3 grid, block, cluster;
  u32 smem_bytes;
  u32 registers;  // of a thread at launch; 0: as many as a block of this size may have
  bool resident;  // all blocks run at the same time
};

// Runs a group of blocks to their end; false: it was abandoned after a report that leaves no way on. Blocks are
// given by their numbers in the grid.
bool run_group(const Kernel& kernel, void** arguments, const Shape& shape, const std::vector<u64>& numbers);

// The running thread stops until make_ready(); or, where it gives up, until nobody else can go on.
void wait_here(int line, const Wait& wait);
void make_ready(Thread& thread);
// The running thread lets all others that can run go first.
void give_way();
// How far the launch is: "12 of the grid's 2000000000 blocks had begun".
std::string blocks_begun();
// "" where the group has one block; else " of block 1", or " of block (1,0,0)" where it has strangers.
std::string of_block(const Cta& home);
// "thread 5", with several blocks "thread 5 of block 1"; or what the agent was named.
std::string agent_name(u32 agent);
inline std::string my_name() { return agent_name(static_cast<u32>(self->id)); }
inline int number_in_block(const Thread& thread) { return thread.id - thread.cta->first_thread; }

// Something asynchronous has been started: `land` makes it happen, now or later as the policy says, on no
// thread's behalf. Until then, `line` is where it was started, for reports.
void deliver(int line, std::function<void()> land);
// Everything under way lands.
void deliver_all();
// The end of this group, after a report: no fiber goes on. Callable from any fiber and signal handler.
[[noreturn]] void abandon_block();
// Set when the CPU limit has passed: the next primitive ends the block.
extern volatile std::sig_atomic_t expired;
// Whether the bytes are a parameter of the running kernel.
bool is_parameter(const void* address, size_t bytes);
// Whether the address lies in a fiber's stack or the guard below one.
bool in_stacks(const void* address);
// The thread in whose stack it lies; -1: in none.
int stack_owner(const void* address);

// Every memory primitive begins with one of these: they take turns with other threads, and tell a thread
// that polls memory, in vain when nobody makes progress, from one that works.
void note_read(u64 address, int line);
// Whether the running thread, the first to ask in vain at that line, is to be told so once more, at most so many times,
// before anybody else goes on. What it waits for may take as long as it likes on a GPU: a loop that counts gives up some day.
bool asks_in_vain(int line, u32 times, u32 most);
void note_progress(int line);

// The thread has ended: barriers count it no longer, and lanes that wait for it wait in vain.
void leave_barriers(Thread& thread);
void report_parted_warps();  // before a deadlock is reported: part of a warp has come to a barrier
void leave_collectives(Thread& thread);
void leave_meetings(Thread& thread);
// Lanes of the warp that wait in a meeting for others, and one of these; null: none does.
const Meeting* meeting_without(const Warp& warp, int lane);
void leave_copies(Thread& thread);
void leave_products(Thread& thread);
void leave_registers(Thread& thread);

// The block of the group that a cluster address names, and the plain address in its shared memory. Reports and
// returns null where there is none, or where it may have ended or not have begun yet.
Cta* resolve_cluster(u32 cluster_address, u32* address, int line);

// Draws, for this launch, where WMMA fragments keep their elements.
void scramble_fragments(u32 seed);
// Which lane elect_lane() names until the next call.
void draw_elected_lane(u32 seed);

// A new group: nobody has a wgmma under way; each block has the registers that it was launched with.
void begin_products();
void begin_registers(Cta& home, const Shape& shape);

// Random delivery: one of the thread's copies, and one of the deliveries, may land now.
void land_by_chance(Thread& thread);
void deliver_by_chance();
// Nobody can go on, or all poll in vain: a delivery lands, the oldest or any. False: there is none.
bool deliver_one();
void forget_deliveries();  // of an abandoned group

}  // namespace efemu
