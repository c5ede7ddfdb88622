// The ef:: layer for a kernel whose own loads and stores the emulator sees: included before its text, so that what the
// layer's functions do is left out, for they call the emulator themselves. What follows it in the text is seen.
#pragma once

// All functions of the layer and of the emulator's headers are inline.
#define inline inline __attribute__((no_sanitize("thread")))
#include "../../device/ef.h"
#undef inline

// NVRTC knows these without a header; here they are calls that the linker hands to the emulator.
extern "C" {
void* memcpy(void*, const void*, __SIZE_TYPE__);
void* memmove(void*, const void*, __SIZE_TYPE__);
void* memset(void*, int, __SIZE_TYPE__);
int memcmp(const void*, const void*, __SIZE_TYPE__);
}
#define __builtin_memcpy memcpy
#define __builtin_memmove memmove
#define __builtin_memset memset
#define __builtin_memcmp memcmp

namespace ef {

// The one primitive whose results may be told to go anywhere.
template <class T>
void unpack2_seen(float& lo, float& hi, u32 packed, T type, int line = __builtin_LINE()) {
  float first, second;
  unpack2(first, second, packed, type);
  efemu::give(lo, first, line);
  efemu::give(hi, second, line);
}

}  // namespace ef
#define unpack2 unpack2_seen
