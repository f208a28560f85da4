#include "levin/core/checkpoint/optimizer_state.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/random/rng_state.h"
#include "levin/optim/fused_optimizers.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

using Catch::Matchers::Contains;
using torch::optim::Optimizer;
using MakeOptimizer = std::function<std::shared_ptr<Optimizer>(std::vector<at::Tensor>)>;

struct TrainedNet final : torch::nn::Module {
  explicit TrainedNet(int hidden = 8) {
    first = register_module("first", torch::nn::Linear(5, hidden));
    drop = register_module("drop", torch::nn::Dropout(0.2));
    second = register_module("second", torch::nn::Linear(hidden, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return second(drop(torch::tanh(first(x)))); }
  torch::nn::Linear first{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear second{nullptr};
};

// One step; random numbers come from the default generator.
double train_step(TrainedNet& net, Optimizer& optimizer) {
  const at::Tensor x = torch::randn({16, 5});
  const at::Tensor loss = optimizer.step([&] {
    const at::AutoGradMode grad(true);
    zero_grad(optimizer);
    at::Tensor value = (net.forward(x) - x.sum(1, true)).pow(2).mean();
    value.backward();
    return value;
  });
  return loss.item<double>();
}

template <class OptimizerClass, class Options>
MakeOptimizer with(Options options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_shared<OptimizerClass>(std::move(parameters), options);
  };
}

const std::vector<std::pair<std::string, MakeOptimizer>>& optimizers() {
  namespace optim = torch::optim;
  static const std::vector<std::pair<std::string, MakeOptimizer>> list = {
      {"SGD", with<optim::SGD>(optim::SGDOptions(0.05))},
      {"SGD with momentum", with<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.01))},
      {"Adam", with<optim::Adam>(optim::AdamOptions(0.01).betas({0.8, 0.95}))},
      {"Adam with amsgrad", with<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true))},
      {"AdamW", with<optim::AdamW>(optim::AdamWOptions(0.01).weight_decay(0.1))},
      {"RMSprop", with<optim::RMSprop>(optim::RMSpropOptions(0.01))},
      {"RMSprop centered", with<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5).centered(true))},
      {"Adagrad", with<optim::Adagrad>(optim::AdagradOptions(0.05).lr_decay(0.1).initial_accumulator_value(0.1))},
      {"levin's SGD", with<levin::SGD>(optim::SGDOptions(0.05).momentum(0.9).dampening(0.1))},
      {"levin's Adam", with<levin::Adam>(optim::AdamOptions(0.01).amsgrad(true))},
      {"levin's AdamW", with<levin::AdamW>(optim::AdamWOptions(0.01).weight_decay(0.1))},
      {"levin's Adagrad", with<levin::Adagrad>(optim::AdagradOptions(0.05).lr_decay(0.1).initial_accumulator_value(0.1))},
      {"LBFGS", with<optim::LBFGS>(optim::LBFGSOptions(0.5).max_iter(4).history_size(6))},
      {"LBFGS with line search", with<optim::LBFGS>(optim::LBFGSOptions(1).max_iter(3).line_search_fn("strong_wolfe"))}};
  return list;
}

Checkpoint checkpoint_of(const TrainedNet& net, const Optimizer& optimizer) {
  Checkpoint checkpoint;
  save_module(net, checkpoint);
  save_optimizer(optimizer, 0, checkpoint);
  checkpoint.tensors["rng.0.cpu"] = RandomSnapshot::take().states(/*rank=*/0).at("cpu");
  return checkpoint;
}

/// Counts its steps, without LibTorch's state.
class CountingDescent final : public Optimizer {
 public:
  explicit CountingDescent(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure) override {
    ++steps;
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override { archive.write("steps", c10::IValue(steps)); }
  void load(torch::serialize::InputArchive& archive) override {
    c10::IValue value;
    archive.read("steps", value);
    steps = value.toInt();
  }
  std::int64_t steps = 0;
};

/// Has nothing to save, or does not say how.
class PlainDescent final : public Optimizer {
 public:
  explicit PlainDescent(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure) override { return {}; }
};

}  // namespace

