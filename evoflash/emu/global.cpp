// The registry of buffers; bounds, alignment, read-only inputs, and elements written twice.
#include "global.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "block.h"
#include "counters.h"

namespace efemu {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMarginBytes = 1 << 20;  // inaccessible, on either side
constexpr size_t kAlignBytes = 256;       // of a buffer's first byte, as cudaMalloc gives

struct Buffer {
  std::string name;
  uintptr_t begin, end;
  char* mapping;
  size_t mapping_bytes;
  bool writable;
  std::vector<u64> writer;  // of each 2 bytes of an output: 1 + number of the thread in the grid, or 0

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

void note_writer(Buffer& buffer, uintptr_t first, u32 bytes, int line) {
  const u64 threads = static_cast<u64>(cta->thread_count);
  const u64 me = cta->number * threads + static_cast<u64>(number_in_block(*self)) + 1;
  for (size_t i = (first - buffer.begin) / 2; i < (first + bytes - buffer.begin) / 2; ++i) {
    const u64 before = buffer.writer[i];
    buffer.writer[i] = me;
    if (before == 0 || before == me) continue;
    report("double-write-global", line, 0, [&] {
      return text("byte %zu of buffer '%s' is written by %s and was by thread %llu of block %llu", i * 2,
                  buffer.name.c_str(), my_name().c_str(), (before - 1) % threads, (before - 1) / threads);
    });
  }
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
  if (!writes || buffer->writable) return true;
  report("write-to-input", line, 0, [&] {
    return text("write of %u bytes by %s at %s, an input", bytes, my_name().c_str(), describe_global(address).c_str());
  });
  return false;
}

void begin_global_checks() {
  for (Buffer& buffer : buffers) {
    std::fill(buffer.writer.begin(), buffer.writer.end(), 0);
    if (!buffer.writable) mprotect(buffer.data_pages(), buffer.data_pages_bytes(), PROT_READ);
  }
}

void end_global_checks() {
  for (const Buffer& buffer : buffers)
    if (!buffer.writable) mprotect(buffer.data_pages(), buffer.data_pages_bytes(), PROT_READ | PROT_WRITE);
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

bool in_input(const void* address) {
  const Buffer* buffer = find_buffer(number_of(address), 1);
  return buffer && !buffer->writable;
}

// ---- entry points

const void* read_global(const void* source, u32 bytes, int line) {
  note_read(number_of(source), line);
  count_access(Access::ldg, number_of(source), bytes, true, line);
  return admits_global(source, bytes, false, line) ? source : poisoned_global_scratch();
}

void* write_global(void* target, u32 bytes, int line) {
  note_progress(line);
  count_access(Access::stg, number_of(target), bytes, true, line);
  if (!admits_global(target, bytes, true, line)) return poisoned_global_scratch();
  note_writer(*find_buffer(number_of(target), bytes), number_of(target), bytes, line);
  return target;
}

// ---- C interface: memory

// A buffer of zeros for kernels and host to share; null when there is no memory. Its end is as near to the
// inaccessible pages as its alignment permits.
extern "C" void* efemu_allocate(u64 bytes, const char* name, u32 writable) {
  const size_t pages_bytes = std::max<size_t>((bytes + kPageBytes - 1) / kPageBytes, 1) * kPageBytes;
  const size_t mapping_bytes = pages_bytes + 2 * kMarginBytes;
  void* memory = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* mapping = static_cast<char*>(memory);
  mprotect(mapping, kMarginBytes, PROT_NONE);
  mprotect(mapping + kMarginBytes + pages_bytes, kMarginBytes, PROT_NONE);
  char* data = mapping + kMarginBytes + (pages_bytes - bytes) / kAlignBytes * kAlignBytes;
  const uintptr_t begin = number_of(data);
  buffers.push_back({name, begin, begin + bytes, mapping, mapping_bytes, writable != 0, {}});
  if (writable) buffers.back().writer.assign(bytes / 2 + 1, 0);
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
