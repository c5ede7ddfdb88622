// Global memory: buffers between inaccessible pages, and the checks of accesses to them.
#pragma once
#include <string>

#include "clocks.h"
#include "interface.h"

namespace efemu {

// Whether the access lies in one buffer, is aligned to its size and, if it writes, allowed; reports if not.
bool admits_global(const void* address, u32 bytes, bool writes, int line);
// The same without the alignment, for asynchronous copies, of any length; `what` begins the message: "the tensor
// of the map".
bool admits_bulk(const void* address, u64 bytes, bool writes, const char* what, int line);

// Record an admitted access to memory that kernels write, and report what is wrong with it: no order after another
// access, reads of what nobody wrote, outputs written twice, asynchronous use without a proxy fence. Atomics do not
// race with one another, nor with acquire loads and release stores.
void note_global_read(const void* source, u32 bytes, const Actor& actor, int line);
void note_global_write(const void* target, u32 bytes, const Actor& actor, int line);
void note_plain_write(const void* target, u32 bytes, const Actor& actor, int line);
void note_acquire_load(const void* source, u32 bytes, const Actor& actor, int line);
void note_release_store(const void* target, u32 bytes, const Actor& actor, int line);
void note_atomic(const void* target, u32 bytes, const Actor& actor, int line);

// A new launch; `dependent`: it begins before the one before it has ended. While it runs, inputs cannot be written
// even by code that bypasses the primitives.
void begin_global_checks(bool dependent);
void end_global_checks();
// What launches before have released is known to all (atomics.cpp).
void forget_releases();
// The running thread's load, store or read-modify-write of an admitted place in global memory, that atomics of others
// may see: its turn, its record, and what it makes known or hears (atomics.cpp). The value is the caller's to move.
enum class Passing : u32 { load, store, change };
void pass_on(void* target, u32 bytes, Passing passing, Order order, int line);

// What an address is to the buffers: "offset 4100 of buffer 'K' (4096 bytes)", the nearest one's.
std::string describe_global(const void* address);
// Whether the bytes lie in one buffer.
bool in_buffer(const void* address, u64 bytes);
// Whether the address is in a buffer or in a guard around one; and whether in one that only may be read.
bool near_buffer(const void* address);
bool in_input(const void* address);

}  // namespace efemu