TEST_CASE("training resumed from a file gives bit for bit the losses of the run that was not interrupted") {
  at::set_num_threads(1);
  TemporaryFolder folder;
  for (const auto& [name, make] : optimizers()) {
    for (const int steps_before : {0, 1, 9}) {
      INFO(name << " saved after " << steps_before << " steps");
      torch::manual_seed(11);
      TrainedNet net;
      const auto optimizer = make(net.parameters());
      for (int step = 0; step < steps_before; ++step) train_step(net, *optimizer);
      set_lr(optimizer->param_groups()[0], get_lr(optimizer->param_groups()[0]) * 0.5);
      checkpoint_of(net, *optimizer).save(folder / "run.ckpt");
      std::vector<double> expected;
      for (int step = 0; step < 12; ++step) expected.push_back(train_step(net, *optimizer));

      torch::manual_seed(99);
      TrainedNet resumed_net;
      const auto resumed = make(resumed_net.parameters());
      train_step(resumed_net, *resumed);  // State that loading must replace.
      const Checkpoint loaded = Checkpoint::load(folder / "run.ckpt");
      load_module(resumed_net, loaded);
      load_optimizer(*resumed, 0, loaded);
      set_random_states({{"cpu", loaded.tensors.at("rng.0.cpu")}}, /*rank=*/0);
      std::vector<double> found;
      for (int step = 0; step < 12; ++step) found.push_back(train_step(resumed_net, *resumed));
      CHECK(found == expected);
    }
  }
}

TEST_CASE("LibTorch's optimizers and levin's of the same name load each other's state") {
  TrainedNet net;
  torch::optim::AdamW plain(net.parameters(), torch::optim::AdamWOptions(0.01));
  levin::AdamW fused(net.parameters(), torch::optim::AdamWOptions(0.5));
  for (int step = 0; step < 3; ++step) train_step(net, plain);
  Checkpoint checkpoint;
  save_optimizer(plain, 0, checkpoint);
  load_optimizer(fused, 0, checkpoint);
  CHECK(get_lrs(fused) == std::vector<double>{0.01});
  train_step(net, fused);
  Checkpoint later;
  save_optimizer(fused, 0, later);
  CHECK(later.manifest.at("optimizer_states").as_list().at(0).at("state").at("3").at("step") == Value(4));
  CHECK(later.tensors.size() == checkpoint.tensors.size());
  load_optimizer(plain, 0, later);
  train_step(net, plain);
}

TEST_CASE("state and options lie in the checkpoint under PyTorch's names") {
  TrainedNet net;
  torch::optim::Adam adam({torch::optim::OptimizerParamGroup({net.first->weight, net.first->bias}),
                           torch::optim::OptimizerParamGroup({net.second->weight, net.second->bias},
                                                             std::make_unique<torch::optim::AdamOptions>(0.5))},
                          torch::optim::AdamOptions(0.01));
  train_step(net, adam);
  Checkpoint checkpoint;
  save_optimizer(adam, 0, checkpoint);
  CHECK(checkpoint.tensors.size() == 8);
  CHECK(checkpoint.tensors.at("optimizer_states.0.state.2.exp_avg").sizes() == net.second->weight.sizes());
  const Value& saved = checkpoint.manifest.at("optimizer_states").as_list().at(0);
  CHECK(saved.at("state").at("3").at("step").as_int() == 1);
  const auto& groups = saved.at("param_groups").as_list();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].at("lr").as_double() == 0.01);
  CHECK(groups[1].at("lr").as_double() == 0.5);
  CHECK(groups[1].at("betas") == Value(Value::List{0.9, 0.999}));
  CHECK(groups[1].at("params") == Value(Value::List{2, 3}));
}

