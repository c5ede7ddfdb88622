// TMA: boxes of a tensor of 1 to 5 dimensions between global and shared memory, swizzled on the way.
//
// The box lies packed in shared memory, innermost dimension first; a swizzle moves its 16-byte chunks by bits of
// their absolute addresses. What lies outside of the tensor arrives as zeros, or NaN, element by element. Stores and
// additions know 16-byte pieces only, on an H200 (docs/conformance.md): a piece that begins inside a row of the tensor
// is written whole, over the padding behind the row. Every box begins at a multiple of 16 bytes of its row, one that is
// written at no negative coordinate: elsewhere the GPU ends the kernel.
#include <algorithm>
#include <cstring>

#include "bulk.h"
#include "cluster.h"
#include "counters.h"
#include "global.h"
#include "mbarrier.h"

namespace efemu {
namespace {

constexpr u32 kMapMark = 0x70616d74;  // in TensorMap::reserved, by evoflash/emulator/tensor_map.py
constexpr u32 kMapAlignment = 64;
constexpr u32 kBoxAlignment = 128;
constexpr u32 kChunkBytes = 16;
constexpr u16 kNan = 0x7fff;  // in f16 and bf16; two of them are one in float
constexpr u16 kZero = 0;

// A tensor map, where in it a box begins, and whether the box is written there or read.
struct Box {
  TensorMap map;
  int at[5];
  bool writes;

