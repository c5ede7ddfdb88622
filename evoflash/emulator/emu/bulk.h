// Copies out of shared memory, in groups of the thread that starts them: what bulk.cpp and tma.cpp share.
#pragma once
#include <functional>

#include "block.h"

namespace efemu {

// The running thread's copies, reading shared memory now, or writing global memory: two agents, for they are waited
// for separately. Good until the next agent is added.
struct CopyingOut {
  Actor reads, writes;
};
CopyingOut copies_out();
// One of them has been started and joins the thread's open group; `land` makes it happen.
void start_copy_out(int line, std::function<void()> land);

// Where a copy into shared memory goes, and where it completes: both in one block.
struct Destination {
  Cta* home;
  u32 target, barrier;
};
// From cluster addresses, or with a mask in each of the blocks that it names. Gives up the block, after a report,
// where there is no such block or two different ones.
std::vector<Destination> destinations(u32 target, u32 barrier, u32 mask, const char* op, int line);

// Adds what came from shared memory to global memory, element by element, as atomics do.
enum class Element : u32 { f16, bf16, f32 };
void add_elements(void* target, const void* source, u32 bytes, Element element);

// 32-byte sectors that a row of bytes touches.
u64 sectors_of(const void* first, u64 bytes);

void reset_bulk_copies();
// The thread has ended: nobody can wait for its copies any more.
void leave_bulk_copies(Thread& thread);

}  // namespace efemu
