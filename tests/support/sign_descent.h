#pragma once

#include <levin/levin.h>

namespace {

struct SignDescentOptions : torch::optim::OptimizerCloneableOptions<SignDescentOptions> {
  double lr = 0.01;
  double get_lr() const override { return lr; }
  void set_lr(const double value) override { lr = value; }

  static void declare(levin::OptionList<SignDescentOptions>& options) {
    options.add("lr", &SignDescentOptions::lr, "Learning rate").above(0);
  }
};

/// Changes each weight by the learning rate, against the sign of its gradient.
class SignDescent : public torch::optim::Optimizer {
 public:
  using Options = SignDescentOptions;
  SignDescent(std::vector<torch::Tensor> parameters, const SignDescentOptions& options)
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::make_unique<SignDescentOptions>(options)) {}

  torch::Tensor step(LossClosure closure = nullptr) override {
    const torch::Tensor loss = closure ? closure() : torch::Tensor();
    const torch::NoGradGuard no_grad;
    for (torch::optim::OptimizerParamGroup& group : param_groups()) {
      const double lr = group.options().get_lr();
      for (torch::Tensor& parameter : group.params()) {
        if (parameter.grad().defined()) parameter.sub_(parameter.grad().sign(), lr);
      }
    }
    return loss;
  }
};

LEVIN_REGISTER_OPTIMIZER(SignDescent, "Steps of one length");

}  // namespace
