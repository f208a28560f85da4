#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/optim/fused_optimizers.h"
#include "levin/optim/optimizers.h"
#include "optim/builtin_optimizers.h"

using namespace levin;

namespace {

constexpr const char* kState = "optimizer_states.0.state.0.";

at::Tensor state_of(const torch::optim::Optimizer& optimizer, const std::string& name) {
  Checkpoint checkpoint;
  save_optimizer(optimizer, 0, checkpoint);
  return checkpoint.tensors.at(kState + name).clone();
}

/// Numbers from -1 to 1, other ones at each step, without a generator.
at::Tensor waves(std::int64_t count, double step) { return (torch::arange(count) * 1.3 + step * 0.7).sin(); }

/// Towards the waves of step 1000, with noise.
void step_towards(torch::optim::Optimizer& optimizer, int step) {
  at::Tensor& parameter = optimizer.param_groups()[0].params()[0];
  const at::Tensor noise = waves(parameter.numel(), step) * 0.3;
  const at::Tensor target = waves(parameter.numel(), 1000);
  parameter.mutable_grad() = ((parameter.detach().flatten() - target) + noise).reshape(parameter.sizes()).to(parameter.dtype());
  optimizer.step();
}

}  // namespace

TEST_CASE("AdamWBf16 comes near the weights of AdamW, with state in bfloat16") {
  const at::Tensor parameter = torch::zeros({20, 50}, torch::requires_grad());
  const at::Tensor exact = torch::zeros({20, 50}, torch::requires_grad());
  AdamWBf16 optimizer({parameter}, {.lr = 0.01, .weight_decay = 0.1});
  levin::AdamW reference({exact}, levin::AdamWOptions(0.01).weight_decay(0.1));
  for (int step = 0; step < 300; ++step) {
    step_towards(optimizer, step);
    step_towards(reference, step);
  }
  CHECK(state_of(optimizer, "exp_avg").dtype() == torch::kBFloat16);
  CHECK(state_of(optimizer, "exp_avg_sq").dtype() == torch::kBFloat16);
  const double moved = exact.norm().item<double>();
  CHECK(moved > 10);
  const double off = (parameter - exact).norm().item<double>();
  CHECK(off < 0.01 * moved);
  CHECK(off > 0);
}

TEST_CASE("averages in bfloat16 do not stop short of where they go") {
  const at::Tensor parameter = torch::zeros({1000}, torch::requires_grad());
  AdamWBf16 optimizer({parameter}, {.lr = 0.0});
  for (int step = 0; step < 2000; ++step) {
    parameter.mutable_grad() = torch::full({1000}, -1.0);
    optimizer.step();
  }
  // Rounded to the nearest, it stays near 0.3, where a step of a thousandth of the rest is less than half a last digit.
  CHECK(state_of(optimizer, "exp_avg_sq").to(torch::kFloat).mean().item<double>() ==
        Approx(1 - std::pow(0.999, 2000)).epsilon(0.005));
  CHECK(state_of(optimizer, "exp_avg").to(torch::kFloat).mean().item<double>() == Approx(-1).epsilon(0.005));
}

TEST_CASE("ranks whose generators differ round alike, and the generator of modules is not drawn from") {
  std::vector<at::Tensor> weights;
  for (const int seed : {1, 2}) {
    torch::manual_seed(seed);
    const at::Tensor parameter = torch::ones({7, 3}, torch::requires_grad());
    AdamWBf16 optimizer({parameter}, {.lr = 0.1});
    for (int step = 0; step < 20; ++step) step_towards(optimizer, step);
    weights.push_back(parameter.detach());
    const at::Tensor drawn = torch::rand({3});
    torch::manual_seed(seed);
    CHECK(drawn.equal(torch::rand({3})));
  }
  CHECK(weights[0].equal(weights[1]));
}

TEST_CASE("AdamWBf16 resumes from a checkpoint to the same bits, also with weights of other types") {
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kDouble}) {
    const at::Tensor whole = torch::ones({4, 5}, torch::dtype(type).requires_grad(true));
    const at::Tensor resumed = torch::ones({4, 5}, torch::dtype(type).requires_grad(true));
    const auto made = [&](const at::Tensor& parameter, Value::Map init_args) {
      return optimizer_factory("AdamWBf16", Value(std::move(init_args)))->make({parameter});
    };
    const auto optimizer = made(whole, {{"lr", 0.02}, {"betas", Value::List{0.8, 0.9}}});
    const auto other = made(resumed, {});
    for (int step = 0; step < 30; ++step) step_towards(*optimizer, step);
    resume_optimizer(*optimizer, *other);
    for (int step = 30; step < 50; ++step) {
      step_towards(*optimizer, step);
      step_towards(*other, step);
    }
    CHECK(whole.equal(resumed));
    CHECK(state_of(*other, "exp_avg_sq").equal(state_of(*optimizer, "exp_avg_sq")));
    CHECK_FALSE(whole.equal(torch::ones_like(whole)));
  }
}
