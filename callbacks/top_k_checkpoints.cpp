#include "levin/callbacks/top_k_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace levin {

TopKCheckpoints::TopKCheckpoints(std::int64_t k, bool minimize)
    : k_(k),
      minimize_(minimize),
      kth_value_(minimize ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity()) {}

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
  if (std::isnan(score)) {
    score = minimize_ ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  }
  const auto with_name = [](const std::string& name) { return [&name](const auto& entry) { return entry.first == name; }; };
  if (full()) files_.erase(std::find_if(files_.begin(), files_.end(), with_name(kth_file_)));
  const auto known = std::find_if(files_.begin(), files_.end(), with_name(file));
  if (known != files_.end()) {
    known->second = score;
  } else {
    files_.emplace_back(file, score);
  }
  if (k_ != -1 && !full()) return;
  const auto worst = std::min_element(
      files_.begin(), files_.end(), [this](const auto& left, const auto& right) { return better(right.second, left.second); });
  kth_file_ = worst->first;
  kth_value_ = worst->second;
}

std::optional<std::pair<std::string, double>> TopKCheckpoints::best() const {
  if (files_.empty()) return std::nullopt;
  return *std::min_element(files_.begin(), files_.end(),
                           [this](const auto& left, const auto& right) { return better(left.second, right.second); });
}

void TopKCheckpoints::restore(std::vector<std::pair<std::string, double>> files, std::string kth_file, double kth_value) {
  files_ = std::move(files);
  kth_file_ = std::move(kth_file);
  kth_value_ = kth_value;
}

}  // namespace levin
