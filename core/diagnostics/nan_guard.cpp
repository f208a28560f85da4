#include "levin/core/diagnostics/nan_guard.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/run/scalar_value.h"

namespace levin {

namespace {

constexpr const char* kAdvice =
    " Try a lower learning rate or gradient_clip_val, and check the data; detect_anomaly: true finds the operation, on_nan: "
    "stop or skip sets the reaction.";

/// Finite unless an element is not, or it overflows. Cheaper than checking each, without a copy of the gradient.
at::Tensor sum_of(const at::Tensor& gradient) {
  const at::Tensor numbers = gradient.is_sparse() ? gradient._values() : gradient;
  const at::Tensor real = numbers.is_complex() ? at::view_as_real(numbers.resolve_conj()) : numbers;
  const bool is_short = real.scalar_type() == at::kHalf || real.scalar_type() == at::kBFloat16;
  return real.sum(is_short ? at::kFloat : real.scalar_type()).to(real.is_mps() ? at::kFloat : at::kDouble);
}

bool is_finite(const at::Tensor& gradient) {
  return at::isfinite(gradient.is_sparse() ? gradient._values() : gradient).all().item<bool>();
}

const char* text_of(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

/// Reported once, whichever ranks find it in the same step.
void warn_once(const std::string& text, const Progress& progress, const char* what) {
  const std::string key = format("{} of fit {}, epoch {}, step {}", what, progress.fit, progress.epoch, progress.global_step);
  Console::instance().warn_once(text, key);
}

}  // namespace

std::string NanGuard::place(int rank, std::optional<Hook> hook) const {
  Whereabouts where = tracker_.whereabouts();
  if (hook) where.hook = *hook;
  return format("{} on rank {}", describe_place(where), rank);
}

bool NanGuard::defers(const at::Tensor& number) const { return !number.is_cpu() && setup_.options.on_nan == OnNan::kWarn; }

NanGuard::Deferred NanGuard::defer(const at::Tensor& number, std::string place) {
  const auto deferred = std::make_shared<DeferredScalar>(number, memory_);
  metrics_.read_along(deferred);
  return {deferred, std::move(place)};
}

void NanGuard::look_at_loss(const at::Tensor& loss) {
  if (!loss.is_cpu() && !state_.row_is_due) return;
  if (defers(loss)) {
    state_.loss = defer(loss, place(setup_.strategy->rank(), Hook::kTrainingStep));
    return;
  }
  const double value = loss.is_cpu() ? scalar_value(loss) : loss.item<double>();
  if (std::isfinite(value)) [[likely]]
    return;
  state_.loss_is_bad = true;
  state_.rank_of_bad_loss = setup_.strategy->rank();
  if (setup_.options.on_nan == OnNan::kWarn) report_loss(value, place(setup_.strategy->rank(), Hook::kTrainingStep));
}

void NanGuard::report_loss(double value, const std::string& place) {
  if (std::exchange(state_.reported, true)) return;
  warn_once(format("The loss is {} {}.{}", text_of(value), place, kAdvice), progress_, "loss");
}

void NanGuard::look_at_deferred() {
  const auto loss = std::exchange(state_.loss, std::nullopt);
  const auto gradients = std::exchange(state_.gradients, std::nullopt);
  if (loss && !std::isfinite(loss->number->read())) report_loss(loss->number->read(), loss->place);
  if (!gradients || state_.reported || std::isfinite(gradients->number->read())) return;
  if (const auto parameter = gradients->sums.first_bad()) report_gradient(*parameter, gradients->place);
}

void NanGuard::restore(bool waits_to_skip) {
  if (!waits_to_skip) return;
  state_.loss_is_bad = true;
  state_.rank_of_bad_loss = setup_.strategy->rank();
}

void NanGuard::adopt(const std::vector<Votes>& by_rank) {
  const auto first = std::ranges::find_if(by_rank, &Votes::loss_is_bad);
  state_.rank_of_bad_loss.reset();
  if (first != by_rank.end()) state_.rank_of_bad_loss = static_cast<int>(first - by_rank.begin());
}

NanGuard::GradientSums::GradientSums(const torch::optim::Optimizer& optimizer, const Module& its_module) : module(&its_module) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& parameter : all_parameters(optimizer)) {
    if (!parameter.grad().defined()) continue;
    const at::Tensor sum = sum_of(parameter.grad());
    sums.push_back(sums.empty() ? sum : sum.to(sums.front().device(), /*non_blocking=*/true));
    parameters.push_back(parameter);
  }
  if (!sums.empty()) by_parameter = at::stack(sums);
}

