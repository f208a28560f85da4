#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>

#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/data/data_loader.h"
#include "levin/optim/lr_schedulers.h"
#include "support/recording.h"
#include "support/resume_plans.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

class Regression : public Module {
 public:
  Regression() : layer_(register_module("layer", torch::nn::Linear(2, 1))) {}
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor noise = torch::rand({1});  // so that the random state matters
    const at::Tensor loss = (layer_->forward(batch[0]) - noise).pow(2).mean();
    losses.push_back(loss.item<double>());
    log("loss", loss, {.on_epoch = true});
    log("batches", 1, {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    return loss;
  }
  void on_train_epoch_start() override { log("starts", 1, {.reduce = Reduce::kSum}); }
  void on_train_epoch_end() override {
    const MetricMap& metrics = trainer().callback_metrics();
    epochs.push_back({metrics.at("loss_epoch"), metrics.at("batches"), metrics.at("starts")});
  }
  OptimizerSetups configure_optimizers() override {
    auto optimizer = std::make_shared<torch::optim::Adam>(parameters(), 0.1);
    return {optimizer, {{.scheduler = std::make_shared<StepLr>(*optimizer, StepLrOptions{.step_size = 1, .gamma = 0.5})}}};
  }
  std::vector<double> losses;
  std::vector<std::vector<double>> epochs;  ///< of each its mean loss, its batches, and how often it began

 private:
  torch::nn::Linear layer_;
};

/// Saves at the end of one epoch, or after one batch.
class SavesOnce : public Callback {
 public:
  SavesOnce(std::filesystem::path file, std::int64_t epoch, std::int64_t batch)
      : file_(std::move(file)), epoch_(epoch), batch_(batch) {}
  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
  void on_train_epoch_end(Trainer& trainer, Module&) override {
    if (batch_ < 0 && trainer.current_epoch() == epoch_) trainer.save_checkpoint(file_);
  }
  void on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx) override {
    if (batch_ == batch_idx && trainer.current_epoch() == epoch_) trainer.save_checkpoint(file_);
  }

 private:
  std::filesystem::path file_;
  std::int64_t epoch_;
  std::int64_t batch_;
};

}  // namespace

TEST_CASE("a resumed run goes on bit for bit like the one that was not interrupted") {
  const TemporaryFolder folder;
  const auto [epoch, batch, done] = GENERATE(table<int, int, int>({{1, -1, 6}, {1, 0, 4}, {1, 2, 6}, {0, -1, 3}}));
  TrainerOptions options =
      quiet({.max_epochs = 4, .callbacks = {std::make_shared<SavesOnce>(folder / "a.ckpt", epoch, batch)}});

  torch::manual_seed(1);
  Regression whole;
  Trainer(options).fit(whole, FixedLoader::of_rows(3, 4));

  torch::manual_seed(2);
  Regression resumed;
  options.callbacks = {std::make_shared<SavesOnce>(folder / "b.ckpt", 99, 0)};
  Trainer trainer(options);
  trainer.fit(resumed, FixedLoader::of_rows(3, 4), {}, {.ckpt_path = (folder / "a.ckpt").string()});

  CHECK(trainer.global_step() == 12);
  CHECK(trainer.current_epoch() == 4);
  CHECK(resumed.losses == std::vector<double>(whole.losses.begin() + done, whole.losses.end()));
  const int first_epoch = batch < 0 ? epoch + 1 : epoch;
  CHECK(resumed.epochs == std::vector<std::vector<double>>(whole.epochs.begin() + first_epoch, whole.epochs.end()));
  for (const std::vector<double>& values : whole.epochs) CHECK((values[1] == 3 && values[2] == 1));
}

namespace {

/// Drops out in training mode, and may fail in the validation of epoch 1.
class FailsInValidation : public Regression {
 public:
  explicit FailsInValidation(bool fails) : fails_(fails) {}
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    kept.push_back(torch::dropout(torch::ones({8}), 0.5, is_training()).sum().item<double>());
    return Regression::training_step(batch, batch_idx);
  }
  void validation_step(const Batch&, std::int64_t) override {
    if (fails_ && trainer().current_epoch() == 1) throw std::runtime_error("in validation");
  }
  std::vector<double> kept;

 private:
  bool fails_;
};

}  // namespace

