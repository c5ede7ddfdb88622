// wgmma: products that a warpgroup starts and waits for later. Until then their results are hidden and the
// accumulators poisoned, and operand A's registers are read again when the product is made: a kernel that
// touches either too early computes nonsense here, as it may on the hardware, and is reported.
//
// The arithmetic is in products.cpp, where operands lie in shared memory in descriptor.cpp.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "collective.h"
#include "path.h"
#include "products.h"

namespace efemu {
namespace {

constexpr u32 kPoisonedFloat = 0x7fc0dead;  // a NaN
constexpr int kRowsOfWarp = kProductRows / kGroupWarps;
constexpr u32 kAllWarps = (1u << kGroupWarps) - 1;

struct Arguments {
  const WgmmaShape* shape;
  float* d;
  InFlight* d_state;
  const u32* a_registers;
  InFlight* a_state;
  u64 a, b;
  bool scale_d;
};
using Issuers = GroupLanes<Arguments>;

// An accumulator with products under way: what its registers will hold.
struct Accumulator {
  int columns;
  u64 last;     // the newest product on it
  u32 awaited;  // by these warps
  float* registers[kGroupThreads];
  InFlight* states[kGroupThreads];
  std::vector<float> tile;  // 64 x columns, by rows

  float& at(int lane, int i) {
    const int row = lane / 4 + lane / kWarpSize * (kRowsOfWarp - 8) + i / 2 % 2 * 8;
    return tile[static_cast<size_t>(row * columns + i / 4 * 8 + lane % 4 * 2 + i % 2)];
  }
};

// Operand A in registers. What has gone out of scope has been copied.
struct Fragment {
  const u32* registers[kGroupThreads];
  InFlight* states[kGroupThreads];
  u32 copies[kGroupThreads][4];
};

struct Product64 {
  u64 number;  // in the warpgroup, from 1
  int line;
  WgmmaShape shape;
  Operand a, b;
  std::unique_ptr<Fragment> fragment;  // null: A is in shared memory
  bool adds, lost;                     // lost: an operand is outside of the allocation
  Accumulator* target;
  u64 group_of_warp[kGroupWarps];
  Epoch epoch;
};

struct WarpGroup {
  Cta* home = nullptr;  // null: it has issued none yet
  int first_warp = 0, agent = 0;
  Crowd crowd;
  std::deque<Product64> products;  // those that some warp has not waited for, oldest first
  u64 issued = 0, made = 0;        // products, in all
  u64 open_group[kGroupWarps] = {}, completed[kGroupWarps] = {};
  std::vector<std::unique_ptr<Accumulator>> accumulators;

