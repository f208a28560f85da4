#include "levin/callbacks/live/live_figures.h"

#include <filesystem>
#include <utility>

#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"

namespace levin {
namespace {

constexpr std::string_view kEpoch = "_epoch";

bool is_logged_by_step(const MetricMap& metrics, const std::string& name) { return metrics.contains(name + "_step"); }

}  // namespace

LiveState live_figures(const Trainer& trainer, ProgressLine line) {
  LiveState state{.line = std::move(line)};
  int rank = 0;
  for (const RankReport& report : reports_of_ranks(trainer)) {
    state.ranks.push_back({rank++, report.working, report.memory, report.device_memory});
  }
  if (state.ranks.empty()) state.ranks.push_back({.memory = process_memory().resident});
  for (const ModelCheckpoint* saving : trainer.callbacks_of<ModelCheckpoint>()) {
    if (state.checkpoint.empty()) state.checkpoint = saving->next_save(trainer);
    if (state.last.empty()) state.last = std::filesystem::path(saving->last_saved()).filename().string();
    if (state.best.empty() && saving->best_model_score()) {
      state.best = format("{}={}", *saving->options().monitor, figure_text(*saving->best_model_score()));
    }
  }
  return state;
}

std::vector<std::pair<std::string, double>> CurveValues::of_step(const Trainer& trainer) const {
  const MetricMap all = trainer.callback_metrics_at_hand();
  const MetricMap first = trainer.progress_bar_metrics_at_hand();
  std::vector<std::pair<std::string, double>> values;
  const auto add = [&](const std::string& name, double value) {
    if (!of_epochs_.contains(name) && !name.ends_with(kEpoch) && !is_logged_by_step(all, name))
      values.emplace_back(name, value);
  };
  for (const auto& [name, value] : first) add(name, value);
  for (const auto& [name, value] : all) {
    if (!first.contains(name)) add(name, value);
  }
  return values;
}

std::vector<std::pair<std::string, double>> CurveValues::of_row(const Trainer& trainer, const MetricRow& row) {
  std::vector<std::pair<std::string, double>> values;
  if (!row.epoch_end) return values;
  for (const auto& [name, value] : row.values) {
    of_epochs_.insert(name);
    const bool is_fork =
        name.ends_with(kEpoch) && is_logged_by_step(trainer.callback_metrics(), name.substr(0, name.size() - kEpoch.size()));
    if (!is_fork) values.emplace_back(name, value);
  }
  return values;
}

}  // namespace levin
