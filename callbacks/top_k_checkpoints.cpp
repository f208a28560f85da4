#include "levin/callbacks/top_k_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace levin {

TopKCheckpoints::TopKCheckpoints(std::int64_t k, bool minimize)
    : k_(k), minimize_(minimize), worst_possible_((minimize ? 1 : -1) * std::numeric_limits<double>::infinity()) {
  find_kth();
}

bool TopKCheckpoints::accepts(double score) const {
  if (k_ == 0) return false;
  if (!full()) return true;
  return better(score, kth_value_);
}

std::optional<std::string> TopKCheckpoints::next_displaced() const {
  if (!full()) return std::nullopt;
  return kth_file_;
}

void TopKCheckpoints::add(const std::string& file, double score) {
  if (std::isnan(score)) score = worst_possible_;
  if (full()) files_.erase(worst());
  const auto known = std::find_if(files_.begin(), files_.end(), [&](const auto& entry) { return entry.first == file; });
  if (known != files_.end()) {
    known->second = score;
  } else {
    files_.emplace_back(file, score);
  }
  find_kth();
}

std::vector<std::pair<std::string, double>>::const_iterator TopKCheckpoints::worst() const {
  return std::min_element(files_.begin(), files_.end(),
                          [this](const auto& left, const auto& right) { return better(right.second, left.second); });
}

void TopKCheckpoints::find_kth() {
  const bool has_kth = !files_.empty() && (k_ == -1 || full());
  kth_file_ = has_kth ? worst()->first : "";
  kth_value_ = has_kth ? worst()->second : worst_possible_;
}

std::optional<std::pair<std::string, double>> TopKCheckpoints::best() const {
  if (files_.empty()) return std::nullopt;
  return *std::min_element(files_.begin(), files_.end(),
                           [this](const auto& left, const auto& right) { return better(left.second, right.second); });
}

std::vector<std::string> TopKCheckpoints::restore(std::vector<std::pair<std::string, double>> files) {
  files_ = std::move(files);
  std::vector<std::string> displaced;
  while (k_ != -1 && files_.size() > static_cast<std::size_t>(k_)) {
    displaced.push_back(worst()->first);
    files_.erase(worst());
  }
  find_kth();
  return displaced;
}

}  // namespace levin
