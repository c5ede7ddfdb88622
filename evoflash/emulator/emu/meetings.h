// What plain CUDA asks of the emulator beside what the ef:: layer does: primitives of some lanes of a warp, shared
// arrays, atomics anywhere. The names of CUDA that call these stand in cuda_names.h and its kin; no includes here.
#pragma once
#include "interface.h"

namespace efemu {

// The lanes of `mask` that have not ended meet; the last of them calls `work` with what each lane gave, by lane, and
// the lanes that came. Without `work` their memory accesses are ordered, and they may come from different lines.
void meet(const char* op, u32 mask, void* mine, void (*work)(void* const* given, u32 lanes), int line);
// The lanes that are at this call together: those that have not ended, or in a branch those that took it.
u32 active_lanes(int line);
u32 lane_number();

// A `__shared__` array; `key` tells apart those of different declarations and template instances.
void* shared_array(const void* key, u64 bytes, const char* name, int line);
void* dynamic_shared();
// The address by which primitives name a byte of shared memory, and back.
u32 shared_address(const void* pointer);
void* shared_pointer(u32 address);

// A load or store by code that is not looked at itself.
void note_access(const void* address, u64 bytes, bool writes, int line);
// An atomic may be done at that place now, by the caller; false: it was reported.
bool begin_atomic(void* target, u32 bytes, int line);
// __syncthreads_count, and so _and and _or.
int sync_block_count(bool condition, int line);
[[noreturn]] void stop_kernel(const char* kind, const char* why, int line);

}  // namespace efemu