TEST_CASE("each of several optimizers has its state and options") {
  TrainedNet net;
  torch::optim::SGD sgd(net.first->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::Adam adam(net.second->parameters(), torch::optim::AdamOptions(0.2));
  train_step(net, sgd);
  train_step(net, adam);
  Checkpoint checkpoint;
  CHECK_THROWS_AS(save_optimizer(adam, 1, checkpoint), MisuseError);
  save_optimizer(sgd, 0, checkpoint);
  save_optimizer(adam, 1, checkpoint);
  torch::optim::SGD fresh_sgd(net.first->parameters(), 1.0);
  torch::optim::Adam fresh_adam(net.second->parameters(), 1.0);
  load_optimizer(fresh_sgd, 0, checkpoint);
  load_optimizer(fresh_adam, 1, checkpoint);
  CHECK(get_lr(fresh_sgd.param_groups()[0]) == 0.1);
  CHECK(get_momentum(fresh_sgd.param_groups()[0]) == 0.9);
  CHECK(get_lr(fresh_adam.param_groups()[0]) == 0.2);
  CHECK_THROWS_WITH(load_optimizer(fresh_adam, 0, checkpoint), Contains("is SGD") && Contains("uses Adam"));
  CHECK_THROWS_WITH(load_optimizer(fresh_adam, 2, checkpoint), Contains("optimizer 2"));
  CHECK_THROWS_WITH(load_optimizer(fresh_adam, 0, Checkpoint()), Contains("weights only"));
}

TEST_CASE("state that does not fit is refused by name, and changes nothing") {
  TrainedNet net;
  torch::optim::Adam adam(net.parameters(), torch::optim::AdamOptions(0.01));
  train_step(net, adam);
  Checkpoint checkpoint;
  save_optimizer(adam, 0, checkpoint);

  TrainedNet wide(9);
  torch::optim::Adam other(wide.parameters(), torch::optim::AdamOptions(0.7));
  CHECK_THROWS_WITH(load_optimizer(other, 0, checkpoint),
                    Contains("optimizer_states.0.state.0.exp_avg") && Contains("[8, 5]") && Contains("[9, 5]"));
  CHECK(get_lr(other.param_groups()[0]) == 0.7);
  CHECK(other.state().empty());

  torch::optim::Adam fewer(net.first->parameters(), torch::optim::AdamOptions(0.7));
  CHECK_THROWS_WITH(load_optimizer(fewer, 0, checkpoint), Contains("4 parameters") && Contains("has 2"));
  torch::optim::Adam groups({torch::optim::OptimizerParamGroup(net.first->parameters()),
                             torch::optim::OptimizerParamGroup(net.second->parameters())});
  CHECK_THROWS_WITH(load_optimizer(groups, 0, checkpoint), Contains("1 parameter groups") && Contains("has 2"));
}

TEST_CASE("an optimizer of a user's is saved as its save() says, with its learning rates; without state it needs none") {
  TrainedNet net;
  CountingDescent trained(net.parameters());
  for (int i = 0; i < 3; ++i) trained.step(nullptr);
  set_lr(trained.param_groups()[0], 0.25);
  Checkpoint checkpoint;
  save_optimizer(trained, 0, checkpoint);

  CountingDescent resumed(net.parameters());
  load_optimizer(resumed, 0, checkpoint);
  CHECK(resumed.steps == 3);
  CHECK(get_lrs(resumed) == std::vector<double>{0.25});

  checkpoint.tensors.at("optimizer_states.0.archive") = torch::zeros({5}, torch::kByte);
  CHECK_THROWS_AS(load_optimizer(resumed, 0, checkpoint), ConfigError);
  PlainDescent other(net.parameters());
  CHECK_THROWS_WITH(load_optimizer(other, 0, checkpoint), Contains("is CountingDescent, but the run uses PlainDescent"));

  Checkpoint stateless;
  save_optimizer(other, 0, stateless);
  CHECK_NOTHROW(load_optimizer(other, 0, stateless));
  other.state()[net.parameters()[0].unsafeGetTensorImpl()] = std::make_unique<torch::optim::SGDParamState>();
  Checkpoint next;
  CHECK_THROWS_WITH(save_optimizer(other, 0, next), Contains("override PlainDescent::save() and load()"));
}
