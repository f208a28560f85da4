#include "levin/callbacks/top_k_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace levin {

TopKCheckpoints::TopKCheckpoints(std::int64_t k, bool minimize)
    : k_(k), minimize_(minimize), worst_possible_((minimize ? 1 : -1) * std::numeric_limits<double>::infinity()) {}

void TopKCheckpoints::add(const std::string& file, double score) {
  if (std::isnan(score)) score = worst_possible_;
  if (full()) files_.erase(worst());
  const auto known = std::find_if(files_.begin(), files_.end(), [&](const auto& entry) { return entry.first == file; });
  if (known != files_.end()) {
    known->second = score;
  } else {
    files_.emplace_back(file, score);
  }
}

std::vector<std::pair<std::string, double>>::const_iterator TopKCheckpoints::worst() const {
  return std::min_element(files_.begin(), files_.end(),
                          [this](const auto& left, const auto& right) { return better(right.second, left.second); });
}

std::optional<std::pair<std::string, double>> TopKCheckpoints::best() const {
  if (files_.empty()) return std::nullopt;
  return *std::min_element(files_.begin(), files_.end(),
                           [this](const auto& left, const auto& right) { return better(left.second, right.second); });
}

std::vector<std::string> TopKCheckpoints::restore(std::vector<std::pair<std::string, double>> files) {
  files_ = std::move(files);
  std::vector<std::string> evicted;
  while (k_ != -1 && files_.size() > static_cast<std::size_t>(k_)) {
    evicted.push_back(worst()->first);
    files_.erase(worst());
  }
  return evicted;
}

}  // namespace levin
