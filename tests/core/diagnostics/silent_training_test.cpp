#include <levin/levin.h>

#include <catch2/catch.hpp>

#include "support/error_of.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Two layers; the test chooses what is trained, how and by which loss.
class Two : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(*this, batch); }
  OptimizerSetups configure_optimizers() override { return setups(*this); }

  std::function<at::Tensor(Two&, const Batch&)> loss = [](Two& two, const Batch& batch) {
    return two.used->forward(batch[0]).mean();
  };
  std::function<OptimizerSetups(Two&)> setups = [](Two& two) -> OptimizerSetups {
    return std::make_shared<torch::optim::SGD>(two.parameters(), 0.1);
  };
  torch::nn::Linear used = register_module("used", torch::nn::Linear(2, 1));
  torch::nn::Linear spare = register_module("spare", torch::nn::Linear(2, 1));
};

std::shared_ptr<FixedLoader> two_batches() { return FixedLoader::of_rows(2, 4); }

/// The warnings of a fit of two epochs.
std::vector<std::string> warnings_in_fit(Module& module) {
  return warnings_of([&] { Trainer(quiet({.max_epochs = 2})).fit(module, two_batches()); });
}

void check_one(const std::vector<std::string>& warnings, const std::string& text) {
  INFO(Catch::Detail::stringify(warnings));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(), Catch::Contains(text));
}

}  // namespace

TEST_CASE("a module that has nothing to train gives warnings, and one that trains none") {
  Two trained, frozen;
  CHECK(warnings_in_fit(trained).empty());
  for (at::Tensor& parameter : frozen.parameters()) parameter.requires_grad_(false);
  frozen.loss = [](Two&, const Batch&) { return at::Tensor(); };
  const auto warnings = warnings_in_fit(frozen);
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0], Catch::Contains("All parameters of the module are frozen: training changes nothing."));
  CHECK_THAT(warnings[1], Catch::Contains("training_step gave no loss in any step of epoch 0, so nothing was trained."));
}

TEST_CASE("a layer that was not registered is found in the loss, and a step's own input is not taken for one") {
  Two module;
  torch::nn::Linear plain(2, 3);
  module.loss = [&](Two& two, const Batch& batch) {
    const at::Tensor input = batch[0].clone().requires_grad_(true);
    return two.used->forward(input).mean() + plain->forward(batch[0]).mean();
  };
  check_one(warnings_in_fit(module), "The loss depends on 2 weights unknown to the module, of shape [3, 2], [3]");
  module.loss = [&](Two& two, const Batch& batch) {
    return two.used->forward(batch[0].clone().requires_grad_(true)).mean() + plain->forward(batch[0]).mean().detach();
  };
  CHECK(warnings_in_fit(module).empty());
}

TEST_CASE("a fit that finds its limit reached says that it trained nothing") {
  Trainer trainer(quiet({.max_epochs = 2}));
  Two first, second;
  CHECK_THAT(warned_by([&] { trainer.fit(first, two_batches()); }), !Catch::Contains("trained nothing"));
  CHECK_THAT(warned_by([&] { trainer.fit(second, two_batches()); }),
             Catch::Contains("This fit trained nothing: max_epochs=2 reached was true before it began, after 2 epochs."));
}

