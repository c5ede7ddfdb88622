// Numbers for lines together with the calls that led to them.
#include "call_sites.h"

#include <algorithm>
#include <map>

#include "interface.h"
#include "signals.h"

namespace efemu {
namespace {

constexpr size_t kMostSites = 4096;  // beyond, a line is its own number again

u32 watched[4] = {};
std::vector<CallSite> sites;
std::map<std::vector<u64>, int> numbers;  // of the calls, which end on the line

bool is_watched(int line) {
  return std::find(std::begin(watched), std::end(watched), static_cast<u32>(line)) != std::end(watched);
}

}  // namespace

void watch_lines(const u32 (&lines)[4]) {
  std::copy_n(lines, 4, watched);
  sites.clear();
  numbers.clear();
}

const std::vector<CallSite>& call_sites() {
  return sites;
}

int site(int line) {
  if (line == 0 || !is_watched(line)) return line;
  const std::vector<u64> calls = calls_in_kernel();
  const auto known = numbers.find(calls);
  if (known != numbers.end()) return known->second;
  if (calls.empty() || sites.size() >= kMostSites) return line;
  sites.push_back({line, calls});
  return numbers[calls] = kFirstSite + static_cast<int>(sites.size()) - 1;
}

}  // namespace efemu
