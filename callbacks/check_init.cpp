#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "levin/callbacks/check_with_options.h"
#include "levin/callbacks/operator_calls.h"
#include "levin/callbacks/severity.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/fit_preview.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

bool is_finite(const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); }

/// All rows are the same; of a single row, all elements.
bool is_alike(const at::Tensor& tensor) {
  return tensor.eq(tensor.size(0) > 1 ? tensor[0] : tensor.flatten()[0]).all().item<bool>();
}

struct CheckInitOptions {
  Severity fail = Severity::kError;
  double scale_limit = 1000;
  std::vector<std::string> ignore = {};

  static void declare(OptionList<CheckInitOptions>& options) {
    using O = CheckInitOptions;
    options.add(&O::fail, "When a layer is initialized badly: warn, or end the run");
    options.add(&O::scale_limit, "Activations may grow or shrink so many times from the first layer on").above(1);
    options.add(&O::ignore, "Beginnings of the names of layers and parameters that are left out");
  }
};

/// Checks weights, and what each layer makes of the first batch: numbers that are NaN; activations that are all zero, or
/// the same for every sample; their root mean square, which explodes or vanishes from the first layer on; units of a layer that
/// begin and learn alike; a cross entropy of more than twice that of guessing.
class CheckInit final : public CheckWithOptions<CheckInitOptions> {
 public:
  explicit CheckInit(const Options& options) : CheckWithOptions("CheckInit", options) {}

 protected:
  void check(Trainer& trainer, Module& module) override {
    FitPreview preview(trainer);
    parameters_ = distinct_parameters(module);
    layer_.clear();
    first_layer_.clear();
    goes_wrong_ = false;
    if (preview.has_loss()) {
      const at::Tensor loss = observed_loss(preview, [&](const OperatorCall& call) { check_activations(call); });
      if (!is_finite(loss)) add_finding(format("the loss of the first batch is {}", loss.item<double>()));
      preview.backward(loss);
    } else {
      add_remark("weights only: the rest needs automatic optimization, and a batch on each rank");
    }
    for (const auto& [name, parameter] : parameters_) {
      if (is_ignored(name) || !parameter.is_floating_point() || parameter.numel() < 2) continue;
      if (!is_finite(parameter)) add_finding(name + " holds NaN or an infinity");
      const at::Tensor& gradient = parameter.grad();
      const bool learns_alike = gradient.defined() ? is_alike(gradient.to_dense()) : !preview.has_loss();
      if (parameter.dim() < 2 || !learns_alike || !is_alike(parameter)) continue;
      add_finding(format("{}: its rows are alike{}: its units learn the same", name,
                         gradient.defined() ? ", and their gradients" : ""));
    }
    parameters_.clear();
  }

 private:
  void check_activations(const OperatorCall& call) {
    const at::Tensor& output = call.output;
    if (!output.defined() || !output.is_floating_point()) return;
    if (const auto entropy = cross_entropy_of(call); entropy && entropy->is_mean) {
      const double guessing = std::log(static_cast<double>(entropy->classes));
      if (const auto loss = output.item<double>(); loss > 2 * guessing)
        add_finding(format("cross entropy begins at {:.3g}; that of guessing among {} classes is {:.3g}", loss,
                           entropy->classes, guessing));
    }
    std::string layer;
    bool has_signal = false;
    const auto note_input = [&](const at::Tensor& input) {
      const auto known = std::ranges::find_if(parameters_, [&](const auto& each) { return each.second.is_same(input); });
      if (known != parameters_.end())
        layer = known->first.substr(0, known->first.rfind('.'));
      else
        has_signal = has_signal || (input.defined() && input.numel() > 0);
    };
    for (const c10::IValue& input : call.inputs) {
      if (input.isTensor()) note_input(input.toTensor());
      if (input.isTensorList()) std::ranges::for_each(input.toTensorVector(), note_input);
    }
    // What changes a parameter alone is not a layer.
    if (!has_signal || output.dim() == 0 || output.numel() < 2) return;
    if (!layer.empty()) layer_ = layer;
    if (is_ignored(layer_) || (layer.empty() && (layer_.empty() || call.name.find("elu") == std::string::npos))) return;
    const std::string name = layer.empty() ? format("{} after {}", call.name, layer_) : layer;
    if (!output.any().item<bool>()) return add_finding(name + ": all activations are 0");
    if (layer.empty()) return;
    if (output.size(0) > 1 && is_alike(output)) return add_finding(name + ": activations are the same for every sample");
    const auto scale = output.to(at::kDouble).square().mean().sqrt().item<double>();
    if (first_layer_.empty()) {
      first_layer_ = name;
      first_scale_ = scale;
    }
    const double ratio = scale / first_scale_;
    if (goes_wrong_ || (ratio < options_.scale_limit && ratio > 1 / options_.scale_limit)) return;
    goes_wrong_ = true;
    add_finding(format("{}: activations {}: their root mean square is {:.3g}, after {:.3g} of {}", name,
                       ratio < 1              ? "vanish"
                       : std::isfinite(ratio) ? "explode"
                                              : "are not numbers",
                       scale, first_scale_, first_layer_));
  }

  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::string layer_;  ///< the last one
  std::string first_layer_;
  double first_scale_ = 0;
  bool goes_wrong_ = false;  ///< and so does all that follows
};

LEVIN_REGISTER_CALLBACK(CheckInit, "Check weights and the first activations before training");

}  // namespace
}  // namespace levin
