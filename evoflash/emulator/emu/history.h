// What happened to each granule of a buffer that kernels write, which is as small as the smallest access to the buffer
// has been so far: who wrote it, who has read it since, who changed it by atomics. Finds accesses that nothing orders, reads of what nobody wrote, elements written twice.
#pragma once
#include <string>
#include <vector>

#include "generations.h"
#include "pieces.h"
#include "sparse.h"

namespace efemu {

class History {
 public:
  // `scratch`: memory that blocks exchange data through and may write again, unlike an output; behind its
  // first `set_bytes` it holds nothing before a kernel writes it.
  History(std::string name, u64 bytes, bool scratch, u64 set_bytes);

  // Accesses to so many bytes from the offset on, by the program's plain reads and writes; and by strong ones
  // (acquire loads, release stores, atomics), which do not race with one another.
  void read(u64 offset, u64 bytes, const Actor& actor, int line);
  void write(u64 offset, u64 bytes, const Actor& actor, int line);
  void write_plain(u64 offset, u64 bytes, const Actor& actor, int line);
  void acquire(u64 offset, u64 bytes, const Actor& actor, int line);
  void release(u64 offset, u64 bytes, const Actor& actor, int line);
  void change(u64 offset, u64 bytes, const Actor& actor, int line);

 private:
  enum class Kind : u8 { read, acquire_load, release_store, atomic };
  struct Event {
    Moment moment;
    u16 line;
    Kind kind;
  };
  // The last plain write; since then, plain reads by two agents, and all else in lists.
  struct Cell {
    Moment write, reader[2];
    u16 write_line, reader_line[2];
    bool written, generic;  // ever; through the generic proxy
    u32 list;               // 1 + index into lists_, or 0
  };
  // Apart, since an input has as many readers as a grid has blocks, and every read looks at the strong accesses.
  struct Events {
    std::vector<Event> reads, strong;  // the latest of each agent, of strong ones of each kind; these by their times

    bool empty() const { return reads.empty() && strong.empty(); }
    void clear() {
      reads.clear();
      strong.clear();
    }
  };
  using Piece = PieceOf<Cell>;
  static constexpr u64 kPieceBytes = Piece::kBytes;

  // Calls `work` with each cell of the bytes, while offset_ says where it is.
  template <class Work>
  void for_cells(u64 offset, u64 bytes, Work work);
  u64 granules() const { return kPieceBytes / granule_bytes_; }
  void make_granules_fit(u64 offset, u64 bytes);
  Cell* cells_of(const Piece& piece) { return &splits_[(piece.split - 1) * granules()]; }
  Cell copy_of(const Cell& cell);
  void split(Piece& piece);
  void merge(Piece& piece);
  u32 new_list();
  Events& events(Cell& cell);
  void note_strong(Cell& cell, Kind kind, const Actor& actor, int line);
  void note_listed_read(Cell& cell, const Actor& actor, int line);
  void note_read(Cell& cell, const Actor& actor, int line);
  void check_written(const Cell& cell, const Actor& actor, int line);
  void check_proxy(const Cell& cell, const char* what, const Actor& actor, int line);
  void check(const char* what, Moment before, int line_before, const char* did, const Actor& actor, int line);
  void check_write(const Cell& cell, const char* what, const Actor& actor, int line) {
    check(what, cell.write, cell.write_line, "write", actor, line);
  }
  void check_readers(const Cell& cell, const char* what, const Actor& actor, int line);
  void check_listed_readers(const Cell& cell, const char* what, const Actor& actor, int line);
  void check_strong(const Cell& cell, const char* what, bool writes, const Actor& actor, int line);
  void write_strong(Cell& cell, Kind kind, const char* what, const Actor& actor, int line);
  bool wrote_twice(Cell& cell, const Actor& actor, int line, bool is_plain);
  void write_as(u64 offset, u64 bytes, const Actor& actor, int line, bool is_plain);

  std::string name_;
  bool scratch_;
  u64 set_bytes_, bytes_, granule_bytes_ = kPieceBytes;
  SparseArray<Piece> pieces_;
  std::vector<Cell> splits_;
  std::vector<Events> lists_;
  std::vector<u32> free_splits_, free_lists_;
  u64 offset_ = 0;
};

}  // namespace efemu
