// The block being emulated: its threads, warps, barriers, and the scheduler that runs them as fibers.
//
// One block is resident, in one OS thread. What is a block's own stands in Block and what is a thread's own
// in Thread, so that a scheduler of several resident blocks (clusters, semaphores between blocks) needs a
// list of them and no new structure. Likewise, agents that copy at their own pace (TMA, wgmma) need numbers
// after the threads' in Clocks and a place in pick(), where random delivery already happens.
#pragma once
#include <csignal>
#include <random>
#include <vector>

#include "clocks.h"
#include "interface.h"
#include "path.h"
#include "report.h"
#include "shared.h"

namespace efemu {

constexpr int kWarpSize = 32;
constexpr int kBarriers = 16;

enum class State : u8 { ready, running, in_collective, at_barrier, exited };

// A cp.async under way.
struct Copy {
  u32 target;
  const void* source;
  bool inside, landed;
  int line;
  u32 group;
  u32 bytes;
  double started;  // on the rough clock
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

struct Thread {
  Context context;
  int id, warp, lane;
  State state;
  void* stack;           // where to resume
  int line;              // of the last primitive
  const char* waits_in;  // the primitive that it is blocked in
  int barrier;           // its number, where it is one
  bool answer;           // of the last vote at a barrier
  u32 budget;            // memory accesses until it must let others run
  Polling polling;
  std::vector<Copy> copies;  // not yet waited for, oldest first
  u32 open_group;            // the group that the next copy joins
  u64 segment;               // collectives and barriers so far, and one
  Round load_round, shared_round;
};

// A warp-wide primitive in progress: lanes leave their arguments and wait, the last one does the work.
struct Collective {
  const char* op;
  int line;
  u32 arrived;
  void* arguments[kWarpSize];
};

struct Warp {
  int first_thread;
  u32 lanes;   // that exist
  u32 exited;
  Collective collective;
};

struct Barrier {
  bool in_use, whole_block;
  bool any;  // some thread of this round voted yes
  int expected, arrived, line;
  std::vector<int> waiting;       // threads
  std::vector<int> line_of_warp;  // where each warp's first thread of this round came from; 0: none yet
  Knowledge knowledge;
  Work slowest;  // of the warps that have come
};

struct Block {
  Dim3 index;
  u64 number;  // of the block in the grid
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Barrier barriers[kBarriers];
  SharedMemory shared;
  Clocks clocks;
  int live_threads;
};

enum class Delivery : u32 { eager, lazy, random };
enum class Schedule : u32 { fifo, random };

struct Policy {
  Delivery delivery;
  Schedule schedule;
};

extern Block block;
extern Thread* self;  // the running one; null outside of run_block
extern Policy policy;
extern std::mt19937 chance;

// Runs one block to its end; false: it was abandoned after a report that leaves no way on.
bool run_block(const Kernel& kernel, void** arguments, Dim3 grid, Dim3 block_dim, u64 number, u32 smem_bytes);

// The running thread stops until make_ready(); `barrier` is kept for the deadlock report.
void wait_here(State state, const char* op, int line, int barrier = -1);
void make_ready(Thread& thread);
// The end of this block, after a report: no fiber goes on. Callable from any fiber and signal handler.
[[noreturn]] void abandon_block();
// Set when the CPU limit has passed: the next primitive ends the block.
extern volatile std::sig_atomic_t expired;
// Whether the address lies in a fiber's stack or the guard below one.
bool in_stacks(const void* address);

// Every memory primitive begins with one of these: they take turns with other threads, and tell a thread
// that polls memory, in vain when nobody makes progress, from one that works.
void note_read(u64 address, int line);
void note_progress(int line);

// The thread has ended: barriers count it no longer, and lanes that wait for it wait in vain.
void leave_barriers(Thread& thread);
void leave_collectives(Thread& thread);
void leave_copies(Thread& thread);

// Draws, for this launch, where WMMA fragments keep their elements.
void scramble_fragments(u32 seed);

// Random delivery: one of the thread's copies may land now.
void land_by_chance(Thread& thread);

}  // namespace efemu
