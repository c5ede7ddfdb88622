// Orders of blocks: ascending, descending, drawn.
#include "order.h"

#include <algorithm>
#include <numeric>

namespace efemu {
namespace {

constexpr u64 kMostStrangers = 3;  // clusters at a time that know nothing of one another
// Their threads: agents that are no threads, of which each block has its own, need numbers as well.
constexpr u64 kMostStrangersThreads = kMostAgents / 2;

u64 volume(Dim3 dim) {
  return u64{dim.x} * dim.y * dim.z;
}

u64 drawn(u64 end) {
  return (u64{chance()} << 32 | chance()) % end;
}

}  // namespace

BlockOrder::BlockOrder(const Shape& shape, bool resident, Schedule schedule)
    : grid_(shape.grid), cluster_(shape.cluster), clusters_(volume(shape.grid) / volume(shape.cluster)) {
  if (resident) {
    together_ = clusters_;
    return;
  }
  if (schedule != Schedule::random || clusters_ < 2) return;
  const u64 warps = (volume(shape.block) + kWarpSize - 1) / kWarpSize;
  together_ = std::min(kMostStrangers, kMostStrangersThreads / (warps * kWarpSize * volume(cluster_)));
  // Not all of them: blocks that wait for one another, and must not, are to be noticed.
  together_ = std::max<u64>(std::min(together_, clusters_ == 2 ? 1 + chance() % 2 : clusters_ - 1), 1);
  first_ = clusters_ - 1;
  step_ = clusters_ - 1;  // which is -1
  if (chance() % 2) return;
  first_ = drawn(clusters_);
  do step_ = 1 + drawn(clusters_ - 1);
  while (std::gcd(step_, clusters_) != 1);
}

bool BlockOrder::next(std::vector<u64>& numbers) {
  numbers.clear();
  if (done_ == clusters_) return false;
  const u64 most = std::min(together_, clusters_ - done_);
  const u64 many = together_ < clusters_ ? 1 + chance() % most : most;
  for (u64 i = 0; i < many; ++i, ++done_) {
    const unsigned __int128 at = first_ + static_cast<unsigned __int128>(done_) * step_;
    add_cluster(static_cast<u64>(at % clusters_), numbers);
  }
  return true;
}

// In order of their ranks in it: x runs fastest.
void BlockOrder::add_cluster(u64 cluster, std::vector<u64>& numbers) const {
  const u64 across = grid_.x / cluster_.x, down = grid_.y / cluster_.y;
  const u64 x = cluster % across * cluster_.x, y = cluster / across % down * cluster_.y,
            z = cluster / across / down * cluster_.z;
  for (u64 k = 0; k < cluster_.z; ++k)
    for (u64 j = 0; j < cluster_.y; ++j)
      for (u64 i = 0; i < cluster_.x; ++i) numbers.push_back(x + i + grid_.x * (y + j + grid_.y * (z + k)));
}

}  // namespace efemu
