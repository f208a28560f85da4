// Cases of Lightning's own tests about messages and output that no other test here covers.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too
#include <c10/util/ScopeExit.h>

#include <catch2/catch.hpp>

#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/timer.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/data_module.h"
#include "levin/optim/cyclic_lr_schedulers.h"
#include "levin/optim/lr_schedulers.h"
#include "support/error_of.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

class LayerModule : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override { return layer_->forward(batch[0]).pow(2).mean(); }
  void validation_step(const Batch& batch, std::int64_t) override { log("val_loss", layer_->forward(batch[0]).pow(2).mean()); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.01); }

  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(2, 1));
};

/// Warnings that `call` gives, one a line.
template <class Call>
std::string said_by(const Call& call) {
  std::string said;
  set_message_sink([&](const Message& message) {
    if (message.level == LogLevel::kWarning) said += message.text + "\n";
  });
  const auto back = c10::make_scope_exit([] { set_message_sink(nullptr); });
  call();
  return said;
}

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

using Integers = std::vector<std::int64_t>;

struct KeptRows final : Logger {
  void log_metrics(const MetricRow& row) override { rows.push_back(row); }
  Integers steps_of(const std::string& name) const {
    Integers steps;
    for (const MetricRow& row : rows) {
      if (row.values.contains(name)) steps.push_back(row.step);
    }
    return steps;
  }
  std::vector<MetricRow> rows;
};

}  // namespace

TEST_CASE("each Trainer warns anew of what is said once in a run") {
  struct WithoutValidationStep final : LayerModule {
    void validation_step(const Batch& batch, std::int64_t idx) override { Module::validation_step(batch, idx); }
    void on_train_epoch_start() override { rank_warn_once("said in epoch 0 and 1"); }
  };
  const auto fold = [] {
    WithoutValidationStep module;
    Trainer(quiet_options(2)).fit(module, FixedLoader::of_rows(2, 2), {FixedLoader::of_rows(1, 2)});
  };
  for (int number = 0; number < 2; ++number) {
    const std::string warnings = said_by(fold);
    INFO("fold " << number << ": " << warnings);
    CHECK(times_in(warnings, "The module has no validation_step") == 1);
    CHECK(times_in(warnings, "said in epoch 0 and 1") == 1);
  }
}

TEST_CASE("a Trainer that is made in a hook of another does not let that one warn again") {
  struct Nesting final : LayerModule {
    void on_train_epoch_start() override {
      rank_warn_once("of the outer run");
      const Trainer inner(quiet_options(1));
    }
  } module;
  const std::string warnings = said_by([&] { Trainer(quiet_options(3)).fit(module, FixedLoader::of_rows(1, 2)); });
  CHECK(times_in(warnings, "of the outer run") == 1);
}

TEST_CASE("the result of one test loader has what was logged for it, and for all") {
  struct Testing final : LayerModule {
    void test_step(const Batch&, std::int64_t) override {
      const std::int64_t index = dataloader_idx();
      log("with_suffix", static_cast<double>(index));
      if (index == 0) log("of_first", 1.0, {.add_dataloader_idx = false});
      if (index == 1) log("of_second", 2.0, {.on_step = true, .on_epoch = true, .add_dataloader_idx = false});
      log("of_both", 3.0 + static_cast<double>(index), {.add_dataloader_idx = false});
    }
    void on_test_epoch_end() override { log("of_epoch", 5.0); }
  } module;
  const auto results =
      Trainer(quiet_options(1)).test(module, {FixedLoader::of_rows(1, 2), FixedLoader::of_rows(1, 2)}, {.verbose = false});
  REQUIRE(results.size() == 2);
  CHECK(results[0].names() == std::vector<std::string>{"of_both", "of_epoch", "of_first", "with_suffix/dataloader_idx_0"});
  CHECK(results[1].names() ==
        std::vector<std::string>{"of_both", "of_epoch", "of_second_epoch", "with_suffix/dataloader_idx_1"});
  CHECK(results[0].at("of_both") == 3.5);
}