  Product64& product(u64 number) { return products[static_cast<size_t>(number - products.front().number)]; }
};
std::vector<WarpGroup> warp_groups;  // by their first warp

WarpGroup& group_of(const Thread& thread) {
  return warp_groups[static_cast<size_t>(first_warp_of_group(thread))];
}

int warp_in_group(const Thread& thread) {
  return thread.warp - first_warp_of_group(thread);
}

int lane_in_group(const Thread& thread) {
  return warp_in_group(thread) * kWarpSize + thread.lane;
}

void begin_warpgroup(WarpGroup& warps) {
  if (warps.home) return;
  warps.home = cta;
  warps.first_warp = first_warp_of_group(*self);
  const int first = warps.first_warp - cta->first_warp;
  const std::string block = of_block(*cta);
  warps.agent = group.clocks.add(text("wgmma of warps %d to %d", first, first + kGroupWarps - 1) + block);
  warps.crowd.reset(warps.first_warp * kWarpSize, kGroupThreads);
}

// ---- what can be wrong with an issue

bool same_shape(const WgmmaShape& a, const WgmmaShape& b) {
  return a.n == b.n && a.a_transposed == b.a_transposed && a.b_transposed == b.b_transposed && a.is_bf16 == b.is_bf16 &&
         a.is_e4m3 == b.is_e4m3;
}

void check_agreement(const Issuers& lanes, int line) {
  const Arguments& first = lanes[0];
  for (int lane = 1; lane < kGroupThreads; ++lane) {
    const Arguments& other = lanes[lane];
    const char* const differs = other.a != first.a           ? "descriptor of A"
                                : other.b != first.b         ? "descriptor of B"
                                : other.scale_d != first.scale_d ? "scale_d"
                                : !same_shape(*other.shape, *first.shape) ? "shape"
                                                                          : nullptr;
    if (!differs) continue;
    report("wgmma-descriptor", line, 0, [&] {
      return text("lane %d of the warpgroup gives another %s than lane 0: all 128 must agree", lane, differs);
    });
    return;
  }
}

void check_fences(const Issuers& lanes, int line) {
  for (int lane = 0; lane < kGroupThreads; ++lane) {
    const Arguments& part = lanes[lane];
    const u32 fences = group.threads[static_cast<size_t>(lanes.thread(lane))].context.fences;
    const bool a_touched = part.a_state && part.a_state->touched == fences, never = fences == 1;
    if (!never && !a_touched && part.d_state->touched != fences) continue;
    report("missing-wgmma-fence", line, 0, [&] {
      const char* const why = never       ? "no wgmma_fence stands before the first wgmma"
                              : a_touched ? "A's registers were touched after the last wgmma_fence"
                                          : "the accumulator was touched after the last wgmma_fence";
      const int warp = lanes.thread(lane) / kWarpSize - cta->first_warp;
      return text("wgmma by warp %d, lane %d: %s", warp, lane % kWarpSize, why);
    });
    return;
  }
}

// Every piece of an operand is inside, and read by the warpgroup as what all of its threads know allows.
bool check_reads(const WarpGroup& warps, const Operand& operand, u32 extent, const Actor& actor, int line) {
  SharedMemory& shared = warps.home->shared;
  const u32 mn_step = operand.mn_major ? 8 : 1, k_step = operand.mn_major ? 1 : 8;
  for (u32 mn = 0; mn < extent; mn += mn_step)
    for (u32 k = 0; k < kProductDepth; k += k_step) {
      const u32 address = piece_address(operand, mn, k);
      if (!shared.admits(address, kPiece, "wgmma read", line)) return false;
      shared.read(address, kPiece, actor, line);
    }
  return true;
}

// ---- making products

void refresh(Fragment& fragment) {
  for (int lane = 0; lane < kGroupThreads; ++lane)
    if (const u32* const registers = fragment.registers[lane]) std::copy_n(registers, 4, fragment.copies[lane]);
}

void make(WarpGroup& warps, Product64& product) {
  static Factors factors;
  std::vector<float>& tile = product.target->tile;
  if (product.lost) return std::fill(tile.begin(), tile.end(), float_of(kPoisonedFloat));
  if (product.shape.is_e4m3) {
    for (int half = 0; half < 2; ++half) {
      unpack_a_codes(factors, product.a, half, warps.home->shared);
      unpack_b_codes(factors, product.b, product.shape.n, half, warps.home->shared);
      multiply(factors, tile.data(), product.shape.n, product.adds || half > 0);
    }
    return;
  }
  const bool is_bf16 = product.shape.is_bf16;
  if (Fragment* const fragment = product.fragment.get()) {
    refresh(*fragment);
    for (int lane = 0; lane < kGroupThreads; ++lane) unpack_a_registers(factors, lane, fragment->copies[lane], is_bf16);
  } else {
    unpack_a(factors, product.a, is_bf16, warps.home->shared);
  }
  unpack_b(factors, product.b, product.shape.n, is_bf16, warps.home->shared);
  multiply(factors, tile.data(), product.shape.n, product.adds);
}

void make_up_to(WarpGroup& warps, u64 number) {
  while (warps.made < number) make(warps, warps.product(++warps.made));
}

bool makes_at_once() {
  return policy.delivery == Delivery::eager || (policy.delivery == Delivery::random && chance() % 4 == 0);
}

// ---- issuing

Accumulator& free_accumulator(WarpGroup& warps, int columns) {
  for (auto& each : warps.accumulators)
    if (!each->awaited && each->columns == columns) return *each;
  warps.accumulators.push_back(std::make_unique<Accumulator>());
  Accumulator& fresh = *warps.accumulators.back();
  fresh.columns = columns;
  fresh.tile.resize(static_cast<size_t>(kProductRows * columns));
  return fresh;
}

Accumulator& accumulator_of(WarpGroup& warps, const Issuers& lanes, int line) {
  Accumulator* found = nullptr;
  for (auto& each : warps.accumulators)
    for (int lane = 0; lane < kGroupThreads && each->awaited && !found; lane += kWarpSize)
      if (each->awaited >> lane / kWarpSize & 1 && each->registers[lane] == lanes[lane].d) found = each.get();
  if (!found) found = &free_accumulator(warps, lanes[0].shape->n);
  for (int lane = 0; lane < kGroupThreads; ++lane) {
    if (found->awaited >> lane / kWarpSize & 1 && found->registers[lane] != lanes[lane].d)
      report_divergence("wgmma", line, text("lane %d of the warpgroup uses another accumulator than the others", lane));
    found->registers[lane] = lanes[lane].d;
    found->states[lane] = lanes[lane].d_state;
  }
  return *found;
}

// Warps whose registers hold the sum so far hand it over; what they keep is poison.
void take_registers(Accumulator& accumulator, bool adds) {
  for (int lane = 0; lane < kGroupThreads; ++lane) {
    if (accumulator.awaited >> lane / kWarpSize & 1) continue;
    float* const registers = accumulator.registers[lane];
    for (int i = 0; i < accumulator.columns / 2; ++i) {
      if (adds) accumulator.at(lane, i) = registers[i];
      registers[i] = float_of(kPoisonedFloat);
    }
  }
  accumulator.awaited = kAllWarps;
}

std::unique_ptr<Fragment> fragment_of(const Issuers& lanes, int line) {
  if (!lanes[0].a_registers) return nullptr;
  auto fragment = std::make_unique<Fragment>();
  for (int lane = 0; lane < kGroupThreads; ++lane) {
    fragment->registers[lane] = lanes[lane].a_registers;
    fragment->states[lane] = lanes[lane].a_state;
    fragment->states[lane]->line = line;
  }
  return fragment;
}

void count_product(const WarpGroup& warps, int columns) {
  attribute();
  ++counters.wgmma;
  // Of e4m3 there are twice as many, which take as long.
  counters.wgmma_macs += static_cast<u64>(kProductRows * kProductDepth * columns);
  attribute_to_warpgroup(warps.first_warp);
}

// Reads the operands that are in shared memory, for the checks: what the product is made of is read when it is made.
void take_operands(WarpGroup& warps, const Arguments& first, Product64& product) {
  const Actor actor = group.clocks.on_behalf(warps.agent, warps.crowd);
  product.epoch = actor.now;
  const int line = product.line;
  if (!first.a_registers) {
    product.a = read_descriptor(first.a, first.shape->a_transposed, "A", line);
    product.lost = !check_reads(warps, product.a, kProductRows, actor, line);
  }
  product.b = read_descriptor(first.b, first.shape->b_transposed, "B", line);
  product.lost |= !check_reads(warps, product.b, static_cast<u32>(first.shape->n), actor, line);
  group.clocks.tick(warps.agent);
}

Accumulator& take_accumulator(WarpGroup& warps, const Issuers& lanes, const Product64& product) {
  Accumulator& target = accumulator_of(warps, lanes, product.line);
  if (target.awaited != kAllWarps) take_registers(target, product.adds);
  for (InFlight* const state : target.states) state->line = product.line;
  target.last = product.number;
  return target;
}

void issue(const Issuers& lanes, int line) {
  WarpGroup& warps = group_of(*self);
  begin_warpgroup(warps);
  check_agreement(lanes, line);
  check_fences(lanes, line);
  Product64 product{};
  product.number = ++warps.issued;
  product.line = line;
  product.shape = *lanes[0].shape;
  product.adds = lanes[0].scale_d;
  take_operands(warps, lanes[0], product);
  product.target = &take_accumulator(warps, lanes, product);
  product.fragment = fragment_of(lanes, line);
  std::copy(std::begin(warps.open_group), std::end(warps.open_group), product.group_of_warp);
  warps.products.push_back(std::move(product));
  count_product(warps, lanes[0].shape->n);
  if (makes_at_once()) make_up_to(warps, warps.issued);
}

// ---- waiting

// The accumulator's products are complete: a warp finds the sums in its registers.
void reveal(Accumulator& accumulator, int warp) {
  for (int lane = warp * kWarpSize; lane < (warp + 1) * kWarpSize; ++lane) {
    if (!accumulator.registers[lane]) continue;
    for (int i = 0; i < accumulator.columns / 2; ++i) accumulator.registers[lane][i] = accumulator.at(lane, i);
    accumulator.states[lane]->line = 0;
  }
  accumulator.awaited &= ~(1u << warp);
}

void mark_fragment(const Product64& product, int warp, int line) {
  if (!product.fragment) return;
  for (int lane = warp * kWarpSize; lane < (warp + 1) * kWarpSize; ++lane)
    if (product.fragment->registers[lane]) product.fragment->states[lane]->line = line;
}

void complete_up_to(WarpGroup& warps, int warp, u64 number) {
  make_up_to(warps, number);
  for (auto& accumulator : warps.accumulators)
    if (accumulator->awaited >> warp & 1 && accumulator->last <= number) reveal(*accumulator, warp);
  for (u64 i = warps.completed[warp] + 1; i <= number; ++i) mark_fragment(warps.product(i), warp, 0);
  // The same registers may be in use by a later product.
  for (u64 i = number + 1; i <= warps.issued; ++i) mark_fragment(warps.product(i), warp, warps.product(i).line);
  const Epoch epoch = warps.product(number).epoch;
  const int first = (warps.first_warp + warp) * kWarpSize;
  for (int thread = first; thread < first + kWarpSize; ++thread) group.clocks.learn(thread, epoch);
  warps.completed[warp] = number;
  const u64 by_all = *std::min_element(std::begin(warps.completed), std::end(warps.completed));
  while (!warps.products.empty() && warps.products.front().number <= by_all) warps.products.pop_front();
}

void wait_for(WarpGroup& warps, int warp, int pending) {
  u64 number = warps.completed[warp];
  while (number < warps.issued &&
         warps.product(number + 1).group_of_warp[warp] + static_cast<u64>(pending) < warps.open_group[warp])
    ++number;
  if (number > warps.completed[warp]) complete_up_to(warps, warp, number);
}

// A primitive of one warp of a warpgroup, in which all lanes do the same.
template <class Work>
void by_warp(const char* op, int line, Work work) {
  require_warpgroup(op, line);
  bool nothing = false;
  collective(op, line, nothing, [&work](const Lanes<bool>&) { work(group_of(*self), warp_in_group(*self)); });
}

}  // namespace

void begin_products() {
  warp_groups = std::vector<WarpGroup>(group.warps.size());
}

void wgmma(const WgmmaShape& shape, float* d, InFlight* d_state, const u32* a_registers, InFlight* a_state, u64 a,
           u64 b, bool scale_d, int line) {
  note_progress(line);
  Arguments mine{&shape, d, d_state, a_registers, a_state, a, b, scale_d};
  const char* const op = a_registers ? "wgmma_rs" : "wgmma_ss";
  warpgroup_collective(op, line, mine, [line](const Issuers& lanes) { issue(lanes, line); });
}

void wgmma_fence(int line) {
  by_warp("wgmma_fence", line, [](const WarpGroup&, int) {
    const int first = self->id - self->lane;
    for (int id = first; id < first + kWarpSize; ++id) ++group.threads[static_cast<size_t>(id)].context.fences;
  });
}

void wgmma_commit(int line) {
  by_warp("wgmma_commit", line, [](WarpGroup& warps, int warp) { ++warps.open_group[warp]; });
}

void wgmma_wait(int pending, int line) {
  note_progress(line);
  by_warp("wgmma_wait", line, [pending](WarpGroup& warps, int warp) { wait_for(warps, warp, pending); });
}

void touched_in_flight(const InFlight& state, bool is_accumulator, int line) {
  report(is_accumulator ? "wgmma-acc-not-waited" : "wgmma-a-in-flight", line, state.line, [&] {
    return text("%s touches %s of the wgmma at line %d, which is under way: a wgmma_wait that covers its group must "
                "stand between",
                my_name().c_str(), is_accumulator ? "the accumulator" : "operand A's registers", state.line);
  });
}

void forget_in_flight(const InFlight& state) {
  WarpGroup& warps = group_of(*self);
  const int lane = lane_in_group(*self);
  for (auto& accumulator : warps.accumulators)
    if (accumulator->awaited && accumulator->states[lane] == &state) accumulator->registers[lane] = nullptr;
  for (Product64& product : warps.products) {
    if (!product.fragment || product.fragment->states[lane] != &state) continue;
    const u32*& registers = product.fragment->registers[lane];
    if (registers) std::copy_n(registers, 4, product.fragment->copies[lane]);
    registers = nullptr;
  }
}

// The thread has ended: nobody may look at its registers any more.
void leave_products(Thread& thread) {
  const int in_block = thread.warp - thread.cta->first_warp;
  if ((in_block / kGroupWarps + 1) * kGroupThreads > thread.cta->thread_count) return;
  WarpGroup& warps = group_of(thread);
  const int warp = warp_in_group(thread);
  if (!warps.home || warps.completed[warp] == warps.issued) return;
  const Product64& first = warps.product(warps.completed[warp] + 1);
  report("async-at-exit", first.line, 0, [&] {
    return text("%s ended with wgmmas under way (%llu), the first from line %d%s", my_name().c_str(),
                warps.issued - warps.completed[warp], first.line,
                first.group_of_warp[warp] == warps.open_group[warp] ? " (never committed)" : "");
  });
  const int lane = lane_in_group(thread);
  for (auto& accumulator : warps.accumulators) accumulator->registers[lane] = nullptr;
  for (Product64& product : warps.products)
    if (product.fragment) product.fragment->registers[lane] = nullptr;
}

}  // namespace efemu
