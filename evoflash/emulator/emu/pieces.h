// Records of memory, a cell for each piece of 16 bytes or for each of its granules. Knows nothing of what cells hold.
#pragma once
#include <algorithm>
#include <type_traits>

#include "float16.h"

namespace efemu {

// As long as all accesses to 16 bytes were to all of them, which is usual, their granules share a cell.
template <class Cell>
struct PieceOf {
  static constexpr u32 kBytes = 16;
  Cell all;
  u32 split;  // 1 + the number of its granules' cells, or 0
};

// Calls `work` with each cell of the bytes from `at` to `end`, while `offset` says where it is; `cells_of` gives the
// cells of a piece's granules, and divides the piece where it was whole.
template <class Offset, class Pieces, class CellsOf, class Work>
void for_cells_of(Pieces& pieces, Offset at, Offset end, Offset granule_bytes, Offset& offset, CellsOf cells_of,
                  Work work) {
  constexpr Offset kBytes = std::decay_t<decltype(pieces[0])>::kBytes;
  for (Offset next; at < end; at = next) {
    const Offset first = at / kBytes * kBytes;
    next = std::min(first + kBytes, end);
    auto& piece = pieces[first / kBytes];
    offset = at;
    if (!piece.split && next - at == kBytes) {
      work(piece.all);
      continue;
    }
    auto* cells = cells_of(piece);
    for (Offset i = (at - first) / granule_bytes; i <= (next - 1 - first) / granule_bytes; ++i) {
      offset = first + granule_bytes * i;
      work(cells[i]);
    }
  }
}

}  // namespace efemu
