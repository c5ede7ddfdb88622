// What a kernel compiled for the host and the emulator's runtime know of each other; no includes.
//
// Every call carries `line`, the line of the kernel's text that it stands on, for reports and counts.
#pragma once
#include "float16.h"

// A kernel's entry does not tell the emulator of what it loads; as the inline functions do not, see seen_layer.h.
#if defined(__SANITIZE_THREAD__)
#define EFEMU_OWN __attribute__((no_sanitize("thread")))
#else
#define EFEMU_OWN
#endif

namespace efemu {

struct Dim3 {
  u32 x, y, z;
};

// What threadIdx and its kin read; one for each emulated thread. `fences` counts its wgmma fences, from 1.
struct Context {
  Dim3 thread_index, block_index, block_dim, grid_dim;
  u32 fences;
};

// The running thread's; the scheduler sets it at every switch.
extern Context* context;

// Executions of primitives that need no check, over all threads of the launch; and rounds of loads, see counters.h.
struct Tally {
  u64 ex2, lg2, rcp, fmax, fma, pack;
  u64 load_rounds, shared_rounds;
};
extern Tally tally;

// The line, or a number that tells apart the calls that led to it: see call_sites.h. Only kernels that were built for
// that call it, in place of giving their lines as they are.
int site(int line);

// Each returns where the bytes are; after a faulty access it is a scratch place, so that the run goes on.
const void* read_shared(u32 address, u32 bytes, int line);
void* write_shared(u32 address, u32 bytes, int line);
// Where a kernel's one static allocation of `bytes` begins: behind the dynamic shared memory of the launch.
u32 static_shared(u32 bytes, int line);
const void* read_global(const void* source, u32 bytes, int line);
void* write_global(void* target, u32 bytes, int line);
void prefetch_global(const void* source, int line);

// A result that a primitive leaves where the kernel says: in a register or, seldom, in memory.
void note_result(void* target, u32 bytes, int line);
inline void give(float& target, float value, int line) {
  note_result(&target, sizeof target, line);
  target = value;
}

// cp.async of 4, 8 or 16 bytes; not `inside` means zeros. A wait leaves at most `pending` groups under way.
void copy_async(u32 target, const void* source, bool inside, int line, u32 bytes = 16);
void commit_copies(int line);
void wait_copies(int pending, int line);

// Warp collectives: the calling thread gives its part and returns when all 32 lanes have given theirs.
void load_matrices(u32* registers, int count, bool transposed, u32 row, int line);
void store_matrices(u32 row, const u32* registers, int count, bool transposed, int line);
void multiply_tiles(float* d, const u32* a, const u32* b, bool is_bf16, int line);
u32 shuffle_xor(u32 value, int lane_mask, int line);
u32 shuffle_index(u32 value, int lane, int line);
u32 shuffle_up(u32 value, int distance, int line);    // lanes below `distance` keep theirs
u32 shuffle_down(u32 value, int distance, int line);  // lanes from 32 - distance keep theirs
bool vote_any(bool condition, int line);
bool vote_all(bool condition, int line);
u32 vote_ballot(bool condition, int line);
bool elect_lane(int line);  // the same lane each time; which one is drawn for each launch
enum class Reduction : u32 { add, min, max };
u32 reduce_warp(Reduction kind, u32 value, bool is_signed, int line);
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

// setmaxnreg: a warp gives registers back to the block's pool, or waits until the pool has as many as it asks for.
void set_registers(int count, bool increase, int line);

// mbarriers. Addresses are of this block's shared memory, or of the cluster's where it says so (see map_shared).
void mbarrier_init(u32 barrier, u32 count, int line);
void mbarrier_invalidate(u32 barrier, int line);
void mbarrier_arrive(u32 barrier, u32 count, u32 expect_bytes, int line);
void mbarrier_arrive_cluster(u32 cluster_barrier, u32 count, u32 expect_bytes, int line);
void mbarrier_arrive_cluster_async(u32 cluster_barrier, int line);
void mbarrier_expect(u32 barrier, u32 bytes, int line);  // expect_tx without an arrival
bool mbarrier_test(u32 barrier, u32 parity, int line);   // whether the phase of that parity has completed
bool mbarrier_try(u32 barrier, u32 parity, int line);    // the same after giving others time
void mbarrier_wait(u32 barrier, u32 parity, int line);
void copies_arrive(u32 barrier, bool counted, int line);  // cp.async.mbarrier.arrive; not counted: .noinc
void fence_mbarrier_init(int line);

// Fences between the proxies: generic accesses before, asynchronous ones after.
void fence_proxy_async_shared(int line);
void fence_proxy_async_global(int line);

// A tensor map, laid out as the emulator pleases; emulator.py fills it in. Strides in bytes, of dimensions 1 to 4.
struct alignas(64) TensorMap {
  u64 base;
  u32 rank, element_bytes, swizzle_bytes, fill_nan;  // swizzle_bytes: 0, 32, 64 or 128
  u64 dim[5], stride[4];
  u32 box[5], reserved;
};
static_assert(sizeof(TensorMap) == 128, "as large as a CUtensorMap");

// TMA. A load's bytes arrive at the barrier of each block in `mask` (0: this block's own, no multicast).
void tma_load(u32 target, const TensorMap* map, const int* at, int rank, u32 barrier, u32 mask, int line);
void tma_store(const TensorMap* map, const int* at, int rank, u32 source, int line);
void tma_reduce_add(const TensorMap* map, const int* at, int rank, u32 source, bool is_bf16, int line);
void tma_prefetch(const TensorMap* map, const int* at, int rank, int line);
void tma_prefetch_map(const TensorMap* map, int line);
// The same for plain rows of bytes, a multiple of 16; between blocks of a cluster with cluster addresses.
void bulk_load(u32 target, const void* source, u32 bytes, u32 barrier, u32 mask, int line);
void bulk_prefetch(const void* source, u32 bytes, int line);
void bulk_store(void* target, u32 source, u32 bytes, int line);
void bulk_reduce_add(float* target, u32 source, u32 bytes, int line);
void bulk_copy_cluster(u32 cluster_target, u32 source, u32 bytes, u32 cluster_barrier, int line);
void bulk_commit(int line);
void bulk_wait(int pending, bool only_reads, int line);

// wgmma: of four warps that begin at a multiple of 128 threads. What the emulator knows of an accumulator, or of
// operand A's registers, stands beside it: the line of the wgmma under way (0: none), and when it was last touched.
struct InFlight {
  int line;
  u32 touched;  // Context::fences at that time
};
struct WgmmaShape {
  int n;  // columns, 8 to 256
  bool a_transposed, b_transposed, is_bf16;
  bool is_e4m3;  // 8-bit floats: as many bytes of each operand, twice as deep
};
// a_registers: four, or null where `a` describes them in shared memory.
void wgmma(const WgmmaShape& shape, float* d, InFlight* d_state, const u32* a_registers, InFlight* a_state, u64 a,
           u64 b, bool scale_d, int line);
void wgmma_fence(int line);
void wgmma_commit(int line);
void wgmma_wait(int pending, int line);
void touched_in_flight(const InFlight& state, bool is_accumulator, int line);  // reports
// The registers beside `state` end while it is in flight (their scope does): what operand A's hold now is what counts.
void forget_in_flight(const InFlight& state);

// Clusters. A cluster address names a byte of some block's shared memory; the own block's plain address is one too.
u32 cluster_rank(int line);
u32 cluster_size(int line);
void cluster_arrive(bool release, int line);
void cluster_wait(int line);
u32 map_shared(u32 address, u32 rank, int line);
const void* read_cluster(u32 cluster_address, u32 bytes, int line);
void* write_cluster(u32 cluster_address, u32 bytes, int line);
// Lands later and then completes `bytes` at the barrier of the same block.
void store_async(u32 cluster_address, const void* value, u32 bytes, u32 cluster_barrier, int line);

// Atomics. Each returns the old bits. Relaxed unless `acquires` or `releases`.
enum class Atomic : u32 { add, add_float, min, max, inc, exchange, compare_exchange };
struct Order {
  bool acquires, releases;
};
u32 atomic_global(Atomic kind, u32* target, u32 value, u32 compare, bool is_signed, Order order, int line);
u32 atomic_shared(Atomic kind, u32 address, u32 value, u32 compare, bool is_signed, int line);
u32 load_acquire(const u32* source, int line);
void store_release(u32* target, u32 value, int line);
void fence_gpu(int line);  // __threadfence

// Programmatic dependent launch.
void grid_launch_dependents(int line);
void grid_wait(int line);

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

// How a parameter stands in an argument list: a reference (to a tensor map) is to the list's own bytes.
template <class P>
struct Stored {
  using type = P;
};
template <class P>
struct Stored<const P&> {
  using type = const P;
};

template <class... P>
struct Signature {
  static constexpr u32 sizes_bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};

  template <int... I>
  EFEMU_OWN static void unpack(void (*kernel)(P...), void** arguments, Indices<I...>) {
    kernel(*static_cast<typename Stored<P>::type*>(arguments[I])...);
  }
  EFEMU_OWN static void call(void (*function)(), void** arguments) {
    unpack(reinterpret_cast<void (*)(P...)>(function), arguments, typename IndicesUpTo<sizeof...(P)>::type());
  }
};

template <class... P>
EFEMU_OWN Kernel describe(void (*kernel)(P...)) {
  using S = Signature<P...>;
  return {S::call, reinterpret_cast<void (*)()>(kernel), S::sizes_bytes, sizeof...(P)};
}

}  // namespace efemu
