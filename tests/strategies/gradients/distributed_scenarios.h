#pragma once

#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "levin/strategies/gradients/ddp.h"
#include "levin/strategies/world/process_world.h"

namespace levin::test {

/// What a scenario has.
struct Context {
  DdpStrategy& strategy;
  ProcessWorld& world;
  int rank() const { return strategy.rank(); }
  int ranks() const { return strategy.world_size(); }
};

/// One line in one write, so that lines of ranks do not mix.
inline void say(const std::string& text) {
  const std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

/// A module with buffers, frozen parameters, and some that a forward pass may leave out.
struct Net : torch::nn::Module {
  explicit Net(std::int64_t hidden = 5, bool use_norm = true) {
    first = register_module("first", torch::nn::Linear(4, hidden));
    if (use_norm) norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
    if (hidden < 10'000) frozen = register_module("frozen", torch::nn::Linear(hidden, hidden));
    if (frozen)
      for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    spare = register_module("spare", torch::nn::Linear(hidden, 2));
    last = register_module("last", torch::nn::Linear(hidden, 2));
  }
  torch::Tensor forward(const torch::Tensor& input, bool use_spare) {
    auto hidden = first->forward(input);
    hidden = torch::tanh(frozen ? frozen->forward(hidden) : hidden);
    if (norm) hidden = norm->forward(hidden);
    return use_spare ? spare->forward(hidden) + last->forward(hidden) : last->forward(hidden);
  }
  torch::nn::Linear first{nullptr}, frozen{nullptr}, spare{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

inline void zero_gradients(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) parameter.mutable_grad().reset();
}

using Scenario = std::function<void(Context&)>;
using Scenarios = std::map<std::string, Scenario>;

/// Steps of training and the gradients in them.
Scenarios gradient_scenarios();
/// Reductions that are under way when a backward pass, or the program, ends.
Scenarios in_flight_scenarios();
/// Calls of the control group: for the values that it gives, and for ranks in different ones.
Scenarios group_scenarios();

}  // namespace levin::test
