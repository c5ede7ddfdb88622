// Checks of shared memory (FastTrack's epochs), and the entry points of plain shared accesses.
#include "shared.h"

#include <cstring>

#include "block.h"
#include "counters.h"

namespace efemu {
namespace {

constexpr u8 kPoison = 0xff;  // a NaN in f16, bf16 and float
constexpr size_t kMostLists = 0xffff;
constexpr u32 kMostStaticBytes = 48 << 10;

}  // namespace

void SharedMemory::reset(u32 size_bytes) {
  base_ = kSharedBase;
  size_ = size_bytes;
  bytes_.assign(size_bytes + 16, kPoison);
  cells_.assign(size_bytes / 2 + 1, Cell());
  lists_.clear();
  static_at_ = static_bytes_ = 0;
}

u32 SharedMemory::reserve_static(u32 bytes, int line) {
  if (static_bytes_ == 0) {
    static_at_ = (size_ + 1023) / 1024 * 1024;
    static_bytes_ = bytes;
    size_ = static_at_ + bytes;
    bytes_.resize(size_ + 16, kPoison);
    cells_.resize(size_ / 2 + 1, Cell());
  } else if (bytes != static_bytes_) {
    report("static-shared", line, 0, [&] {
      return text("a second static allocation, of %u bytes: the kernel has one of %u", bytes, static_bytes_);
    });
  }
  return base_ + static_at_;
}

bool SharedMemory::admits(u32 address, u32 bytes, const char* what, int line) {
  if (address < base_ || address - base_ + u64{bytes} > size_) {
    report("OOB-shared", line, 0, [&] {
      return text("%s of %u bytes at shared offset %lld by thread %d; the block has %u bytes", what, bytes,
                  static_cast<long long>(address) - base_, self->id, size_);
    });
    return false;
  }
  if (address % bytes == 0) return true;
  report("misaligned-shared", line, 0, [&] {
    return text("%s of %u bytes at shared offset %u by thread %d: not a multiple of %u", what, bytes,
                address - base_, self->id, bytes);
  });
  return false;
}

void SharedMemory::check_order(const Cell& cell, const char* kind, Epoch earlier, int earlier_line, int thread,
                               int line) {
  if (earlier == 0 || block.clocks.ordered(earlier, thread)) return;
  report(kind, line, earlier_line, [&] {
    const bool reads = std::strcmp(kind, "race-RAW") == 0, after_read = std::strcmp(kind, "race-WAR") == 0;
    return text("%s of shared offset %u by thread %d is not ordered after the %s at line %d by thread %u; "
                "no barrier stands between them",
                reads ? "read" : "write", offset(cell), thread, after_read ? "read" : "write", earlier_line,
                agent_of(earlier));
  });
}

void SharedMemory::read(u32 address, u32 bytes, int thread, int line) {
  const Epoch now = block.clocks.now(thread);
  Cell* const end = &cells_[granule(address + bytes - 1)] + 1;
  for (Cell* cell = &cells_[granule(address)]; cell != end; ++cell) {
    if (cell->flags & kPending) {
      report("async-not-waited", line, cell->write_line, [&] {
        return text("read of shared offset %u by thread %d while the copy that thread %u started at line %d "
                    "has not been waited for",
                    offset(*cell), thread, agent_of(cell->write), cell->write_line);
      });
    } else if (!(cell->flags & kWritten)) {
      report("uninit-shared", line, 0, [&] {
        return text("read of shared offset %u by thread %d: nothing was ever written there", offset(*cell), thread);
      });
    } else {
      check_order(*cell, "race-RAW", cell->write, cell->write_line, thread, line);
      if (cell->reader[0] != now) note_reader(*cell, now, thread, line);
    }
  }
}

void SharedMemory::note_reader(Cell& cell, Epoch epoch, int thread, int line) {
  // A reader that this one is ordered after is covered by it: whoever is ordered after this one knows both.
  for (int i = 0; i < 2; ++i)
    if (cell.reader[i] == 0 || agent_of(cell.reader[i]) == agent_of(epoch) ||
        block.clocks.ordered(cell.reader[i], thread)) {
      cell.reader[i] = epoch;
      cell.reader_line[i] = static_cast<u16>(line);
      return;
    }
  if (cell.list == 0) {
    if (lists_.size() == kMostLists) return;
    lists_.emplace_back();
    cell.list = static_cast<u16>(lists_.size());
  }
  std::vector<Reader>& more = lists_[cell.list - 1];
  for (Reader& reader : more)
    if (agent_of(reader.epoch) == agent_of(epoch)) {
      reader = {epoch, static_cast<u16>(line)};
      return;
    }
  more.push_back({epoch, static_cast<u16>(line)});
}

void SharedMemory::store(u32 address, u32 bytes, int thread, int line, Flags becomes) {
  const Epoch now = block.clocks.now(thread);
  Cell* const end = &cells_[granule(address + bytes - 1)] + 1;
  for (Cell* cell = &cells_[granule(address)]; cell != end; ++cell) {
    if (cell->flags & kPending) {
      report("async-overwrite", line, cell->write_line, [&] {
        return text("write of shared offset %u by thread %d while the copy that thread %u started at line %d "
                    "has not been waited for",
                    offset(*cell), thread, agent_of(cell->write), cell->write_line);
      });
    } else {
      check_order(*cell, "race-WAW", cell->write, cell->write_line, thread, line);
      check_readers(*cell, thread, line);
    }
    cell->write = now;
    cell->write_line = static_cast<u16>(line);
    cell->reader[0] = cell->reader[1] = 0;
    cell->flags = static_cast<u8>((cell->flags & kWritten) | becomes);
  }
}

void SharedMemory::check_readers(Cell& cell, int thread, int line) {
  for (int i = 0; i < 2; ++i) check_order(cell, "race-WAR", cell.reader[i], cell.reader_line[i], thread, line);
  if (cell.list == 0) return;
  for (const Reader& reader : lists_[cell.list - 1])
    check_order(cell, "race-WAR", reader.epoch, reader.line, thread, line);
  lists_[cell.list - 1].clear();
}

void SharedMemory::complete(u32 address, u32 bytes, int thread) {
  const Epoch now = block.clocks.now(thread);
  for (u32 g = granule(address); g < granule(address + bytes); ++g) {
    Cell& cell = cells_[g];
    // Another write may have come in between: it was reported, and the granule is its own now.
    if (!(cell.flags & kPending) || agent_of(cell.write) != static_cast<u32>(thread)) continue;
    cell.flags = kWritten;
    cell.write = now;
  }
}

// ---- entry points

namespace {

alignas(16) u8 scratch[16];  // where faulty accesses end

void* poisoned_scratch() {
  std::memset(scratch, kPoison, sizeof scratch);
  return scratch;
}

}  // namespace

const void* read_shared(u32 address, u32 bytes, int line) {
  note_read(address, line);
  if (!block.shared.admits(address, bytes, "read", line)) return poisoned_scratch();
  block.shared.read(address, bytes, self->id, line);
  count_access(Access::lds, address, bytes, true, line);
  return block.shared.at(address);
}

u32 static_shared(u32 bytes, int line) {
  if (bytes > kMostStaticBytes)
    report("static-shared", line, 0, [&] {
      return text("%u bytes of static shared memory: a block has at most %u", bytes, kMostStaticBytes);
    });
  return block.shared.reserve_static(bytes, line);
}

void* write_shared(u32 address, u32 bytes, int line) {
  note_progress(line);
  if (!block.shared.admits(address, bytes, "write", line)) return poisoned_scratch();
  block.shared.write(address, bytes, self->id, line);
  count_access(Access::sts, address, bytes, true, line);
  return block.shared.at(address);
}

}  // namespace efemu
