// Runnable threads, and which of them runs next.
#pragma once
#include <utility>
#include <vector>

#include "block.h"

namespace efemu {

// Threads in the order of their turns. Under the random schedule any of them may be next; in three groups of blocks of
// four a warp, or a single thread, is held back until no other thread can go on, and then another one is. So a warp
// gets as far ahead of another as the kernel lets it, which choosing evenly among hundreds of threads never shows
// (priorities that change now and then: Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of
// Finding Bugs, ASPLOS 2010).
class ReadyQueue {
 public:
  void reset(size_t capacity) {
    first_.reset(capacity);
    behind_.reset(capacity);
    threads_ = static_cast<u32>(capacity);
    holds_back_ = policy.schedule == Schedule::random && chance() % 4;
    draw();
  }
  bool empty() const { return first_.count == 0 && behind_.count == 0; }
  // Those that can run are held back so long that copies land before they do.
  bool waits_for_copies() const { return first_.count == 0 && behind_.count > 0 && later_than_copies_; }
  void push(Thread* thread) { (held_back(*thread) ? behind_ : first_).push(thread); }
  // All others go before it.
  void push_behind(Thread* thread) { (policy.schedule == Schedule::random ? behind_ : first_).push(thread); }
  Thread* pop() {
    if (first_.count == 0) {
      std::swap(first_, behind_);
      draw();
    }
    if (policy.schedule == Schedule::random && first_.count > 1) first_.swap_front(chance() % first_.count);
    return first_.pop();
  }

 private:
  struct Ring {
    std::vector<Thread*> slots;
    size_t head = 0, count = 0;

    void reset(size_t capacity) {
      slots.assign(capacity, nullptr);
      head = count = 0;
    }
    void push(Thread* thread) { slots[(head + count++) % slots.size()] = thread; }
    void swap_front(size_t at) { std::swap(slots[head], slots[(head + at) % slots.size()]); }
    Thread* pop() {
      Thread* thread = slots[head];
      head = (head + 1) % slots.size();
      --count;
      return thread;
    }
  };

  // Whom to hold back from now on, and whether copies land before they run.
  void draw() {
    begin_ = end_ = 0;
    later_than_copies_ = false;
    if (!holds_back_) return;
    const u32 some = chance() % 3 ? kWarpSize : 1;
    begin_ = chance() % (threads_ / some) * some;
    end_ = begin_ + some;
    later_than_copies_ = chance() % 2;
  }
  bool held_back(const Thread& thread) const {
    const u32 id = static_cast<u32>(thread.id);
    return begin_ <= id && id < end_;
  }

  Ring first_, behind_;
  u32 threads_ = 0, begin_ = 0, end_ = 0;
  bool holds_back_ = false, later_than_copies_ = false;
};

}  // namespace efemu
