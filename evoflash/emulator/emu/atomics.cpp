// Atomics, and what passes through them from thread to thread: acquire, release, and fence_gpu around relaxed ones
// (the patterns of PTX's memory model; all at the scope of the GPU).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "block.h"
#include "counters.h"
#include "generations.h"
#include "global.h"

namespace efemu {
namespace {

// What was released at an address. Read-modify-writes add to it, a store replaces it.
struct Released {
  u32 generation;
  Knowledge here;  // by that generation
  Past before;     // by earlier ones
  int agent;       // that stands for `before` in that generation; -1 until it is needed
};
std::unordered_map<const void*, Released> released;

// `lasts`: global memory outlives a group, shared memory does not.
Released& released_at(const void* address, bool lasts) {
  Released& found = released.try_emplace(address, Released{generation(), {}, {}, -1}).first->second;
  if (found.generation == generation()) return found;
  if (lasts && !found.here.empty()) found.before[found.generation] = std::move(found.here);
  found.here.clear();
  found.generation = generation();
  found.agent = -1;
  return found;
}

// The running thread has read what stands at the address: it knows what was released there, now if it acquires,
// else from its next fence on.
void observe(Released& at, bool acquires) {
  Knowledge heard = at.here;
  if (!at.before.empty()) {
    if (at.agent < 0) at.agent = add_past(at.before);
    heard.known.learn(group.clocks.now(at.agent));
  }
  if (acquires)
    group.clocks.acquire(self->id, heard);
  else
    self->seen.join(heard);
}

void publish(Released& at, bool releases) {
  at.here.join(self->fenced);
  if (releases) group.clocks.release(self->id, at.here);
}

// Global memory's adder takes subnormal numbers for zeros, whatever the kernel was compiled with.
float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

u32 add_floats(u32 a, u32 b, bool flush) {
  float x, y;
  std::memcpy(&x, &a, sizeof x);
  std::memcpy(&y, &b, sizeof y);
  const float sum = flush ? flushed(flushed(x) + flushed(y)) : x + y;
  u32 bits;
  std::memcpy(&bits, &sum, sizeof bits);
  return bits;
}

struct Operation {
  Atomic kind;
  u32 value, compare;
  bool is_signed, global;

  bool less(u32 a, u32 b) const { return is_signed ? static_cast<int>(a) < static_cast<int>(b) : a < b; }

  u32 operator()(u32 old) const {
    switch (kind) {
      case Atomic::add: return old + value;
      case Atomic::add_float: return add_floats(old, value, global);
      case Atomic::min: return less(value, old) ? value : old;
      case Atomic::max: return less(old, value) ? value : old;
      case Atomic::inc: return old >= value ? 0 : old + 1;
      case Atomic::exchange: return value;
      case Atomic::compare_exchange: return old == compare ? value : old;
    }
    __builtin_unreachable();
  }
};

// An atomic that changes nothing, like a lock that is taken already, is a way of polling.
void take_turn(const Operation& operation, u64 address, u32 old, int line) {
  if (operation(old) == old)
    note_read(address, line);
  else
    note_progress(line);
}

constexpr u32 kPoisonWord = 0xffffffff;  // the result of a faulty access

}  // namespace

void forget_releases() {
  released.clear();
}

void pass_on(void* target, u32 bytes, Passing passing, Order order, int line) {
  if (passing == Passing::load) {
    note_read(reinterpret_cast<u64>(target), line);
    note_acquire_load(target, bytes, group.clocks.actor(self->id), line);
    return observe(released_at(target, true), order.acquires);
  }
  note_progress(line);
  Released& at = released_at(target, true);
  if (passing == Passing::change) {
    note_atomic(target, bytes, group.clocks.actor(self->id), line);
    observe(at, order.acquires);
  } else {
    note_release_store(target, bytes, group.clocks.actor(self->id), line);
    at.here.clear();
    at.before.clear();
    at.agent = -1;
  }
  publish(at, order.releases);
}

// ---- entry points

u32 atomic_global(Atomic kind, u32* target, u32 value, u32 compare, bool is_signed, Order order, int line) {
  if (!admits_global(target, sizeof *target, true, line)) return kPoisonWord;
  const Operation operation{kind, value, compare, is_signed, true};
  take_turn(operation, reinterpret_cast<u64>(target), *target, line);
  count_access(Access::stg, reinterpret_cast<u64>(target), sizeof *target, true, line);
  // An atomic that acquires is judged by what was known before it: it might have come first.
  note_atomic(target, sizeof *target, group.clocks.actor(self->id), line);
  Released& at = released_at(target, true);
  observe(at, order.acquires);
  publish(at, order.releases);
  const u32 old = *target;
  *target = operation(old);
  return old;
}

u32 atomic_shared(Atomic kind, u32 address, u32 value, u32 compare, bool is_signed, int line) {
  if (!cta->shared.admits(address, sizeof value, "atomic", line)) return kPoisonWord;
  const Operation operation{kind, value, compare, is_signed, false};
  u32 old;
  std::memcpy(&old, cta->shared.at(address), sizeof old);
  take_turn(operation, address, old, line);
  count_access(Access::sts, address, sizeof value, true, line);
  cta->shared.change(address, sizeof value, group.clocks.actor(self->id), line);
  Released& at = released_at(cta->shared.at(address), false);
  observe(at, false);
  publish(at, false);
  std::memcpy(&old, cta->shared.at(address), sizeof old);
  const u32 now = operation(old);
  std::memcpy(cta->shared.at(address), &now, sizeof now);
  return old;
}

u32 load_acquire(const u32* source, int line) {
  note_read(reinterpret_cast<u64>(source), line);
  count_access(Access::ldg, reinterpret_cast<u64>(source), sizeof *source, true, line);
  if (!admits_global(source, sizeof *source, false, line)) return kPoisonWord;
  note_acquire_load(source, sizeof *source, group.clocks.actor(self->id), line);
  observe(released_at(source, true), true);
  return *source;
}

void store_release(u32* target, u32 value, int line) {
  note_progress(line);
  count_access(Access::stg, reinterpret_cast<u64>(target), sizeof *target, true, line);
  if (!admits_global(target, sizeof *target, true, line)) return;
  note_release_store(target, sizeof *target, group.clocks.actor(self->id), line);
  Released& at = released_at(target, true);
  at.here.clear();
  at.before.clear();
  at.agent = -1;
  publish(at, true);
  *target = value;
}

void fence_gpu(int line) {
  note_progress(line);
  group.clocks.acquire(self->id, self->seen);
  self->seen.clear();
  group.clocks.release(self->id, self->fenced);
}

}  // namespace efemu