TEST_CASE("a run that an error in a validation has ended resumes in training mode, bit for bit") {
  const TemporaryFolder folder;
  const auto fit = [&](FailsInValidation& module, const RunOptions& how) {
    const auto saving = std::make_shared<ModelCheckpoint>(
        ModelCheckpointOptions{.dirpath = folder.path(), .filename = "{step}", .save_top_k = -1, .save_on_exception = true});
    Trainer trainer(quiet({.max_epochs = 4, .callbacks = {saving}}));
    trainer.fit(module, FixedLoader::of_rows(3, 4), {FixedLoader::of_rows(2, 4)}, how);
  };
  torch::manual_seed(1);
  FailsInValidation failing(true);
  CHECK_THROWS_WITH(fit(failing, {}), "in validation");
  torch::manual_seed(2);
  FailsInValidation resumed(false);
  fit(resumed, {.ckpt_path = (folder / "step=6.ckpt").string()});
  CHECK(resumed.is_training());

  std::filesystem::remove_all(folder.path());
  torch::manual_seed(1);
  FailsInValidation whole(false);
  fit(whole, {});
  REQUIRE(whole.kept.size() == 12);
  CHECK(resumed.kept == std::vector<double>(whole.kept.begin() + 6, whole.kept.end()));
  CHECK(resumed.losses == std::vector<double>(whole.losses.begin() + 6, whole.losses.end()));
}

namespace {

/// Gives numbers, and counts how many batches are read.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    ++reads;
    return Batch{{"rows", torch::ones({static_cast<std::int64_t>(indices.size()), 2})}};
  }
  mutable std::int64_t reads = 0;

 private:
  std::int64_t size_;
};

}  // namespace

TEST_CASE("resuming inside an epoch reads nothing of what is done") {
  const TemporaryFolder folder;
  TrainerOptions options = quiet({.max_epochs = 1, .callbacks = {std::make_shared<SavesOnce>(folder / "a.ckpt", 0, 89)}});
  Regression module;
  const auto loader = [](const std::shared_ptr<CountingDataset>& dataset) {
    return std::make_shared<DataLoader>(dataset, DataLoaderOptions{.batch_size = 2, .shuffle = true});
  };
  Trainer(options).fit(module, loader(std::make_shared<CountingDataset>(200)));
  options.callbacks = {std::make_shared<SavesOnce>(folder / "a.ckpt", 99, 0)};
  Regression resumed;
  const auto dataset = std::make_shared<CountingDataset>(200);
  Trainer(options).fit(resumed, loader(dataset), {}, {.ckpt_path = (folder / "a.ckpt").string()});
  CHECK(resumed.losses.size() == 10);
  CHECK(dataset->reads == 10);
}

TEST_CASE("a loader that cannot tell its place resumes with the same batches only") {
  const TemporaryFolder folder;
  TrainerOptions options = quiet({.max_epochs = 1, .callbacks = {std::make_shared<SavesOnce>(folder / "a.ckpt", 0, 1)}});
  Regression module;
  Trainer(options).fit(module, FixedLoader::of_rows(4, 4));
  options.callbacks = {std::make_shared<SavesOnce>(folder / "a.ckpt", 99, 0)};
  Regression resumed;
  Trainer(options).fit(resumed, FixedLoader::of_rows(4, 4), {}, {.ckpt_path = (folder / "a.ckpt").string()});
  CHECK(resumed.losses.size() == 2);
  struct OtherBatches : FixedLoader {
    using FixedLoader::FixedLoader;
    std::optional<std::int64_t> batch_size() const override { return 8; }
  };
  Trainer other(options);
  CHECK_THROWS_WITH(
      other.fit(resumed, std::make_shared<OtherBatches>(std::vector<Batch>{}), {}, {.ckpt_path = (folder / "a.ckpt").string()}),
      Catch::Contains("middle of an epoch") && Catch::Contains("batches of 8"));
}

TEST_CASE("a run that resumes with nothing to do saves where it stands") {
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options(2);
  Regression module;
  Trainer trainer(options);
  trainer.fit(module, FixedLoader::of_rows(2, 4));
  trainer.save_checkpoint(folder / "a.ckpt");
  Regression again;
  Trainer resumed(options);
  resumed.fit(again, FixedLoader::of_rows(2, 4), {}, {.ckpt_path = (folder / "a.ckpt").string()});
  CHECK(again.losses.empty());
  resumed.save_checkpoint(folder / "b.ckpt");
  options.max_epochs = 3;
  std::vector<std::vector<double>> losses;
  for (const char* file : {"a.ckpt", "b.ckpt"}) {
    Regression more;
    Trainer(options).fit(more, FixedLoader::of_rows(2, 4), {}, {.ckpt_path = (folder / file).string()});
    losses.push_back(more.losses);
  }
  CHECK(losses[0].size() == 2);
  CHECK(losses[0] == losses[1]);
}

