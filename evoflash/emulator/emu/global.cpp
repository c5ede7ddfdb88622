// The registry of buffers; bounds, alignment, read-only inputs. What happened to written ones: history.cpp.
#include "global.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "block.h"
#include "counters.h"
#include "history.h"

namespace efemu {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMarginBytes = 1 << 20;  // inaccessible, on either side
constexpr size_t kAlignBytes = 256;       // of a buffer's first byte, as cudaMalloc gives
// Where the first buffer is asked for, and each further one behind the one before: what is counted by addresses,
// and addresses in messages, are then the same in every process. Programs, heaps, libraries and the shadows of
// sanitizers lie elsewhere; the system gives another place where this one is taken or the address space small.
constexpr uintptr_t kFirstBuffer = uintptr_t{1} << 45;

struct Buffer {
  std::string name;
  uintptr_t begin, end;
  char* mapping;
  size_t mapping_bytes;
  std::unique_ptr<History> history;  // of one that kernels may write

  bool writable() const { return history != nullptr; }

  bool holds(uintptr_t first, size_t bytes) const { return first >= begin && first <= end && bytes <= end - first; }
  char* data_pages() const { return mapping + kMarginBytes; }
  size_t data_pages_bytes() const { return mapping_bytes - 2 * kMarginBytes; }
  size_t distance(uintptr_t address) const {
    return address < begin ? begin - address : address >= end ? address - end + 1 : 0;
  }
};

std::vector<Buffer> buffers;
size_t last_hit = 0;

Buffer* find_buffer(uintptr_t first, size_t bytes) {
  if (last_hit < buffers.size() && buffers[last_hit].holds(first, bytes)) return &buffers[last_hit];
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].holds(first, bytes)) return &buffers[last_hit = i];
  return nullptr;
}

