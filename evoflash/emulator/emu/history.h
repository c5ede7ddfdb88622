// What happened to each 2 bytes of a buffer that kernels write (each byte, once single bytes are accessed): who wrote it, who has read it since, who changed it
// by atomics. Finds accesses that nothing orders, reads of what nobody wrote, elements written twice.
#pragma once
#include <string>
#include <vector>

#include "generations.h"
#include "sparse.h"

namespace efemu {

class History {
 public:
  // `scratch`: memory that blocks exchange data through and may write again, unlike an output; behind its
  // first `set_bytes` it holds nothing before a kernel writes it.
  History(std::string name, u64 bytes, bool scratch, u64 set_bytes);

  // The granule of the byte at an offset, and the one behind the access; an access of odd bytes makes them single bytes.
  struct Granules {
    size_t first, end;
  };
  Granules granules(u64 offset, u64 bytes);

  // Accesses to the granules from `first` to before `end`, by the program's plain reads and writes; and by strong
  // ones (acquire loads, release stores, atomics), which do not race with one another.
  void read(size_t first, size_t end, const Actor& actor, int line);
  void write(size_t first, size_t end, const Actor& actor, int line);
  void write_plain(size_t first, size_t end, const Actor& actor, int line);
  void acquire(size_t first, size_t end, const Actor& actor, int line);
  void release(size_t first, size_t end, const Actor& actor, int line);
  void change(size_t first, size_t end, const Actor& actor, int line);

 private:
  enum class Kind : u8 { read, acquire_load, release_store, atomic };
  struct Event {
    Moment moment;
    u16 line;
    Kind kind;
  };
  // The last plain write; since then, plain reads by two agents, and all else in a list.
  struct Cell {
    Moment write, reader[2];
    u16 write_line, reader_line[2];
    bool written, generic;  // ever; through the generic proxy
    u32 list;               // 1 + index into lists_, or 0
  };

  size_t byte_of(const Cell& cell) const { return static_cast<size_t>(&cell - cells_.data()) * granule_bytes_; }
  void make_single_bytes();
  std::vector<Event>& events(Cell& cell);
  void note_event(Cell& cell, Kind kind, const Actor& actor, int line);
  void note_read(Cell& cell, const Actor& actor, int line);
  void check_written(const Cell& cell, const Actor& actor, int line);
  void check_proxy(const Cell& cell, const char* what, const Actor& actor, int line);
  void check(const Cell& cell, const char* what, Moment before, int line_before, const char* did, const Actor& actor,
             int line);
  void check_write(const Cell& cell, const char* what, const Actor& actor, int line) {
    check(cell, what, cell.write, cell.write_line, "write", actor, line);
  }
  void check_readers(const Cell& cell, const char* what, const Actor& actor, int line);
  void check_listed_readers(Cell& cell, const char* what, const Actor& actor, int line);
  void check_strong(Cell& cell, const char* what, bool writes, const Actor& actor, int line);
  void write_strong(Cell& cell, Kind kind, const char* what, const Actor& actor, int line);
  bool wrote_twice(Cell& cell, const Actor& actor, int line, bool is_plain);
  void write_as(size_t first, size_t end, const Actor& actor, int line, bool is_plain);

  std::string name_;
  bool scratch_;
  u64 set_bytes_, bytes_, granule_bytes_ = 2;
  SparseArray<Cell> cells_;
  std::vector<std::vector<Event>> lists_;
};

}  // namespace efemu