TEST_CASE("a run whose validation was due may resume without any") {
  struct SavesInValidation : Regression {
    void validation_step(const Batch&, std::int64_t) override {
      if (trainer().current_epoch() == 0 && !file.empty()) trainer().save_checkpoint(file);
    }
    std::filesystem::path file;
  };
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options(2);
  SavesInValidation module;
  module.file = folder / "a.ckpt";
  Trainer(options).fit(module, FixedLoader::of_rows(2, 4), {FixedLoader::of_rows(1, 4)});
  SavesInValidation resumed;
  Trainer trainer(options);
  trainer.fit(resumed, FixedLoader::of_rows(2, 4), {}, {.ckpt_path = (folder / "a.ckpt").string()});
  CHECK(trainer.current_epoch() == 2);
  CHECK(resumed.losses.size() == 2);
}

TEST_CASE("a run that EarlyStopping has ended ends at once when it is resumed, unless its patience is larger now") {
  const TemporaryFolder folder;
  const auto fit = [&](std::int64_t patience, const RunOptions& run) {
    Regression module;
    Trainer trainer(quiet({.max_epochs = 10,
                           .callbacks = {EarlyStopping({.monitor = "batches", .patience = patience}),  // it never changes
                                         ModelCheckpoint({.dirpath = folder.path(), .save_last = true})}}));
    trainer.fit(module, FixedLoader::of_rows(2, 4), {}, run);
    return trainer.current_epoch();
  };
  CHECK(fit(2, {}) == 3);
  const RunOptions resume{.ckpt_path = (folder / "last.ckpt").string()};
  CHECK(fit(2, resume) == 3);
  CHECK(fit(4, resume) == 5);
}

TEST_CASE("a checkpoint of weights only evaluates but does not resume") {
  const TemporaryFolder folder;
  Regression module;
  Trainer trainer(quiet_options(1));
  trainer.fit(module, FixedLoader::of_rows(3, 4));
  trainer.save_checkpoint(folder / "weights.ckpt", /*weights_only=*/true);
  CHECK_THROWS_WITH(trainer.fit(module, FixedLoader::of_rows(3, 4), {}, {.ckpt_path = (folder / "weights.ckpt").string()}),
                    Catch::Contains("weights only"));
  CHECK_THROWS_WITH(trainer.fit(module, FixedLoader::of_rows(3, 4), {}, {.ckpt_path = (folder / "missing.ckpt").string()}),
                    Catch::Contains("missing.ckpt"));
}

TEST_CASE("sparse tensors of a checkpoint come back as they lay, and are refused where their indices do not fit") {
  const at::Tensor indices = torch::tensor({{2, 0, 2}}, torch::kLong);
  const at::Tensor values = torch::tensor({{1.0}, {2.0}, {4.0}});
  Checkpoint checkpoint;
  levin::save_tensor(checkpoint, "state.weight", torch::sparse_coo_tensor(indices, values, {3, 1}));
  const at::Tensor back = levin::saved_sparse_tensor(checkpoint, "state.weight", {3, 1});
  CHECK(torch::equal(back._indices(), indices));
  CHECK(torch::equal(back._values(), values));
  CHECK_FALSE(levin::saved_sparse_tensor(checkpoint, "state.bias", {3, 1}).defined());
  CHECK_THROWS_AS(levin::saved_sparse_tensor(checkpoint, "state.weight", {2, 1}), ConfigError);
  CHECK_THROWS_AS(levin::saved_sparse_tensor(checkpoint, "state.weight", {3, 2}), ConfigError);
}

// LEVIN_RESUME_SEED=… replays one program; LEVIN_RESUME_PROGRAMS=… runs so many, from each of their hooks.
TEST_CASE("a run resumes exactly from every hook of generated programs") {
  const char* one = std::getenv("LEVIN_RESUME_SEED");
  const char* count = std::getenv("LEVIN_RESUME_PROGRAMS");
  // The last three: a part that a hook has frozen no longer drops out, data that looks at the counters, a group that a hook
  // has added and a schedule has changed.
  std::vector<std::uint64_t> seeds = {1, 2, 3, 4, 5, 6, 16, 27, 42};
  if (one != nullptr) seeds = {std::stoull(one)};
  if (count != nullptr) {
    seeds.resize(std::stoull(count));
    std::iota(seeds.begin(), seeds.end(), 1);
  }
  const std::size_t stride = one != nullptr || count != nullptr ? 1 : 6;
  for (const std::uint64_t seed : seeds) {
    INFO("LEVIN_RESUME_SEED=" << seed);
    const TemporaryFolder folder;
    CHECK(check_resume_plan(random_resume_plan(seed), folder.path(), stride) == "");
  }
}
