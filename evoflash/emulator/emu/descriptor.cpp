// Decoding wgmma's matrix descriptors, by the rules of the PTX ISA (9.7.15.5.1) as checked on an H200.
#include "descriptor.h"

#include "report.h"

namespace efemu {
namespace {

constexpr u64 kReserved = 0x3ff1c000c000c000ull;

// By the field's values: no swizzle, 128, 64 and 32 bytes.
constexpr u32 kWidths[] = {1, 8, 4, 2};

u32 field(u64 descriptor, u32 first_bit) {
  return static_cast<u32>(descriptor >> first_bit & 0x3fff) * kPiece;
}

void refuse_descriptor(u64 descriptor, const char* name, int line, const std::string& why) {
  report("wgmma-descriptor", line, 0,
         [&] { return text("descriptor %016llx of %s: %s", descriptor, name, why.c_str()); });
}

}  // namespace

Operand read_descriptor(u64 descriptor, bool mn_major, const char* name, int line) {
  const u32 width = kWidths[descriptor >> 62];
  const Operand operand{field(descriptor, 0), field(descriptor, 16), field(descriptor, 32), width, mn_major};
  if (const u64 base_offset = descriptor >> 49 & 7)
    refuse_descriptor(
        descriptor, name, line,
        text("its base offset is %llu; align the tile to the swizzle's pattern and leave it 0", base_offset));
  if (descriptor & kReserved) refuse_descriptor(descriptor, name, line, "bits are set that belong to no field");
  // The pattern repeats after 8 rows; a start inside its first row is how a kernel goes along k.
  const u32 pattern = width * kPiece * 8, row = 128;
  if (width > 1 && operand.start % pattern >= row)
    refuse_descriptor(descriptor, name, line,
                      text("its start, shared address %u, lies %u bytes into a pattern of the %u-byte swizzle: "
                           "with base offset 0 a tile begins in the first 128 of %u",
                           operand.start, operand.start % pattern, width * kPiece, pattern));
  return operand;
}

u32 piece_address(const Operand& operand, u32 mn, u32 k) {
  const u32 width = operand.width, row = width * kPiece;
  u32 at = operand.start;
  if (operand.mn_major && width == 1) {
    at += mn / 8 * operand.stride + k % 8 * kPiece + k / 8 * operand.leading;
  } else if (operand.mn_major) {
    at += mn % (8 * width) * 2 + mn / (8 * width) * operand.leading + k % 8 * row + k / 8 * operand.stride;
  } else {
    at += mn % 8 * row + mn / 8 * operand.stride + (width == 1 ? k / 8 * operand.leading : k * 2);
  }
  return at ^ (at >> 3 & (width - 1) * kPiece);
}

}  // namespace efemu
