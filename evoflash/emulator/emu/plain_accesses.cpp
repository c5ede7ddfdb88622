// The functions that g++'s -fsanitize=thread calls, and memcpy and its kin of kernels' texts (the linker's --wrap).
#include "plain_accesses.h"

#include <link.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "block.h"
#include "call_sites.h"
#include "counters.h"
#include "global.h"
#include "signals.h"

namespace efemu {

PlainCounts plain_counts;

namespace {

struct Range {
  uintptr_t begin = 0, end = 0;

  bool holds(uintptr_t at, u64 bytes) const { return at >= begin && at < end && bytes <= end - at; }
};

// Where the kernel's library lies: all of it, and what of that can be written once it is loaded.
struct Image {
  uintptr_t kernel = 0;
  Range all;
  std::vector<Range> writable;
  Range constant_after_loading;  // RELRO: written by the loader alone
} image;

uintptr_t bits_at(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

int find_image(dl_phdr_info* library, size_t, void*) {
  Image found;
  found.kernel = image.kernel;
  found.all = {~uintptr_t{0}, 0};
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    const uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
    const Range range{begin, begin + segment.p_memsz};
    if (segment.p_type == PT_GNU_RELRO) found.constant_after_loading = range;
    if (segment.p_type != PT_LOAD) continue;
    found.all.begin = std::min(found.all.begin, range.begin);
    found.all.end = std::max(found.all.end, range.end);
    if (segment.p_flags & PF_W) found.writable.push_back(range);
  }
  if (!found.all.holds(image.kernel, 1)) return 0;
  image = found;
  return 1;
}

bool in_statics(uintptr_t at, u64 bytes) {
  if (image.constant_after_loading.holds(at, bytes)) return false;
  for (const Range& range : image.writable)
    if (range.holds(at, bytes)) return true;
  return false;
}

// The block of the group in whose shared memory the bytes lie, or null.
Cta* home_of(const void* address, u64 bytes) {
  if (cta->shared.holds(address, bytes)) return cta;
  for (Cta& other : group.ctas)
    if (other.shared.holds(address, bytes)) return &other;
  return nullptr;
}

// The number that stands for the place in the kernel's code that the running thread came from.
int place_of(const void* return_address) {
  constexpr size_t kMostCallers = 4;
  u64 calls[1 + kMostCallers];
  size_t count = 0;
  calls[count++] = offset_in_kernel(return_address);
  const std::vector<const void*>& callers = self->called_from;
  for (auto caller = callers.rbegin(); caller != callers.rend() && count <= kMostCallers; ++caller)
    if (const u64 offset = offset_in_kernel(*caller)) calls[count++] = offset;
  return code_site(calls, count);
}

const char* words_for(Region region) {
  switch (region) {
    case Region::parameters: return "a parameter of the kernel";
    case Region::constants: return "a constant";
    case Region::context: return "threadIdx, blockIdx, blockDim or gridDim";
    default: return "memory";
  }
}

struct PlainAccess {
  const void* address;
  u64 bytes;
  bool writes, aligned;
  int line;

