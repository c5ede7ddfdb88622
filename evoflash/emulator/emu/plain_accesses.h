// Every load and store that g++ leaves in a kernel's text, beside those of the primitives: told apart by address, and
// checked as the primitives' are. Compiles nothing: kernels/gxx.py builds libraries that call it.
//
// With -fsanitize=thread g++ calls a function before each access that may reach memory of others (__tsan_read4 and its
// kin); these are the emulator's own. What stays in registers is not called for, and the headers of the ef:: layer are
// left out (seen_layer.h): they call the emulator themselves. The line of an access is that of the call's
// return address, which the debug information knows; until a report is read, a number stands for it (call_sites.h).
#pragma once
#include "float16.h"

namespace efemu {

// What an address of a kernel's plain access is to the running thread.
enum class Region : u32 {
  own_stack,      // its local variables
  other_stack,    // another thread's
  context,        // threadIdx and its kin
  parameters,     // of the kernel
  constants,      // of the kernel's library, which nobody can write
  statics,        // of the kernel's library: they outlive the launch
  shared,         // of a block of its group
  global,         // a buffer, or the guard around one
  elsewhere,      // the emulator's memory, or nobody's
};
Region region_of(const void* address, u64 bytes);

// Plain accesses of the launch: how many loads and stores of others' memory there were, over all threads.
struct PlainCounts {
  u64 reads, writes;
};
extern PlainCounts plain_counts;

// A plain write that was reported as another thread's overwritten value has been made by now.
void settle_overwrite();

// A new launch of the kernel whose function stands at that address.
void begin_plain_accesses(const void* kernel_function);

}  // namespace efemu
