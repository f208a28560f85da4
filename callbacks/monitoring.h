#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"
#include "levin/core/config/value.h"
#include "levin/core/protocol/metrics.h"

namespace levin::detail {

/// Reads a callback's state, a struct whose members are called as in a checkpoint, from what write_options() made of it.
/// Members that the checkpoint lacks, such as one of Lightning's, stay unchanged.
template <class State>
void read_state(const Value& saved, State& state) {
  for (const OptionTable::Entry& entry : option_table<State>().entries()) {
    if (const Value* const value = saved.find(entry.info.name)) entry.read(&state, *value);
  }
}

/// Lightning's state key of a callback of which several may run: "EarlyStopping{'monitor': 'val_loss', 'mode': 'min'}".
std::string state_key_of(std::string_view class_name, const std::vector<std::pair<std::string, Value>>& arguments);

/// What a message about a missing key offers instead: " Did you mean 'a'? Log it, or set 'monitor' to one of: 'a', 'b'."
std::string other_monitors(const std::string& monitor, const MetricMap& metrics);

/// "step" and "epoch": what a Trainer counts. They may be monitored, and cannot be logged.
bool is_counter(std::string_view monitor);
/// Warns on rank 0 of a mode that contradicts the metric's name. Called: when a fit begins.
void warn_of_mode(const std::string& class_name, const std::string& monitor, MonitorMode mode);
/// The validation that runs is the sanity check's or validate_before_training's: what it measures was not trained.
bool before_training(const Trainer& trainer);
/// Warns on rank 0 of a metric that validation does not seem to log. Called: at the end of a validation before training.
void warn_of_monitor(const Trainer& trainer, const std::string& class_name, const std::string& monitor);

/// The monitored metric is checked when a training epoch ends, else when a validation does. `chosen`: unset is the former where
/// each epoch ends with exactly one validation, or there is none.
bool looks_at_epoch_end(const Trainer& trainer, const std::optional<bool>& chosen);
/// What every score is better than.
double worst_score(MonitorMode mode);

/// Which of the run's optimizers it is.
std::size_t index_of(const torch::optim::Optimizer& optimizer, const Trainer& trainer);

/// Throws ConfigError when a fit has no logger that a callback could write to.
void require_logger(const std::string& class_name, const Trainer& trainer);

/// A row of step values follows the step that begins with this batch. Called: in on_train_batch_start.
bool begins_row(const Trainer& trainer, const Module& module, std::int64_t batch_idx);
/// A row of step values follows this batch. Called: in on_train_batch_end.
bool ends_row(const Trainer& trainer, const Module& module, std::int64_t batch_idx);

/// A score with three decimals, or with as many as two digits of it need, and of `step`, the difference to another score that
/// the message names: 0.0004 is "0.00040", and 0.9996 with a step of 0.0004 is "0.99960".
std::string score_text(double score, double step = std::numeric_limits<double>::infinity());

/// A count as Lightning shortens it: "123", "1.2 K", "200 K", "2.0 M", "3.0 B", "400 T", "5,000 T".
std::string abbreviated_count(std::int64_t count);

/// "torch::nn::LinearImpl" becomes "Linear": the class without namespaces, template arguments and LibTorch's suffix.
std::string short_type_name(const std::string& demangled);

}  // namespace levin::detail
