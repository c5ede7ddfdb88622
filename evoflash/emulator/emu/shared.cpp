// Checks of shared memory (FastTrack's epochs), and the entry points of plain shared accesses.
#include "shared.h"

#include <algorithm>
#include <cstring>

#include "block.h"
#include "counters.h"

namespace efemu {
namespace {

constexpr u8 kPoison = 0xff;  // a NaN in f16, bf16 and float
constexpr size_t kMostLists = 0xffff;
constexpr u32 kMbarrierBytes = 8;
constexpr u32 kMostStaticBytes = 48 << 10;
constexpr u32 kGapBytes = 512, kArrayAlignBytes = 128;  // between arrays of plain CUDA
constexpr u32 kRoomForGaps = 64 << 10;

}  // namespace

void SharedMemory::reset(u32 size_bytes) {
  base_ = kSharedBase;
  size_ = size_bytes;
  // Plain pointers into it stay what they are while static arrays are added.
  bytes_.reserve(size_bytes + kMostStaticBytes + kRoomForGaps);
  bytes_.assign(size_bytes + 16, kPoison);
  dynamic_bytes_ = size_bytes;
  arrays_.clear();
  pieces_.assign(size_bytes / kPieceBytes + 1, Piece());
  granule_bytes_ = 2;
  splits_.clear();
  lists_.clear();
  free_splits_.clear();
  free_lists_.clear();
  static_at_ = static_bytes_ = 0;
}

u32 SharedMemory::reserve_static(u32 bytes, int line) {
  if (static_bytes_ == 0) {
    static_at_ = (size_ + 1023) / 1024 * 1024;
    static_bytes_ = bytes;
    size_ = static_at_ + bytes;
    bytes_.resize(size_ + 16, kPoison);
    pieces_.resize(size_ / kPieceBytes + 1, Piece());
  } else if (bytes != static_bytes_) {
    report("static-shared", line, 0, [&] {
      return text("a second static allocation, of %u bytes: the kernel has one of %u", bytes, static_bytes_);
    });
  }
  return base_ + static_at_;
}

void* SharedMemory::reserve_array(const void* key, u32 bytes, const char* name, int line) {
  u64 total = bytes;
  for (const Array& array : arrays_) {
    if (array.key == key) return bytes_.data() + array.begin;
    total += array.bytes;
  }
  const u32 begin = (size_ + kGapBytes + kArrayAlignBytes - 1) / kArrayAlignBytes * kArrayAlignBytes;
  const u64 end = begin + u64{bytes};
  if (total > kMostStaticBytes)
    report("static-shared", line, 0, [&] {
      return text("%llu bytes of static shared memory with '%s': a block has at most %u", total, name, kMostStaticBytes);
    });
  if (end + 16 > bytes_.capacity()) return nullptr;
  size_ = static_cast<u32>(end);
  bytes_.resize(end + 16, kPoison);
  pieces_.resize(end / kPieceBytes + 1, Piece());
  arrays_.push_back({key, begin, bytes, name, line});
  return bytes_.data() + begin;
}

bool SharedMemory::admits_plain(const void* pointer, u32 bytes, bool aligned, const char* what, int line) {
  const long long offset = static_cast<const u8*>(pointer) - bytes_.data();
  const Array* nearest = nullptr;
  const auto holds = [&](long long begin, u32 size) { return offset >= begin && offset + bytes <= begin + size; };
  bool inside = holds(0, arrays_.empty() ? size_ : dynamic_bytes_);
  for (const Array& array : arrays_) {
    inside |= holds(array.begin, array.bytes);
    const bool in_front = offset < static_cast<long long>(array.begin);
    if (!nearest || !in_front || array.begin - offset < kGapBytes / 2) nearest = &array;
  }
  if (!inside) {
    const bool of_array = nearest && (offset >= static_cast<long long>(dynamic_bytes_ + kGapBytes / 2) || !dynamic_bytes_);
    report("OOB-shared", line, 0, [&] {
      return of_array ? text("%s of %u bytes at offset %lld of shared array '%s' by %s; it has %u bytes", what, bytes,
                             offset - nearest->begin, nearest->name, my_name().c_str(), nearest->bytes)
                      : text("%s of %u bytes at offset %lld of dynamic shared memory by %s; the launch gives %u bytes",
                             what, bytes, offset, my_name().c_str(), dynamic_bytes_);
    });
    return false;
  }
  if (!aligned || bytes > 16 || offset % bytes == 0) return true;
  report("misaligned-shared", line, 0, [&] {
    return text("%s of %u bytes at shared offset %lld by %s: not a multiple of %u", what, bytes, offset,
                my_name().c_str(), bytes);
  });
  return true;
}

bool SharedMemory::admits(u32 address, u32 bytes, const char* what, int line) {
  return admits(address, bytes, bytes, what, line);
}

bool SharedMemory::admits(u32 address, u32 bytes, u32 alignment, const char* what, int line) {
  if (address < base_ || address - base_ + u64{bytes} > size_) {
    report("OOB-shared", line, 0, [&] {
      return text("%s of %u bytes at shared offset %lld by %s; the block has %u bytes", what, bytes,
                  static_cast<long long>(address) - base_, my_name().c_str(), size_);
    });
    return false;
  }
  if (address % alignment == 0) return true;
  report("misaligned-shared", line, 0, [&] {
    return text("%s of %u bytes at shared offset %u by %s: not a multiple of %u", what, bytes, address - base_,
                my_name().c_str(), alignment);
  });
  return false;
}

template <class Work>
void SharedMemory::for_cells(u32 address, u32 bytes, Work work) {
  if ((address | bytes) % 2 && granule_bytes_ == 2) make_single_bytes();
  const auto cells = [this](Piece& piece) {
    if (!piece.split) split(piece);
    return splits_[piece.split - 1].data();
  };
  for_cells_of(pieces_, address - base_, address - base_ + bytes, granule_bytes_, offset_, cells, work);
}

void SharedMemory::split(Piece& piece) {
  if (free_splits_.empty()) {
    splits_.emplace_back();
    free_splits_.push_back(static_cast<u32>(splits_.size()));
  }
  piece.split = free_splits_.back();
  free_splits_.pop_back();
  Split& cells = splits_[piece.split - 1];
  cells[0] = piece.all;
  for (u32 i = 1; i < granules(); ++i) cells[i] = copy_of(piece.all);
}

// Threads that write neighbouring bytes of a word are no race; until somebody touches a single byte, two share a cell.
void SharedMemory::make_single_bytes() {
  granule_bytes_ = 1;
  for (const Piece& piece : pieces_) {
    if (!piece.split) continue;
    Split& cells = splits_[piece.split - 1];
    for (u32 i = kPieceBytes; i-- > 0;) cells[i] = i % 2 ? copy_of(cells[i / 2]) : cells[i / 2];
  }
}

SharedMemory::Cell SharedMemory::copy_of(const Cell& cell) {
  Cell copy = cell;
  if (cell.list) copy.list = new_list();
  if (copy.list) lists_[copy.list - 1] = Readers(lists_[cell.list - 1]);
  return copy;
}

// After a write to the whole piece nobody has read it; what is pending may have been written before or not.
void SharedMemory::merge(Piece& piece) {
  Split& cells = splits_[piece.split - 1];
  const auto differs = [&](const Cell& cell) { return cell.write != cells[0].write || cell.flags != cells[0].flags; };
  if (std::any_of(cells.begin(), cells.begin() + granules(), differs)) return;
  for (u32 i = 1; i < granules(); ++i)
    if (cells[i].list) free_lists_.push_back(cells[i].list);
  free_splits_.push_back(piece.split);
  piece = {cells[0], 0};
}

u16 SharedMemory::new_list() {
  if (!free_lists_.empty()) {
    const u16 list = free_lists_.back();
    free_lists_.pop_back();
    return list;
  }
  if (lists_.size() == kMostLists) return 0;
  lists_.emplace_back();
  return static_cast<u16>(lists_.size());
}

// An asynchronous write that nobody waited for is not called a race: the cure is another.
void SharedMemory::check_write_known(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (cell.write == 0 || actor.knows(cell.write)) return;
  const bool reads = what[0] == 'r', by_thread = group.clocks.is_thread(agent_of(cell.write));
  const char* kind = by_thread ? (reads ? "race-RAW" : "race-WAW") : (reads ? "async-not-waited" : "async-overwrite");
  report(kind, line, cell.write_line, [&] {
    return text("%s of shared offset %u by %s is not ordered after the write at line %d by %s; %s", what, offset_,
                agent_name(agent_of(actor.now)).c_str(), cell.write_line, agent_name(agent_of(cell.write)).c_str(),
                by_thread ? "no barrier stands between them" : "its completion was not waited for");
  });
}

void SharedMemory::check_read_known(Epoch reader, int reader_line, const Actor& actor, int line) {
  if (reader == 0 || actor.knows(reader)) return;
  report("race-WAR", line, reader_line, [&] {
    const bool by_thread = group.clocks.is_thread(agent_of(reader));
    return text("write of shared offset %u by %s is not ordered after the read at line %d by %s; %s", offset_,
                agent_name(agent_of(actor.now)).c_str(), reader_line, agent_name(agent_of(reader)).c_str(),
                by_thread ? "no barrier stands between them" : "its completion was not waited for");
  });
}

void SharedMemory::check_proxy(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (!(cell.flags & kGeneric) || actor.sees(cell.write)) return;
  report("missing-proxy-fence", line, cell.write_line, [&] {
    return text("asynchronous %s of shared offset %u by %s: %s wrote it at line %d through the generic proxy, and no "
                "fence_proxy_async stands between the write and the barrier after it",
                what, offset_, agent_name(agent_of(actor.now)).c_str(), agent_name(agent_of(cell.write)).c_str(),
                cell.write_line);
  });
}

bool SharedMemory::check_pending(const Cell& cell, const char* kind, const Actor& actor, int line) {
  if (!(cell.flags & kPending)) return false;
  report(kind, line, cell.write_line, [&] {
    return text("%s of shared offset %u by %s while the copy that %s started at line %d has not been waited for",
                kind[6] == 'o' ? "write" : "read", offset_, agent_name(agent_of(actor.now)).c_str(),
                agent_name(agent_of(cell.write)).c_str(), cell.write_line);
  });
  return true;
}

bool SharedMemory::check_barrier(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (!(cell.flags & kBarrier)) return false;
  report("mbarrier-as-data", line, cell.write_line, [&] {
    return text("%s of shared offset %u by %s: an mbarrier was made there at line %d", what, offset_,
                agent_name(agent_of(actor.now)).c_str(), cell.write_line);
  });
  return true;
}

bool SharedMemory::check_initialised(const Cell& cell, const Actor& actor, int line) {
  if (cell.flags & kWritten) return true;
  report("uninit-shared", line, 0, [&] {
    return text("read of shared offset %u by %s: nothing was ever written there", offset_,
                agent_name(agent_of(actor.now)).c_str());
  });
  return false;
}

void SharedMemory::read(u32 address, u32 bytes, const Actor& actor, int line) {
  for_cells(address, bytes, [&](Cell& cell) {
    if (cell.flags & (kPending | kBarrier)) {
      check_pending(cell, "async-not-waited", actor, line) || check_barrier(cell, "read", actor, line);
    } else if (cell.flags & kWritten || check_initialised(cell, actor, line)) {
      check_write_known(cell, "read", actor, line);
      if (cell.flags & kAtomic) check_atomics(cell, "read", actor, line);
      if (actor.fenced) check_proxy(cell, "read", actor, line);
      if (cell.reader[0] != actor.now) note_reader(cell, actor, line);
    }
  });
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
  list_reader(cell, {actor.now, static_cast<u16>(line), false});
}

// The latest of each agent, reads and atomics apart; the atomics in the order of their times.
void SharedMemory::list_reader(Cell& cell, const Reader& mine) {
  if (cell.list == 0) cell.list = new_list();
  if (cell.list == 0) return;
  Readers& readers = lists_[cell.list - 1];
  std::vector<Reader>& all = readers.all;
  const auto is_same = [&mine](const Reader& reader) {
    return reader.atomic == mine.atomic && agent_of(reader.epoch) == agent_of(mine.epoch);
  };
  auto before = all.begin() + static_cast<long>(readers.next < all.size() ? readers.next : 0);
  if (!all.empty() && agent_of(mine.epoch) > readers.highest)
    before = all.end();
  else if (before != all.end() && !is_same(*before))
    before = std::find_if(all.begin(), all.end(), is_same);
  readers.next = static_cast<size_t>(before - all.begin()) + 1;
  readers.highest = std::max(readers.highest, agent_of(mine.epoch));
  if (before != all.end() && !mine.atomic) {
    *before = mine;
    return;
  }
  if (before != all.end()) all.erase(before);
  all.push_back(mine);
}

void SharedMemory::store(u32 address, u32 bytes, const Actor& actor, int line, Flags becomes) {
  const u8 flags = static_cast<u8>(becomes | (actor.fenced ? 0 : kGeneric));
  for_cells(address, bytes, [&](Cell& cell) {
    if (check_barrier(cell, "write", actor, line)) return;
    if (!check_pending(cell, "async-overwrite", actor, line)) {
      check_write_known(cell, "write", actor, line);
      if (actor.fenced) check_proxy(cell, "write", actor, line);
      check_readers(cell, actor, line);
      if (cell.flags & kAtomic) check_atomics(cell, "write", actor, line);
    }
    if (cell.list) lists_[cell.list - 1].clear();
    cell.write = actor.now;
    cell.write_line = static_cast<u16>(line);
    cell.reader[0] = cell.reader[1] = 0;
    cell.flags = static_cast<u8>((cell.flags & kWritten) | flags);
  });
  const u32 end = address - base_ + bytes;
  for (u32 whole = (address - base_ + kPieceBytes - 1) / kPieceBytes; (whole + 1) * kPieceBytes <= end; ++whole)
    if (pieces_[whole].split) merge(pieces_[whole]);
}

void SharedMemory::check_readers(Cell& cell, const Actor& actor, int line) {
  for (int i = 0; i < 2; ++i) check_read_known(cell.reader[i], cell.reader_line[i], actor, line);
  if (cell.list == 0) return;
  for (const Reader& reader : lists_[cell.list - 1].all)
    if (!reader.atomic) check_read_known(reader.epoch, reader.line, actor, line);
}

// Who is ordered after an atomic is ordered after those whose values it saw.
void SharedMemory::check_atomics(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (cell.list == 0) return;
  const std::vector<Reader>& all = lists_[cell.list - 1].all;
  for (auto atomic = all.rbegin(); atomic != all.rend(); ++atomic) {
    if (!atomic->atomic) continue;
    if (actor.knows(atomic->epoch)) return;
    report(what[0] == 'r' ? "race-RAW" : "race-WAW", line, atomic->line, [&] {
      return text("%s of shared offset %u by %s is not ordered after the atomic at line %d by %s; no barrier stands "
                  "between them",
                  what, offset_, agent_name(agent_of(actor.now)).c_str(), atomic->line,
                  agent_name(agent_of(atomic->epoch)).c_str());
    });
  }
}

void SharedMemory::change(u32 address, u32 bytes, const Actor& actor, int line) {
  for_cells(address, bytes, [&](Cell& cell) {
    if (check_barrier(cell, "atomic", actor, line) || check_pending(cell, "async-overwrite", actor, line)) return;
    check_initialised(cell, actor, line);
    check_write_known(cell, "atomic", actor, line);
    check_readers(cell, actor, line);
    list_reader(cell, {actor.now, static_cast<u16>(line), true});
    cell.flags |= kWritten | kGeneric | kAtomic;
  });
}

void SharedMemory::complete(u32 address, u32 bytes, Epoch now) {
  hand_over(address, bytes, agent_of(now), now);
}

void SharedMemory::hand_over(u32 address, u32 bytes, u32 thread, Epoch to) {
  for_cells(address, bytes, [&](Cell& cell) {
    // Another write may have come in between: it was reported, and the granule is its own now.
    if (!(cell.flags & kPending) || agent_of(cell.write) != thread) return;
    cell.flags = static_cast<u8>(kWritten | (cell.flags & kGeneric));
    cell.write = to;
  });
}

void SharedMemory::make_barrier(u32 address, int line) {
  for_cells(address, kMbarrierBytes, [line](Cell& cell) {
    cell.flags = kBarrier;
    cell.write_line = static_cast<u16>(line);
  });
}

void SharedMemory::unmake_barrier(u32 address) {
  for_cells(address, kMbarrierBytes, [](Cell& cell) { cell.flags = kNever; });
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