  u32 row_bytes() const { return map.box[0] * map.element_bytes; }
  u32 rows() const {
    u32 count = 1;
    for (u32 d = 1; d < map.rank; ++d) count *= map.box[d];
    return count;
  }
  u32 bytes() const { return rows() * row_bytes(); }
};

// One row of a box, as far as it is copied: bytes `begin` to `end` of it, from or to `global`. Empty: outside.
struct Row {
  u32 number;
  u32 begin, end;
  u8* global;
};

bool inside_outer_dimensions(const Box& box, u32 row, u64* offset) {
  *offset = 0;
  for (u32 d = 1; d < box.map.rank; ++d) {
    const long long at = box.at[d] + static_cast<long long>(row % box.map.box[d]);
    row /= box.map.box[d];
    if (at < 0 || static_cast<u64>(at) >= box.map.dim[d]) return false;
    *offset += static_cast<u64>(at) * box.map.stride[d - 1];
  }
  return true;
}

u32 whole_chunks(u32 bytes) {
  return (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
}

Row row_of(const Box& box, u32 number) {
  const long long size = box.map.element_bytes, first = box.at[0];
  const long long begin = std::max(0ll, -first);
  const long long end = std::min<long long>(box.map.box[0], static_cast<long long>(box.map.dim[0]) - first);
  u64 offset = 0;
  if (begin >= end || !inside_outer_dimensions(box, number, &offset)) return {number, 0, 0, nullptr};
  u8* const global = reinterpret_cast<u8*>(box.map.base + offset) + (first + begin) * size;
  const u32 end_bytes = static_cast<u32>(end * size);
  return {number, static_cast<u32>(begin * size), box.writes ? whole_chunks(end_bytes) : end_bytes, global};
}

// Of the rows that lie in the tensor at least in part.
template <class Visit>
void for_each_row(const Box& box, Visit visit) {
  for (u32 number = 0; number < box.rows(); ++number) {
    const Row row = row_of(box, number);
    if (row.end > row.begin) visit(row);
  }
}

u32 swizzled(u32 address, u32 span_bytes) {
  const u32 bits = span_bytes ? span_bytes - kChunkBytes : 0;  // 0x70, 0x30 or 0x10
  return address ^ (address >> 3 & bits);
}

// The places of a row's bytes `begin` to `end` in shared memory, as one or several runs: visit(address, at, bytes).
template <class Visit>
void for_each_run(const Box& box, u32 target, const Row& row, Visit visit) {
  const u32 start = target + row.number * box.row_bytes();
  if (box.map.swizzle_bytes == 0) return visit(start + row.begin, row.begin, row.end - row.begin);
  for (u32 at = row.begin; at < row.end;) {
    const u32 bytes = std::min(row.end, at / kChunkBytes * kChunkBytes + kChunkBytes) - at;
    visit(swizzled(start + at, box.map.swizzle_bytes), at, bytes);
    at += bytes;
  }
}

// A row's chunks change places only among themselves.
void fill_row(const Box& box, SharedMemory& shared, u32 start) {
  u8* const bytes = shared.at(start);
  for (u32 i = 0; i < box.row_bytes(); i += 2) std::memcpy(bytes + i, box.map.fill_nan ? &kNan : &kZero, 2);
}

void load_box(const Box& box, SharedMemory& shared, u32 target) {
  for (u32 number = 0; number < box.rows(); ++number) {
    const Row row = row_of(box, number);
    if (row.end - row.begin < box.row_bytes()) fill_row(box, shared, target + number * box.row_bytes());
    if (row.end == row.begin) continue;
    for_each_run(box, target, row, [&](u32 address, u32 at, u32 bytes) {
      std::memcpy(shared.at(address), row.global + (at - row.begin), bytes);
    });
  }
}

// ---- checks

[[noreturn]] void refuse_map(int line, const std::string& message) {
  report("tensor-map", line, 0, [&] { return message; });
  abandon_block();
}

// Where maps may be: TMA reads them from global memory or from the kernel's parameters, not from a thread's own.
void check_map(const TensorMap* map, int line) {
  if (!is_parameter(map, sizeof(TensorMap)) && !near_buffer(map))
    refuse_map(line, text("%s gives a tensor map that is neither a parameter of the kernel (EF_TMAP) nor in a buffer",
                          my_name().c_str()));
  if (reinterpret_cast<u64>(map) % kMapAlignment)
    refuse_map(line, text("%s gives a tensor map at an address that is no multiple of %u", my_name().c_str(),
                          kMapAlignment));
  if (map->reserved != kMapMark)
    refuse_map(line, text("%s gives the address of something that is no tensor map", my_name().c_str()));
}

// Of the whole tensor; larger than any buffer where it does not fit a number.
u64 extent_bytes(const TensorMap& map) {
  constexpr u64 kHuge = 1ull << 62;
  unsigned __int128 bytes = static_cast<unsigned __int128>(map.dim[0]) * map.element_bytes;
  for (u32 d = 1; d < map.rank; ++d) bytes += static_cast<unsigned __int128>(map.dim[d] - 1) * map.stride[d - 1];
  return bytes > kHuge ? kHuge : static_cast<u64>(bytes);
}

// Where boxes may begin. An H200 ended kernels as illegal instructions that began off 16 bytes, or stored at a negative
// innermost coordinate (all others were negative as well, where there were others): other negative coordinates have not
// been tried alone, so that nothing is promised of them either.
void check_begin(const Box& box, const char* op, int line) {
  const long long first = static_cast<long long>(box.at[0]) * box.map.element_bytes;
  if (first % kChunkBytes)
    refuse_map(line, text("%s by %s of a box that begins %lld bytes into a row (coordinate %d): it must be a multiple "
                          "of %u; a GPU ends the kernel as an illegal instruction",
                          op, my_name().c_str(), first, box.at[0], kChunkBytes));
  for (u32 d = 0; box.writes && d < box.map.rank; ++d)
    if (box.at[d] < 0)
      refuse_map(line, text("%s by %s of a box that begins at coordinate %d of dimension %u: a box that is written "
                            "begins at none below 0; %s as an illegal instruction",
                            op, my_name().c_str(), box.at[d], d,
                            d ? "a GPU may end the kernel" : "a GPU ends the kernel"));
}

Box checked_box(const TensorMap* map, const int* at, int rank, bool writes, const char* op, int line) {
  note_progress(line);
  check_map(map, line);
  if (map->rank != static_cast<u32>(rank))
    refuse_map(line, text("%s by %s with %d coordinates: the tensor has %u dimensions", op, my_name().c_str(), rank,
                          map->rank));
  Box box{*map, {}, writes};
  std::copy_n(at, rank, box.at);
  check_begin(box, op, line);
  const std::string what = text("%s: the tensor of the map", op);
  if (!admits_bulk(reinterpret_cast<void*>(map->base), extent_bytes(*map), writes, what.c_str(), line)) abandon_block();
  return box;
}

u64 count_box(const Box& box) {
  u64 sectors = 0;
  ++counters.tma;
  counters.tma_bytes += box.bytes();
  for_each_row(box, [&](const Row& row) { sectors += sectors_of(row.global, row.end - row.begin); });
  return sectors;
}

// A box that leaves shared memory is read where it lies in the tensor.
Box checked_box_out(const TensorMap* map, const int* at, int rank, u32 source, bool adds, const char* op, int line) {
  const Box box = checked_box(map, at, rank, true, op, line);
  counters.write_sectors += count_box(box);
  if (!cta->shared.admits(source, box.bytes(), kBoxAlignment, op, line)) abandon_block();
  const CopyingOut actors = copies_out();
  const std::string what = text("%s: a row of the box, in whole pieces of %u bytes", op, kChunkBytes);
  for_each_row(box, [&](const Row& row) {
    if (!admits_bulk(row.global, row.end - row.begin, true, what.c_str(), line)) abandon_block();
    for_each_run(box, source, row,
                 [&](u32 address, u32, u32 bytes) { cta->shared.read(address, bytes, actors.reads, line); });
    (adds ? note_atomic : note_global_write)(row.global, row.end - row.begin, actors.writes, line);
  });
  return box;
}

void note_box_read(const Box& box, const Actor& actor, int line) {
  for_each_row(box, [&](const Row& row) { note_global_read(row.global, row.end - row.begin, actor, line); });
}

template <class Put>
void start_box_out(const Box& box, u32 source, int line, Put put) {
  Cta* const from = cta;
  start_copy_out(line, [=] {
    for_each_row(box, [&](const Row& row) {
      for_each_run(box, source, row, [&](u32 address, u32 at, u32 bytes) {
        put(row.global + (at - row.begin), from->shared.at(address), bytes);
      });
    });
  });
}

}  // namespace

// ---- entry points

void tma_load(u32 target, const TensorMap* map, const int* at, int rank, u32 barrier, u32 mask, int line) {
  constexpr const char* op = "tma_load";
  const Box box = checked_box(map, at, rank, false, op, line);
  counters.read_sectors += count_box(box);
  const std::vector<Destination> all = destinations(target, barrier, mask, op, line);
  for (const Destination& to : all) {
    if (!to.home->shared.admits(to.target, box.bytes(), kBoxAlignment, op, line)) abandon_block();
    const int agent = completing_agent(*to.home, to.barrier, op, line);
    if (&to == &all.front()) note_box_read(box, group.clocks.on_behalf(agent, self->id, Space::global), line);
    const Epoch epoch = begin_copy_to(*to.home, to.target, box.bytes(), to.barrier, line);
    deliver(line, [=] {
      load_box(box, to.home->shared, to.target);
      complete_bytes(*to.home, to.barrier, box.bytes(), epoch);
    });
  }
}

void tma_store(const TensorMap* map, const int* at, int rank, u32 source, int line) {
  const Box box = checked_box_out(map, at, rank, source, false, "tma_store", line);
  start_box_out(box, source, line, [](void* to, const void* from, u32 bytes) { std::memcpy(to, from, bytes); });
}

void tma_reduce_add(const TensorMap* map, const int* at, int rank, u32 source, bool is_bf16, int line) {
  const Box box = checked_box_out(map, at, rank, source, true, "tma_reduce_add", line);
  const Element element = box.map.element_bytes == 4 ? Element::f32 : is_bf16 ? Element::bf16 : Element::f16;
  start_box_out(box, source, line,
                [element](void* to, const void* from, u32 bytes) { add_elements(to, from, bytes, element); });
}

void tma_prefetch(const TensorMap* map, const int* at, int rank, int line) {
  checked_box(map, at, rank, false, "tma_prefetch", line);
}

void tma_prefetch_map(const TensorMap* map, int line) {
  note_progress(line);
  check_map(map, line);
}

}  // namespace efemu