TEST_CASE("fit() again counts on with new optimizers, and says so; with a checkpoint of the last one it is one training") {
  const auto with_momentum = [](Two& two) -> OptimizerSetups {
    return std::make_shared<torch::optim::SGD>(two.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  };
  struct OneEpoch final : Two {
    void on_train_epoch_end() override { trainer().stop("an epoch is done"); }
  };
  const TemporaryFolder folder;
  const auto fit_thrice = [&](bool with_checkpoint, at::Tensor& weight) {
    torch::manual_seed(1);
    OneEpoch module;
    module.setups = with_momentum;
    Trainer trainer(quiet({.max_epochs = -1}));
    RunOptions run;
    for (int i = 0; i < 3; ++i) {
      trainer.fit(module, two_batches(), {}, run);
      CHECK(trainer.current_epoch() == i + 1);
      CHECK(trainer.global_step() == 2 * (i + 1));
      if (!with_checkpoint) continue;
      run.ckpt_path = folder / "last.ckpt";
      trainer.save_checkpoint(*run.ckpt_path);
    }
    weight = module.used->weight.detach().clone();
  };
  torch::manual_seed(1);
  Two whole;
  whole.setups = with_momentum;
  Trainer(quiet({.max_epochs = 3})).fit(whole, two_batches());
  at::Tensor weight;
  const auto counts_on = [&](bool with_checkpoint) {
    const ShownMessages shown(LogLevel::kInfo);
    fit_thrice(with_checkpoint, weight);
    auto messages = shown.texts();
    std::erase_if(messages,
                  [](const std::string& message) { return message.find("it counts on from epoch ") == message.npos; });
    return messages;
  };
  CHECK(counts_on(true).empty());
  CHECK(weight.equal(whole.used->weight));
  const auto messages = counts_on(false);
  CHECK_FALSE(weight.equal(whole.used->weight));
  REQUIRE(messages.size() == 2);
  CHECK_THAT(messages[1], Catch::Contains("epoch 2, step 4, with new optimizers and schedules."));
}

TEST_CASE("a program that catches an error of a fit may fit again, with its loggers") {
  const TemporaryFolder folder;
  Trainer trainer(quiet({.max_epochs = 1, .logger = CsvLogger(), .log_every_n_steps = 1, .default_root_dir = folder.path()}));
  Two module;
  bool fails = true;
  module.loss = [&](Two& two, const Batch& batch) {
    if (fails) throw std::runtime_error("not now");
    const at::Tensor loss = two.used->forward(batch[0]).mean();
    two.log("loss", loss);
    return loss;
  };
  CHECK_THROWS_WITH(trainer.fit(module, two_batches()), "not now");
  fails = false;
  trainer.fit(module, two_batches());
  CHECK(trainer.global_step() == 2);
  CHECK(std::filesystem::exists(trainer.log_dir() / "metrics.csv"));
}

TEST_CASE("options that differ from the checkpoint's are named, those of the module and of its data each by itself") {
  const TemporaryFolder folder;
  const auto of_module = [](double scale, const char* path) {
    return Value(Value::Map{{"batch_size", Value(8)}, {"scale", Value(scale)}, {"path", Value(path)}});
  };
  const auto of_data = [](int batch_size) { return Value(Value::Map{{"batch_size", Value(batch_size)}, {"seed", Value(1)}}); };
  struct Rows final : DataModule {
    LoaderPtr train_dataloader() override { return two_batches(); }
  } rows;
  rows.set_hparams(of_data(32));
  const TrainerOptions options = quiet({.max_epochs = 1, .logger = CsvLogger(), .default_root_dir = folder.path()});
  Two module;
  module.set_hparams(of_module(0.5, "here"));
  module.loss = [&](Two& two, const Batch& batch) {
    if (!std::filesystem::exists(folder / "one.ckpt")) two.trainer().save_checkpoint(folder / "one.ckpt");
    return two.used->forward(batch[0]).mean();
  };
  Trainer first(options);
  first.fit(module, rows);
  CHECK(read_text(first.log_dir() / "hparams.yaml") ==
        "model:\n  batch_size: 8\n  scale: 0.5\n  path: here\ndata:\n  batch_size: 32\n  seed: 1\n");
  Checkpoint saved = Checkpoint::load(folder / "one.ckpt");
  CHECK(saved.manifest.at("hyper_parameters") == module.hparams());
  CHECK(saved.manifest.at("datamodule_hyper_parameters") == rows.hparams());

  const auto warnings = [&](const char* file) {
    return warned_by([&] { Trainer(options).fit(module, rows, {.ckpt_path = folder / file}); });
  };
  CHECK_THAT(warnings("one.ckpt"), !Catch::Contains("differ from"));
  module.set_hparams(of_module(1.0, "there"));
  CHECK_THAT(warnings("one.ckpt"),
             Catch::Contains("differ from those of the one that wrote the checkpoint: model.scale: 1.0 (0.5 there). Weights"));
  rows.set_hparams(of_data(16));
  CHECK_THAT(warnings("one.ckpt"),
             Catch::Contains("model.scale: 1.0 (0.5 there)") && Catch::Contains("data.batch_size: 16 (32 there)"));

  // As older versions wrote it: one map.
  std::erase_if(saved.manifest.as_map(), [](const auto& entry) { return entry.first == "datamodule_hyper_parameters"; });
  saved.manifest["hyper_parameters"] = of_module(1.0, "there");
  saved.manifest["hyper_parameters"]["seed"] = Value(2);
  saved.save(folder / "old.ckpt");
  rows.set_hparams(of_data(8));
  CHECK_THAT(warnings("old.ckpt"), Catch::Contains("the one that wrote the checkpoint: data.seed: 1 (2 there). Weights"));
}

TEST_CASE("a parameter that no optimizer has is named, at most ten and how many more there are") {
  Two module;
  module.setups = [](Two& two) -> OptimizerSetups { return std::make_shared<torch::optim::SGD>(two.used->parameters(), 0.1); };
  check_one(
      warnings_in_fit(module),
      "2 parameters that require a gradient are not in the optimizer and therefore not trained: spare.weight, spare.bias. ");

  struct Many : Two {
    Many() {
      for (int index = 0; index < 12; ++index) register_parameter("extra_" + std::to_string(index), torch::zeros({1}));
    }
  } many;
  many.setups = [](Two& two) -> OptimizerSetups {
    std::vector<at::Tensor> own = two.used->parameters();
    for (const at::Tensor& parameter : two.spare->parameters()) own.push_back(parameter);
    return std::make_shared<torch::optim::SGD>(own, 0.1);
  };
  check_one(warnings_in_fit(many),
            "extra_0, extra_1, extra_2, extra_3, extra_4, extra_5, extra_6, extra_7, extra_8, extra_9 and 2 more.");
}

TEST_CASE("an optimizer of parameters that the module does not know is named") {
  Two module;
  auto unregistered = std::make_shared<torch::nn::LinearImpl>(2, 3);
  module.setups = [&](Two& two) -> OptimizerSetups {
    std::vector<at::Tensor> all = two.parameters();
    for (const at::Tensor& parameter : unregistered->parameters()) all.push_back(parameter);
    return std::make_shared<torch::optim::SGD>(all, 0.1);
  };
  check_one(warnings_in_fit(module),
            "Optimizer 0 (SGD) has 2 parameters unknown to the module, of shape [3, 2], [3]. Register");
  module.setups = [&](Two&) -> OptimizerSetups { return std::make_shared<torch::optim::SGD>(unregistered->parameters(), 0.1); };
  const auto warnings = warnings_in_fit(module);
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0], Catch::Contains("Optimizer 0 (SGD) has none of the module's parameters, so its steps do not change"));
  CHECK_THAT(warnings[1], Catch::Contains("4 parameters that require a gradient are not in the optimizer"));
}