TEST_CASE("batch_idx() and is_last_batch() keep what the last batch was, to the end of fit") {
  struct Looking final : LayerModule {
    void look() { seen.insert(seen.end(), {trainer().batch_idx(), trainer().is_last_batch() ? 1 : 0}); }
    void on_train_batch_start(const Batch&, std::int64_t batch_idx) override {
      if (skips && batch_idx == 1) trainer().skip_epoch();
    }
    void on_train_epoch_end() override { look(); }
    void on_train_end() override { look(); }
    void on_fit_end() override { look(); }
    bool skips = false;
    Integers seen;
  } module;
  module.skips = GENERATE(false, true);
  Trainer trainer(quiet_options(2));
  trainer.fit(module, FixedLoader::of_rows(3, 2));
  const std::int64_t last = module.skips ? 1 : 2;
  CHECK(module.seen == Integers{last, 1, last, 1, last, 1, last, 1});
  CHECK(trainer.batch_idx() == last);
}

TEST_CASE("a batch after which an epoch was skipped is its last one") {
  struct Skipping final : LayerModule {
    void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override { trainer().skip_epoch(); }
    void on_train_epoch_end() override { is_last.push_back(trainer().is_last_batch() ? 1 : 0); }
    Integers is_last;
  } module;
  Trainer(quiet_options(2)).fit(module, FixedLoader::of_rows(3, 2));
  CHECK(module.is_last == Integers{1, 1});
}

TEST_CASE("fast_dev_run below 0 is an error in C++, too") {
  const std::string error = error_of<ConfigError>([] { Trainer trainer({.fast_dev_run = -1, .quiet = true}); });
  CHECK_THAT(error, Catch::Contains("fast_dev_run") && Catch::Contains("-1"));
}

TEST_CASE("under manual optimization a scheduler needs no monitor") {
  struct ByHand final : LayerModule {
    ByHand() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      optimizer().zero_grad();
      manual_backward(layer_->forward(batch[0]).pow(2).mean());
      step_optimizer();
      if (batch_idx == 2) lr_scheduler().step(std::optional<double>(1.0));
      return {};
    }
    OptimizerSetups configure_optimizers() override {
      SchedulerConfig config{.interval = Interval::kEpoch, .monitor = monitor};
      return {std::make_shared<torch::optim::SGD>(parameters(), 0.01), ReduceLrOnPlateau::Options{}, config};
    }
    std::string monitor;
  } module;
  module.monitor = GENERATE("", "val_loss");
  const std::string warnings = said_by([&] { Trainer(quiet_options(1)).fit(module, FixedLoader::of_rows(3, 2)); });
  CHECK(times_in(warnings, "manual optimization") == (module.monitor.empty() ? 0 : 1));
}

TEST_CASE("a OneCycleLR that steps once an epoch and was made for steps is told") {
  struct Cycling final : LayerModule {
    OptimizerSetups configure_optimizers() override {
      return {std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)),
              OneCycleLr::Options{.max_lr = {0.1}, .total_steps = total_steps},
              {.interval = interval}};
    }
    Interval interval = Interval::kEpoch;
    std::int64_t total_steps = 6;
  } module;
  const auto warnings = [&] { return said_by([&] { Trainer(quiet_options(2)).fit(module, FixedLoader::of_rows(3, 2)); }); };
  CHECK_THAT(warnings(), Catch::Contains("OneCycleLr will not reach its end") && Catch::Contains("interval to step"));
  module.interval = Interval::kStep;
  CHECK(times_in(warnings(), "OneCycleLr") == 0);
  // Made for epochs: Lightning warns of this one, too.
  module.interval = Interval::kEpoch;
  module.total_steps = 2;
  CHECK(times_in(warnings(), "OneCycleLr") == 0);
}

