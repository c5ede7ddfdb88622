// Grouping of lanes' accesses into warp instructions, bank conflicts, and sectors.
#include "counters.h"

#include <algorithm>

#include "block.h"
#include "path.h"

namespace efemu {

const char* const kAccessNames[kAccessKinds] = {"lds", "sts", "ldg", "stg", "cp_async_shared", "cp_async_global",
                                                "ldmatrix", "stmatrix"};
Counters counters;
Tally tally;

namespace {

// One warp instruction, as far as its lanes have come.
struct WarpAccess {
  u64 address[kWarpSize];
  u32 arrived, active, bytes;
};

// One line's accesses of one kind by one warp since it last converged.
struct Site {
  u32 key;
  u32 executions[kWarpSize];  // by lane
  u32 settled;                // requests already counted; they are gone from `requests` up to `head`
  size_t head;
  std::vector<WarpAccess> requests;
};

struct WarpSites {
  std::vector<u16> index;  // by key: 1 + place in sites, or 0
  std::vector<Site> sites;
  std::vector<u16> open;  // places of the sites with executions
};

std::vector<WarpSites> warp_sites;
std::vector<SiteTotal> totals;  // by key

// Sectors of global memory that plain loads brought near: what is left of the L1 beside a large shared memory.
constexpr u32 kCachedSectors = 1024;
u64 cached[kCachedSectors];

struct RecentProducts {
  const void* accumulators[kProductDistances];
};
std::vector<RecentProducts> recent_products;  // by warp

u32 key_of(int line, Access access) {
  return static_cast<u32>(line) * kAccessKinds + static_cast<u32>(access);
}

SiteTotal& total_of(u32 key) {
  if (key >= totals.size()) totals.resize(key + 1, SiteTotal());
  return totals[key];
}

struct Cost {
  u32 actual, ideal;
};

// Most words that one of the 32 banks must deliver for these lanes; equal words are delivered once.
u32 conflict_ways(const WarpAccess& request, int first_lane, int lanes) {
  u64 words[kWarpSize][kWarpSize];
  u32 used[kWarpSize] = {}, most = 0;
  const u32 words_each = std::max(request.bytes / 4, 1u);
  for (int lane = first_lane; lane < first_lane + lanes; ++lane) {
    if (!(request.active >> lane & 1)) continue;
    for (u32 i = 0; i < words_each; ++i) {
      const u64 word = request.address[lane] / 4 + i;
      const u32 bank = word % kWarpSize;
      u64* const end = words[bank] + used[bank];
      if (std::find(words[bank], end, word) != end) continue;
      *end = word;
      most = std::max(most, ++used[bank]);
    }
  }
  return most;
}

// The same for eight lanes with 16 bytes each, at multiples of 16: four banks deliver all of a lane's.
u32 conflict_ways_16(const WarpAccess& request, int first_lane) {
  u64 pieces[8][8];
  u32 used[8] = {}, most = 0;
  for (int lane = first_lane; lane < first_lane + 8; ++lane) {
    if (!(request.active >> lane & 1)) continue;
    const u64 piece = request.address[lane] / 16;
    u64* const known = pieces[piece % 8];
    u32& count = used[piece % 8];
    u32 i = 0;
    while (i < count && known[i] != piece) ++i;
    if (i < count) continue;
    known[count++] = piece;
    most = std::max(most, count);
  }
  return most;
}

bool all_aligned_16(const WarpAccess& request) {
  u64 low_bits = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) low_bits |= request.active >> lane & 1 ? request.address[lane] : 0;
  return low_bits % 16 == 0;
}

// Up to 4 bytes a warp goes in one pass, 8 bytes by half warps, 16 bytes by quarters.
Cost shared_cost(const WarpAccess& request) {
  const int lanes = request.bytes <= 4 ? 32 : request.bytes == 8 ? 16 : 8;
  const bool whole_pieces = request.bytes == 16 && all_aligned_16(request);
  Cost cost{};
  for (int first = 0; first < kWarpSize; first += lanes) {
    const u32 ways = whole_pieces ? conflict_ways_16(request, first) : conflict_ways(request, first, lanes);
    cost.actual += ways;
    cost.ideal += ways > 0;
  }
  return cost;
}

Cost global_cost(const WarpAccess& request) {
  constexpr u64 kSectorBytes = 32;
  u64 sectors[kWarpSize];
  u32 active = 0;
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (request.active >> lane & 1) sectors[active++] = request.address[lane] / kSectorBytes;
  std::sort(sectors, sectors + active);
  const u32 distinct = static_cast<u32>(std::unique(sectors, sectors + active) - sectors);
  return {distinct, static_cast<u32>((active * request.bytes + kSectorBytes - 1) / kSectorBytes)};
}

void add_wavefronts(Cost cost) {
  counters.wavefronts += cost.actual;
  counters.ideal_wavefronts += cost.ideal;
}

void count_l1(const WarpAccess& request) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (!(request.active >> lane & 1)) continue;
    const u64 sector = request.address[lane] / 32;
    u64& slot = cached[(sector * 0x9e3779b97f4a7c15u >> 40) % kCachedSectors];
    counters.l1_misses += slot != sector;
    slot = sector;
  }
}