TEST_CASE("an epoch in which a loss was undefined, but not every one, gives no warning") {
  Two module;
  int steps = 0;
  module.loss = [&](Two& two, const Batch& batch) {
    return ++steps % 2 == 0 ? two.used->forward(batch[0]).mean() : at::Tensor();
  };
  CHECK(warnings_in_fit(module).empty());
}

TEST_CASE("a scheduler for an optimizer that is gone, or is not returned, is an error") {
  Two module;
  std::optional<torch::optim::SGD> other;
  const bool is_gone = GENERATE(true, false);
  module.setups = [&](Two& two) -> OptimizerSetups {
    other.emplace(two.parameters(), 0.1);
    const SchedulerConfig config{.scheduler = std::make_shared<StepLr>(*other, StepLrOptions{.step_size = 1})};
    if (is_gone) other.reset();
    return {std::make_shared<torch::optim::SGD>(two.parameters(), 0.1), {config}};
  };
  CHECK_THROWS_WITH(warnings_in_fit(module), Catch::Contains("was made for an optimizer that is not returned with it"));
}

TEST_CASE("a complex value is an error that names the key and the line") {
  Two module;
  module.loss = [](Two& two, const Batch& batch) {
    two.log("wave", torch::complex(torch::tensor(1.0), torch::tensor(2.0)));
    return two.used->forward(batch[0]).mean();
  };
  CHECK_THAT(error_of<MisuseError>([&] { warnings_in_fit(module); }), Catch::Contains("log(\"wave\") in training_step") &&
                                                                          Catch::Contains("complex number") &&
                                                                          Catch::Contains("silent_training_test.cpp"));
}

