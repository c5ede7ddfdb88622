// What a kernel compiled for the host and the emulator's runtime know of each other; no includes.
//
// Every call carries `line`, the line of the kernel's text that it stands on, for reports and counts.
#pragma once
#include "float16.h"

namespace efemu {

struct Dim3 {
  u32 x, y, z;
};

// What threadIdx and its kin read; one for each emulated thread.
struct Context {
  Dim3 thread_index, block_index, block_dim, grid_dim;
};

// The running thread's; the scheduler sets it at every switch.
extern Context* context;

// Executions of primitives that need no check, over all threads of the launch; and rounds of loads, see counters.h.
struct Tally {
  u64 ex2, lg2, rcp, fmax, fma, pack;
  u64 load_rounds, shared_rounds;
};
extern Tally tally;

// Each returns where the bytes are; after a faulty access it is a scratch place, so that the run goes on.
const void* read_shared(u32 address, u32 bytes, int line);
void* write_shared(u32 address, u32 bytes, int line);
// Where a kernel's one static allocation of `bytes` begins: behind the dynamic shared memory of the launch.
u32 static_shared(u32 bytes, int line);
const void* read_global(const void* source, u32 bytes, int line);
void* write_global(void* target, u32 bytes, int line);

// cp.async of 4, 8 or 16 bytes; not `inside` means zeros. A wait leaves at most `pending` groups under way.
void copy_async(u32 target, const void* source, bool inside, int line, u32 bytes = 16);
void commit_copies(int line);
void wait_copies(int pending, int line);

// Warp collectives: the calling thread gives its part and returns when all 32 lanes have given theirs.
void load_matrices(u32* registers, int count, bool transposed, u32 row, int line);
void multiply_tiles(float* d, const u32* a, const u32* b, bool is_bf16, int line);
u32 shuffle_xor(u32 value, int lane_mask, int line);
u32 shuffle_index(u32 value, int lane, int line);
bool vote_any(bool condition, int line);
bool vote_all(bool condition, int line);
void sync_warp(int line);

// WMMA on 16x16 tiles, warp-wide as well. `stride` in elements; `transposed`: the tile is stored by columns.
void wmma_load_operand(u32* registers, bool is_bf16, bool transposed, u32 address, int stride, int line);
void wmma_load_accumulator(float* registers, u32 address, int stride, int line);
void wmma_store_accumulator(const float* registers, u32 address, int stride, int line);
void wmma_multiply(float* d, const u32* a, const u32* b, bool is_bf16, int line);

// Barriers of the block.
void sync_block(int line);
bool sync_block_or(bool condition, int line);
void barrier_sync(int id, int threads, int line);
void barrier_arrive(int id, int threads, int line);

// The address of the first byte of dynamic shared memory. It is not 0, so that a forgotten base is seen.
constexpr u32 kSharedBase = 1024;

// A kernel's entry: how to call it from an argument list like cuLaunchKernel's, and its parameters' sizes.
struct Kernel {
  void (*call)(void (*function)(), void** arguments);
  void (*function)();
  const u32* sizes_bytes;
  u32 parameters;
};

template <int... I>
struct Indices {};
template <int N, int... I>
struct IndicesUpTo : IndicesUpTo<N - 1, N - 1, I...> {};
template <int... I>
struct IndicesUpTo<0, I...> {
  using type = Indices<I...>;
};

template <class... P>
struct Signature {
  static constexpr u32 sizes_bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};

  template <int... I>
  static void unpack(void (*kernel)(P...), void** arguments, Indices<I...>) {
    kernel(*static_cast<P*>(arguments[I])...);
  }
  static void call(void (*function)(), void** arguments) {
    unpack(reinterpret_cast<void (*)(P...)>(function), arguments, typename IndicesUpTo<sizeof...(P)>::type());
  }
};

template <class... P>
Kernel describe(void (*kernel)(P...)) {
  using S = Signature<P...>;
  return {S::call, reinterpret_cast<void (*)()>(kernel), S::sizes_bytes, sizeof...(P)};
}

}  // namespace efemu
