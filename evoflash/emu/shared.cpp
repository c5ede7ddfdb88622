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
      return text("%s of %u bytes at shared offset %lld by %s; the block has %u bytes", what, bytes,
                  static_cast<long long>(address) - base_, my_name().c_str(), size_);
    });
    return false;
  }
  if (address % bytes == 0) return true;
  report("misaligned-shared", line, 0, [&] {
    return text("%s of %u bytes at shared offset %u by %s: not a multiple of %u", what, bytes, address - base_,
                my_name().c_str(), bytes);
  });
  return false;
}

// An asynchronous write that nobody waited for is not called a race: the cure is another.
void SharedMemory::check_write_known(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (cell.write == 0 || actor.knows(cell.write)) return;
  const bool reads = what[0] == 'r', by_thread = group.clocks.is_thread(agent_of(cell.write));
  const char* kind = by_thread ? (reads ? "race-RAW" : "race-WAW") : (reads ? "async-not-waited" : "async-overwrite");
  report(kind, line, cell.write_line, [&] {
    return text("%s of shared offset %u by %s is not ordered after the write at line %d by %s; %s", what, offset(cell),
                agent_name(agent_of(actor.now)).c_str(), cell.write_line, agent_name(agent_of(cell.write)).c_str(),
                by_thread ? "no barrier stands between them" : "its completion was not waited for");
  });
}

void SharedMemory::check_read_known(const Cell& cell, Epoch reader, int reader_line, const Actor& actor, int line) {
  if (reader == 0 || actor.knows(reader)) return;
  report("race-WAR", line, reader_line, [&] {
    const bool by_thread = group.clocks.is_thread(agent_of(reader));
    return text("write of shared offset %u by %s is not ordered after the read at line %d by %s; %s", offset(cell),
                agent_name(agent_of(actor.now)).c_str(), reader_line, agent_name(agent_of(reader)).c_str(),
                by_thread ? "no barrier stands between them" : "its completion was not waited for");
  });
}

void SharedMemory::check_proxy(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (!(cell.flags & kGeneric) || actor.sees(cell.write)) return;
  report("missing-proxy-fence", line, cell.write_line, [&] {
    return text("asynchronous %s of shared offset %u by %s: %s wrote it at line %d through the generic proxy, and no "
                "fence_proxy_async stands between the write and the barrier after it",
                what, offset(cell), agent_name(agent_of(actor.now)).c_str(), agent_name(agent_of(cell.write)).c_str(),
                cell.write_line);
  });
}

bool SharedMemory::check_pending(const Cell& cell, const char* kind, const Actor& actor, int line) {
  if (!(cell.flags & kPending)) return false;
  report(kind, line, cell.write_line, [&] {
    return text("%s of shared offset %u by %s while the copy that %s started at line %d has not been waited for",
                kind[6] == 'o' ? "write" : "read", offset(cell), agent_name(agent_of(actor.now)).c_str(),
                agent_name(agent_of(cell.write)).c_str(), cell.write_line);
  });
  return true;
}

bool SharedMemory::check_barrier(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (!(cell.flags & kBarrier)) return false;
  report("mbarrier-as-data", line, cell.write_line, [&] {
    return text("%s of shared offset %u by %s: an mbarrier was made there at line %d", what, offset(cell),
                agent_name(agent_of(actor.now)).c_str(), cell.write_line);
  });
  return true;
}

void SharedMemory::read(u32 address, u32 bytes, const Actor& actor, int line) {
  Cell* const end = &cells_[granule(address + bytes - 1)] + 1;
  for (Cell* cell = &cells_[granule(address)]; cell != end; ++cell) {
    if (cell->flags & (kPending | kBarrier)) {
      check_pending(*cell, "async-not-waited", actor, line) || check_barrier(*cell, "read", actor, line);
    } else if (!(cell->flags & kWritten)) {
      report("uninit-shared", line, 0, [&] {
        return text("read of shared offset %u by %s: nothing was ever written there", offset(*cell),
                    agent_name(agent_of(actor.now)).c_str());
      });
    } else {
      check_write_known(*cell, "read", actor, line);
      if (actor.fenced) check_proxy(*cell, "read", actor, line);
      if (cell->reader[0] != actor.now) note_reader(*cell, actor, line);
    }
  }
}

