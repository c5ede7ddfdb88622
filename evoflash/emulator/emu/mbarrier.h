// mbarriers in shared memory, and what asynchronous copies need of them: a copy is begun, with a check that the
// barrier can count it, and completed when it has landed. Who copies what: tma.cpp, bulk.cpp, copies.cpp.
#pragma once
#include "block.h"

namespace efemu {

// The agent whose copies complete at a barrier in the shared memory of `home`. Reports a barrier that the running
// thread may not use for that, and gives up the block where there is none.
int completing_agent(Cta& home, u32 barrier, const char* op, int line);
// What the agent does now is one copy of so many bytes; its epoch.
Epoch begin_copy(Cta& home, u32 barrier, u32 bytes, int line);
// The same, with the record of what the copy will write.
Epoch begin_copy_to(Cta& home, u32 target, u32 bytes, u32 barrier, int line);
// The copy has landed. On nobody's behalf.
void complete_bytes(Cta& home, u32 barrier, u32 bytes, Epoch epoch);

// The same for cp.async, which arrives instead of counting bytes; `counted`: one more arrival is expected for it.
// `copies`: when the copies were made, by an agent of their own.
Epoch begin_arrival(u32 barrier, bool counted, int line);
void complete_arrival(Cta& home, u32 barrier, Epoch epoch, Epoch copies);

void reset_mbarriers();
// The block's last thread has ended: what is still under way has lost its memory.
void leave_mbarriers(Cta& home);

}  // namespace efemu
