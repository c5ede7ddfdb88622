// Shared memory of a block, with a shadow that knows who touched each granule of two bytes, or of one, last.
#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "clocks.h"
#include "pieces.h"

namespace efemu {

class SharedMemory {
 public:
  void reset(u32 size_bytes);
  // Makes room for `bytes` of static shared memory, 1024-byte aligned, behind the dynamic; returns their address.
  u32 reserve_static(u32 bytes, int line);
  // One of plain CUDA's `__shared__` arrays, behind the others with a gap between them; `key` tells apart those of
  // different declarations and template instances. Null where a block has no room for it.
  void* reserve_array(const void* key, u32 bytes, const char* name, int line);
  // Where dynamic shared memory begins as plain pointers see it.
  void* dynamic_begin() { return bytes_.data(); }
  // Whether a plain pointer is off by so little that it was meant for this memory.
  bool is_near(const void* pointer) const {
    const long long offset = static_cast<long long>(reinterpret_cast<u64>(pointer) - reinterpret_cast<u64>(bytes_.data()));
    return offset >= -kNearBytes && offset < static_cast<long long>(bytes_.capacity());
  }
  // Reports an access by a plain pointer that is outside of every array or not aligned.
  bool admits_plain(const void* pointer, u32 bytes, bool aligned, const char* what, int line);
  u8* at(u32 address) { return bytes_.data() + (address - base_); }
  // Whether the bytes lie in it, and the address by which the primitives name the first of them.
  bool holds(const void* pointer, u64 bytes) const {
    const u64 offset = reinterpret_cast<u64>(pointer) - reinterpret_cast<u64>(bytes_.data());
    return offset < bytes_.size() && bytes <= bytes_.size() - offset;
  }
  u32 address_of(const void* pointer) const {
    return base_ + static_cast<u32>(static_cast<const u8*>(pointer) - bytes_.data());
  }

  // Reports an access outside the allocation or not aligned to its size; false: do not perform it.
  bool admits(u32 address, u32 bytes, const char* what, int line);
  // The same where size and alignment are not one.
  bool admits(u32 address, u32 bytes, u32 alignment, const char* what, int line);

  // Record an access and report what is wrong with it: races, use before writing, use of a copy that was not
  // waited for, asynchronous use without a proxy fence, data accesses to an mbarrier.
  void read(u32 address, u32 bytes, const Actor& actor, int line);
  void write(u32 address, u32 bytes, const Actor& actor, int line) { store(address, bytes, actor, line, kWritten); }
  // An atomic: it reads and writes, and does not race with other atomics.
  void change(u32 address, u32 bytes, const Actor& actor, int line);
  // cp.async by a thread: pending until `complete`, even for the thread itself.
  void write_pending(u32 address, u32 bytes, const Actor& thread, int line) {
    store(address, bytes, thread, line, kPending);
  }
  // The issuing thread has waited: from here on its copy counts as written by it at the epoch.
  void complete(u32 address, u32 bytes, Epoch now);
  // The same where the wait is another's: the copy counts as done by another agent, a barrier's.
  void hand_over(u32 address, u32 bytes, u32 thread, Epoch to);

  // Eight bytes become an mbarrier, or ordinary memory again.
  void make_barrier(u32 address, int line);
  void unmake_barrier(u32 address);

 private:
  enum Flags : u8 { kNever = 0, kWritten = 1, kPending = 2, kGeneric = 4, kBarrier = 8, kAtomic = 16 };
  // Two readers are kept in place; more, unordered among themselves, go to a list, and so do atomics.
  struct Cell {
    Epoch write, reader[2];
    u16 write_line, reader_line[2];
    u16 list;  // 1 + index into lists_, or 0
    u8 flags;
  };
  struct Reader {
    Epoch epoch;
    u16 line;
    bool atomic;
  };
  using Piece = PieceOf<Cell>;
  static constexpr u32 kPieceBytes = Piece::kBytes;
  using Split = std::array<Cell, kPieceBytes>;  // one for each of its granules

  // Calls `work` with each cell of the bytes, while offset_ says where it is.
  template <class Work>
  void for_cells(u32 address, u32 bytes, Work work);
  u32 granules() const { return kPieceBytes / granule_bytes_; }
  void make_single_bytes();
  Cell copy_of(const Cell& cell);
  void split(Piece& piece);
  void merge(Piece& piece);
  u16 new_list();
  void store(u32 address, u32 bytes, const Actor& actor, int line, Flags becomes);
  void note_reader(Cell& cell, const Actor& actor, int line);
  void list_reader(Cell& cell, const Reader& mine);
  void check_write_known(const Cell& cell, const char* what, const Actor& actor, int line);
  void check_read_known(Epoch reader, int reader_line, const Actor& actor, int line);
  void check_readers(Cell& cell, const Actor& actor, int line);
  void check_atomics(const Cell& cell, const char* what, const Actor& actor, int line);
  void check_proxy(const Cell& cell, const char* what, const Actor& actor, int line);
  bool check_initialised(const Cell& cell, const Actor& actor, int line);
  bool check_pending(const Cell& cell, const char* kind, const Actor& actor, int line);
  bool check_barrier(const Cell& cell, const char* what, const Actor& actor, int line);

  static constexpr long long kNearBytes = 4096;
  struct Array {
    const void* key;
    u32 begin, bytes;  // offsets
    const char* name;
    int line;
  };

  u32 base_ = 0, size_ = 0;
  u32 dynamic_bytes_ = 0;
  std::vector<Array> arrays_;
  u32 static_at_ = 0, static_bytes_ = 0;  // the static allocation, once a thread has named it
  std::vector<u8> bytes_;
  std::vector<Piece> pieces_;
  u32 granule_bytes_ = 2;  // 1 once an access was to a single byte
  std::vector<Split> splits_;
  // Threads come round in one order most of the time: one that reads again is behind the last one found, one that
  // is new has a higher number than all others.
  struct Readers {
    std::vector<Reader> all;
    size_t next = 0;
    u32 highest = 0;  // agent of them, if there are any

    void clear() {
      all.clear();
      highest = 0;
    }
  };
  std::vector<Readers> lists_;
  std::vector<u32> free_splits_;
  std::vector<u16> free_lists_;
  u32 offset_ = 0;
};

}  // namespace efemu