void SharedMemory::note_reader(Cell& cell, const Actor& actor, int line) {
  // A reader that this one is ordered after is covered by it: whoever is ordered after this one knows both.
  const u32 agent = agent_of(actor.now);
  for (int i = 0; i < 2; ++i)
    if (cell.reader[i] == 0 || agent_of(cell.reader[i]) == agent ||
        (group.clocks.is_thread(agent) && actor.knows(cell.reader[i]))) {
      cell.reader[i] = actor.now;
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
    if (agent_of(reader.epoch) == agent) {
      reader = {actor.now, static_cast<u16>(line)};
      return;
    }
  more.push_back({actor.now, static_cast<u16>(line)});
}

void SharedMemory::store(u32 address, u32 bytes, const Actor& actor, int line, Flags becomes) {
  const u8 flags = static_cast<u8>(becomes | (actor.fenced ? 0 : kGeneric));
  Cell* const end = &cells_[granule(address + bytes - 1)] + 1;
  for (Cell* cell = &cells_[granule(address)]; cell != end; ++cell) {
    if (check_barrier(*cell, "write", actor, line)) continue;
    if (!check_pending(*cell, "async-overwrite", actor, line)) {
      check_write_known(*cell, "write", actor, line);
      if (actor.fenced) check_proxy(*cell, "write", actor, line);
      check_readers(*cell, actor, line);
    }
    cell->write = actor.now;
    cell->write_line = static_cast<u16>(line);
    cell->reader[0] = cell->reader[1] = 0;
    cell->flags = static_cast<u8>((cell->flags & kWritten) | flags);
  }
}

void SharedMemory::check_readers(Cell& cell, const Actor& actor, int line) {
  for (int i = 0; i < 2; ++i) check_read_known(cell, cell.reader[i], cell.reader_line[i], actor, line);
  if (cell.list == 0) return;
  for (const Reader& reader : lists_[cell.list - 1]) check_read_known(cell, reader.epoch, reader.line, actor, line);
  lists_[cell.list - 1].clear();
}

void SharedMemory::complete(u32 address, u32 bytes, Epoch now) {
  hand_over(address, bytes, agent_of(now), now);
}

void SharedMemory::hand_over(u32 address, u32 bytes, u32 thread, Epoch to) {
  for (u32 g = granule(address); g < granule(address + bytes); ++g) {
    Cell& cell = cells_[g];
    // Another write may have come in between: it was reported, and the granule is its own now.
    if (!(cell.flags & kPending) || agent_of(cell.write) != thread) continue;
    cell.flags = static_cast<u8>(kWritten | (cell.flags & kGeneric));
    cell.write = to;
  }
}

void SharedMemory::make_barrier(u32 address, int line) {
  for (u32 g = granule(address); g < granule(address + 8); ++g) {
    cells_[g].flags = kBarrier;
    cells_[g].write_line = static_cast<u16>(line);
  }
}

void SharedMemory::unmake_barrier(u32 address) {
  for (u32 g = granule(address); g < granule(address + 8); ++g) cells_[g].flags = kNever;
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
  if (!cta->shared.admits(address, bytes, "read", line)) return poisoned_scratch();
  cta->shared.read(address, bytes, group.clocks.actor(self->id), line);
  count_access(Access::lds, address, bytes, true, line);
  return cta->shared.at(address);
}

u32 static_shared(u32 bytes, int line) {
  if (bytes > kMostStaticBytes)
    report("static-shared", line, 0, [&] {
      return text("%u bytes of static shared memory: a block has at most %u", bytes, kMostStaticBytes);
    });
  return cta->shared.reserve_static(bytes, line);
}

void* write_shared(u32 address, u32 bytes, int line) {
  note_progress(line);
  if (!cta->shared.admits(address, bytes, "write", line)) return poisoned_scratch();
  cta->shared.write(address, bytes, group.clocks.actor(self->id), line);
  count_access(Access::sts, address, bytes, true, line);
  return cta->shared.at(address);
}

}  // namespace efemu
