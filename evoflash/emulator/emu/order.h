// In which order the blocks of a grid run, and which of them at the same time. Runs none.
#pragma once
#include <vector>

#include "block.h"

namespace efemu {

// The groups of a grid's blocks, made one after the other: a grid may have billions of blocks.
//
// First in, first out: cluster after cluster, in ascending order. At random: in descending order or in a drawn
// one, up to three clusters at the same time, as a GPU runs blocks that know nothing of one another.
class BlockOrder {
 public:
  // `resident`: all blocks run together. Draws from `chance` where the schedule is random.
  BlockOrder(const Shape& shape, bool resident, Schedule schedule);
  // The numbers of the next group's blocks, those of a cluster one after the other; false: there is none left.
  bool next(std::vector<u64>& numbers);

 private:
  void add_cluster(u64 cluster, std::vector<u64>& numbers) const;

  Dim3 grid_, cluster_;
  u64 clusters_, done_ = 0;
  u64 first_ = 0, step_ = 1;  // the i-th cluster to run is first + i * step, modulo their number
  u64 together_ = 1;          // at most
};

}  // namespace efemu
