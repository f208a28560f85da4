#include "levin/callbacks/model_pruning.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/core/checkpoint/background_files.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/value_json.h"
#include "levin/data/data_loader.h"
#include "support/file_text.h"

using namespace levin;
using namespace levin::test;

namespace {

/// As in make_pruning_references.py.
class Pruned final : public Module {
 public:
  Pruned() {
    const at::NoGradGuard no_grad;
    to(torch::kDouble);
    for (at::Tensor& parameter : parameters())
      parameter.copy_((torch::arange(parameter.numel(), torch::kDouble) + 1).sin().view(parameter.sizes()));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = torch::mse_loss(last_->forward(first_->forward(batch["inputs"]).tanh()), batch["targets"]);
    losses.push_back(loss.item<double>());
    return loss;
  }
  void validation_step(const Batch&, std::int64_t) override {}
  OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.1).momentum(0.5).weight_decay(0.01));
  }
  std::int64_t zeros(const std::string& name) const { return (named_parameters()[name] == 0).sum().item<std::int64_t>(); }

  std::vector<double> losses;

 private:
  torch::nn::Linear first_ = register_module("first", torch::nn::Linear(4, 5));
  torch::nn::Linear last_ = register_module("last", torch::nn::Linear(5, 4));
};

LoaderPtr pruning_rows(std::int64_t count, std::int64_t batch_size) {
  const at::Tensor i = torch::arange(count, torch::kDouble);
  const Batch data{
      {"inputs", torch::stack({i.sin(), (2 * i).cos(), (3 * i).sin(), i.cos()}, 1)},
      {"targets", torch::stack({i.sin() - 0.5, (3 * i).cos(), (2 * i).sin(), torch::ones({count}, torch::kDouble)}, 1)}};
  return std::make_shared<DataLoader>(std::make_shared<TensorDataset>(data), DataLoaderOptions{.batch_size = batch_size});
}

/// Looks at the weights at the end of each epoch, behind what prunes.
class WatchZeros final : public Callback {
 public:
  explicit WatchZeros(std::function<void(Trainer&)> look) : look_(std::move(look)) {}
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }
  void on_train_epoch_end(Trainer& trainer, Module&) override { look_(trainer); }

 private:
  std::function<void(Trainer&)> look_;
};

void fit_pruned(Pruned& module, Component<Callback> pruning, const std::function<void(Trainer&)>& look) {
  ScriptedRun run(3);
  run.options.precision = PrecisionFormat::kFloat64;
  run.options.gradient_clip_val = 0.3;
  run.options.callbacks = {std::move(pruning), std::make_shared<WatchZeros>(look)};
  Trainer(run.options).fit(module, pruning_rows(12, 3), {pruning_rows(4, 4)});
}

ModelPruningOptions random_options(PruningFunction function) {
  return {.pruning_fn = function,
          .parameter_names = {"weight"},
          .use_global_unstructured = function == PruningFunction::kRandomUnstructured,
          .amount = 0.5,
          .use_lottery_ticket_hypothesis = false,
          .pruning_dim = 1};
}

/// Prunes in the second epoch alone, three weights.
class SecondEpoch final : public ModelPruning {
 public:
  SecondEpoch() : ModelPruning(random_options(PruningFunction::kRandomUnstructured)) {}
  bool prunes_in(std::int64_t epoch) const override { return epoch == 1; }
  Limit amount(std::int64_t) const override { return 3; }
};

/// Prunes four weights in each second epoch.
class EachSecondEpoch final : public ModelPruning {
 public:
  EachSecondEpoch(PruningFunction function, std::int64_t first) : ModelPruning(random_options(function)), first_(first) {}
  std::string state_key() const override { return "EachSecondEpoch from " + std::to_string(first_); }
  bool prunes_in(std::int64_t epoch) const override { return epoch % 2 == first_; }
  Limit amount(std::int64_t) const override { return 4; }

 private:
  std::int64_t first_;
};

}  // namespace

TEST_CASE("what is pruned in each epoch, losses and weights are Lightning's") {
  const Value references = parse_json(read_text(LEVIN_SOURCE_DIR "/tests/callbacks/pruning_references.json"));
  REQUIRE(references.size() == 7);
  for (const Value& reference : references.as_list()) {
    INFO(to_json(reference.at("arguments")));
    Pruned module;
    const auto& epochs = reference.at("epochs").as_list();
    std::size_t seen = 0;
    fit_pruned(module, {Value("ModelPruning"), reference.at("arguments")}, [&](Trainer&) {
      for (const auto& [name, pruned] : epochs.at(seen++).as_map()) {
        INFO(name << " in epoch " << seen - 1);
        CHECK(numbers_in(module.named_parameters()[name] == 0) == numbers_in(pruned));
      }
    });
    CHECK(seen == 3);
    CHECK_THAT(module.losses, Catch::Approx(numbers_in(reference.at("losses"))).epsilon(1e-9));
    for (const auto& [name, weights] : reference.at("weights").as_map())
      CHECK_THAT(numbers_in(module.named_parameters()[name]), Catch::Approx(numbers_in(weights)).epsilon(1e-9));
  }
}

