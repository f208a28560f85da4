// What numbers switch off: see meanings_of_numbers.txt.
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "levin/callbacks/finders.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/weight_averaging.h"
#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/run_config.h"
#include "levin/core/config/component.h"
#include "levin/core/logger.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "support/file_text.h"
#include "support/fixed_loader.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// One weight, whose loss is it times the batch's number, and so the number its gradient.
struct Weighted : Module {
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    seen.push_back(batch[0].item<double>());
    const at::Tensor loss = (weight * batch[0]).sum() + batch[0].sum() + 0 * layer->forward(batch[0]).sum();
    log("loss", loss);
    if (on_step) on_step(*this);
    return loss;
  }
  void validation_step(const Batch&, std::int64_t) override { validated_after.push_back(trainer().total_batch_idx()); }
  void test_step(const Batch&, std::int64_t) override { ++tested; }
  Batch predict_step(const Batch& batch, std::int64_t) override {
    ++predicted;
    return batch;
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.125); }

  at::Tensor weight = register_parameter("weight", torch::zeros({1}));
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(1, 4));
  std::vector<double> seen;
  std::vector<std::int64_t> validated_after;
  std::int64_t tested = 0;
  std::int64_t predicted = 0;
  std::function<void(Weighted&)> on_step;
};

using Counts = std::vector<std::int64_t>;

std::shared_ptr<FixedLoader> numbers(const std::vector<float>& values) {
  std::vector<Batch> batches;
  for (const float value : values) batches.push_back(Batch{{"x", torch::full({1}, value)}});
  return std::make_shared<FixedLoader>(std::move(batches));
}

/// As a YAML file has them.
TrainerOptions options_of(const Value& given) {
  Value arguments = given;
  if (!arguments.contains("quiet")) arguments["quiet"] = true;
  if (!arguments.contains("num_sanity_val_steps")) arguments["num_sanity_val_steps"] = 0;
  arguments["accelerator"] = "cpu";
  arguments["threads"] = 1;
  return read_options<TrainerOptions>(arguments);
}

/// Trains on two batches an epoch, and gives the module as it is then.
std::shared_ptr<Weighted> fitted(const Value& options, const std::vector<float>& values = {1, 2},
                                 std::function<void(Weighted&)> on_step = nullptr) {
  auto module = std::make_shared<Weighted>();
  module->on_step = std::move(on_step);
  Trainer(options_of(options)).fit(*module, numbers(values), {numbers({9})});
  return module;
}

Value map_of(std::initializer_list<std::pair<std::string, Value>> entries) { return Value(Value::Map(entries)); }

/// A list of one callback.
Value callback(const char* name, Value arguments) {
  return Value(Value::List{map_of({{"class_path", name}, {"init_args", std::move(arguments)}})});
}

struct Rows final : Logger {
  void log_metrics(const MetricRow& row) override { steps += row.values.contains("loss") ? 1 : 0; }
  std::int64_t steps = 0;
};

}  // namespace

TEST_CASE("a limit of -1 is none, and so is a minimum") {
  CHECK(fitted(map_of({{"max_epochs", -1}, {"max_steps", 7}}))->seen.size() == 7);
  CHECK(fitted(map_of({{"max_epochs", 3}, {"max_steps", -1}}))->seen.size() == 6);
  const auto stop = [](Weighted& module) { module.trainer().stop("a test"); };
  const auto seen = [&](const Value& options) { return fitted(options, {1, 2}, stop)->seen.size(); };
  CHECK(seen(map_of({{"max_epochs", 5}, {"min_epochs", 2}})) > 2);
  CHECK(seen(map_of({{"max_epochs", 5}, {"min_epochs", -1}, {"min_steps", -1}})) == seen(map_of({{"max_epochs", 5}})));
  CHECK(seen(map_of({{"max_epochs", 5}})) <= 2);
}

TEST_CASE("a limit of 0 batches leaves a loop out") {
  CHECK(fitted(map_of({{"max_epochs", 2}, {"limit_train_batches", 0}}))->seen.empty());
  CHECK(fitted(map_of({{"max_epochs", 2}, {"limit_val_batches", 0}}))->validated_after.empty());
  CHECK(fitted(map_of({{"max_epochs", 2}, {"limit_val_batches", 0.0}}))->validated_after.empty());
  CHECK(fitted(map_of({{"max_epochs", 2}}))->validated_after == Counts{2, 4});
  for (const Value& limit : {Value(0), Value(0.0), Value()}) {
    Weighted module;
    Trainer trainer(options_of(map_of({{"limit_test_batches", limit}, {"limit_predict_batches", limit}})));
    trainer.test(module, numbers({1, 2}));
    trainer.predict(module, numbers({1, 2}));
    CHECK(module.tested == (limit.is_null() ? 2 : 0));
    CHECK(module.predicted == (limit.is_null() ? 2 : 0));
  }
}

