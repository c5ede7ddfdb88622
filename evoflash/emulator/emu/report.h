// What the detectors found: a list without repetitions. Formats text; decides nothing.
#pragma once
#include <string>
#include <vector>

#include "float16.h"

namespace efemu {

// One finding. `line` is where it happened, `line2` the other place involved, 0 when unknown.
struct Report {
  const char* kind;
  int line, line2;
  u64 count;
  std::string message;
  u64 code_offset;  // in the kernel's library, where the line is only known to the debug information; or 0
  std::vector<u64> calls;  // in that library: where the running thread is, and what called it, innermost first
};

// The findings of the running launch.
extern std::vector<Report> reports;

// Counts a finding that is on the list already; the caller writes the message only of a new one.
bool reported_before(const char* kind, int line, int line2);
void add_report(const char* kind, int line, int line2, std::string message, u64 code_offset = 0);

// `message` is called, for a std::string, only when the finding is new: faulty kernels repeat themselves.
template <class Message>
void report(const char* kind, int line, int line2, Message message) {
  if (!reported_before(kind, line, line2)) add_report(kind, line, line2, message());
}

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);
// "0-31,64": numbers in rising order, neighbours joined.
std::string ranges(std::vector<int> numbers);

}  // namespace efemu
