#include "levin/core/optimizers/described_optimizer.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/optimizers.h"
#include "optim/builtin_optimizers.h"
#include "support/heavy_ball.h"

namespace {

using namespace levin;
using Catch::Matchers::Contains;

std::vector<at::Tensor> two_parameters() { return {torch::ones({2}).requires_grad_(), torch::ones({3, 2}).requires_grad_()}; }

void give(torch::optim::Optimizer& optimizer, double gradient) {
  for (at::Tensor& parameter : optimizer.param_groups()[0].params())
    parameter.mutable_grad() = torch::full_like(parameter, gradient);
}

}  // namespace

TEST_CASE("an optimizer of a user's own that names options and state steps, and goes on from a checkpoint") {
  HeavyBall ball(two_parameters(), {.lr = 0.5, .momentum = 0.25});
  for (const double gradient : {1.0, 2.0}) {
    give(ball, gradient);
    ball.step();
  }
  // Momenta 1 and 2.25.
  CHECK(ball.param_groups()[0].params()[1].equal(torch::full({3, 2}, 1 - 0.5 * 1 - 0.5 * 2.25)));
  Checkpoint checkpoint;
  save_optimizer(ball, 0, checkpoint);
  CHECK(checkpoint.tensors.at("optimizer_states.0.state.1.momentum_buffer").equal(torch::full({3, 2}, 2.25)));
  CHECK(checkpoint.manifest.at("optimizer_states").as_list()[0].at("param_groups").as_list()[0] ==
        Value(Value::Map{{"lr", 0.5}, {"momentum", 0.25}, {"params", Value::List{0, 1}}}));

  HeavyBall resumed(two_parameters());
  load_optimizer(resumed, 0, checkpoint);
  CHECK(get_lrs(resumed) == std::vector<double>{0.5});
  CHECK(get_momentum(resumed.param_groups()[0]) == 0.25);
  give(resumed, 0.0);
  resumed.step();
  CHECK(resumed.param_groups()[0].params()[0].equal(torch::full({2}, 1 - 0.5 * 0.25 * 2.25)));
}

TEST_CASE("state of another shape is refused by name") {
  HeavyBall ball(two_parameters());
  give(ball, 1.0);
  ball.step();
  Checkpoint checkpoint;
  save_optimizer(ball, 0, checkpoint);
  HeavyBall other({torch::ones({5}).requires_grad_(), torch::ones({3, 2}).requires_grad_()});
  CHECK_THROWS_WITH(load_optimizer(other, 0, checkpoint), Contains("state.0.momentum_buffer' has shape [2]"));
}

TEST_CASE("options that YAML could not have are refused in C++ too") {
  CHECK_THROWS_WITH(HeavyBall(two_parameters(), {.lr = -1}), Contains("lr: must be at least 0"));
  CHECK_THROWS_WITH(Rprop(two_parameters(), {.etas = {1.5, 2.0}}), Contains("etas must be one number between 0 and 1"));
  CHECK_THROWS_WITH(Lion(two_parameters(), {.betas = {0.9, 1.0}}), Contains("betas must be two numbers"));
  CHECK_THROWS_WITH(Adafactor(two_parameters(), {.d = 0.5}), Contains("d: must be at least 1"));
}

TEST_CASE("momentum, betas and weight decay of every optimizer are read and set by name") {
  Muon muon({torch::ones({2, 2}).requires_grad_()});
  set_momentum(muon.param_groups()[0], 0.5);
  CHECK(get_momentum(muon.param_groups()[0]) == 0.5);
  CHECK(get_weight_decay(muon.param_groups()[0]) == 0.1);
  CHECK_FALSE(get_betas(muon.param_groups()[0]));
  Lion lion(two_parameters());
  set_betas(lion.param_groups()[0], {0.5, 0.6});
  CHECK(get_betas(lion.param_groups()[0]) == std::pair(0.5, 0.6));
  CHECK_THROWS_WITH(set_momentum(lion.param_groups()[0], 0.1), Contains("has no momentum to set"));
  levin::AdamW adamw(two_parameters());
  CHECK(get_weight_decay(adamw.param_groups()[0]) == 0.01);
  CHECK_FALSE(get_weight_decay(torch::optim::LBFGS(two_parameters()).param_groups()[0]));
}

TEST_CASE("every optimizer but LBFGS says that it steps parameters alone") {
  CHECK(steps_parameters_alone(Lion(two_parameters())));
  CHECK(steps_parameters_alone(HeavyBall(two_parameters())));
  CHECK(steps_parameters_alone(levin::SGD(two_parameters(), 0.1)));
  CHECK(steps_parameters_alone(torch::optim::RMSprop(two_parameters())));
  CHECK_FALSE(steps_parameters_alone(torch::optim::LBFGS(two_parameters())));
}

TEST_CASE("sparse and complex gradients, other shapes for Muon, and LibTorch's archives are errors that say so") {
  const at::Tensor table = torch::ones({5, 2}).requires_grad_();
  Lion lion({table});
  table.mutable_grad() = torch::sparse_coo_tensor(torch::tensor({{1}}), torch::ones({1, 2}), {5, 2});
  CHECK_THROWS_WITH(lion.step(), Contains("Lion has the gradient of a parameter that is sparse"));
  const at::Tensor wave = torch::ones({2}, torch::kComplexFloat).requires_grad_();
  Rprop rprop({wave});
  wave.mutable_grad() = torch::ones_like(wave);
  CHECK_THROWS_WITH(rprop.step(), Contains("that is complex"));
  Muon muon(two_parameters());
  give(muon, 1.0);
  CHECK_THROWS_WITH(muon.step(), Contains("Muon steps matrices, and has a parameter of shape [2]"));
  torch::serialize::OutputArchive archive;
  CHECK_THROWS_WITH(lion.save(archive), Contains("save a checkpoint"));
}
