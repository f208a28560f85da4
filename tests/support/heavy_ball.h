#pragma once

#include <levin/levin.h>

namespace {

struct HeavyBallOptions {
  double lr = 0.01;
  double momentum = 0.9;

  static void declare(levin::OptionList<HeavyBallOptions>& options) {
    options.add(&HeavyBallOptions::lr, "Learning rate").min(0);
    options.add(&HeavyBallOptions::momentum, "How much of the last step goes into the next").min(0).below(1);
  }
};

struct HeavyBallState {
  torch::Tensor momentum_buffer = {};
};

/// Momentum: each step is the gradient plus a part of the last step.
class HeavyBall : public levin::OptimizerOf<HeavyBallOptions, HeavyBallState> {
 public:
  using OptimizerOf::OptimizerOf;

 private:
  void step_parameter(torch::Tensor& parameter, const torch::Tensor& gradient, const Options& options, State& state) override {
    state.momentum_buffer.mul_(options.momentum).add_(gradient);
    parameter.sub_(state.momentum_buffer, options.lr);
  }
};

LEVIN_REGISTER_OPTIMIZER(HeavyBall, "Gradient descent with a momentum");

}  // namespace
