// Fibers: guarded stacks and the switch between them; knows nothing of threads, blocks or kernels.
#pragma once
#include <cstddef>

namespace efemu {

// Leaves the running stack, storing where to resume it in *save, and resumes the one stored in `load`.
extern "C" void efemu_switch_stack(void** save, void* load);

// Stacks of one size, each with an inaccessible page below it, so that an overflow faults.
class Stacks {
 public:
  ~Stacks();
  // At least `count` stacks; those there already keep their place unless more are needed.
  void reserve(int count);
  // A value for efemu_switch_stack that starts `entry` on stack `index`; `entry` must never return.
  void* start(int index, void (*entry)());
  // Whether the address lies in a stack or in a guard page.
  bool contains(const void* address) const;
  // The index of the stack that the address lies in, its guard included; -1: in none.
  int owner(const void* address) const;

 private:
  char* memory_ = nullptr;
  int count_ = 0;
};

}  // namespace efemu