  const char* what() const { return writes ? "write" : "read"; }
};

[[noreturn]] void end_outside(const PlainAccess& access) {
  report("OOB-raw", access.line, 0, [&] {
    return text("plain %s of %llu bytes by %s at %s", access.what(), access.bytes, my_name().c_str(),
                describe_global(access.address).c_str());
  });
  abandon_block();
}

void take_turn(const PlainAccess& access) {
  if (access.writes)
    note_progress(access.line);
  else
    note_read(bits_at(access.address), access.line);
}

// Findings about a write of what another thread had written there: where both wrote the same value, there is nothing
// to be found. The value is known once the kernel goes on.
struct Overwrite {
  const void* at = nullptr;
  u64 bytes = 0;
  u8 before[16];
  std::vector<u64> counts;  // of the reports, before the write
};
Overwrite overwrite;

bool is_overwrite(const Report& report) {
  return std::strcmp(report.kind, "race-WAW") == 0 || std::strcmp(report.kind, "double-write-global") == 0;
}

template <class Write>
void note_overwrite(const PlainAccess& access, Write write) {
  overwrite.counts.clear();
  u64 total = 0, now = 0;
  for (const Report& report : reports) {
    overwrite.counts.push_back(report.count);
    total += report.count;
  }
  write();
  for (const Report& report : reports) now += report.count;
  if (now == total || access.bytes > sizeof overwrite.before) return;
  overwrite.counts.resize(reports.size());
  for (size_t i = 0; i < reports.size(); ++i) overwrite.counts[i] = reports[i].count - overwrite.counts[i];
  overwrite.at = access.address;
  overwrite.bytes = access.bytes;
  std::memcpy(overwrite.before, access.address, access.bytes);
}

void note_global(const PlainAccess& access) {
  if (!in_buffer(access.address, access.bytes)) end_outside(access);
  const u32 bytes = static_cast<u32>(access.bytes);
  const bool is_single = access.aligned && bytes <= 16;
  if (is_single) count_access(access.writes ? Access::stg : Access::ldg, bits_at(access.address), bytes, true, access.line);
  const bool admitted = is_single ? admits_global(access.address, bytes, access.writes, access.line)
                                  : admits_bulk(access.address, bytes, access.writes,
                                                access.writes ? "plain write" : "plain read", access.line);
  // What would fault now has been reported.
  if (!admitted && (access.writes || bytes == 16)) abandon_block();
  if (access.writes)
    note_overwrite(access, [&] { note_plain_write(access.address, bytes, group.clocks.actor(self->id), access.line); });
  else
    note_global_read(access.address, bytes, group.clocks.actor(self->id), access.line);
}

void note_shared(const PlainAccess& access) {
  Cta* home = home_of(access.address, access.bytes);
  if (!home) home = cta;
  const u32 bytes = static_cast<u32>(access.bytes);
  if (!home->shared.admits_plain(access.address, bytes, access.aligned, access.what(), access.line)) abandon_block();
  const u32 at = home->shared.address_of(access.address);
  if (access.aligned && bytes <= 16)
    count_access(access.writes ? Access::sts : Access::lds, at, bytes, true, access.line);
  if (access.writes)
    note_overwrite(access, [&] { home->shared.write(at, bytes, group.clocks.actor(self->id), access.line); });
  else
    home->shared.read(at, bytes, group.clocks.actor(self->id), access.line);
}

void report_statics(const PlainAccess& access) {
  report("kept-state", access.line, 0, [&] {
    return text("plain %s of %llu bytes by %s: a static variable or a device global", access.what(), access.bytes,
                my_name().c_str());
  });
}

void report_other_stack(const PlainAccess& access) {
  report("foreign-local", access.line, 0, [&] {
    return text("plain %s of %llu bytes by %s: a local variable of another thread", access.what(), access.bytes,
                my_name().c_str());
  });
  abandon_block();
}

void report_fixed(const PlainAccess& access, Region region) {
  report("write-to-input", access.line, 0, [&] {
    return text("plain write of %llu bytes by %s: %s", access.bytes, my_name().c_str(), words_for(region));
  });
  abandon_block();
}

bool is_free(Region region, bool writes) {
  return region == Region::own_stack || (!writes && region <= Region::constants && region != Region::other_stack);
}

void note(const PlainAccess& access, Region region) {
  settle_overwrite();
  const bool writes = access.writes;
  if (region != Region::elsewhere) ++(writes ? plain_counts.writes : plain_counts.reads);
  take_turn(access);
  switch (region) {
    case Region::global: return note_global(access);
    case Region::shared: return note_shared(access);
    case Region::statics: return report_statics(access);
    case Region::other_stack: return report_other_stack(access);
    case Region::elsewhere: end_outside(access);
    default: return report_fixed(access, region);
  }
}

void note_if_not_own(const void* address, u64 bytes, bool writes, bool aligned, const void* from) {
  if (!self || bytes == 0) return;
  const Region region = region_of(address, bytes);
  if (!is_free(region, writes)) note({address, bytes, writes, aligned, place_of(from)}, region);
}

// What lies so little above the running function's frame is in its own stack, or in the guard page of the next one,
// where it faults.
constexpr u64 kNear = 4096;

inline __attribute__((always_inline)) void note_plain(const void* address, u64 bytes, bool writes, bool aligned,
                                                       const void* from) {
  if (bits_at(address) - bits_at(__builtin_frame_address(0)) < kNear && bytes <= 16) return;
  note_if_not_own(address, bytes, writes, aligned, from);
}

}  // namespace

void settle_overwrite() {
  if (!overwrite.at) return;
  const bool is_same = std::memcmp(overwrite.at, overwrite.before, overwrite.bytes) == 0;
  overwrite.at = nullptr;
  if (!is_same) return;
  for (size_t i = std::min(overwrite.counts.size(), reports.size()); i-- > 0;) {
    if (!is_overwrite(reports[i])) continue;
    reports[i].count -= overwrite.counts[i];
    if (reports[i].count == 0) reports.erase(reports.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Region region_of(const void* address, u64 bytes) {
  const uintptr_t at = bits_at(address);
  const int owner = stack_owner(address);
  if (owner >= 0) return owner == self->id ? Region::own_stack : Region::other_stack;
  const uintptr_t own = bits_at(&self->context);
  if (at == bits_at(&context) || (at >= own && at < own + sizeof(Context))) return Region::context;
  if (near_buffer(address)) return Region::global;
  if (is_parameter(address, bytes)) return Region::parameters;
  if (image.all.holds(at, bytes)) return in_statics(at, bytes) ? Region::statics : Region::constants;
  return home_of(address, bytes) || cta->shared.is_near(address) ? Region::shared : Region::elsewhere;
}

void note_access(const void* address, u64 bytes, bool writes, int line) {
  if (!self || bytes == 0) return;
  const Region region = region_of(address, bytes);
  if (!is_free(region, writes)) note({address, bytes, writes, true, line}, region);
}

void note_result(void* target, u32 bytes, int line) {
  const Region region = region_of(target, bytes);
  if (!is_free(region, true)) note({target, bytes, true, true, line}, region);
}

void begin_plain_accesses(const void* kernel_function) {
  image = {};
  image.kernel = bits_at(kernel_function);
  plain_counts = {};
  dl_iterate_phdr(find_image, nullptr);
}

// ---- what g++ calls

namespace {

// Volatile accesses are relaxed ones of PTX's memory model: they race with no atomic, and order nothing.
void note_volatile(const volatile void* address, u32 bytes, bool writes, const void* from) {
  const void* const plain = const_cast<const void*>(address);
  if (!self) return;
  if (region_of(plain, bytes) != Region::global || !in_buffer(plain, bytes) || bits_at(plain) % bytes)
    return note_plain(plain, bytes, writes, true, from);
  const int line = place_of(from);
  ++(writes ? plain_counts.writes : plain_counts.reads);
  count_access(writes ? Access::stg : Access::ldg, bits_at(plain), bytes, true, line);
  if (!admits_global(plain, bytes, writes, line)) abandon_block();
  pass_on(const_cast<void*>(plain), bytes, writes ? Passing::store : Passing::load, {false, false}, line);
}

}  // namespace

#define EFEMU_FROM __builtin_return_address(0)

extern "C" {

void __tsan_init() {}

void __tsan_func_entry(void* from) {
  if (self) self->called_from.push_back(from);
}

void __tsan_func_exit() {
  if (self && !self->called_from.empty()) self->called_from.pop_back();
}

#define EFEMU_SIZE(bytes)                                                                                             \
  void __tsan_read##bytes(void* at) { note_plain(at, bytes, false, true, EFEMU_FROM); }                               \
  void __tsan_write##bytes(void* at) { note_plain(at, bytes, true, true, EFEMU_FROM); }                               \
  void __tsan_volatile_read##bytes(void* at) { note_volatile(at, bytes, false, EFEMU_FROM); }                         \
  void __tsan_volatile_write##bytes(void* at) { note_volatile(at, bytes, true, EFEMU_FROM); }                         \
  void __tsan_unaligned_read##bytes(void* at) { note_plain(at, bytes, false, false, EFEMU_FROM); }                    \
  void __tsan_unaligned_write##bytes(void* at) { note_plain(at, bytes, true, false, EFEMU_FROM); }                    \
  void __tsan_unaligned_volatile_read##bytes(void* at) { note_volatile(at, bytes, false, EFEMU_FROM); }               \
  void __tsan_unaligned_volatile_write##bytes(void* at) { note_volatile(at, bytes, true, EFEMU_FROM); }
EFEMU_SIZE(1)
EFEMU_SIZE(2)
EFEMU_SIZE(4)
EFEMU_SIZE(8)
EFEMU_SIZE(16)
#undef EFEMU_SIZE

void __tsan_read_range(void* at, unsigned long bytes) {
  note_plain(at, bytes, false, false, EFEMU_FROM);
}

void __tsan_write_range(void* at, unsigned long bytes) {
  note_plain(at, bytes, true, false, EFEMU_FROM);
}

void __tsan_vptr_update(void** at, void*) {
  note_plain(at, sizeof *at, true, true, EFEMU_FROM);
}

void __tsan_vptr_read(void** at) {
  note_plain(at, sizeof *at, false, true, EFEMU_FROM);
}

void* __wrap_memcpy(void* to, const void* from, unsigned long bytes) {
  note_plain(from, bytes, false, false, EFEMU_FROM);
  note_plain(to, bytes, true, false, EFEMU_FROM);
  return std::memcpy(to, from, bytes);
}

void* __wrap_memmove(void* to, const void* from, unsigned long bytes) {
  note_plain(from, bytes, false, false, EFEMU_FROM);
  note_plain(to, bytes, true, false, EFEMU_FROM);
  return std::memmove(to, from, bytes);
}

void* __wrap_memset(void* to, int value, unsigned long bytes) {
  note_plain(to, bytes, true, false, EFEMU_FROM);
  return std::memset(to, value, bytes);
}

int __wrap_memcmp(const void* a, const void* b, unsigned long bytes) {
  note_plain(a, bytes, false, false, EFEMU_FROM);
  note_plain(b, bytes, false, false, EFEMU_FROM);
  return std::memcmp(a, b, bytes);
}

}  // extern "C"

// Atomics of the compiler's own (__atomic_fetch_add and its kin). `order`: __ATOMIC_RELAXED to __ATOMIC_SEQ_CST.
namespace {

Order order_of(int order) {
  const bool both = order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
  return {both || order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME, both || order == __ATOMIC_RELEASE};
}

// Whether the atomic is of a buffer, and may be done; others are plain accesses.
template <class T>
void note_compiled_atomic(const volatile T* address, Passing passing, int order, const void* from) {
  if (!self) return;
  void* const at = const_cast<T*>(address);
  const bool writes = passing != Passing::load;
  if (region_of(at, sizeof(T)) != Region::global || !in_buffer(at, sizeof(T)))
    return note_plain(at, sizeof(T), writes, true, from);
  const int line = place_of(from);
  ++(writes ? plain_counts.writes : plain_counts.reads);
  count_access(writes ? Access::stg : Access::ldg, bits_at(at), sizeof(T), true, line);
  if (!admits_global(at, sizeof(T), writes, line)) abandon_block();
  pass_on(at, sizeof(T), passing, order_of(order), line);
}

template <class T, class Change>
T change(volatile T* at, int order, const void* from, Change change_of) {
  note_compiled_atomic(at, Passing::change, order, from);
  const T old = *at;
  *at = static_cast<T>(change_of(old));
  return old;
}

template <class T>
bool compare_exchange(volatile T* at, T* expected, T wanted, int order, const void* from) {
  note_compiled_atomic(at, Passing::change, order, from);
  const T old = *at;
  const bool equal = old == *expected;
  (equal ? *at : *expected) = equal ? wanted : old;
  return equal;
}

}  // namespace

extern "C" {

#define EFEMU_CHANGE(bits, name, T, expression)                                  \
  T __tsan_atomic##bits##_##name(volatile T* at, T value, int order) {           \
    return change(at, order, EFEMU_FROM, [value](T old) { return expression; }); \
  }
#define EFEMU_ATOMICS(bits, T)                                                                               \
  T __tsan_atomic##bits##_load(const volatile T* at, int order) {                                            \
    note_compiled_atomic(at, Passing::load, order, EFEMU_FROM);                                              \
    return *at;                                                                                              \
  }                                                                                                          \
  void __tsan_atomic##bits##_store(volatile T* at, T value, int order) {                                     \
    note_compiled_atomic(at, Passing::store, order, EFEMU_FROM);                                             \
    *at = value;                                                                                             \
  }                                                                                                          \
  EFEMU_CHANGE(bits, exchange, T, (static_cast<void>(old), value))                                           \
  EFEMU_CHANGE(bits, fetch_add, T, old + value)                                                              \
  EFEMU_CHANGE(bits, fetch_sub, T, old - value)                                                              \
  EFEMU_CHANGE(bits, fetch_and, T, old & value)                                                              \
  EFEMU_CHANGE(bits, fetch_or, T, old | value)                                                               \
  EFEMU_CHANGE(bits, fetch_xor, T, old ^ value)                                                              \
  EFEMU_CHANGE(bits, fetch_nand, T, ~(old & value))                                                          \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T wanted, int order, int) { \
    return compare_exchange(at, expected, wanted, order, EFEMU_FROM);                                        \
  }                                                                                                          \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T wanted, int order, int) {  \
    return compare_exchange(at, expected, wanted, order, EFEMU_FROM);                                        \
  }
EFEMU_ATOMICS(8, u8)
EFEMU_ATOMICS(16, u16)
EFEMU_ATOMICS(32, u32)
EFEMU_ATOMICS(64, u64)
#undef EFEMU_ATOMICS
#undef EFEMU_CHANGE

void __tsan_atomic_thread_fence(int) {
  if (self) fence_gpu(place_of(EFEMU_FROM));
}

void __tsan_atomic_signal_fence(int) {}

}  // extern "C"

}  // namespace efemu
