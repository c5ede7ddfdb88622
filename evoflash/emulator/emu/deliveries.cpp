// What other agents have been asked to do and have not done yet: TMA transfers, stores to other blocks. They
// happen when the delivery policy says, at the latest when nobody can go on without them.
#include <deque>
#include <list>
#include <utility>

#include "block.h"

namespace efemu {
namespace {

struct Transfer {
  Cta* home;
  int line;
  std::function<void()> land;
};
// Thousands, where blocks exchange P: the places move when one from among them lands, the transfers do not.
std::list<Transfer> transfers;
std::deque<std::list<Transfer>::iterator> under_way;  // the oldest first, which leave it most often

// As seen from the block that asked for it: reports name that block.
void land(size_t index) {
  const Transfer delivery = std::move(*under_way[index]);
  transfers.erase(under_way[index]);
  under_way.erase(under_way.begin() + static_cast<long>(index));
  Cta* const running = std::exchange(cta, delivery.home);
  delivery.land();
  cta = running;
}

}  // namespace

void deliver(int line, std::function<void()> work) {
  under_way.push_back(transfers.insert(transfers.end(), {cta, line, std::move(work)}));
  const bool at_once = policy.delivery == Delivery::eager || (policy.delivery == Delivery::random && chance() % 4 == 0);
  if (at_once) land(under_way.size() - 1);
}

void deliver_by_chance() {
  if (policy.delivery == Delivery::random && !under_way.empty() && chance() % 8 == 0) deliver_one();
}

bool deliver_one() {
  if (under_way.empty()) return false;
  land(policy.delivery == Delivery::random ? chance() % under_way.size() : 0);
  return true;
}

void deliver_all() {
  while (deliver_one()) {
  }
}

void forget_deliveries() {
  under_way.clear();
  transfers.clear();
}

}  // namespace efemu
