#include "levin/optim/initial_lr.h"

#include <map>
#include <mutex>

#include "levin/core/optimizers/optimizer_access.h"

namespace levin::detail {
namespace {

std::mutex table_mutex;

// An entry expires with the last scheduler of its optimizer, and a scheduler does not outlive its optimizer: an optimizer that
// is made later at the same address finds nothing here.
std::map<const torch::optim::Optimizer*, std::weak_ptr<std::vector<double>>>& table() {
  static auto& entries = *new std::map<const torch::optim::Optimizer*, std::weak_ptr<std::vector<double>>>;
  return entries;
}

}  // namespace

InitialLrs initial_lrs(const torch::optim::Optimizer& optimizer) {
  const std::lock_guard lock(table_mutex);
  std::erase_if(table(), [](const auto& entry) { return entry.second.expired(); });
  InitialLrs initial = table()[&optimizer].lock();
  if (!initial) {
    initial = std::make_shared<std::vector<double>>(get_lrs(optimizer));
    table()[&optimizer] = initial;
  }
  // Groups that were added since the first scheduler was made start from their present rate.
  const std::vector<double> present = get_lrs(optimizer);
  for (std::size_t group = initial->size(); group < present.size(); ++group) initial->push_back(present[group]);
  return initial;
}

}  // namespace levin::detail
