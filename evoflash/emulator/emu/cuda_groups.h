// Cooperative groups of a block and of tiles of a warp, as plain CUDA names them. Groups of a grid or a cluster are not
// here. Included by cuda_names.h.
#pragma once

namespace cooperative_groups {

struct thread_block {
  static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned size() { return num_threads(); }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_index() { return blockIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
  EFEMU_OWN static void sync(EFEMU_AT) { ::efemu::sync_block(line); }
};

EFEMU_HERE thread_block this_thread_block() { return {}; }

// The lanes of one warp that its mask names; ranks follow the lanes.
class lanes_of_warp {
 public:
  explicit lanes_of_warp(unsigned mask) : mask_(mask) {}
  unsigned thread_rank() const { return static_cast<unsigned>(__builtin_popcount(mask_ & ((1u << ::efemu::lane_number()) - 1))); }
  unsigned num_threads() const { return static_cast<unsigned>(__builtin_popcount(mask_)); }
  unsigned size() const { return num_threads(); }
  unsigned meta_group_rank() const { return thread_block::thread_rank() / num_threads(); }
  unsigned meta_group_size() const { return (thread_block::num_threads() + num_threads() - 1) / num_threads(); }
  void sync(EFEMU_AT) const { __syncwarp(mask_, line); }
  template <class T>
  T shfl(T value, int rank, EFEMU_AT) const { return ::efemu::pass_value("shfl", mask_, value, lane_of(rank), line); }
  template <class T>
  T shfl_xor(T value, int bits, EFEMU_AT) const { return ::efemu::pass_value("shfl_xor", mask_, value, lane_of(static_cast<int>(thread_rank()) ^ bits), line); }
  template <class T>
  T shfl_down(T value, unsigned by, EFEMU_AT) const {
    const unsigned rank = thread_rank();
    return ::efemu::pass_value("shfl_down", mask_, value, lane_of(static_cast<int>(rank + by < size() ? rank + by : rank)), line);
  }
  template <class T>
  T shfl_up(T value, unsigned by, EFEMU_AT) const {
    const unsigned rank = thread_rank();
    return ::efemu::pass_value("shfl_up", mask_, value, lane_of(static_cast<int>(rank >= by ? rank - by : rank)), line);
  }
  int any(int predicate, EFEMU_AT) const { return ::efemu::ballot("any", mask_, predicate != 0, line) != 0; }
  int all(int predicate, EFEMU_AT) const { return ::efemu::ballot("all", mask_, predicate == 0, line) == 0; }
  unsigned ballot(int predicate, EFEMU_AT) const { return ::efemu::ballot("ballot", mask_, predicate != 0, line) >> __builtin_ctz(mask_); }
  unsigned mask() const { return mask_; }

 private:
  int lane_of(int rank) const {
    unsigned rest = mask_;
    for (int i = rank & (static_cast<int>(size()) - 1); i > 0; --i) rest &= rest - 1;
    return __builtin_ctz(rest);
  }

  unsigned mask_;
};

template <unsigned N, class Parent = thread_block>
struct thread_block_tile : lanes_of_warp {
  static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0, "tiles of 1, 2, 4, 8, 16 or 32 threads");
  thread_block_tile() : lanes_of_warp((N == 32 ? ~0u : (1u << N % 32) - 1) << (::efemu::lane_number() & ~(N - 1))) {}
};

template <unsigned N, class Parent>
EFEMU_HERE thread_block_tile<N, Parent> tiled_partition(const Parent&) { return {}; }

struct coalesced_group : lanes_of_warp {
  using lanes_of_warp::lanes_of_warp;
};
EFEMU_HERE coalesced_group coalesced_threads(EFEMU_AT) { return coalesced_group(__activemask(line)); }

template <class Group>
EFEMU_HERE void sync(const Group& group, EFEMU_AT) { group.sync(line); }

template <class T>
struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T>
struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T>
struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T>
struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T>
struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T>
struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

// Lanes join pairwise, as the library does, so that floats round alike in all of them.
template <class Group, class T, class Join>
T reduce(const Group& group, T value, Join join, EFEMU_AT) {
  for (unsigned bits = group.size() / 2; bits > 0; bits /= 2) value = join(value, group.shfl_xor(value, static_cast<int>(bits), line));
  return value;
}

}  // namespace cooperative_groups
