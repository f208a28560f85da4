#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// " Did you mean 'val_loss'?", or "" when no metric's name is near.
std::string nearest_metric(std::string_view wrong, const std::vector<std::string>& names);

/// "loss" for "rank_12_loss", the name of one rank's own value in rows; unset for any other name.
std::optional<std::string_view> metric_of_rank(std::string_view name);

/// Guesses from a metric's name whether larger is better: true for "val_accuracy" and for "step", false for "train/loss".
std::optional<bool> is_larger_better(std::string_view name);

/// "EarlyStopping: mode is min, but …", with `user` before the colon, where a monitor's mode contradicts the metric's name;
/// else "".
std::string warning_of_mode(std::string_view user, std::string_view monitor, bool larger_is_better);

/// A warning when the sanity check logged these metrics, but not the monitored one that, by its name, validation should log.
/// Else "".
std::string warning_of_monitor(std::string_view user, std::string_view monitor, const std::vector<std::string>& names);

}  // namespace levin
