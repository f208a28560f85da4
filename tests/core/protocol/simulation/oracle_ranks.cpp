#include "core/protocol/simulation/oracle_ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace levin::testing::oracle {

void RankState::forget(MetricGroup group) {
  for (auto& [key, entry] : own) {
    if (detail::group_of(std::get<0>(key)) != group) continue;
    entry = Own{.options = entry.options, .site = entry.site, .object = entry.object};
    if (entry.object >= 0) objects[static_cast<std::size_t>(entry.object)] = {};
  }
  epoch_batches[group] = 0;
  step_batches[group] = 0;
}

void RankState::resume() {
  for (std::size_t index = 0; index < objects.size(); ++index) {
    const auto is_validated = [&](const auto& entry) {
      return entry.second.object == static_cast<int>(index) &&
             detail::group_of(std::get<0>(entry.first)) == MetricGroup::kValidate;
    };
    OwnObject& object = objects[index];
    object.batch.clear();
    object.batch_is_taken = false;
    if (std::ranges::any_of(own, is_validated)) object = {};
  }
  std::vector<Key> kept;
  for (const Key& key : known) {
    const Own& entry = own.at(key);
    const bool has_begun = entry.object >= 0 || entry.epoch_is_logged || entry.step_is_logged;
    if (!has_begun || detail::group_of(std::get<0>(key)) != MetricGroup::kTrain) {
      own.erase(key);
      continue;
    }
    kept.push_back(key);
    own.at(key).knows_rows = false;
  }
  known = news = kept;
}

namespace {

double extreme(const std::vector<Weighted>& samples, bool smallest) {
  double result = samples.front().value;
  for (const Weighted& sample : samples) {
    if (std::isnan(sample.value)) return sample.value;
    if (smallest ? sample.value < result : sample.value > result) result = sample.value;
  }
  return result;
}

}  // namespace

double reduce(const std::vector<Weighted>& samples, Reduce how) {
  if (how == Reduce::kMin || how == Reduce::kMax) return extreme(samples, how == Reduce::kMin);
  long double sum = 0;
  long double weights = 0;
  for (const Weighted& sample : samples) {
    const long double weight = how == Reduce::kMean ? sample.weight : 1;
    if (weight == 0) continue;
    sum += sample.value * weight;
    weights += weight;
  }
  if (how == Reduce::kSum) return static_cast<double>(sum);
  return weights == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(sum / weights);
}

std::vector<std::pair<std::string, double>> values_of(const ObjectPlan& plan, const Samples& samples) {
  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  double ordered = 0;
  double paired = 0;
  double place = 0;
  for (const auto& [value, factor] : samples) {
    sum += value;
    if (!std::isnan(least) && !(least <= value)) least = value;
    ordered += ++place * value;
    paired += factor * value;
  }
  std::vector<std::pair<std::string, double>> values;
  if (plan.has_numbers) values = {{"_sum", sum}, {"_least", least}};
  if (plan.row_lists > 0) values.emplace_back("_ordered", ordered);
  if (plan.row_lists > 1) values.emplace_back("_paired", paired);
  if (values.size() == 1) values.front().first = "";
  return values;
}

}  // namespace levin::testing::oracle
