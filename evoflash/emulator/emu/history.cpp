// Checks of global memory that kernels write, by the vector clocks of the running group and the knowledge of those
// before it.
#include "history.h"

#include <algorithm>

#include "block.h"

namespace efemu {
namespace {

Moment no_moment() {
  return {0, 0};
}

bool same_agent(Moment a, Moment b) {
  return a.generation == b.generation && agent_of(a.epoch) == agent_of(b.epoch);
}

bool by_transfer(Moment moment) {
  return moment.generation == generation() && !group.clocks.is_thread(agent_of(moment.epoch));
}

bool in_one_block(Moment moment, const Actor& actor) {
  const u32 mine = agent_of(actor.now), other = agent_of(moment.epoch);
  return moment.generation == generation() && group.clocks.is_thread(mine) && group.clocks.is_thread(other) &&
         group.threads[mine].cta == group.threads[other].cta;
}

// What would have ordered the access after the moment.
const char* cure(Moment moment, const Actor& actor) {
  if (before_launch(moment))
    return "the launch before may still be running: grid_wait, and a barrier behind it, must come first";
  if (by_transfer(moment)) return "its completion was not waited for";
  if (in_one_block(moment, actor)) return "no barrier stands between them";
  if (moment.generation == generation() && !group.strangers)
    return "blocks are ordered by release and acquire only: atomics or flags, with fence_gpu on both sides or acq_rel";
  return "blocks are ordered by release and acquire only (atomics or flags, with fence_gpu on both sides or acq_rel), "
         "and may wait for one another only if the launch is `resident`";
}

}  // namespace

History::History(std::string name, u64 bytes, bool scratch, u64 set_bytes)
    : name_(std::move(name)), scratch_(scratch), set_bytes_(set_bytes), bytes_(bytes), pieces_(bytes / kPieceBytes + 1) {
  if (set_bytes % kPieceBytes == 0) return;
  make_granules_fit(set_bytes, 0);
  split(pieces_[set_bytes / kPieceBytes]);  // one part of it holds something
}

template <class Work>
void History::for_cells(u64 offset, u64 bytes, Work work) {
  make_granules_fit(offset, bytes);
  const auto cells = [this](Piece& piece) {
    if (!piece.split) split(piece);
    return cells_of(piece);
  };
  for_cells_of(pieces_, offset, offset + bytes, granule_bytes_, offset_, cells, work);
}

// Whoever writes neighbouring bytes is no race, so that no two of them may share a cell, but in a large buffer.
void History::make_granules_fit(u64 offset, u64 bytes) {
  constexpr u64 kMostSingleBytes = 64 << 20;
  const u64 before = granule_bytes_, least = bytes_ <= kMostSingleBytes ? 1 : 2;
  while (granule_bytes_ > least && (offset | bytes) % granule_bytes_) granule_bytes_ /= 2;
  const u64 parts = before / granule_bytes_;
  if (parts == 1 || splits_.empty()) return;
  std::vector<Cell> finer(splits_.size() * parts);
  for (u64 i = 0; i < finer.size(); ++i) finer[i] = i % parts ? copy_of(splits_[i / parts]) : splits_[i / parts];
  splits_.swap(finer);
}

void History::split(Piece& piece) {
  if (free_splits_.empty()) {
    free_splits_.push_back(static_cast<u32>(splits_.size() / granules() + 1));
    splits_.resize(splits_.size() + granules());
  }
  piece.split = free_splits_.back();
  free_splits_.pop_back();
  Cell* cells = cells_of(piece);
  cells[0] = piece.all;
  for (u64 i = 1; i < granules(); ++i) cells[i] = copy_of(piece.all);
}

History::Cell History::copy_of(const Cell& cell) {
  Cell copy = cell;
  if (cell.list == 0) return copy;
  copy.list = new_list();
  lists_[copy.list - 1] = Events(lists_[cell.list - 1]);
  return copy;
}

// After a plain write to the whole piece there has been no other access.
void History::merge(Piece& piece) {
  Cell* cells = cells_of(piece);
  for (u64 i = 1; i < granules(); ++i)
    if (cells[i].list) free_lists_.push_back(cells[i].list);
  free_splits_.push_back(piece.split);
  piece = {cells[0], 0};
  std::fill_n(cells, granules(), Cell{});
}

u32 History::new_list() {
  if (free_lists_.empty()) {
    lists_.emplace_back();
    return static_cast<u32>(lists_.size());
  }
  const u32 list = free_lists_.back();
  free_lists_.pop_back();
  return list;
}

History::Events& History::events(Cell& cell) {
  if (cell.list == 0) cell.list = new_list();
  Events& all = lists_[cell.list - 1];
  const auto is_settled = [](const Event& event) { return settled(event.moment); };
  for (std::vector<Event>* some : {&all.reads, &all.strong})
    if (!some->empty() && is_settled(some->front()))
      some->erase(std::remove_if(some->begin(), some->end(), is_settled), some->end());
  return all;
}

void History::note_strong(Cell& cell, Kind kind, const Actor& actor, int line) {
  std::vector<Event>& all = events(cell).strong;
  const Event mine{moment_of(actor), static_cast<u16>(line), kind};
  const auto before = std::find_if(all.begin(), all.end(), [&](const Event& event) {
    return event.kind == kind && same_agent(event.moment, mine.moment);
  });
  if (before != all.end()) all.erase(before);
  all.push_back(mine);
}

// From the end: who has read something reads it again before many others do.
void History::note_listed_read(Cell& cell, const Actor& actor, int line) {
  std::vector<Event>& all = events(cell).reads;
  const Event mine{moment_of(actor), static_cast<u16>(line), Kind::read};
  const auto before = std::find_if(all.rbegin(), all.rend(),
                                   [&](const Event& event) { return same_agent(event.moment, mine.moment); });
  if (before == all.rend())
    all.push_back(mine);
  else
    *before = mine;
}

void History::note_read(Cell& cell, const Actor& actor, int line) {
  // A reader that this one is ordered after is covered by it: whoever is ordered after this one knows both.
  const Moment mine = moment_of(actor);
  for (int i = 0; i < 2; ++i)
    if (cell.reader[i].generation == 0 || same_agent(cell.reader[i], mine) ||
        (group.clocks.is_thread(agent_of(mine.epoch)) && ordered_after(cell.reader[i], actor))) {
      cell.reader[i] = mine;
      cell.reader_line[i] = static_cast<u16>(line);
      return;
    }
  note_listed_read(cell, actor, line);
}

void History::check(const char* what, Moment before, int line_before, const char* did, const Actor& actor, int line) {
  if (before.generation == 0 || ordered_after(before, actor)) return;
  report(before_launch(before) ? "missing-grid-wait" : "race-global", line, line_before, [&] {
    return text("%s of byte %llu of buffer '%s' by %s is not ordered after the %s at line %d by %s; %s", what,
                offset_, name_.c_str(), agent_name(agent_of(actor.now)).c_str(), did, line_before,
                name_of(before).c_str(), cure(before, actor));
  });
}

void History::check_written(const Cell& cell, const Actor& actor, int line) {
  if (cell.written || offset_ < set_bytes_) return;
  report("uninit-global", line, 0, [&] {
    return text("read of byte %llu of buffer '%s' by %s: no kernel ever wrote there", offset_, name_.c_str(),
                agent_name(agent_of(actor.now)).c_str());
  });
}

void History::check_proxy(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (!actor.fenced || !cell.generic || cell.write.generation != generation() || actor.sees(cell.write.epoch)) return;
  report("missing-proxy-fence", line, cell.write_line, [&] {
    return text("asynchronous %s of byte %llu of buffer '%s' by %s: %s wrote it at line %d through the generic proxy, "
                "and no fence_proxy_async_global stands between the write and the barrier after it",
                what, offset_, name_.c_str(), agent_name(agent_of(actor.now)).c_str(),
                name_of(cell.write).c_str(), cell.write_line);
  });
}

void History::check_readers(const Cell& cell, const char* what, const Actor& actor, int line) {
  for (int i = 0; i < 2; ++i) check(what, cell.reader[i], cell.reader_line[i], "read", actor, line);
}

void History::check_listed_readers(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (cell.list == 0) return;
  for (const Event& event : lists_[cell.list - 1].reads)
    check(what, event.moment, event.line, "read", actor, line);
}

// A plain access after strong ones. Who is ordered after one that read the value is ordered after those whose
// values it saw, fence or not.
void History::check_strong(const Cell& cell, const char* what, bool writes, const Actor& actor, int line) {
  if (cell.list == 0) return;
  const std::vector<Event>& all = lists_[cell.list - 1].strong;
  for (auto event = all.rbegin(); event != all.rend(); ++event) {
    if (ordered_after(event->moment, actor) && event->kind != Kind::release_store) return;
    const bool wrote = event->kind != Kind::acquire_load;
    const char* did = !wrote ? "acquire load" : event->kind == Kind::atomic ? "atomic" : "release store";
    if (writes || wrote) check(what, event->moment, event->line, did, actor, line);
  }
}

// Of an output each element is one thread's: another one's write is wrong even where a barrier orders the two, but for
// plain accesses, by which kernels of anybody's hand sums on in an output.
bool History::wrote_twice(Cell& cell, const Actor& actor, int line, bool is_plain) {
  const Moment before = cell.write;
  if (is_plain && ordered_after(before, actor)) return false;
  if (scratch_ || before.generation == 0 || before_launch(before) || same_agent(before, moment_of(actor))) return false;
  if (cell.list != 0 && !events(cell).empty()) return false;
  report("double-write-global", line, cell.write_line, [&] {
    return text("byte %llu of buffer '%s' is written by %s and was by %s", offset_, name_.c_str(),
                agent_name(agent_of(actor.now)).c_str(), name_of(before).c_str());
  });
  return true;
}

void History::read(u64 offset, u64 bytes, const Actor& actor, int line) {
  for_cells(offset, bytes, [&](Cell& cell) {
    check_written(cell, actor, line);
    check_write(cell, "read", actor, line);
    check_proxy(cell, "read", actor, line);
    check_strong(cell, "read", false, actor, line);
    note_read(cell, actor, line);
  });
}

void History::write(u64 offset, u64 bytes, const Actor& actor, int line) {
  write_as(offset, bytes, actor, line, false);
}

void History::write_plain(u64 offset, u64 bytes, const Actor& actor, int line) {
  write_as(offset, bytes, actor, line, true);
}

void History::write_as(u64 offset, u64 bytes, const Actor& actor, int line, bool is_plain) {
  for_cells(offset, bytes, [&](Cell& cell) {
    if (!wrote_twice(cell, actor, line, is_plain)) check_write(cell, "write", actor, line);
    check_proxy(cell, "write", actor, line);
    check_readers(cell, "write", actor, line);
    check_listed_readers(cell, "write", actor, line);
    check_strong(cell, "write", true, actor, line);
    cell.write = moment_of(actor);
    cell.write_line = static_cast<u16>(line);
    cell.written = true;
    cell.generic = actor.fenced == nullptr;
    cell.reader[0] = cell.reader[1] = no_moment();
    if (cell.list != 0) lists_[cell.list - 1].clear();
  });
  const u64 end = offset + bytes;
  for (u64 whole = (offset + kPieceBytes - 1) / kPieceBytes; (whole + 1) * kPieceBytes <= end; ++whole)
    if (pieces_[whole].split) merge(pieces_[whole]);
}

void History::acquire(u64 offset, u64 bytes, const Actor& actor, int line) {
  for_cells(offset, bytes, [&](Cell& cell) {
    check_written(cell, actor, line);
    check_write(cell, "acquire load", actor, line);
    note_strong(cell, Kind::acquire_load, actor, line);
  });
}

void History::write_strong(Cell& cell, Kind kind, const char* what, const Actor& actor, int line) {
  check_write(cell, what, actor, line);
  check_proxy(cell, what, actor, line);
  check_readers(cell, what, actor, line);
  check_listed_readers(cell, what, actor, line);
  note_strong(cell, kind, actor, line);
  cell.written = true;
}

void History::release(u64 offset, u64 bytes, const Actor& actor, int line) {
  for_cells(offset, bytes,
            [&](Cell& cell) { write_strong(cell, Kind::release_store, "release store", actor, line); });
}

void History::change(u64 offset, u64 bytes, const Actor& actor, int line) {
  for_cells(offset, bytes, [&](Cell& cell) {
    check_written(cell, actor, line);
    write_strong(cell, Kind::atomic, "atomic", actor, line);
  });
}

}  // namespace efemu
