// Global memory: buffers between inaccessible pages, and the checks of accesses to them.
#pragma once
#include <string>

#include "float16.h"

namespace efemu {

// Whether the access lies in one buffer, is aligned to its size and, if it writes, allowed; reports if not.
bool admits_global(const void* address, u32 bytes, bool writes, int line);

// A new launch: no element has been written by anybody. While it runs, inputs cannot be written even by
// code that bypasses the primitives.
void begin_global_checks();
void end_global_checks();

// What an address is to the buffers: "offset 4100 of buffer 'K' (4096 bytes)", the nearest one's.
std::string describe_global(const void* address);
// Whether the address is in a buffer or in a guard around one; and whether in one that only may be read.
bool near_buffer(const void* address);
bool in_input(const void* address);

}  // namespace efemu