TEST_CASE("states of callbacks that a resumed run does not have are told") {
  struct Counting : Callback {
    explicit Counting(std::string given) : key(std::move(given)) {}
    std::string state_key() const override { return key; }
    Value state_dict() const override { return Value::Map{{"count", 1}}; }
    std::string key;
  };
  const TemporaryFolder folder;
  LayerModule module;
  TrainerOptions options = quiet_options(1);
  options.callbacks = {std::make_shared<Counting>("First"), std::make_shared<Counting>("Second")};
  Trainer first(options);
  first.fit(module, FixedLoader::of_rows(1, 2));
  first.save_checkpoint(folder.path() / "a.ckpt");
  options.callbacks = {std::make_shared<Counting>("Second")};
  options.max_epochs = 2;
  const RunOptions resume{.ckpt_path = (folder.path() / "a.ckpt").string()};
  const std::string warnings = said_by([&] { Trainer(options).fit(module, FixedLoader::of_rows(1, 2), LoaderList{}, resume); });
  CHECK_THAT(warnings, Catch::Contains("First") && !Catch::Contains("Second"));
  const std::string of_test = said_by([&] {
    Trainer(quiet_options(1)).validate(module, {FixedLoader::of_rows(1, 2)}, {.ckpt_path = resume.ckpt_path, .verbose = false});
  });
  CHECK(times_in(of_test, "First") == 0);
}

TEST_CASE("a wish to stop that min_epochs or min_steps holds up is told once") {
  struct Stopping final : LayerModule {
    void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override { trainer().stop("enough"); }
  } module;
  TrainerOptions options = quiet_options(5);
  const bool by_steps = GENERATE(false, true);
  if (by_steps) options.min_steps = 4;
  if (!by_steps) options.min_epochs = 2;
  Trainer trainer(options);
  const std::string warnings = said_by([&] { trainer.fit(module, FixedLoader::of_rows(2, 2)); });
  CHECK(times_in(warnings, "enough") == 1);
  CHECK_THAT(warnings, Catch::Contains(by_steps ? "min_steps=4" : "min_epochs=2"));
  CHECK(trainer.global_step() == 4);
}

TEST_CASE("max_time beside a Timer is told, and the Timer counts") {
  TrainerOptions options = quiet_options(1);
  options.max_time = std::chrono::hours(1);
  const std::string alone = said_by([&] { const Trainer trainer(options); });
  CHECK(times_in(alone, "max_time") == 0);
  options.callbacks = {std::make_shared<Timer>(Timer::Options{.duration = std::chrono::minutes(1)})};
  const std::string beside = said_by([&] { const Trainer trainer(options); });
  CHECK_THAT(beside, Catch::Contains("max_time") && Catch::Contains("Timer"));
}

TEST_CASE("barebones refuses a logger that is asked for, and tells that log() goes nowhere") {
  CHECK_THROWS_WITH(Trainer({.logger = true, .barebones = true}), Catch::Contains("barebones: true excludes logger"));
  struct Logging final : LayerModule {
    void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override { log("x", 1.0); }
  } module;
  const std::string warnings = said_by([&] {
    Trainer trainer({.max_epochs = 1, .barebones = true});
    trainer.fit(module, FixedLoader::of_rows(3, 2));
  });
  CHECK(times_in(warnings, "barebones") == 1);
}

TEST_CASE("layers that are in evaluation mode when training begins are told, unless they are frozen") {
  struct TwoLayers final : LayerModule {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return layer_->forward(dropout_->forward(norm_->forward(batch[0]))).pow(2).mean();
    }
    torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(2));
    torch::nn::Dropout dropout_ = register_module("dropout", torch::nn::Dropout(0.5));
  } module;
  const auto warnings = [&] { return said_by([&] { Trainer(quiet_options(1)).fit(module, FixedLoader::of_rows(1, 4)); }); };
  CHECK(times_in(warnings(), "evaluation mode") == 0);
  freeze(*module.norm_);
  CHECK(times_in(warnings(), "evaluation mode") == 0);
  module.dropout_->eval();
  CHECK_THAT(warnings(), Catch::Contains("evaluation mode") && Catch::Contains("dropout") && !Catch::Contains("norm"));
  unfreeze(*module.norm_);
  module.norm_->eval();
  CHECK_THAT(warnings(), Catch::Contains("norm, dropout"));
}

