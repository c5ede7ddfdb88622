// Tells the calls apart that lead to one line of the kernel, for a kernel that was built for that. Reports nothing.
#pragma once
#include <vector>

#include "float16.h"

namespace efemu {

// Numbers from here on stand for a line and the calls that led to it, wherever a line's number is kept: in 16 bits.
constexpr int kFirstSite = 1 << 15;

// A line, and where the thread was in the kernel's library when it came there, see calls_in_kernel().
struct CallSite {
  int line;
  std::vector<u64> calls;
};

// A number for a place in the kernel's code whose line only the debug information knows: the offset of the place, and
// of those that it was called from. Its site has line 0. Numbers stay good from launch to launch of one library.
int code_site(const u64* calls, size_t count);

// From now on the calls that lead to these lines are told apart; 0 is no line. Those known so far are forgotten where lines or
// library are others than before: memory may still hold their numbers.
void watch_lines(const u32 (&lines)[4], const char* library);
// The sites met since then: the first one's number is kFirstSite.
const std::vector<CallSite>& call_sites();

}  // namespace efemu