TEST_CASE("random pruning takes as many weights, or whole channels, and a derived class chooses epochs and amounts") {
  std::vector<std::int64_t> zeros;
  Pruned module;
  const auto look = [&](Trainer&) { zeros.push_back(module.zeros("first.weight") + module.zeros("last.weight")); };
  const std::vector<std::int64_t> whole_channels = {2 * 5 + 2 * 4, 3 * 5 + 4 * 4, 3 * 5 + 4 * 4};
  SECTION("weights") {
    fit_pruned(module, std::make_shared<ModelPruning>(random_options(PruningFunction::kRandomUnstructured)), look);
    CHECK(zeros == std::vector<std::int64_t>({20, 30, 35}));
  }
  SECTION("channels") {
    fit_pruned(module, std::make_shared<ModelPruning>(random_options(PruningFunction::kRandomStructured)), look);
    CHECK(zeros == whole_channels);
    const at::Tensor by_channel = (module.named_parameters()["last.weight"] == 0).sum(0);
    CHECK((by_channel.eq(0) | by_channel.eq(4)).all().item<bool>());
  }
  SECTION("derived") {
    fit_pruned(module, std::make_shared<SecondEpoch>(), look);
    CHECK(zeros == std::vector<std::int64_t>({0, 3, 3}));
  }
}

TEST_CASE("of two ModelPrunings each takes weights that are left, and a checkpoint has what both have pruned") {
  // Lightning's test_multiple_pruning_callbacks.
  std::vector<std::int64_t> zeros;
  int files = 0;
  Pruned module;
  ScriptedRun run(4);
  run.options.precision = PrecisionFormat::kFloat64;
  run.options.callbacks = {
      std::make_shared<EachSecondEpoch>(PruningFunction::kRandomUnstructured, 0),
      std::make_shared<EachSecondEpoch>(PruningFunction::kRandomUnstructured, 1),
      std::make_shared<WatchZeros>([&](Trainer& trainer) {
        zeros.push_back(module.zeros("first.weight") + module.zeros("last.weight"));
        const auto file = trainer.default_root_dir() / "pruned.ckpt";
        trainer.save_checkpoint(file);
        trainer.checkpoint_files().when_done([&, file] {
          const Checkpoint saved = Checkpoint::load(file);
          for (const std::string name : {"first.weight", "last.weight"}) {
            CHECK(torch::equal(saved.tensors.at("pruning." + name + ".pruned"), module.named_parameters()[name] == 0));
          }
          ++files;
        });
      })};
  Trainer(run.options).fit(module, pruning_rows(12, 3), {pruning_rows(4, 4)});
  CHECK(files == 4);
  CHECK(zeros == std::vector<std::int64_t>({4, 8, 12, 16}));
}

TEST_CASE("weights that are left go back to where training began, or are drawn again within the bounds of their layer") {
  ModelPruningOptions options{.parameters_to_prune = {"first.weight", "first.bias"}, .amount = 0.2};
  options.resample_parameters = GENERATE(false, true);
  Pruned module;
  int files = 0;
  const at::Tensor initial = module.named_parameters()["first.weight"].detach().clone();
  fit_pruned(module, std::make_shared<ModelPruning>(options), [&](Trainer& trainer) {
    const at::Tensor weight = module.named_parameters()["first.weight"];
    CHECK(torch::equal(weight, initial.masked_fill(weight == 0, 0)) == !options.resample_parameters);
    CHECK((weight.abs().max().item<double>() <= 0.5) == options.resample_parameters);  // 1 / sqrt(4 inputs)
    const auto file = trainer.default_root_dir() / "pruned.ckpt";
    trainer.save_checkpoint(file);
    trainer.checkpoint_files().when_done([&files, file, weight] {
      const Checkpoint saved = Checkpoint::load(file);
      CHECK(torch::equal(saved.tensors.at("state_dict.first.weight"), weight));
      CHECK(torch::equal(saved.tensors.at("pruning.first.weight.pruned"), weight == 0));
      ++files;
    });
  });
  CHECK(files > 0);
}

TEST_CASE("pruning that cannot be says why") {
  Pruned module;
  const auto [error, options] = GENERATE(table<std::string, ModelPruningOptions>(
      {{"first.bias of the shape [5] has no channels along dimension 0",
        {.pruning_fn = PruningFunction::kRandomStructured, .use_global_unstructured = false, .pruning_dim = 0}},
       {"no parameter 'first.wight'", {.parameters_to_prune = {"first.wight"}}},
       {"no layer of the module has a parameter called kernel: give parameter_names", {.parameter_names = {"kernel"}}},
       {"amount is 30, but only 19 are left", {.amount = 30}}}));
  CHECK_THROWS_WITH(fit_pruned(module, std::make_shared<ModelPruning>(options), [](Trainer&) {}), Catch::Contains(error));
}
