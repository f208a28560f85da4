#pragma once

#include <levin/levin.h>

#include <algorithm>
#include <cmath>

namespace {

struct GradientNormOptions {
  double warn_above = 1e3;

  static void declare(levin::OptionList<GradientNormOptions>& options) {
    options.add("warn_above", &GradientNormOptions::warn_above, "Warn of a norm above it").min(0);
  }
};

/// Logs the 2-norm of all gradients before each step, and remembers the largest one over resumes.
class GradientNorm : public levin::Callback {
 public:
  using Options = GradientNormOptions;
  explicit GradientNorm(GradientNormOptions options) : options_(levin::checked("GradientNorm", options)) {}
  levin::Value settings() const override { return levin::write_options(options_); }

  void on_before_optimizer_step(levin::Trainer&, levin::Module& module, torch::optim::Optimizer&) override {
    double squares = 0;
    for (const torch::Tensor& parameter : module.parameters()) {
      if (parameter.grad().defined()) squares += parameter.grad().square().sum().item<double>();
    }
    const double norm = std::sqrt(squares);
    largest_ = std::max(largest_, norm);
    module.log("grad_norm", norm);
    module.log("largest_grad_norm", largest_);
    if (norm > options_.warn_above) levin::rank_warn_once("The norm of the gradients is above warn_above.");
  }

  levin::Value state_dict() const override { return levin::Value::Map{{"largest", largest_}}; }
  void load_state_dict(const levin::Value& state) override { largest_ = state.at("largest").as_double(); }

 private:
  GradientNormOptions options_;
  double largest_ = 0;
};

LEVIN_REGISTER_CALLBACK(GradientNorm, "Logs the norm of the gradients");

}  // namespace