uintptr_t number_of(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// Pages behind all buffers, or near `wanted` if it is not 0 and they are free, without memory until they are written;
// MAP_FAILED where there is no room.
void* new_pages(size_t bytes, uintptr_t wanted) {
  if (!wanted) {
    wanted = kFirstBuffer;
    for (const Buffer& buffer : buffers) wanted = std::max(wanted, number_of(buffer.mapping) + buffer.mapping_bytes);
  }
  return mmap(reinterpret_cast<void*>(wanted), bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

using Note = void (History::*)(u64 offset, u64 bytes, const Actor& actor, int line);

// Tells the History of the buffer, if it is one that kernels may write.
void note_access(Note note, const void* address, u32 bytes, const Actor& actor, int line) {
  Buffer* buffer = find_buffer(number_of(address), bytes);
  if (!buffer || !buffer->history) return;
  ((*buffer->history).*note)(number_of(address) - buffer->begin, bytes, actor, line);
}

alignas(16) u8 global_scratch[16];  // where faulty accesses end

void* poisoned_global_scratch() {
  std::memset(global_scratch, 0xff, sizeof global_scratch);
  return global_scratch;
}

}  // namespace

bool admits_global(const void* address, u32 bytes, bool writes, int line) {
  const uintptr_t first = number_of(address);
  const char* what = writes ? "write" : "read";
  Buffer* buffer = find_buffer(first, bytes);
  if (!buffer) {
    report("OOB-global", line, 0, [&] {
      return text("%s of %u bytes by %s at %s", what, bytes, my_name().c_str(), describe_global(address).c_str());
    });
    return false;
  }
  if (first % bytes) {
    report("misaligned-global", line, 0, [&] {
      return text("%s of %u bytes by %s at %s: not a multiple of %u", what, bytes, my_name().c_str(),
                  describe_global(address).c_str(), bytes);
    });
    return false;
  }
  if (!writes || buffer->writable()) return true;
  report("write-to-input", line, 0, [&] {
    return text("write of %u bytes by %s at %s, an input", bytes, my_name().c_str(), describe_global(address).c_str());
  });
  return false;
}

bool admits_bulk(const void* address, u64 bytes, bool writes, const char* what, int line) {
  const Buffer* buffer = find_buffer(number_of(address), bytes);
  if (buffer && (!writes || buffer->writable())) return true;
  report(buffer ? "write-to-input" : "OOB-global", line, 0, [&] {
    return text("%s by %s: %llu bytes at %s%s", what, my_name().c_str(), bytes, describe_global(address).c_str(),
                buffer ? ", an input" : " are not in it");
  });
  return false;
}

void note_global_read(const void* source, u32 bytes, const Actor& actor, int line) {
  note_access(&History::read, source, bytes, actor, line);
}

void note_global_write(const void* target, u32 bytes, const Actor& actor, int line) {
  note_access(&History::write, target, bytes, actor, line);
}

void note_plain_write(const void* target, u32 bytes, const Actor& actor, int line) {
  note_access(&History::write_plain, target, bytes, actor, line);
}

void note_acquire_load(const void* source, u32 bytes, const Actor& actor, int line) {
  note_access(&History::acquire, source, bytes, actor, line);
}

void note_release_store(const void* target, u32 bytes, const Actor& actor, int line) {
  note_access(&History::release, target, bytes, actor, line);
}

void note_atomic(const void* target, u32 bytes, const Actor& actor, int line) {
  note_access(&History::change, target, bytes, actor, line);
}

void begin_global_checks(bool dependent) {
  begin_launch(dependent);
  forget_releases();
  for (const Buffer& buffer : buffers)
    if (!buffer.writable()) mprotect(buffer.data_pages(), buffer.data_pages_bytes(), PROT_READ);
}

void end_global_checks() {
  for (const Buffer& buffer : buffers)
    if (!buffer.writable()) mprotect(buffer.data_pages(), buffer.data_pages_bytes(), PROT_READ | PROT_WRITE);
}

std::string describe_global(const void* address) {
  const uintptr_t at = number_of(address);
  if (buffers.empty()) return text("address %p: there are no buffers", address);
  const Buffer& near = *std::min_element(buffers.begin(), buffers.end(), [at](const Buffer& a, const Buffer& b) {
    return a.distance(at) < b.distance(at);
  });
  // Farther away than anyone's index error: a wild or null pointer.
  if (near.distance(at) > (size_t{1} << 32)) return text("address %p, far from every buffer", address);
  return text("offset %lld of buffer '%s' (%llu bytes)", static_cast<long long>(at - near.begin), near.name.c_str(),
              static_cast<unsigned long long>(near.end - near.begin));
}

bool near_buffer(const void* address) {
  const char* at = static_cast<const char*>(address);
  return std::any_of(buffers.begin(), buffers.end(), [at](const Buffer& buffer) {
    return at >= buffer.mapping && at < buffer.mapping + buffer.mapping_bytes;
  });
}

bool in_buffer(const void* address, u64 bytes) {
  return find_buffer(number_of(address), bytes) != nullptr;
}

bool in_input(const void* address) {
  const Buffer* buffer = find_buffer(number_of(address), 1);
  return buffer && !buffer->writable();
}

// ---- entry points

const void* read_global(const void* source, u32 bytes, int line) {
  note_read(number_of(source), line);
  count_access(Access::ldg, number_of(source), bytes, true, line);
  if (!admits_global(source, bytes, false, line)) return poisoned_global_scratch();
  note_global_read(source, bytes, group.clocks.actor(self->id), line);
  return source;
}

void* write_global(void* target, u32 bytes, int line) {
  note_progress(line);
  count_access(Access::stg, number_of(target), bytes, true, line);
  if (!admits_global(target, bytes, true, line)) return poisoned_global_scratch();
  note_global_write(target, bytes, group.clocks.actor(self->id), line);
  return target;
}

// A hint: the address is checked as a load's, and who else writes there does not matter.
void prefetch_global(const void* source, int line) {
  note_progress(line);
  admits_global(source, 1, false, line);
}

// ---- C interface: memory

extern "C" void efemu_free(void* data);

// A buffer of zeros for kernels and host to share; null when there is no memory. Its end is as near to the
// inaccessible pages as its alignment permits, and pages that nobody writes take no memory. `writable` by kernels; behind
// its first `set_bytes` it holds nothing until one writes it. It begins `lead` bytes behind an aligned address, near
// `wanted` if that is not 0. One called "workspace" is scratch: blocks may write to a place again.
extern "C" void* efemu_allocate(u64 bytes, const char* name, u32 writable, u64 set_bytes, u32 lead, u64 wanted) {
  const size_t pages_bytes = std::max<size_t>((bytes + lead + kPageBytes - 1) / kPageBytes, 1) * kPageBytes;
  const size_t mapping_bytes = pages_bytes + 2 * kMarginBytes;
  void* memory = new_pages(mapping_bytes, wanted ? wanted - kMarginBytes : 0);
  if (memory == MAP_FAILED) return nullptr;
  char* mapping = static_cast<char*>(memory);
  mprotect(mapping, kMarginBytes, PROT_NONE);
  mprotect(mapping + kMarginBytes + pages_bytes, kMarginBytes, PROT_NONE);
  char* data = mapping + kMarginBytes + (pages_bytes - bytes - lead) / kAlignBytes * kAlignBytes + lead;
  const uintptr_t begin = number_of(data);
  buffers.push_back({name, begin, begin + bytes, mapping, mapping_bytes, nullptr});
  const bool scratch = std::strcmp(name, "workspace") == 0;
  if (!writable) return data;
  try {
    buffers.back().history = std::make_unique<History>(name, bytes, scratch, set_bytes);
  } catch (const std::bad_alloc&) {
    efemu_free(data);
    return nullptr;
  }
  return data;
}

extern "C" void efemu_free(void* data) {
  const auto buffer = std::find_if(buffers.begin(), buffers.end(),
                                   [data](const Buffer& b) { return b.begin == number_of(data); });
  if (buffer == buffers.end()) return;
  munmap(buffer->mapping, buffer->mapping_bytes);
  buffers.erase(buffer);
}

}  // namespace efemu
