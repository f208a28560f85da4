#include "levin/core/engine/diagnostics/nan_guard.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/view_as_real.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/parts/scalar_value.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

constexpr const char* kAdvice =
    " A lower learning rate, gradient_clip_val and a look at the data help most; detect_anomaly: true finds the operation, "
    "on_nan: stop or skip says what follows.";

bool is_finite(const at::Tensor& gradient) { return at::isfinite(gradient).all().item<bool>(); }

const char* text_of(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

/// Said once, whichever ranks find it in the same step.
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

void NanGuard::look_at_loss(const at::Tensor& loss) {
  if (!loss.is_cpu() && !state_.row_is_due) return;
  const double value = loss.is_cpu() ? scalar_value(loss) : loss.item<double>();
  if (std::isfinite(value)) [[likely]]
    return;
  state_.loss_is_bad = true;
  state_.rank_of_bad_loss = setup_.strategy->rank();
  if (setup_.options.on_nan != OnNan::kWarn || std::exchange(state_.told, true)) return;
  warn_once(format("The loss is {} {}.{}", text_of(value), place(setup_.strategy->rank(), Hook::kTrainingStep), kAdvice),
            progress_, "loss");
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

std::optional<std::string> NanGuard::bad_gradient(const torch::optim::Optimizer& optimizer, const Module& module) const {
  // A sum is cheaper than a look at each element, and waits for a device once. It is finite unless one is not, or it overflows.
  const at::NoGradGuard no_grad;
  at::Tensor total;
  for (const at::Tensor& parameter : all_parameters(optimizer)) {
    if (!parameter.grad().defined()) continue;
    const at::Tensor sum =
        (parameter.is_complex() ? at::view_as_real(parameter.grad().resolve_conj()) : parameter.grad()).sum().to(at::kDouble);
    total = total.defined() ? total + sum : sum;
  }
  if (!total.defined() || std::isfinite(total.item<double>())) return std::nullopt;
  for (const at::Tensor& parameter : all_parameters(optimizer)) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined() || is_finite(gradient.is_sparse() ? gradient.to_dense() : gradient)) continue;
    for (const auto& entry : module.named_parameters()) {
      if (entry.value().is_same(parameter)) return entry.key();
    }
    return "a parameter that is not the module's";
  }
  return std::nullopt;
}

bool NanGuard::skips_step(torch::optim::Optimizer& optimizer, const Module& module) {
  const OnNan on_nan = setup_.options.on_nan;
  const std::optional<int> rank = std::exchange(state_.rank_of_bad_loss, std::nullopt);
  state_.loss_is_bad = false;
  // The rank whose loss it was has told already.
  if (on_nan == OnNan::kWarn && rank) state_.told = true;
  if (on_nan == OnNan::kWarn && (state_.told || !state_.row_is_due)) return false;
  // Gradients are the same on all ranks: each of them decides alike.
  const std::optional<std::string> parameter = rank ? std::nullopt : bad_gradient(optimizer, module);
  if (!rank && !parameter) return false;
  const std::string what =
      rank ? format("The loss is NaN or infinite {}", place(*rank, Hook::kTrainingStep))
           : format("The gradient of '{}' is NaN or infinite {}", *parameter, place(setup_.strategy->rank()));
  if (on_nan == OnNan::kStop) throw Error(what + "; on_nan: stop ends the run." + kAdvice);
  if (on_nan == OnNan::kSkip) {
    ++state_.skipped;
    zero_grad(optimizer);
  }
  if (!std::exchange(state_.told, true)) {
    warn_once(what + (on_nan == OnNan::kSkip ? "; the step is skipped." : ".") + kAdvice, progress_, "gradient");
  }
  return on_nan == OnNan::kSkip;
}

void NanGuard::look_at_metric(std::string_view name, double value) {
  if (std::isfinite(value) || std::exchange(state_.told_of_metric, true)) return;
  warn_once(format("The metric '{}' was logged as {} {}.", name, text_of(value), place(setup_.strategy->rank())), progress_,
            "metric");
}

void NanGuard::look_at_row(const MetricMap& row) {
  const auto bad = std::ranges::find_if(row, [](const auto& entry) { return !std::isfinite(entry.second); });
  if (bad == row.end() || std::exchange(state_.told_of_metric, true)) return;
  warn_once(format("The metric '{}' is {} in the row of {}, epoch {}, step {}.", bad->first, text_of(bad->second),
                   stage_name(progress_.stage), progress_.epoch, progress_.global_step),
            progress_, "metric");
}

void NanGuard::end_epoch() {
  const std::int64_t skipped = std::exchange(state_.skipped, 0);
  if (skipped == 0) return;
  Console::instance().print(
      LogLevel::kWarning,
      format("Epoch {}: {} skipped, since a loss or gradient was NaN or infinite (on_nan: skip).", progress_.epoch,
             counted(static_cast<std::size_t>(skipped), "step") + (skipped == 1 ? " was" : " were")),
      Speaker::kRun);
}

}  // namespace levin
