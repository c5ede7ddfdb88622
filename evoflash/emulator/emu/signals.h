// What a kernel does outside of the primitives: faults, and loops that never end. Both become reports.
#pragma once
#include <vector>

#include "float16.h"

namespace efemu {

// Catches faults of the running fibers and watches the CPU time of the calling thread, while it lives.
// Code is that of the kernel's library if it lies in [code_begin, code_end); offsets count from load_address.
class Watch {
 public:
  Watch(const void* kernel_function, double cpu_limit_s);
  ~Watch();
  Watch(const Watch&) = delete;
};

// Where the running thread is in the kernel's library, and where it was called from there, innermost first, as
// offsets that the debug information knows.
std::vector<u64> calls_in_kernel();
// A return address as such an offset, of the call before it; 0: it is not in the kernel's library.
u64 offset_in_kernel(const void* return_address);

}  // namespace efemu
