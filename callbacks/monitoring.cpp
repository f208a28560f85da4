#include "levin/callbacks/monitoring.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin::detail {
namespace {

std::string literal(const Value& value) {
  if (value.is_null()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_double()) return std::to_string(value.as_double());
  return format("'{}'", value.as_string());
}

}  // namespace

std::string state_key_of(std::string_view class_name, const std::vector<std::pair<std::string, Value>>& arguments) {
  std::string key(class_name);
  key += '{';
  for (const auto& [name, value] : arguments) {
    if (key.back() != '{') key += ", ";
    key += format("'{}': {}", name, literal(value));
  }
  return key + "}";
}

std::string other_monitors(const std::string& monitor, const MetricMap& metrics) {
  const std::vector<std::string> names = metrics.names();
  return format("{} Log it, or set 'monitor' to one of: {}.", nearest_metric(monitor, names),
                names.empty() ? "none" : quoted_list(names));
}

bool is_counter(std::string_view monitor) { return monitor == "step" || monitor == "epoch"; }

void warn_of_mode(const std::string& class_name, const std::string& monitor, MonitorMode mode) {
  const std::string warning = warning_of_mode(class_name, monitor, mode == MonitorMode::kMax);
  if (!warning.empty()) Console::instance().warn_once(warning, {}, Speaker::kRun);
}

bool before_training(const Trainer& trainer) { return trainer.sanity_checking() || trainer.total_batch_idx() == 0; }

void warn_of_monitor(const Trainer& trainer, const std::string& class_name, const std::string& monitor) {
  if (trainer.monitored(monitor)) return;
  const std::string warning = warning_of_monitor(class_name, monitor, trainer.callback_metrics().names());
  if (!warning.empty()) Console::instance().warn_once(warning, {}, Speaker::kRun);
}

bool looks_at_epoch_end(const Trainer& trainer, const std::optional<bool>& chosen) {
  if (chosen || !trainer.validates()) return chosen.value_or(true);
  const CheckInterval interval = trainer.options().val_check_interval.value_or(1.0);
  return !interval.is_time() && interval.limit() == Limit(1.0) && trainer.options().check_val_every_n_epoch == 1;
}

double worst_score(MonitorMode mode) { return (mode == MonitorMode::kMin ? 1 : -1) * std::numeric_limits<double>::infinity(); }

std::size_t index_of(const torch::optim::Optimizer& optimizer, const Trainer& trainer) {
  const auto is_it = [&](const auto& other) { return other.get() == &optimizer; };
  return static_cast<std::size_t>(std::ranges::find_if(trainer.optimizers(), is_it) - trainer.optimizers().begin());
}

void require_logger(const std::string& class_name, const Trainer& trainer) {
  if (!trainer.loggers().empty() || trainer.options().fast_dev_run) return;
  throw ConfigError(
      format("{} has nowhere to write to: the Trainer has no logger. Set trainer.logger, or remove it.", class_name));
}

bool begins_row(const Trainer& trainer, const Module& module, std::int64_t batch_idx) {
  const std::int64_t every = trainer.options().step_row_interval();
  // With manual optimization a batch may take several optimizer steps, and rows count batches.
  const std::int64_t step = module.automatic_optimization() ? trainer.global_step() : trainer.total_batch_idx();
  if (every == 0 || ((step + 1) % every != 0 && !trainer.should_stop())) return false;
  // While gradients accumulate, several batches belong to one step.
  return batch_idx % trainer.accumulate_grad_batches() == 0 || !module.automatic_optimization();
}

bool ends_row(const Trainer& trainer, const Module& module, std::int64_t batch_idx) {
  const std::int64_t every = trainer.options().step_row_interval();
  const bool ends_step = (batch_idx + 1) % trainer.accumulate_grad_batches() == 0 || trainer.is_last_batch();
  const std::int64_t steps = module.automatic_optimization() ? trainer.global_step() : trainer.total_batch_idx() + 1;
  return every > 0 && ends_step && steps % every == 0;
}

std::string score_text(double score, double step) {
  constexpr int kLeast = 3, kMost = 17;
  double size = std::numeric_limits<double>::infinity();
  for (const double shown : {std::abs(score), std::abs(step)}) size = shown > 0 ? std::min(size, shown) : size;
  const bool is_known = std::isfinite(size);
  const int decimals = std::clamp(is_known ? 1 - static_cast<int>(std::floor(std::log10(size))) : kLeast, kLeast, kMost);
  std::array<char, 400> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), score, std::chars_format::fixed, decimals).ptr};
}

std::string abbreviated_count(std::int64_t count) {
  if (count < 1000) return std::to_string(count);
  constexpr char kUnits[] = {'K', 'M', 'B', 'T'};
  double scaled = static_cast<double>(count);
  std::size_t unit = 0;
  for (scaled /= 1000; scaled >= 1000 && unit + 1 < sizeof kUnits; scaled /= 1000) ++unit;
  if (scaled < 100) return format("{:.1f} {}", scaled, kUnits[unit]);
  std::string digits = std::to_string(static_cast<std::int64_t>(scaled));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return format("{} {}", digits, kUnits[unit]);
}

std::string short_type_name(const std::string& demangled) {
  std::string name = demangled.substr(0, demangled.find('<'));
  const std::size_t colon = name.rfind("::");
  if (colon != std::string::npos) name = name.substr(colon + 2);
  const std::string suffix = "Impl";
  if (name.size() > suffix.size() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

}  // namespace levin::detail
