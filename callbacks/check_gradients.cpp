#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "levin/callbacks/check_with_options.h"
#include "levin/callbacks/severity.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/fit_preview.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// The element with this number, wherever it lies in memory, and its index: "[3, 4]".
std::pair<at::Tensor, std::string> element_of(const at::Tensor& tensor, std::int64_t number) {
  at::Tensor element = tensor.detach();
  std::vector<std::string> places;
  for (std::int64_t dimension = tensor.dim() - 1; dimension >= 0; --dimension) {
    const std::int64_t size = tensor.size(dimension);
    places.insert(places.begin(), std::to_string(number % size));
    element = element.select(dimension, number % size);
    number /= size;
  }
  return {element, format("[{}]", join(places))};
}

struct CheckGradientsOptions {
  Severity fail = Severity::kError;
  std::int64_t elements = 3;
  std::vector<std::string> ignore = {};

  static void declare(OptionList<CheckGradientsOptions>& options) {
    using O = CheckGradientsOptions;
    options.add(&O::fail, "When a gradient is wrong: warn, or end the run");
    options.add(&O::elements, "Elements of each parameter that are tried, chosen at random").min(1);
    options.add(&O::ignore, "Beginnings of the names of parameters that are left out");
  }
};

/// Compares the gradients that backward gives for the first batch with finite differences of training_step, at some elements
/// of each parameter: in 64 bits where the module can, and with the same random numbers each time. At a kink, as of ReLU, what
/// lies between the slopes on both sides is right.
class CheckGradients final : public CheckWithOptions<CheckGradientsOptions> {
 public:
  explicit CheckGradients(const Options& options) : CheckWithOptions("CheckGradients", options) {}

 protected:
  void check(Trainer& trainer, Module& module) override {
    if (compare(trainer, module, kIn64Bits)) return;
    add_remark("the module does not compute in 64 bits; in 32, errors below 5 % are not seen");
    compare(trainer, module, kIn32Bits);
  }

 private:
  struct Accuracy {
    double step;      ///< of a difference
    double relative;  ///< difference that is allowed
    double rounding;  ///< of a loss of 1
  };
  static constexpr Accuracy kIn64Bits{1e-6, 1e-4, 1e-14};
  static constexpr Accuracy kIn32Bits{1e-3, 0.05, 1e-6};

  /// False: some rank's module cannot. Ranks: all.
  bool compare(Trainer& trainer, Module& module, const Accuracy& accuracy) {
    const bool in_64_bits = &accuracy == &kIn64Bits;
    FitPreview preview(trainer, in_64_bits);
    if (!preview.has_loss()) {
      add_remark("left out: it needs automatic optimization, and a batch on each rank");
      return true;
    }
    at::Tensor loss;
    try {
      loss = preview.loss();
      preview.backward(loss);
    } catch (const c10::Error&) {
      if (!in_64_bits) throw;
    }
    const int works = !in_64_bits || (loss.defined() && loss.scalar_type() == at::kDouble) ? 1 : 0;
    const ExchangeSite site("CheckGradients", "all ranks have this callback");
    if (std::ranges::count(RankExchange(trainer.strategy().control_group()).gather_values(works, site), 0) != 0) return false;
    const double middle = loss.item<double>();
    // A module that draws random numbers or changes its own state.
    const double noise = std::abs(preview.loss().item<double>() - middle);
    if (noise > 0) add_remark(format("training_step gives another loss for the same batch, by {:.3g}", noise));
    const double rounding = (accuracy.rounding * std::max(1.0, std::abs(middle)) + noise) / accuracy.step;
    std::mt19937_64 random;  // the same elements in each run and on each rank
    std::vector<std::string> without;
    for (const auto& [name, parameter] : distinct_parameters(module)) {
      if (!parameter.requires_grad() || !parameter.is_floating_point() || parameter.numel() == 0 || is_ignored(name)) continue;
      const bool has_gradient = parameter.grad().defined();
      if (!has_gradient) without.push_back(name);
      const at::Tensor gradients = has_gradient ? parameter.grad().to_dense() : at::zeros_like(parameter);
      for (std::int64_t tried = 0; tried < std::min(options_.elements, parameter.numel()); ++tried) {
        // Ranks that may communicate in a step take as many.
        if (preview.interrupted() && trainer.world_size() == 1) return true;
        const auto number = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(parameter.numel()));
        const auto [element, place] = element_of(parameter, number);
        const double value = element.item<double>();
        const double step = accuracy.step * std::max(1.0, std::abs(value));
        const auto loss_at = [&preview, &element = element](double shifted) {
          element.fill_(shifted);
          return preview.loss().item<double>();
        };
        const double above = (loss_at(value + step) - middle) / step;
        const double below = (middle - loss_at(value - step)) / step;
        element.fill_(value);
        const auto gradient = element_of(gradients, number).first.item<double>();
        const double allowed = accuracy.relative * std::max({std::abs(gradient), std::abs(above), std::abs(below)}) + rounding;
        if (gradient >= std::min(above, below) - allowed && gradient <= std::max(above, below) + allowed) continue;
        add_finding(
            format("{}{}: backward gives {:.6g}, finite differences {:.6g}", name, place, gradient, (above + below) / 2));
      }
    }
    if (!without.empty()) add_remark("no gradient: " + join(without));
    return true;
  }
};

LEVIN_REGISTER_CALLBACK(CheckGradients, "Compare gradients with finite differences before training");

}  // namespace
}  // namespace levin
