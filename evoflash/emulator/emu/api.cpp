// The C interface that evoflash/emulator/launch.py calls: one launch in, one JSON document out.
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "block.h"
#include "call_sites.h"
#include "counters.h"
#include "global.h"
#include "order.h"
#include "path.h"
#include "plain_accesses.h"
#include "signals.h"

namespace efemu {

// Mirrored by a ctypes.Structure in emulator.py.
struct LaunchRequest {
  const char* library;
  const char* entry;
  void** arguments;
  const u32* sizes_bytes;
  u32 parameters;
  u32 grid[3], block[3], cluster[3];
  u32 smem_bytes;
  u32 registers;  // of a thread at launch, 0: as many as may be
  u32 resident;   // all blocks run together; otherwise those of a cluster
  u32 dependent;  // launched before the launch before it has ended: see grid_wait
  u32 delivery, schedule, seed;
  double cpu_limit_s;
  u32 watched[4];  // lines whose callers are told apart, 0: none
};

namespace {

std::string answer;

// Agents that are no threads need numbers as well.
constexpr u64 kMostTogether = kMostAgents - 512;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string quoted(const std::string& raw) {
  std::string out = "\"";
  for (const char c : raw) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

const char* fail(const std::string& message) {
  answer = "{\"error\": " + quoted(message) + "}";
  return answer.c_str();
}

template <class Range, class Write>
std::string json_list(const Range& range, Write write) {
  std::string out = "[";
  for (const auto& item : range) out += (out.size() > 1 ? ", " : "") + write(item);
  return out + "]";
}

std::string report_json(const Report& found) {
  const auto number = [](u64 value) { return text("%llu", value); };
  return text("{\"kind\": \"%s\", \"line\": %d, \"line2\": %d, \"count\": %llu, \"code_offset\": %llu, \"calls\": ",
              found.kind, found.line, found.line2, found.count, found.code_offset) +
         json_list(found.calls, number) + ", \"message\": " + quoted(found.message) + "}";
}

std::string call_site_json(const CallSite& site) {
  const auto number = [](u64 value) { return text("%llu", value); };
  return text("[%d, ", site.line) + json_list(site.calls, number) + "]";
}

std::string site_json(const SiteTotal& site) {
  return text("[%d, \"%s\", %llu, %llu, %llu]", site.line, kAccessNames[static_cast<u32>(site.access)], site.requests,
              site.actual, site.ideal);
}

// Thread-level counts as warp instructions.
u64 warps_of(u64 threads) {
  return (threads + kWarpSize - 1) / kWarpSize;
}

std::string number_json(const std::string& name, u64 value) {
  return text("\"%s\": %llu", name.c_str(), value);
}

std::vector<std::string> work_json(const std::string& prefix, const Counters& c, const Tally& t) {
  const auto accesses = [&c](Access access) { return c.accesses[static_cast<u32>(access)]; };
  const struct {
    const char* name;
    u64 value;
  } all[] = {
      {"mma", c.mma},
      {"ldmatrix", (c.matrices + 3) / 4},
      {"stmatrix", (c.stored_matrices + 3) / 4},
      {"wgmma", c.wgmma},
      {"wgmma_macs", c.wgmma_macs},
      {"lds", accesses(Access::lds)},
      {"sts", accesses(Access::sts)},
      {"ldg", accesses(Access::ldg)},
      {"stg", accesses(Access::stg)},
      {"cp_async", accesses(Access::copy_shared)},
      {"shfl", c.shfl},
      {"vote", c.vote},
      {"barrier", warps_of(c.barrier)},
      {"commit", warps_of(c.commit)},
      {"wait", warps_of(c.wait)},
      {"ex2", warps_of(t.ex2)},
      {"rcp", warps_of(t.rcp)},
      {"lg2", warps_of(t.lg2)},
      {"fmax", warps_of(t.fmax)},
      {"fma", warps_of(t.fma)},
      {"pack", warps_of(t.pack)},
      {"load_rounds", warps_of(t.load_rounds)},
      {"shared_rounds", warps_of(t.shared_rounds)},
      {"smem_wavefronts", c.wavefronts},
      {"smem_wavefronts_ideal", c.ideal_wavefronts},
      {"global_read_sectors", c.read_sectors},
      {"global_write_sectors", c.write_sectors},
      {"load_sectors", c.load_sectors},
      {"l1_misses", c.l1_misses},
      {"tma", c.tma},
      {"tma_bytes", c.tma_bytes},
      {"mbarrier", c.mbarrier},
  };
  std::vector<std::string> out;
  for (const auto& counter : all) out.push_back(number_json(prefix + counter.name, counter.value));
  for (u32 i = 0; i < kProductDistances; ++i)
    out.push_back(number_json(prefix + text("mma_after%u", i + 1), c.mma_after[i]));
  return out;
}

std::vector<std::string> critical_json() {
  std::vector<std::string> out = work_json("critical_", critical.counters, for_all_lanes(critical.tally));
  out.push_back(number_json("critical_clock", static_cast<u64>(rough_cycles(critical))));
  return out;
}

std::vector<std::string> waits_json() {
  std::vector<std::string> out;
  for (const WaitTotal& total : wait_totals()) {
    out.push_back(number_json(text("wait@%d", total.line), warps_of(total.count)));
    out.push_back(number_json(text("age@%d", total.line), static_cast<u64>(total.age / kWarpSize)));
  }
  return out;
}

std::string counters_json() {
  std::vector<std::string> all = work_json("", counters, tally);
  all.push_back(number_json("ctas", counters.blocks));
  all.push_back(number_json("threads", counters.threads));
  if (plain_counts.reads || plain_counts.writes) {
    all.push_back(number_json("plain_reads", plain_counts.reads));
    all.push_back(number_json("plain_writes", plain_counts.writes));
  }
  for (const auto& more : {critical_json(), waits_json()}) all.insert(all.end(), more.begin(), more.end());
  std::string out = "{";
  for (const std::string& each : all) out += (out.size() > 1 ? ", " : "") + each;
  return out + "}";
}

u64 threads_of(const LaunchRequest& request) {
  return u64{request.block[0]} * request.block[1] * request.block[2];
}

// The blocks that run together, in threads; each begins with a new warp.
u64 group_threads(const LaunchRequest& request) {
  const auto product = [](const u32 (&sides)[3]) { return u64{sides[0]} * sides[1] * sides[2]; };
  const u64 block = (product(request.block) + kWarpSize - 1) / kWarpSize * kWarpSize;
  return block * product(request.resident ? request.grid : request.cluster);
}

std::string mismatch(const LaunchRequest& request, const Kernel& kernel) {
  for (int side = 0; side < 3; ++side)
    if (request.cluster[side] == 0 || request.grid[side] % request.cluster[side])
      return text("the grid's side %d, %u blocks, is no multiple of the cluster's, %u", side, request.grid[side],
                  request.cluster[side]);
  if (group_threads(request) > kMostTogether)
    return text("%llu threads would run together (%s), the emulator has room for %llu", group_threads(request),
                request.resident ? "the launch is resident" : "a cluster", kMostTogether);
  if (request.parameters != kernel.parameters)
    return text("%s takes %u arguments, %u were given", request.entry, kernel.parameters, request.parameters);
  for (u32 i = 0; i < kernel.parameters; ++i)
    if (request.sizes_bytes[i] != kernel.sizes_bytes[i])
      return text("argument %u of %s has %u bytes, %u were given", i, request.entry, kernel.sizes_bytes[i],
                  request.sizes_bytes[i]);
  return "";
}

Dim3 dim3_of(const u32 (&sides)[3]) {
  return {sides[0], sides[1], sides[2]};
}

void run_grid(const LaunchRequest& request, const Kernel& kernel) {
  const Shape shape{dim3_of(request.grid), dim3_of(request.block), dim3_of(request.cluster), request.smem_bytes,
                    request.registers, request.resident != 0};
  Watch watch(reinterpret_cast<const void*>(kernel.function), request.cpu_limit_s);
  BlockOrder order(shape, shape.resident, policy.schedule);
  for (std::vector<u64> blocks; order.next(blocks);) {
    counters.blocks += blocks.size();
    counters.threads += blocks.size() * shape.block.x * shape.block.y * shape.block.z;
    const bool finished = run_group(kernel, request.arguments, shape, blocks);
    settle_all_accesses();
    end_paths();
    if (!finished) break;
  }
}

void write_answer(double seconds) {
  answer = "{\"reports\": " + json_list(reports, report_json) + ", \"counters\": " + counters_json() +
           ", \"sites\": " + json_list(site_totals(), site_json) + ", \"call_sites\": " +
           json_list(call_sites(), call_site_json) + text(", \"seconds\": %.6f}", seconds);
}

void refuse(const LaunchRequest& request, u32 bound) {
  reports.clear();
  watch_lines({}, request.library);
  reset_counts();
  reset_paths();
  const std::string said = text("a block of %llu threads of %s, whose __launch_bounds__ allow %u: a GPU refuses it",
                                threads_of(request), request.entry, bound);
  reports.push_back({"cannot-launch", 0, 0, 1, said, 0, {}});
  write_answer(0);
}

void launch(const LaunchRequest& request, const Kernel& kernel) {
  policy = {static_cast<Delivery>(request.delivery), static_cast<Schedule>(request.schedule)};
  chance.seed(request.seed);
  scramble_fragments(request.seed);
  draw_elected_lane(request.seed);
  reports.clear();
  watch_lines(request.watched, request.library);
  begin_plain_accesses(reinterpret_cast<const void*>(kernel.function));
  reset_counts();
  reset_paths();
  begin_global_checks(request.dependent != 0);
  const double begin_s = cpu_seconds();
  run_grid(request, kernel);
  const double seconds = cpu_seconds() - begin_s;
  end_global_checks();
  write_answer(seconds);
}

}  // namespace

// The answer lives until the next call. One launch at a time.
extern "C" const char* efemu_launch(const LaunchRequest* request) {
  void* library = dlopen(request->library, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(dlerror());
  const std::string symbol = std::string("efemu_kernel_") + request->entry;
  const auto* kernel = static_cast<const Kernel*>(dlsym(library, symbol.c_str()));
  if (!kernel) {
    dlclose(library);
    const char* entry = request->entry;
    return fail(text("the kernel exports no entry '%s': end it with EF_EXPORT_KERNEL(%s)", entry, entry));
  }
  const auto* bound = static_cast<const u32*>(dlsym(library, (std::string("efemu_bound_") + request->entry).c_str()));
  const std::string wrong = mismatch(*request, *kernel);
  if (wrong.empty() && bound && threads_of(*request) > *bound)
    refuse(*request, *bound);
  else if (wrong.empty())
    launch(*request, *kernel);
  else
    fail(wrong);
  dlclose(library);
  return answer.c_str();
}

}  // namespace efemu