std::optional<std::string> NanGuard::GradientSums::first_bad() const {
  const at::Tensor on_host = by_parameter.to(at::kCPU, at::kDouble);
  const auto* const numbers = on_host.const_data_ptr<double>();
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const at::Tensor& gradient = parameters[index].grad();
    if (std::isfinite(numbers[index]) || (gradient.defined() && is_finite(gradient))) continue;
    for (const auto& entry : module->named_parameters()) {
      if (entry.value().is_same(parameters[index])) return entry.key();
    }
    return "a parameter outside the module";
  }
  return std::nullopt;
}

void NanGuard::report_gradient(const std::string& parameter, const std::string& place) {
  if (std::exchange(state_.reported, true)) return;
  warn_once(format("The gradient of '{}' is NaN or infinite {}.{}", parameter, place, kAdvice), progress_, "gradient");
}

bool NanGuard::skips_step(torch::optim::Optimizer& optimizer, const Module& module) {
  const OnNan on_nan = setup_.options.on_nan;
  const std::optional<int> rank = std::exchange(state_.rank_of_bad_loss, std::nullopt);
  state_.loss_is_bad = false;
  // The rank with the bad loss has reported it.
  if (on_nan == OnNan::kWarn && rank) state_.reported = true;
  if (on_nan == OnNan::kWarn && (state_.reported || !state_.row_is_due)) return false;
  // Gradients are the same on all ranks, so all decide the same.
  std::optional<std::string> parameter;
  if (!rank) {
    GradientSums sums(optimizer, module);
    if (sums.parameters.empty()) return false;
    const at::Tensor total = sums.by_parameter.sum();
    if (defers(total)) {
      state_.gradients = {defer(total, place(setup_.strategy->rank())), std::move(sums)};
      return false;
    }
    if (!std::isfinite(total.item<double>())) parameter = sums.first_bad();
  }
  if (!rank && !parameter) return false;
  const std::string what =
      rank ? format("The loss is NaN or infinite {}", place(*rank, Hook::kTrainingStep))
           : format("The gradient of '{}' is NaN or infinite {}", *parameter, place(setup_.strategy->rank()));
  if (on_nan == OnNan::kStop) throw Error(what + "; on_nan: stop ends the run." + kAdvice);
  if (on_nan == OnNan::kSkip) {
    ++state_.skipped;
    zero_grad(optimizer);
  }
  if (!std::exchange(state_.reported, true)) {
    warn_once(what + (on_nan == OnNan::kSkip ? "; the step is skipped." : ".") + kAdvice, progress_, "gradient");
  }
  return on_nan == OnNan::kSkip;
}

void NanGuard::look_at_metric(std::string_view name, double value) {
  if (std::isfinite(value) || std::exchange(state_.metric_reported, true)) return;
  warn_once(format("The metric '{}' was logged as {} {}.", name, text_of(value), place(setup_.strategy->rank())), progress_,
            "metric");
}

void NanGuard::look_at_row(const MetricMap& row) {
  const auto bad = std::ranges::find_if(row, [](const auto& entry) { return !std::isfinite(entry.second); });
  if (bad == row.end() || std::exchange(state_.metric_reported, true)) return;
  warn_once(format("The metric '{}' is {} in the row of {}, epoch {}, step {}.", bad->first, text_of(bad->second),
                   stage_name(progress_.stage), progress_.epoch, progress_.global_step),
            progress_, "metric");
}

void NanGuard::end_epoch() {
  const std::int64_t skipped = std::exchange(state_.skipped, 0);
  if (skipped == 0) return;
  Console::instance().print(
      LogLevel::kWarning,
      format("Epoch {}: {} skipped, because a loss or gradient was NaN or infinite (on_nan: skip).", progress_.epoch,
             counted(static_cast<std::size_t>(skipped), "step") + (skipped == 1 ? " was" : " were")),
      Speaker::kRun);
}

}  // namespace levin