TEST_CASE("loaders are not asked for where a limit is 0") {
  struct Data final : DataModule {
    LoaderPtr train_dataloader() override { return asked += "train ", FixedLoader::of_rows(2, 2); }
    LoaderList val_dataloaders() override { return asked += "val ", LoaderList{FixedLoader::of_rows(1, 2)}; }
    LoaderList test_dataloaders() override { return asked += "test ", LoaderList{FixedLoader::of_rows(1, 2)}; }
    LoaderList predict_dataloaders() override { return asked += "predict ", LoaderList{FixedLoader::of_rows(1, 2)}; }
    std::string asked;
  } data;
  struct Tested final : LayerModule {
    void test_step(const Batch&, std::int64_t) override { FAIL("no batch is to be tested"); }
    Batch predict_step(const Batch&, std::int64_t) override { throw MisuseError("no batch is to be predicted"); }
  } module;
  TrainerOptions options = quiet_options(1);
  options.limit_train_batches = options.limit_val_batches = options.limit_test_batches = options.limit_predict_batches = 0;
  Trainer trainer(options);
  trainer.fit(module, data);
  CHECK(trainer.global_step() == 0);
  CHECK(trainer.validate(module, data, {.verbose = false}).empty());
  CHECK(trainer.test(module, data, {.verbose = false}).empty());
  CHECK(trainer.predict(module, data).empty());
  CHECK(data.asked.empty());
}

TEST_CASE("validation loaders are asked for anew only for epochs that validate") {
  struct Data final : DataModule {
    LoaderPtr train_dataloader() override { return FixedLoader::of_rows(2, 2); }
    LoaderList val_dataloaders() override {
      epochs.push_back(trainer->current_epoch());
      return {FixedLoader::of_rows(1, 2)};
    }
    const Trainer* trainer = nullptr;
    Integers epochs;
  } data;
  const auto [reload, check, expected] = GENERATE(table<std::int64_t, std::int64_t, Integers>(
      {{1, 3, {0, 2, 5}}, {1, 1, {0, 1, 2, 3, 4, 5}}, {2, 3, {0, 2, 4}}, {0, 3, {0}}, {1, 7, {0}}}));
  TrainerOptions options = quiet_options(6);
  options.reload_dataloaders_every_n_epochs = reload;
  options.check_val_every_n_epoch = check;
  Trainer trainer(options);
  data.trainer = &trainer;
  LayerModule module;
  trainer.fit(module, data);
  INFO("reload every " << reload << ", validate every " << check);
  CHECK(data.epochs == expected);
}

TEST_CASE("val_dataloaders() is asked within the sanity check where there is one") {
  struct Asking final : LayerModule {
    LoaderList val_dataloaders() override {
      sanity.push_back(trainer().sanity_checking() ? 1 : 0);
      return {FixedLoader::of_rows(1, 2)};
    }
    Integers sanity;
  } module;
  TrainerOptions options = quiet_options(2);
  options.num_sanity_val_steps = GENERATE(0, 1);
  options.reload_dataloaders_every_n_epochs = 1;
  Trainer(options).fit(module, FixedLoader::of_rows(1, 2));
  CHECK(module.sanity == Integers{*options.num_sanity_val_steps, 0});
}

TEST_CASE("num_training_batches() of a stream is its limit") {
  struct Looking final : LayerModule {
    void on_train_start() override { batches = trainer().num_training_batches(); }
    std::int64_t batches = 0;
  } module;
  const auto [limit, expected] = GENERATE(table<std::int64_t, std::int64_t>({{3, 3}, {50, 50}, {-1, -1}}));
  TrainerOptions options = quiet_options(2);
  if (limit >= 0) options.limit_train_batches = limit;
  Trainer trainer(options);
  trainer.fit(module, FixedLoader::of_rows(4, 2, /*knows_size=*/false));
  CHECK(module.batches == expected);
  CHECK(trainer.global_step() == (limit == 3 ? 6 : 8));
}

