#include "levin/cli/step_times.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/table.h"

namespace levin::cli {
namespace {

constexpr double kBytesOfMb = 1024.0 * 1024.0;
/// Measurements of the same differ by so much.
constexpr double kNoise = 0.05;

std::string milliseconds(double seconds) { return format("{:.2f}", seconds * 1e3); }

struct Column {
  const char* name;
  double (*value)(const RankTimes&);
};
constexpr Column kColumns[] = {{"forward", [](const RankTimes& rank) { return rank.together.forward; }},
                               {"backward", [](const RankTimes& rank) { return rank.backward(); }},
                               {"overlapped", [](const RankTimes& rank) { return rank.overlapped(); }},
                               {"exposed", [](const RankTimes& rank) { return rank.exposed(); }},
                               {"optimizer", [](const RankTimes& rank) { return rank.together.optimizer; }},
                               {"rest", [](const RankTimes& rank) { return rank.together.rest; }},
                               {"step", [](const RankTimes& rank) { return rank.together.step(); }}};

}  // namespace

StepTimes typical(std::vector<StepTimes> steps) {
  if (steps.empty()) return {};
  std::sort(steps.begin(), steps.end(),
            [](const StepTimes& left, const StepTimes& right) { return left.step() < right.step(); });
  steps.resize((steps.size() + 1) / 2);
  StepTimes mean;
  const auto count = static_cast<double>(steps.size());
  for (const StepTimes& step : steps) {
    mean.forward += step.forward / count;
    mean.backward += step.backward / count;
    mean.optimizer += step.optimizer / count;
    mean.rest += step.rest / count;
  }
  return mean;
}

double RankTimes::backward() const { return std::min(alone.backward, together.backward); }
double RankTimes::overlapped() const { return std::max(0.0, reduction - exposed()); }

std::string rank_table(const std::vector<RankTimes>& ranks) {
  TextTable table;
  table.header = {"rank"};
  table.align = {Align::kRight};
  for (const Column& column : kColumns) {
    table.header.push_back(format("{} ms", column.name));
    table.align.push_back(Align::kRight);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::string> row = {std::to_string(rank)};
    for (const Column& column : kColumns) row.push_back(milliseconds(column.value(ranks[rank])));
    table.rows.push_back(std::move(row));
  }
  return table.str();
}

std::string rank_csv(const std::vector<RankTimes>& ranks) {
  std::string text = "rank";
  for (const Column& column : kColumns) text += format(",{}_seconds", column.name);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    text += format("\n{}", rank);
    for (const Column& column : kColumns) text += "," + float_text(column.value(ranks[rank]));
  }
  return text + "\n";
}

std::string slowest_rank(const std::vector<RankTimes>& ranks) {
  const auto works_less = [](const RankTimes& left, const RankTimes& right) { return left.work() < right.work(); };
  const auto [fastest, slowest] = std::minmax_element(ranks.begin(), ranks.end(), works_less);
  const double more = slowest->work() / fastest->work() - 1;
  if (more < kNoise)
    return format("No rank is slower than the others: each works {} ms a step by itself.", milliseconds(slowest->work()));
  return format(
      "Rank {} is the slowest: it works {} ms a step by itself, {:.0f}% more than rank {}, and the others wait for it.",
      slowest - ranks.begin(), milliseconds(slowest->work()), 100 * more, fastest - ranks.begin());
}

std::string bucket_table(const std::vector<BucketTime>& times) {
  TextTable table{.header = {"bucket_cap_mb", "step ms"}, .rows = {}, .align = {Align::kRight, Align::kRight}};
  for (const BucketTime& time : times) table.rows.push_back({format("{:g}", time.bucket_cap_mb), milliseconds(time.step)});
  return table.str();
}

std::string bucket_proposal(const std::vector<BucketTime>& times, double present) {
  const auto is_faster = [](const BucketTime& left, const BucketTime& right) { return left.step < right.step; };
  const BucketTime best = *std::min_element(times.begin(), times.end(), is_faster);
  const auto now =
      std::find_if(times.begin(), times.end(), [present](const BucketTime& time) { return time.bucket_cap_mb == present; });
  if (times.size() == 1) return format("All gradients fit into one bucket: bucket_cap_mb: {:g} is as good as any.", present);
  const double gain = 1 - best.step / now->step;
  if (gain < kNoise)
    return format("Keep bucket_cap_mb: {:g}: no other size is faster by more than measurements differ.", present);
  return format(
      "Set strategy: {{class_path: ddp, init_args: {{bucket_cap_mb: {:g}}}}}: a step takes {:.0f}% less than with {:g}.",
      best.bucket_cap_mb, 100 * gain, present);
}

std::vector<double> bucket_sizes(std::int64_t gradient_bytes, double present) {
  const double all = static_cast<double>(gradient_bytes) / kBytesOfMb;
  std::set<double> sizes = {present};
  for (const double size : {1.0, 5.0, 10.0, 25.0, 50.0, 100.0}) {
    if (size < all) sizes.insert(size);
  }
  // One that holds all of them, where the present one does not.
  if (present < all) sizes.insert(std::ceil(all));
  return {sizes.begin(), sizes.end()};
}

}  // namespace levin::cli
