// The slowest way through a block: from barrier to barrier, the warp that has most to do. Counts what lies on
// it, and reads a rough clock along it; the performance model decides what that costs on a GPU.
#pragma once
#include <vector>

#include "counters.h"

namespace efemu {

struct Barrier;
struct Thread;

// What one warp has done, and the warps that it waited for before.
struct Work {
  Counters counters;
  Tally tally;  // of the lane with the most: the others of its warp wait for it
};
extern Work critical;  // summed over the blocks that have ended

// How long after their start copies were waited for: by the line of the wait, over all threads.
struct WaitTotal {
  int line;
  u64 count;  // waits that had a copy to wait for
  double age;  // on the rough clock, of the youngest of them
};

void reset_paths();
void begin_paths(int threads, int warps);  // of a new group of blocks
void end_paths();

// What was counted since the last call is the running thread's, or a warp's: call it before anybody else counts.
void attribute();
// The same where that is the next one's to count from: what stays with the warp need not be told apart.
void attribute_before(const Thread& next);
void attribute_to(int warp);
// All four warps of a warpgroup did it together.
void attribute_to_warpgroup(int first_warp);

// A lane's tally as one of threads, in which all lanes of its warp do the same.
Tally for_all_lanes(Tally lane);

// The running thread's place on the clock, in something like cycles of a block that is alone on its SM.
double rough_clock();
double rough_cycles(const Work& work);

// A barrier opens: the threads that waited go on from where the slowest of those that came was.
void join_arrival(Barrier& barrier);
void join_paths(Barrier& barrier);
// The same where the lanes of a warp go on one by one, for the first of them and for another.
void take_path(Work slowest);
void pass_path();

// The same for a barrier that its threads pass one by one: what an arrival leaves there, and what a warp takes along.
void leave_path(Work& slowest);
void follow_path(const Work& slowest);

void count_wait(int line, double age);
std::vector<WaitTotal> wait_totals();

}  // namespace efemu
