// Numbers for lines together with the calls that led to them.
#include "call_sites.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "interface.h"
#include "signals.h"

namespace efemu {
namespace {

constexpr size_t kMostSites = 4096;        // of watched lines: beyond, a line is its own number again
constexpr size_t kMostNumbers = (1 << 15) - 1;  // of all sites

u32 watched[4] = {};
std::vector<CallSite> sites;
std::map<std::vector<u64>, int> numbers;  // of the calls, which end on the line
std::string of_library;

// Numbers of places in the code by a hash of their calls: looked up at every plain access.
std::unordered_map<u64, int> code_numbers;

u64 hash_of(const u64* calls, size_t count) {
  u64 hash = count;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ calls[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  return hash;
}

bool is_watched(int line) {
  return std::find(std::begin(watched), std::end(watched), static_cast<u32>(line)) != std::end(watched);
}

}  // namespace

void watch_lines(const u32 (&lines)[4], const char* library) {
  if (of_library == library && std::equal(lines, lines + 4, watched)) return;
  of_library = library;
  std::copy_n(lines, 4, watched);
  sites.clear();
  numbers.clear();
  code_numbers.clear();
}

int code_site(const u64* calls, size_t count) {
  const auto [known, is_new] = code_numbers.try_emplace(hash_of(calls, count), 0);
  if (!is_new) return known->second;
  if (sites.size() >= kMostNumbers) return 0;
  sites.push_back({0, std::vector<u64>(calls, calls + count)});
  return known->second = kFirstSite + static_cast<int>(sites.size()) - 1;
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
