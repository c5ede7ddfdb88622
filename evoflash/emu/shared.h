// Dynamic shared memory of a block, with a shadow that knows who touched each 2-byte granule last.
#pragma once
#include <vector>

#include "clocks.h"

namespace efemu {

class SharedMemory {
 public:
  void reset(u32 size_bytes);
  // Makes room for `bytes` of static shared memory, 1024-byte aligned, behind the dynamic; returns their address.
  u32 reserve_static(u32 bytes, int line);
  u8* at(u32 address) { return bytes_.data() + (address - base_); }

  // Reports an access outside the allocation or not aligned to its size; false: do not perform it.
  bool admits(u32 address, u32 bytes, const char* what, int line);

  // Record an access by a thread and report what is wrong with it: races, use before writing, use of a
  // copy that was not waited for. An asynchronous write stays pending until `complete`.
  void read(u32 address, u32 bytes, int thread, int line);
  void write(u32 address, u32 bytes, int thread, int line) { store(address, bytes, thread, line, kWritten); }
  void write_async(u32 address, u32 bytes, int thread, int line) { store(address, bytes, thread, line, kPending); }
  // The issuing thread has waited: from here on its copy counts as written by it now.
  void complete(u32 address, u32 bytes, int thread);

 private:
  enum Flags : u8 { kNever = 0, kWritten = 1, kPending = 2 };
  // Two readers are kept in place; more, unordered among themselves, go to a list.
  struct Cell {
    Epoch write, reader[2];
    u16 write_line, reader_line[2];
    u16 list;  // 1 + index into lists_, or 0
    u8 flags;
  };
  struct Reader {
    Epoch epoch;
    u16 line;
  };

  u32 granule(u32 address) const { return (address - base_) / 2; }
  u32 offset(const Cell& cell) const { return static_cast<u32>(&cell - cells_.data()) * 2; }
  void store(u32 address, u32 bytes, int thread, int line, Flags becomes);
  void note_reader(Cell& cell, Epoch epoch, int thread, int line);
  void check_order(const Cell& cell, const char* kind, Epoch earlier, int earlier_line, int thread, int line);
  void check_readers(Cell& cell, int thread, int line);

  u32 base_ = 0, size_ = 0;
  u32 static_at_ = 0, static_bytes_ = 0;  // the static allocation, once a thread has named it
  std::vector<u8> bytes_;
  std::vector<Cell> cells_;
  std::vector<std::vector<Reader>> lists_;
};

}  // namespace efemu