TEST_CASE("0 asks the Trainer for no trial run, no overfitting, no sanity check, no reloading and no rows of steps") {
  const Value off = map_of({{"max_epochs", 2},
                            {"fast_dev_run", 0},
                            {"overfit_batches", 0},
                            {"num_sanity_val_steps", 0},
                            {"reload_dataloaders_every_n_epochs", 0},
                            {"log_every_n_steps", 0}});
  struct Loaders : DataModule {
    LoaderPtr train_dataloader() override {
      ++asked;
      return numbers({1, 2, 3});
    }
    LoaderList val_dataloaders() override { return {numbers({9})}; }
    std::int64_t asked = 0;
  };
  const auto run = [&](const char* option, const Value& value) {
    Value given = off;
    if (option != nullptr) given[option] = value;
    TrainerOptions options = options_of(given);
    const auto rows = std::make_shared<Rows>();
    options.logger = Loggers(Component<Logger>(rows));
    Weighted module;
    Loaders data;
    Trainer(options).fit(module, data);
    return Counts{std::ssize(module.seen), std::ssize(module.validated_after), data.asked, rows->steps};
  };
  CHECK(run(nullptr, {}) == Counts{6, 2, 1, 0});
  CHECK(run("fast_dev_run", 1) == Counts{1, 1, 1, 0});
  CHECK(run("overfit_batches", 1) != run(nullptr, {}));
  CHECK(run("num_sanity_val_steps", 1) == Counts{6, 3, 1, 0});
  CHECK(run("reload_dataloaders_every_n_epochs", 1) == Counts{6, 2, 2, 0});
  CHECK(run("log_every_n_steps", 1) == Counts{6, 2, 1, 6});
}

TEST_CASE("without check_val_every_n_epoch, val_check_interval counts across epochs") {
  const Value across = map_of({{"max_epochs", 3}, {"val_check_interval", 3}, {"check_val_every_n_epoch", Value()}});
  CHECK(fitted(across)->validated_after == Counts{3, 6});
}

TEST_CASE("without a seed a run sets none") {
  CHECK(read_options<cli::RunConfig>(map_of({{"seed_everything", 3}})).seed_everything.value == 3);
  CHECK_FALSE(read_options<cli::RunConfig>(map_of({{"seed_everything", Value()}})).seed_everything.value);
}

TEST_CASE("without workers the thread that asks reads") {
  struct Reading final : Dataset {
    explicit Reading(std::set<std::thread::id>& threads) : threads_(threads) {}
    std::int64_t size() const override { return 4; }
    Batch get_batch(std::span<const std::int64_t> indices) const override {
      threads_.insert(std::this_thread::get_id());
      return Batch{{"x", torch::ones({std::ssize(indices)})}};
    }
    std::set<std::thread::id>& threads_;
  };
  for (const int workers : {0, 1}) {
    std::set<std::thread::id> threads;
    {
      DataLoader loader(std::make_shared<Reading>(threads), {.batch_size = 2, .num_workers = workers});
      loader.start_epoch(0);
      while (loader.next()) {
      }
    }
    CHECK(threads.size() == 1);
    CHECK(threads.contains(std::this_thread::get_id()) == (workers == 0));
  }
}

TEST_CASE("a ModelCheckpoint whose triggers are 0 saves nothing but last.ckpt, and says so") {
  const TemporaryFolder folder;
  const auto files_after = [&](Value arguments) {
    const auto ckpt = folder / "ckpt";
    std::filesystem::remove_all(ckpt);
    arguments["dirpath"] = ckpt.string();
    fitted(map_of({{"max_epochs", 2},
                   {"log_file", (folder / "log.txt").string()},
                   {"callbacks", callback("ModelCheckpoint", arguments)}}));
    std::set<std::string> files;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(ckpt, none)) files.insert(entry.path().filename());
    return files;
  };
  using Names = std::set<std::string>;
  const auto warned = [&] { return read_text(folder / "log.txt").find("ModelCheckpoint saves nothing") != std::string::npos; };
  CHECK(files_after(map_of({{"every_n_epochs", 1}, {"every_n_train_steps", 0}})) == Names{"epoch=1-step=4.ckpt"});
  CHECK(files_after(map_of({{"every_n_epochs", 0}, {"every_n_train_steps", 3}})) == Names{"epoch=1-step=3.ckpt"});
  CHECK(files_after(map_of({{"every_n_train_steps", 0}, {"save_last", true}})) == Names{"last.ckpt"});
  CHECK(files_after(map_of({{"save_top_k", 0}})).empty());
  CHECK_FALSE(warned());
  CHECK(files_after(map_of({{"every_n_epochs", 0}})).empty());
  CHECK(warned());
  std::filesystem::remove(folder / "log.txt");
  CHECK(files_after(map_of({{"every_n_train_steps", 0}})).empty());
  CHECK(warned());
}

