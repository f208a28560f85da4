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
#include "support/temporary_folder.h"

namespace {

using levin::Checkpoint;
using levin::test::FixedLoader;
using levin::test::TemporaryFolder;

/// Stores the weights of checkpoints negated, like a strategy that gathers and scatters parts stored elsewhere.
class Negates : public levin::SingleDeviceStrategy {
 public:
  void save_module(const levin::Module& module, Checkpoint& checkpoint, bool all_ranks) override {
    SingleDeviceStrategy::save_module(module, checkpoint, all_ranks);
    for (auto& [name, tensor] : checkpoint.tensors) tensor = -tensor;
    saved_by_all.push_back(all_ranks);
  }
  void load_module(levin::Module& module, const Checkpoint& checkpoint) override {
    Checkpoint own;
    for (const auto& [name, tensor] : checkpoint.tensors) own.tensors[name] = -tensor;
    SingleDeviceStrategy::load_module(module, own);
  }
  void save_optimizer(const torch::optim::Optimizer&, std::size_t index, Checkpoint& checkpoint, bool) override {
    checkpoint.manifest["optimizer_states"].push_back("elsewhere");
    saved_optimizer = index;
  }
  void load_optimizer(torch::optim::Optimizer&, std::size_t index, const Checkpoint& checkpoint) override {
    if (checkpoint.manifest.at("optimizer_states").as_list()[index] == levin::Value("elsewhere")) loaded_optimizer = index;
  }

  std::vector<bool> saved_by_all;
  std::optional<std::size_t> saved_optimizer, loaded_optimizer;
};

class OneWeightModule : public levin::Module {
 public:
  OneWeightModule() : weight(register_parameter("weight", torch::full({1}, 3.0))) {}
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t batch_idx) override {
    if (batch_idx == fails_at) throw levin::MisuseError("enough");
    return (weight * batch[0]).mean();
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
  torch::Tensor weight;
  std::int64_t fails_at = -1;
};

levin::TrainerOptions options_with(std::shared_ptr<levin::Strategy> strategy, const std::filesystem::path& folder) {
  levin::TrainerOptions options = levin::test::quiet_options(1);
  options.strategy = std::move(strategy);
  options.enable_checkpointing = true;
  options.default_root_dir = folder;
  levin::OnExceptionCheckpointOptions saving;
  saving.dirpath = folder;
  options.callbacks = {std::make_shared<levin::OnExceptionCheckpoint>(saving)};
  return options;
}

}  // namespace

TEST_CASE("a strategy that is used before it is launched says so") {
  const levin::DdpStrategy ddp;
  CHECK_THROWS_WITH(ddp.rank(), "strategy ddp: used before launch(), which the Trainer calls");
  CHECK_THROWS_AS(MeanGradients().control_group(), levin::MisuseError);
  CHECK_FALSE(ddp.failure_elsewhere());
}

TEST_CASE("a strategy says what a checkpoint holds of module and optimizers, and takes it back") {
  const TemporaryFolder folder;
  const auto strategy = std::make_shared<Negates>();
  OneWeightModule module;
  levin::Trainer trainer(options_with(strategy, folder.path()));
  trainer.fit(module, FixedLoader::of_rows(2, 2));
  trainer.save_checkpoint(folder / "run.ckpt");
  const double weight = module.weight.item<double>();
  REQUIRE(weight != 3.0);
  CHECK(Checkpoint::load(folder / "run.ckpt").tensors.at("state_dict.weight").item<double>() == -weight);
  CHECK(strategy->saved_optimizer == 0U);
  CHECK(strategy->saved_by_all == std::vector{true});

  const auto other = std::make_shared<Negates>();
  OneWeightModule resumed;
  levin::Trainer(options_with(other, folder.path()))
      .fit(resumed, FixedLoader::of_rows(2, 2), {}, {.ckpt_path = (folder / "run.ckpt").string()});
  CHECK(resumed.weight.item<double>() == weight);
  CHECK(other->loaded_optimizer == 0U);
}

TEST_CASE("a strategy is told that rank 0 saves alone while an error leaves") {
  const TemporaryFolder folder;
  const auto strategy = std::make_shared<Negates>();
  OneWeightModule module;
  module.fails_at = 1;
  levin::Trainer trainer(options_with(strategy, folder.path()));
  CHECK_THROWS_WITH(trainer.fit(module, FixedLoader::of_rows(2, 2)), Catch::EndsWith(": enough"));
  CHECK(strategy->saved_by_all == std::vector{false});
}

TEST_CASE("a step without a batch gives gradients of zero where there were none, and keeps what was accumulated") {
  struct Notes : levin::SingleDeviceStrategy {
    void after_backward(levin::Module& module) override { seen = module.parameters()[0].grad().item<double>(); }
    double seen = -1;
  } strategy;
  OneWeightModule module;
  strategy.backward_without_batch(module);
  CHECK(strategy.seen == 0.0);
  module.weight.mutable_grad() = torch::full({1}, 0.5);
  strategy.backward_without_batch(module);
  CHECK(strategy.seen == 0.5);
}