TEST_CASE("log() in a constructor, or before a run, is an error with its line") {
  struct Early : Two {
    Early() { log("early", 1.0); }
  };
  CHECK_THROWS_WITH(
      Early(), Catch::Contains("log(\"early\") is called outside of a run") && Catch::Contains("silent_training_test.cpp:"));
  Two module;
  CHECK_THROWS_AS(module.log("early", 1.0), MisuseError);
}

TEST_CASE("a fit without a training batch is an error, unless limits say so") {
  const bool knows_size = GENERATE(true, false);
  const auto fit = [&](TrainerOptions options, std::int64_t batches) {
    Two module;
    Trainer trainer(options);
    trainer.fit(module, FixedLoader::of_rows(batches, 4, knows_size));
    return trainer.stop_reason();
  };
  TrainerOptions options = quiet_options(2);
  CHECK_THROWS_WITH(fit(options, 0), Catch::Contains("the training loader gives no batch") && Catch::Contains("drop_last") &&
                                         Catch::Contains("set limit_train_batches to 0"));
  CHECK(fit(options, 1) == "max_epochs=2 reached");
  options.limit_train_batches = GENERATE(Limit(0), Limit(0.0));
  CHECK(fit(options, 0) == "no training batches");
  CHECK(fit(options, 3) == "no training batches");
  options.limit_train_batches.reset();
  options.max_epochs = 0;
  CHECK(fit(options, 0) != "");
}

