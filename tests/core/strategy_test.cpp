#include "levin/core/strategy.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/callbacks/on_exception_checkpoint.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/strategies/gradients/ddp.h"
#include "levin/strategies/gradients/single_device.h"
#include "support/mean_gradients.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Stores the weights of checkpoints negated, like a strategy that gathers and scatters parts stored elsewhere.
class Negates : public SingleDeviceStrategy {
 public:
  void save_module(const Module& module, Checkpoint& checkpoint, bool all_ranks) override {
    SingleDeviceStrategy::save_module(module, checkpoint, all_ranks);
    for (auto& [name, tensor] : checkpoint.tensors) tensor = -tensor;
    saved_by_all.push_back(all_ranks);
  }
  void load_module(Module& module, const Checkpoint& checkpoint) override {
    Checkpoint own;
    for (const auto& [name, tensor] : checkpoint.tensors) own.tensors[name] = -tensor;
    SingleDeviceStrategy::load_module(module, own);
  }
  void save_optimizer(const torch::optim::Optimizer&, std::size_t index, Checkpoint& checkpoint, bool) override {
    checkpoint.manifest["optimizer_states"].push_back("elsewhere");
    saved_optimizer = index;
  }
  void load_optimizer(torch::optim::Optimizer&, std::size_t index, const Checkpoint& checkpoint) override {
    if (checkpoint.manifest.at("optimizer_states").as_list()[index] == Value("elsewhere")) loaded_optimizer = index;
  }

  std::vector<bool> saved_by_all;
  std::optional<std::size_t> saved_optimizer, loaded_optimizer;
};

TrainerOptions options_with(std::shared_ptr<Strategy> strategy, const std::filesystem::path& folder) {
  TrainerOptions options = quiet_options(1);
  options.strategy = std::move(strategy);
  options.enable_checkpointing = true;
  options.default_root_dir = folder;
  options.callbacks = {OnExceptionCheckpoint({.dirpath = folder})};
  return options;
}

/// Launched.
struct Single : SingleDeviceStrategy {
  Single() { launch(LaunchRequest{}); }
};

}  // namespace

TEST_CASE("a strategy that is used before it is launched says so") {
  const DdpStrategy ddp;
  CHECK_THROWS_WITH(ddp.rank(), "strategy ddp: used before launch(), which the Trainer calls");
  CHECK_THROWS_AS(MeanGradients().control_group(), MisuseError);
  CHECK_FALSE(ddp.failure_elsewhere());
}

TEST_CASE("a strategy says what a checkpoint holds of module and optimizers, and takes it back") {
  const TemporaryFolder folder;
  const auto strategy = std::make_shared<Negates>();
  ScriptedLine module;
  Trainer trainer(options_with(strategy, folder.path()));
  trainer.fit(module, FixedLoader::of_rows(2, 2));
  trainer.save_checkpoint(folder / "run.ckpt");
  const double weight = module.value();
  REQUIRE(weight != 0.0);
  CHECK(Checkpoint::load(folder / "run.ckpt").tensors.at("state_dict.weight").item<double>() == -weight);
  CHECK(strategy->saved_optimizer == 0U);
  CHECK(strategy->saved_by_all == std::vector{true});

  const auto other = std::make_shared<Negates>();
  ScriptedLine resumed;
  Trainer(options_with(other, folder.path()))
      .fit(resumed, FixedLoader::of_rows(2, 2), {}, {.ckpt_path = (folder / "run.ckpt").string()});
  CHECK(resumed.value() == weight);
  CHECK(other->loaded_optimizer == 0U);
}

TEST_CASE("a strategy knows that rank 0 saves alone while an error leaves") {
  const TemporaryFolder folder;
  const auto strategy = std::make_shared<Negates>();
  ScriptedLine module;
  module.on["training_step"] = [](ScriptedLine&, std::int64_t batch_idx) {
    if (batch_idx == 1) throw MisuseError("enough");
  };
  Trainer trainer(options_with(strategy, folder.path()));
  CHECK_THROWS_WITH(trainer.fit(module, FixedLoader::of_rows(2, 2)), Catch::EndsWith(": enough"));
  CHECK(strategy->saved_by_all == std::vector{false});
}

TEST_CASE("a step without a batch gives gradients of zero where there were none, and leaves what was accumulated") {
  struct Notes : SingleDeviceStrategy {
    void after_backward(Module& module) override { seen = module.parameters()[0].grad().item<double>(); }
    double seen = -1;
  } strategy;
  ScriptedLine module;
  strategy.backward_without_batch(module);
  CHECK(strategy.seen == 0.0);
  module.weight.mutable_grad() = torch::full({1}, 0.5, torch::kDouble);
  strategy.backward_without_batch(module);
  CHECK(strategy.seen == 0.5);
}

TEST_CASE("collectives of one process give its own values, detached from the original") {
  Single strategy;
  const auto tensor = torch::tensor({1.0, 2.0});
  const auto gathered = strategy.all_gather(tensor, SourceLocation::current());
  CHECK(gathered.sizes() == at::IntArrayRef({1, 2}));
  CHECK(torch::equal(gathered[0], tensor));
  const auto reduced = strategy.all_reduce(tensor, "mean", SourceLocation::current());
  CHECK(torch::equal(reduced, tensor));
  reduced.fill_(0);
  CHECK(tensor.sum().item<double>() == 3.0);
  CHECK(torch::equal(strategy.broadcast(tensor, 0, SourceLocation::current()), tensor));
}

TEST_CASE("wrong arguments of collectives are errors on one process too, with the call site") {
  Single strategy;
  const auto here = SourceLocation::current();
  CHECK_THROWS_WITH(strategy.all_reduce(torch::ones(2), "median", here),
                    Catch::Contains("median") && Catch::Contains("strategy_test.cpp:" + std::to_string(here.line())));
  CHECK_THROWS_WITH(strategy.all_reduce(torch::Tensor()), Catch::Contains("all_reduce got a tensor without a value"));
  CHECK_THROWS_AS(strategy.all_reduce(torch::ones(2, torch::kLong), "mean", here), MisuseError);
  CHECK_THROWS_WITH(strategy.broadcast(torch::ones(2), 1, here), Catch::Contains("rank 1"));
}

TEST_CASE("the board of one process gives back its votes") {
  Single strategy;
  const Votes votes{.stop = true, .gradient_weight = 3};
  strategy.vote_channel().publish(0, votes);
  CHECK((strategy.vote_channel().read(0) == std::vector{votes}));
}

TEST_CASE("auto has ranks for all devices where they may be started, else one") {
  struct ThreeDevices : Accelerator {
    std::string name() const override { return "three"; }
    at::DeviceType device_type() const override { return at::kCPU; }
    int device_count() const override { return 3; }
  };
  const auto three = std::make_shared<ThreeDevices>();
  AutoStrategy strategy;
  LaunchRequest open;
  open.accelerator = three;
  CHECK(open.ranks_per_host() == 1);
  CHECK(strategy.resolve(open) == nullptr);
  CHECK(LaunchRequest{.accelerator = three, .devices = -1}.ranks_per_host() == 3);
  {
    const LaunchPermit permit(0);
    CHECK(open.ranks_per_host() == 3);
    REQUIRE(strategy.resolve(open) != nullptr);
    CHECK(strategy.resolve(open)->name() == "ddp");
  }
  const OwnProcess own;
  CHECK(open.ranks_per_host() == 3);
}
