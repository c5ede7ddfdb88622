// The list of findings and the formatting of their messages.
#include "report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "block.h"
#include "signals.h"

namespace efemu {

std::vector<Report> reports;

namespace {
constexpr size_t kMostReports = 64;  // different ones; a kernel with more has one cause for many
}

bool reported_before(const char* kind, int line, int line2) {
  for (Report& known : reports)
    if (known.line == line && known.line2 == line2 && std::strcmp(known.kind, kind) == 0) {
      ++known.count;
      return true;
    }
  return reports.size() >= kMostReports;
}

void add_report(const char* kind, int line, int line2, std::string message, u64 code_offset) {
  const Dim3& at = cta->index;
  const std::string place = text("block (%u,%u,%u): ", at.x, at.y, at.z);
  // A signal handler runs on a stack of its own.
  reports.push_back({kind, line, line2, 1, place + message, code_offset,
                     code_offset ? std::vector<u64>() : calls_in_kernel()});
}

std::string text(const char* format, ...) {
  char buffer[1024];
  va_list values;
  va_start(values, format);
  std::vsnprintf(buffer, sizeof buffer, format, values);
  va_end(values);
  return buffer;
}

std::string ranges(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string out;
  for (size_t first = 0; first < numbers.size();) {
    size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!out.empty()) out += ',';
    out += std::to_string(numbers[first]);
    if (last > first) out += '-' + std::to_string(numbers[last]);
    first = last + 1;
  }
  return out;
}

}  // namespace efemu
