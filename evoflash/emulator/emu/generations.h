// The groups of blocks one after another, over launches: who did something in a group that has ended, and whether
// the running group can know of it.
//
// Within a launch nothing orders one group after another but what passes through memory: what a block released at
// an address, a later one may acquire there. What it then knows is an agent of its own group's clocks, so that
// barriers pass it on like everything else.
#pragma once
#include <map>
#include <string>

#include "clocks.h"

namespace efemu {

// An epoch of some group. Generation 0: never.
struct Moment {
  u32 generation;
  Epoch epoch;
};
// What was known of the groups that have ended, by generation.
using Past = std::map<u32, Knowledge>;

void begin_launch(bool dependent);  // dependent: on what came before, nobody has waited for it yet
void begin_generation();            // the group has been set up
u32 generation();                   // of the running group

// What the actor does now, and whether that is ordered after the moment.
inline Moment moment_of(const Actor& actor) { return {generation(), actor.now}; }
bool ordered_after(Moment moment, const Actor& actor);
// In a launch before this one; and in one that had ended when the oldest of those that may overlap began.
bool before_launch(Moment moment);
bool settled(Moment moment);
// "thread 5 of block (2,0,0)".
std::string name_of(Moment moment);

// The agent whose first epoch stands for all of `past`, and for what that knew in turn.
int add_past(const Past& past);
// The running thread has executed grid_wait.
void wait_for_grids();

}  // namespace efemu