TEST_CASE("a warning names a schedule whose end training does not reach, with the numbers") {
  Two module;
  const auto schedule = [&](auto make, Interval interval, std::int64_t frequency = 1) {
    module.setups = [=](Two& two) -> OptimizerSetups {
      auto optimizer = std::make_shared<torch::optim::SGD>(two.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      return {optimizer, {{.scheduler = make(*optimizer), .interval = interval, .frequency = frequency}}};
    };
  };
  module.loss = [](Two& two, const Batch& batch) {
    return (two.used->forward(batch[0]) + two.spare->forward(batch[0])).mean();
  };
  // Two epochs of two batches.
  const auto one_cycle = [](std::int64_t steps) {
    return [steps](torch::optim::Optimizer& optimizer) {
      return std::make_shared<OneCycleLr>(optimizer, OneCycleLrOptions{.max_lr = 1.0, .total_steps = steps});
    };
  };
  const auto milestones = [](std::int64_t last) {
    return [last](torch::optim::Optimizer& optimizer) {
      return std::make_shared<MultiStepLr>(optimizer, MultiStepLrOptions{.milestones = {1, last}});
    };
  };
  for (const auto& [steps, interval] : {std::pair(4, Interval::kStep), std::pair(2, Interval::kEpoch)}) {
    schedule(one_cycle(steps), interval);
    CHECK(warnings_in_fit(module).empty());
  }
  schedule(one_cycle(4), Interval::kEpoch);
  check_one(warnings_in_fit(module),
            "OneCycleLr will not reach its end: its total_steps is 4, and training has 2 of its steps, one after every epoch. "
            "Set the scheduler's interval to step.");
  schedule(milestones(2), Interval::kEpoch);
  CHECK(warnings_in_fit(module).empty());
  schedule(milestones(30), Interval::kEpoch);
  check_one(
      warnings_in_fit(module),
      "MultiStepLr will not reach its end: its last milestone is 30, and training has 2 of its steps, one after every epoch. "
      "Train longer, or set it to 2 at most.");
  schedule(milestones(3), Interval::kStep, 2);
  check_one(warnings_in_fit(module), "training has 2 of its steps, one after every 2 optimizer steps.");
}

TEST_CASE("a schedule of manual optimization that nobody steps gives a warning when the fit ends") {
  struct ByHand : Two {
    ByHand() {
      set_automatic_optimization(false);
      setups = [](Two& two) -> OptimizerSetups {
        const auto first = std::make_shared<torch::optim::SGD>(two.used->parameters(), 1.0);
        const auto second = std::make_shared<torch::optim::SGD>(two.spare->parameters(), 1.0);
        const auto halves = [](torch::optim::Optimizer& optimizer) {
          return std::make_shared<StepLr>(optimizer, StepLrOptions{.step_size = 100, .gamma = 0.5});
        };
        return {{first, {{.scheduler = halves(*first)}}}, {second, {{.scheduler = halves(*second)}}}};
      };
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      manual_backward((used->forward(batch[0]) + spare->forward(batch[0])).mean());
      for (const std::size_t index : {0, 1}) {
        if (takes_steps) step_optimizer(index);
      }
      return {};
    }
    void on_train_epoch_end() override {
      for (const std::size_t index : stepped) lr_scheduler(index).step();
    }
    std::vector<std::size_t> stepped;
    bool takes_steps = true;
  };
  ByHand module;
  const auto warnings = warnings_in_fit(module);
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0], Catch::Contains("StepLr was not stepped in this fit, so it has changed no learning rate of SGD. With "
                                          "manual optimization call lr_scheduler(0).step()"));
  CHECK_THAT(warnings[1], Catch::Contains("lr_scheduler(1).step()"));
  // A step that leaves the rate as it is, is one.
  module.stepped = {0};
  check_one(warnings_in_fit(module), "call lr_scheduler(1).step()");
  module.stepped = {0, 1};
  CHECK(warnings_in_fit(module).empty());
  module.stepped = {};
  module.takes_steps = false;
  check_one(warnings_in_fit(module), "training_step took no optimizer's step in epoch 0");
}

TEST_CASE("an optimizer of the configuration that replaces the module's is reported, with the names of both") {
  const auto log_of = [](Module& module) {
    Trainer trainer(quiet_options(1));
    trainer.override_optimizers(
        Registry<OptimizerFactory>::instance().make(Value("SGD"), Value(Value::Map{{"lr", Value(0.5)}})), nullptr);
    const std::string text = warned_by([&] { trainer.fit(module, two_batches()); });
    CHECK(get_lrs(*trainer.optimizers().at(0)) == std::vector<double>{0.5});
    return text;
  };
  Two module;
  module.setups = [](Two& two) -> OptimizerSetups {
    auto optimizer = std::make_shared<torch::optim::Adam>(two.parameters(), 0.1);
    return {optimizer, {{.scheduler = std::make_shared<StepLr>(*optimizer, StepLrOptions{.step_size = 1})}}};
  };
  CHECK_THAT(log_of(module), Catch::Contains("SGD of the configuration (optimizer:) replaces what Two::configure_optimizers "
                                             "gives, Adam with StepLr."));
  module.setups = [](Two&) -> OptimizerSetups { throw std::runtime_error("set lr"); };
  CHECK_THAT(log_of(module), Catch::Contains("Two::configure_optimizers gives, which fails here (set lr)."));
  module.setups = [](Two&) -> OptimizerSetups { return {}; };
  CHECK_THAT(log_of(module), !Catch::Contains("replaces what"));
}