TEST_CASE("best of several ModelCheckpoints is told, in the Trainer that has trained and in another") {
  const TemporaryFolder folder;
  struct Twice final : LayerModule {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      log("train_loss", 1.0, {.on_epoch = true});
      return LayerModule::training_step(batch, idx);
    }
  } module;
  TrainerOptions options = quiet_options(1);
  options.default_root_dir = folder.path();
  options.enable_checkpointing = true;
  const auto saving = [](const char* monitor) {
    return std::make_shared<ModelCheckpoint>(
        ModelCheckpointOptions{.filename = std::string("by_") + monitor, .monitor = monitor});
  };
  options.callbacks = {saving("val_loss"), saving("train_loss_epoch")};
  Trainer trainer(options);
  trainer.fit(module, FixedLoader::of_rows(2, 2), {FixedLoader::of_rows(1, 2)});
  const RunOptions best{.ckpt_path = "best", .verbose = false};
  const std::string same = said_by([&] { trainer.validate(module, {FixedLoader::of_rows(1, 2)}, best); });
  CHECK(times_in(same, "best is the best by val_loss") == 1);
  CHECK_THAT(same, Catch::Contains("also monitors train_loss_epoch"));
  options.callbacks = {saving("val_loss")};
  Trainer one(options);
  one.fit(module, FixedLoader::of_rows(2, 2), {FixedLoader::of_rows(1, 2)});
  CHECK(times_in(said_by([&] { one.validate(module, {FixedLoader::of_rows(1, 2)}, best); }), "best is the best") == 0);
}

TEST_CASE("the folder of a user is known by ~ in default_root_dir, too") {
  const TemporaryFolder folder;
  const std::string before = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("HOME", folder.path().c_str(), /*overwrite=*/1);
  const auto back = c10::make_scope_exit([&] { setenv("HOME", before.c_str(), /*overwrite=*/1); });
  TrainerOptions options = quiet_options(1);
  options.default_root_dir = "~/runs";
  CHECK(Trainer(options).default_root_dir() == folder / "runs");
  options.default_root_dir = folder / "a~b";
  CHECK(Trainer(options).default_root_dir() == folder / "a~b");
}

TEST_CASE("rows of accumulated batches have the numbers of their steps") {
  // Lightning's test_tensorboard_with_accumulated_gradients.
  struct Logging final : LayerModule {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      log("foo", 1.0, {.on_step = true, .on_epoch = true});
      return LayerModule::training_step(batch, idx);
    }
  } module;
  const auto logger = std::make_shared<KeptRows>();
  TrainerOptions options = quiet_options(3);
  options.logger = logger;
  options.limit_train_batches = 12;
  options.limit_val_batches = 0;
  options.accumulate_grad_batches = 2;
  options.log_every_n_steps = 3;
  Trainer(options).fit(module, FixedLoader::of_rows(64, 1));
  CHECK(logger->steps_of("foo_epoch") == Integers{5, 11, 17});
  CHECK(logger->steps_of("foo_step") == Integers{2, 5, 8, 11, 14, 17});
}

TEST_CASE("the sanity check has its batches, also of a stream, and before a fit that trains none") {
  // Lightning's test_tqdm_progress_bar_totals and test_num_sanity_val_steps_progress_bar.
  struct Counting final : LayerModule {
    void on_validation_epoch_start() override { numbers.push_back(trainer().num_evaluation_batches().at(0)); }
    void validation_step(const Batch&, std::int64_t) override { ++batches; }
    Integers numbers;
    std::int64_t batches = 0;
  } module;
  const auto [limit, knows_size, seen] = GENERATE(
      table<std::int64_t, bool, std::int64_t>({{64, true, 4}, {3, true, 3}, {64, false, 4}, {3, false, 3}, {0, true, 0}}));
  TrainerOptions options = quiet_options(1);
  options.num_sanity_val_steps = 4;
  options.limit_train_batches = 0;
  options.limit_val_batches = limit;
  Trainer(options).fit(module, FixedLoader::of_rows(2, 2), {FixedLoader::of_rows(64, 2, knows_size)});
  INFO("limit " << limit << ", knows its size: " << knows_size);
  CHECK(module.batches == seen);
  CHECK(module.numbers == (limit == 0 ? Integers{} : Integers{seen}));
}
