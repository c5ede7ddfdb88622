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
    : name_(std::move(name)), scratch_(scratch), set_bytes_(set_bytes), bytes_(bytes), cells_(bytes / 2 + 1) {}

History::Granules History::granules(u64 offset, u64 bytes) {
  constexpr u64 kMostSingleBytes = 64 << 20;  // of larger buffers neighbouring bytes stay one
  if ((offset | bytes) % 2 && granule_bytes_ == 2 && bytes_ <= kMostSingleBytes) make_single_bytes();
  return {offset / granule_bytes_, (offset + bytes + granule_bytes_ - 1) / granule_bytes_};
}

void History::make_single_bytes() {
  SparseArray<Cell> single(bytes_ + 1);
  for (u64 byte = 0; byte < bytes_; ++byte) {
    const Cell& pair = cells_[byte / 2];
    if (!pair.written && pair.list == 0 && pair.reader[0].generation == 0) continue;
    single[byte] = pair;
    if (byte % 2 == 0 || pair.list == 0) continue;
    const std::vector<Event> events = lists_[pair.list - 1];
    lists_.push_back(events);
    single[byte].list = static_cast<u32>(lists_.size());
  }
  cells_.swap(single);
  granule_bytes_ = 1;
}

std::vector<History::Event>& History::events(Cell& cell) {
  if (cell.list == 0) {
    lists_.emplace_back();
    cell.list = static_cast<u32>(lists_.size());
  }
  std::vector<Event>& all = lists_[cell.list - 1];
  const auto is_settled = [](const Event& event) { return settled(event.moment); };
  if (!all.empty() && is_settled(all.front())) all.erase(std::remove_if(all.begin(), all.end(), is_settled), all.end());
  return all;
}

// In the order of their times: the latest of each agent and kind.
void History::note_event(Cell& cell, Kind kind, const Actor& actor, int line) {
  std::vector<Event>& all = events(cell);
  const Event mine{moment_of(actor), static_cast<u16>(line), kind};
  const auto before = std::find_if(all.begin(), all.end(), [&](const Event& event) {
    return event.kind == kind && same_agent(event.moment, mine.moment);
  });
  if (before != all.end()) all.erase(before);
  all.push_back(mine);
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
  note_event(cell, Kind::read, actor, line);
}

void History::check(const Cell& cell, const char* what, Moment before, int line_before, const char* did,
                    const Actor& actor, int line) {
  if (before.generation == 0 || ordered_after(before, actor)) return;
  report(before_launch(before) ? "missing-grid-wait" : "race-global", line, line_before, [&] {
    return text("%s of byte %zu of buffer '%s' by %s is not ordered after the %s at line %d by %s; %s", what,
                byte_of(cell), name_.c_str(), agent_name(agent_of(actor.now)).c_str(), did, line_before,
                name_of(before).c_str(), cure(before, actor));
  });
}

void History::check_written(const Cell& cell, const Actor& actor, int line) {
  if (cell.written || byte_of(cell) < set_bytes_) return;
  report("uninit-global", line, 0, [&] {
    return text("read of byte %zu of buffer '%s' by %s: no kernel ever wrote there", byte_of(cell), name_.c_str(),
                agent_name(agent_of(actor.now)).c_str());
  });
}

void History::check_proxy(const Cell& cell, const char* what, const Actor& actor, int line) {
  if (!actor.fenced || !cell.generic || cell.write.generation != generation() || actor.sees(cell.write.epoch)) return;
  report("missing-proxy-fence", line, cell.write_line, [&] {
    return text("asynchronous %s of byte %zu of buffer '%s' by %s: %s wrote it at line %d through the generic proxy, "
                "and no fence_proxy_async_global stands between the write and the barrier after it",
                what, byte_of(cell), name_.c_str(), agent_name(agent_of(actor.now)).c_str(),
                name_of(cell.write).c_str(), cell.write_line);
  });
}

void History::check_readers(const Cell& cell, const char* what, const Actor& actor, int line) {
  for (int i = 0; i < 2; ++i) check(cell, what, cell.reader[i], cell.reader_line[i], "read", actor, line);
}

void History::check_listed_readers(Cell& cell, const char* what, const Actor& actor, int line) {
  if (cell.list == 0) return;
  for (const Event& event : lists_[cell.list - 1])
    if (event.kind == Kind::read) check(cell, what, event.moment, event.line, "read", actor, line);
}

// A plain access after strong ones. Who is ordered after one that read the value is ordered after those whose
// values it saw, fence or not.
void History::check_strong(Cell& cell, const char* what, bool writes, const Actor& actor, int line) {
  if (cell.list == 0) return;
  const std::vector<Event>& all = lists_[cell.list - 1];
  for (auto event = all.rbegin(); event != all.rend(); ++event) {
    if (event->kind == Kind::read) continue;
    if (ordered_after(event->moment, actor) && event->kind != Kind::release_store) return;
    const bool wrote = event->kind != Kind::acquire_load;
    const char* did = !wrote ? "acquire load" : event->kind == Kind::atomic ? "atomic" : "release store";
    if (writes || wrote) check(cell, what, event->moment, event->line, did, actor, line);
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
    return text("byte %zu of buffer '%s' is written by %s and was by %s", byte_of(cell), name_.c_str(),
                agent_name(agent_of(actor.now)).c_str(), name_of(before).c_str());
  });
  return true;
}

void History::read(size_t first, size_t end, const Actor& actor, int line) {
  for (size_t at = first; at < end; ++at) {
    Cell& cell = cells_[at];
    check_written(cell, actor, line);
    check_write(cell, "read", actor, line);
    check_proxy(cell, "read", actor, line);
    check_strong(cell, "read", false, actor, line);
    note_read(cell, actor, line);
  }
}

void History::write(size_t first, size_t end, const Actor& actor, int line) {
  write_as(first, end, actor, line, false);
}

void History::write_plain(size_t first, size_t end, const Actor& actor, int line) {
  write_as(first, end, actor, line, true);
}

void History::write_as(size_t first, size_t end, const Actor& actor, int line, bool is_plain) {
  for (size_t at = first; at < end; ++at) {
    Cell& cell = cells_[at];
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
  }
}

void History::acquire(size_t first, size_t end, const Actor& actor, int line) {
  for (size_t at = first; at < end; ++at) {
    Cell& cell = cells_[at];
    check_written(cell, actor, line);
    check_write(cell, "acquire load", actor, line);
    note_event(cell, Kind::acquire_load, actor, line);
  }
}

void History::write_strong(Cell& cell, Kind kind, const char* what, const Actor& actor, int line) {
  check_write(cell, what, actor, line);
  check_proxy(cell, what, actor, line);
  check_readers(cell, what, actor, line);
  check_listed_readers(cell, what, actor, line);
  note_event(cell, kind, actor, line);
  cell.written = true;
}

void History::release(size_t first, size_t end, const Actor& actor, int line) {
  for (size_t at = first; at < end; ++at) write_strong(cells_[at], Kind::release_store, "release store", actor, line);
}

void History::change(size_t first, size_t end, const Actor& actor, int line) {
  for (size_t at = first; at < end; ++at) {
    check_written(cells_[at], actor, line);
    write_strong(cells_[at], Kind::atomic, "atomic", actor, line);
  }
}

}  // namespace efemu