TEST_CASE("a SpikeGuard without thresholds lets any finite step be") {
  const std::vector<float> values = {1, 2, 1, 2, 1, 2, 1, 2, 900};
  const auto weight = [&](const Value& threshold) {
    const Value guard = callback("SpikeGuard", map_of({{"action", "skip"},
                                                       {"window", 8},
                                                       {"warmup", 4},
                                                       {"threshold_loss", threshold},
                                                       {"threshold_gradient_norm", threshold}}));
    return fitted(map_of({{"max_epochs", 1}, {"callbacks", guard}}), values)->weight.item<double>();
  };
  CHECK(weight(6.0) == Approx(-12.0 / 8));
  CHECK(weight(Value()) == Approx(-912.0 / 8));
}

TEST_CASE("an average that is updated every 0 steps is that of epochs alone") {
  const auto average = [](const Value& arguments) {
    TrainerOptions options = options_of(map_of({{"max_epochs", 2}, {"callbacks", callback("EMAWeightAveraging", arguments)}}));
    Weighted module;
    Trainer(options).fit(module, numbers({1, 2}));
    return module.weight.item<double>();
  };
  // Weights after each step: -1/8, -3/8, -4/8, -6/8; decay 0 takes the newest one.
  CHECK(average(map_of({{"decay", 0.0}, {"update_every_n_steps", 1}})) == Approx(-6.0 / 8));
  const double of_epochs = average(map_of({{"decay", 0.5}, {"update_every_n_steps", 0}, {"update_starting_at_epoch", 0}}));
  CHECK(of_epochs == Approx(0.5 * (-3.0 / 8) + 0.5 * (-6.0 / 8)));
}

TEST_CASE("a rate finder without early_stop_threshold tries all rates") {
  const auto losses = [](const Value& threshold) {
    const Value arguments =
        map_of({{"max_lr", 1e2}, {"num_training_steps", 30}, {"early_stop_threshold", threshold}, {"update", false}});
    TrainerOptions options = options_of(map_of({{"max_epochs", 1}, {"callbacks", callback("LearningRateFinder", arguments)}}));
    struct Squared : Weighted {
      StepOutput training_step(const Batch& batch, std::int64_t) override {
        return (weight * batch[0] - 3).square().sum() + 0 * layer->forward(batch[0]).sum();
      }
    } module;
    Trainer trainer(options);
    trainer.fit(module, numbers(std::vector<float>(40, 1)));
    return trainer.callback<LearningRateFinder>()->losses().size();
  };
  CHECK(losses(4.0) < 30);
  CHECK(losses(Value()) == 30);
}

TEST_CASE("a monitor of memory that warns after 0 epochs, a pruning of verbosity 0 and a summary of depth 0 say nothing") {
  const TemporaryFolder folder;
  std::vector<at::Tensor> kept;
  const auto told = [&](const char* name, const char* option, std::int64_t value, Value more = map_of({})) {
    std::filesystem::remove(folder / "log.txt");
    more[option] = value;
    fitted(map_of({{"max_epochs", 6},
                   {"quiet", false},
                   {"logger", false},
                   {"enable_checkpointing", false},
                   {"enable_progress_bar", false},
                   {"log_file", (folder / "log.txt").string()},
                   {"callbacks", callback(name, std::move(more))}}),
           {1, 2}, [&](Weighted&) { kept.push_back(torch::zeros({1 << 18})); });
    return read_text(folder / "log.txt");
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(told("MemoryMonitor", "warn_after_epochs", 0), !Contains("Memory grows"));
  CHECK_THAT(told("MemoryMonitor", "warn_after_epochs", 2), Contains("Memory grows"));
  CHECK_THAT(told("ModelSummary", "max_depth", 0), !Contains("Trainable params"));
  CHECK_THAT(told("ModelSummary", "max_depth", 1), Contains("Trainable params"));
  const Value pruning = map_of({{"pruning_fn", "l1_unstructured"}, {"amount", 0.5}});
  CHECK_THAT(told("ModelPruning", "verbose", 0, pruning), !Contains("runed"));
  CHECK_THAT(told("ModelPruning", "verbose", 1, pruning), Contains("runed"));
}

}  // namespace levin::test