TEST_CASE("a strategy of one's own trains one process, and is found by name") {
  const TemporaryFolder folder;
  auto options = options_with(nullptr, folder.path());
  options.strategy = "MeanGradients";
  OneWeightModule module;
  levin::Trainer trainer(options);
  trainer.fit(module, FixedLoader::of_rows(2, 2));
  CHECK(trainer.strategy().name() == "mean_gradients");
  CHECK(trainer.strategy().description() == "mean_gradients");
  // Batches of 0, 1, 2, 3 and 4, 5, 6, 7 hundredths.
  CHECK(module.weight.item<double>() == Approx(3.0 - 0.1 * (0.015 + 0.055)));
}

TEST_CASE("a single device is rank 0 of 1 on the CPU") {
  levin::SingleDeviceStrategy strategy;
  strategy.launch(levin::LaunchRequest{});
  CHECK(strategy.rank() == 0);
  CHECK(strategy.world_size() == 1);
  CHECK(strategy.is_global_zero());
  CHECK(strategy.device() == at::kCPU);
  CHECK(strategy.control_group().size() == 1);
}

TEST_CASE("collectives of one process give its own values, detached from the original") {
  levin::SingleDeviceStrategy strategy;
  strategy.launch(levin::LaunchRequest{});
  const auto tensor = torch::tensor({1.0, 2.0});
  const auto gathered = strategy.all_gather(tensor, levin::SourceLocation::current());
  CHECK(gathered.sizes() == at::IntArrayRef({1, 2}));
  CHECK(torch::equal(gathered[0], tensor));
  const auto reduced = strategy.all_reduce(tensor, "mean", levin::SourceLocation::current());
  CHECK(torch::equal(reduced, tensor));
  reduced.fill_(0);
  CHECK(tensor.sum().item<double>() == 3.0);
  CHECK(torch::equal(strategy.broadcast(tensor, 0, levin::SourceLocation::current()), tensor));
}

TEST_CASE("wrong arguments of collectives are errors on one process too, with the call site") {
  levin::SingleDeviceStrategy strategy;
  strategy.launch(levin::LaunchRequest{});
  const auto here = levin::SourceLocation::current();
  CHECK_THROWS_WITH(strategy.all_reduce(torch::ones(2), "median", here),
                    Catch::Contains("median") && Catch::Contains("strategy_test.cpp:" + std::to_string(here.line())));
  CHECK_THROWS_WITH(strategy.all_reduce(torch::Tensor()), Catch::Contains("all_reduce got a tensor without a value"));
  CHECK_THROWS_AS(strategy.all_reduce(torch::ones(2, torch::kLong), "mean", here), levin::MisuseError);
  CHECK_THROWS_WITH(strategy.broadcast(torch::ones(2), 1, here), Catch::Contains("rank 1"));
}

TEST_CASE("the board of one process gives back its votes") {
  levin::SingleDeviceStrategy strategy;
  strategy.launch(levin::LaunchRequest{});
  levin::Votes votes;
  votes.stop = true;
  votes.gradient_weight = 3;
  strategy.vote_channel().publish(0, votes);
  const auto read = strategy.vote_channel().read(0);
  REQUIRE(read.size() == 1);
  CHECK((read[0] == votes));
}

TEST_CASE("a single device refuses what it cannot do") {
  levin::SingleDeviceStrategy strategy;
  levin::LaunchRequest request;
  request.devices = levin::Devices(2);
  CHECK_THROWS_AS(strategy.launch(request), levin::ConfigError);
  request.devices = levin::Devices(0);
  CHECK_THROWS_AS(strategy.launch(request), levin::ConfigError);
  request = levin::LaunchRequest{};
  request.num_nodes = 2;
  CHECK_THROWS_AS(strategy.launch(request), levin::ConfigError);
  request = levin::LaunchRequest{};
  request.accelerator = "tpu";
  CHECK_THROWS_WITH(strategy.launch(request), Catch::Contains("tpu"));
  request.accelerator = "gpu";
  CHECK_THROWS_AS(strategy.launch(request), levin::ConfigError);
}

TEST_CASE("auto stays itself for one process") {
  levin::AutoStrategy strategy;
  CHECK(strategy.resolve(levin::LaunchRequest{}) == nullptr);
  strategy.launch(levin::LaunchRequest{});
  CHECK(strategy.name() == "single_device");
}

TEST_CASE("auto has ranks for all devices where they may be started, else one") {
  struct ThreeDevices : levin::Accelerator {
    std::string name() const override { return "three"; }
    at::DeviceType device_type() const override { return at::kCPU; }
    int device_count() const override { return 3; }
  };
  const auto three = std::make_shared<ThreeDevices>();
  levin::AutoStrategy strategy;
  levin::LaunchRequest open;
  open.accelerator = three;
  CHECK(open.ranks_per_host() == 1);
  CHECK(strategy.resolve(open) == nullptr);
  CHECK(levin::LaunchRequest{.accelerator = three, .devices = -1}.ranks_per_host() == 3);
  {
    const levin::LaunchPermit permit(0);
    CHECK(open.ranks_per_host() == 3);
    REQUIRE(strategy.resolve(open) != nullptr);
    CHECK(strategy.resolve(open)->name() == "ddp");
  }
  const levin::OwnProcess own;
  CHECK(open.ranks_per_host() == 3);
}

TEST_CASE("strategies are made by name") {
  const auto& registry = levin::Registry<levin::Strategy>::instance();
  CHECK(registry.make("single_device", levin::Value::Map{})->name() == "single_device");
  CHECK(registry.find("auto") != nullptr);
}