void settle(u32 key, const WarpAccess& request) {
  const Access access = static_cast<Access>(key % kAccessKinds);
  ++counters.accesses[key % kAccessKinds];
  if (!request.active) return;
  const bool global = access == Access::ldg || access == Access::stg || access == Access::copy_global;
  const Cost cost = global ? global_cost(request) : shared_cost(request);
  if (access == Access::ldg) {
    counters.load_sectors += cost.actual;
    count_l1(request);
  }
  if (!global)
    add_wavefronts(cost);
  else
    (access == Access::stg ? counters.write_sectors : counters.read_sectors) += cost.actual;
  SiteTotal& total = total_of(key);
  ++total.requests;
  total.actual += cost.actual;
  total.ideal += cost.ideal;
}

Site& site_of(WarpSites& warp, u32 key) {
  if (key >= warp.index.size()) warp.index.resize(key + 1, 0);
  if (warp.index[key] == 0) {
    warp.sites.push_back({key, {}, 0, 0, {}});
    warp.index[key] = static_cast<u16>(warp.sites.size());
  }
  return warp.sites[warp.index[key] - 1];
}

void settle_complete(Site& site, u32 lanes) {
  while (site.head < site.requests.size() && site.requests[site.head].arrived == lanes) {
    settle(site.key, site.requests[site.head++]);
    ++site.settled;
  }
  if (site.head < site.requests.size()) return;
  site.requests.clear();
  site.head = 0;
}

void settle_site(Site& site) {
  for (; site.head < site.requests.size(); ++site.head) settle(site.key, site.requests[site.head]);
  site.requests.clear();
  site.head = site.settled = 0;
  std::fill(std::begin(site.executions), std::end(site.executions), 0u);
}

}  // namespace

void reset_counts() {
  counters = {};
  tally = {};
  totals.clear();
  warp_sites.clear();
}

void begin_block_counts(int warps) {
  recent_products.assign(warps, RecentProducts());
  std::fill(std::begin(cached), std::end(cached), 0u);
}

void count_mma(const void* accumulator) {
  ++counters.mma;
  const void** recent = recent_products[self->warp].accumulators;
  const void** const found = std::find(recent, recent + kProductDistances, accumulator);
  if (found != recent + kProductDistances) ++counters.mma_after[found - recent];
  std::copy_backward(recent, recent + kProductDistances - 1, recent + kProductDistances);
  recent[0] = accumulator;
}

namespace {

void count_round(Round& round, u64& rounds) {
  if (round.segment == self->segment && round.ex2 == tally.ex2) return;
  round = {self->segment, tally.ex2};
  ++rounds;
}

}  // namespace

void count_access(Access access, u64 address, u32 bytes, bool active, int line) {
  if (access == Access::ldg) count_round(self->load_round, tally.load_rounds);
  if (access == Access::lds) count_round(self->shared_round, tally.shared_rounds);
  if (static_cast<size_t>(self->warp) >= warp_sites.size()) warp_sites.resize(group.warps.size());
  WarpSites& warp = warp_sites[self->warp];
  Site& site = site_of(warp, key_of(line, access));
  if (site.settled == 0 && site.requests.empty()) warp.open.push_back(static_cast<u16>(&site - warp.sites.data()));
  // A request's place among those still held; this lane cannot have missed a settled one, for it was in it.
  const size_t place = site.executions[self->lane]++ - site.settled + site.head;
  while (site.requests.size() <= place) site.requests.push_back({{}, 0, 0, bytes});
  WarpAccess& request = site.requests[place];
  request.address[self->lane] = address;
  request.arrived |= 1u << self->lane;
  if (active) request.active |= 1u << self->lane;
  if (place == site.head && request.arrived == group.warps[self->warp].lanes)
    settle_complete(site, request.arrived);
}

namespace {

void settle_rows(Access access, const u64 (&rows)[32], int matrices, int line) {
  WarpAccess request{{}, 0, matrices == 4 ? ~0u : (1u << 8 * matrices) - 1, 16};
  std::copy(std::begin(rows), std::end(rows), request.address);
  settle(key_of(line, access), request);
}

}  // namespace

void count_ldmatrix(const u64 (&rows)[32], int matrices, int line) {
  counters.matrices += static_cast<u64>(matrices);
  settle_rows(Access::ldmatrix, rows, matrices, line);
}

void count_stmatrix(const u64 (&rows)[32], int matrices, int line) {
  counters.stored_matrices += static_cast<u64>(matrices);
  settle_rows(Access::stmatrix, rows, matrices, line);
}

void count_warp_access(Access access, const u64 (&addresses)[32], u32 bytes, int line) {
  WarpAccess request{{}, ~0u, ~0u, bytes};
  std::copy(std::begin(addresses), std::end(addresses), request.address);
  settle(key_of(line, access), request);
}

void settle_accesses(int warp) {
  if (static_cast<size_t>(warp) >= warp_sites.size()) return;
  WarpSites& sites = warp_sites[warp];
  if (sites.open.empty()) return;
  if (self) attribute();
  for (u16 place : sites.open) settle_site(sites.sites[place]);
  sites.open.clear();
  attribute_to(warp);
}

void settle_all_accesses() {
  for (size_t warp = 0; warp < warp_sites.size(); ++warp) settle_accesses(static_cast<int>(warp));
}

std::vector<SiteTotal> site_totals() {
  std::vector<SiteTotal> out;
  for (u32 key = 0; key < totals.size(); ++key) {
    if (totals[key].requests == 0) continue;
    out.push_back(totals[key]);
    out.back().line = static_cast<int>(key / kAccessKinds);
    out.back().access = static_cast<Access>(key % kAccessKinds);
  }
  return out;
}

}  // namespace efemu
