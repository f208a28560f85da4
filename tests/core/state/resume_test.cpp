#include <levin/levin.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>

#include "levin/core/checkpoint/optimizer_state.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/resume_plans.h"
#include "support/resume_sources.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

class Regression : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor noise = torch::rand({1});  // so that the random state matters
    const at::Tensor loss = (layer_->forward(batch[0]) - noise).pow(2).mean();
    losses.push_back(loss.item<double>());
    log("batches", 1, {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    return loss;
  }
  OptimizerSetups configure_optimizers() override {
    auto optimizer = std::make_shared<torch::optim::Adam>(parameters(), 0.1);
    return {optimizer, {{.scheduler = std::make_shared<StepLr>(*optimizer, StepLrOptions{.step_size = 1, .gamma = 0.5})}}};
  }
  std::vector<double> losses;

 private:
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(2, 1));
};

Component<Callback> saves_after(std::int64_t batch, const std::filesystem::path& file) {
  const auto save = [=](Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx) {
    if (batch_idx == batch) trainer.save_checkpoint(file);
  };
  return LambdaCallback({.on_train_batch_end = save});
}

/// Drops out in training mode, and may fail in the validation of epoch 1.
class FailsInValidation : public Regression {
 public:
  explicit FailsInValidation(bool fails) : fails_(fails) {}
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    dropped_out.push_back(torch::dropout(torch::ones({8}), 0.5, is_training()).sum().item<double>());
    return Regression::training_step(batch, batch_idx);
  }
  void validation_step(const Batch&, std::int64_t) override {
    if (fails_ && trainer().current_epoch() == 1) throw std::runtime_error("in validation");
  }
  std::vector<double> dropped_out;

 private:
  bool fails_;
};

/// Steps its own optimizer, with the gradients of two batches.
class StepsEverySecondBatch : public Module {
 public:
  StepsEverySecondBatch() {
    set_automatic_optimization(false);
    torch::nn::init::constant_(layer->weight, 0.5);
    torch::nn::init::constant_(layer->bias, 0.25);
  }
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    const at::Tensor loss = layer->forward(batch[0]).pow(2).mean() * static_cast<double>(1 + batch_idx);
    manual_backward(loss);
    if (batch_idx % 2 == 0) return loss;
    step_optimizer();
    optimizer().zero_grad();
    return loss;
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.01); }

  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(2, 1));
};

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
  fit(resumed, {.ckpt_path = folder / "step=6.ckpt"});
  CHECK(resumed.is_training());

  std::filesystem::remove_all(folder.path());
  torch::manual_seed(1);
  FailsInValidation whole(false);
  fit(whole, {});
  REQUIRE(whole.dropped_out.size() == 12);
  CHECK(resumed.dropped_out == std::vector<double>(whole.dropped_out.begin() + 6, whole.dropped_out.end()));
  CHECK(resumed.losses == std::vector<double>(whole.losses.begin() + 6, whole.losses.end()));
}

TEST_CASE("resuming inside an epoch reads nothing of what is done") {
  const TemporaryFolder folder;
  const auto reads = [&](std::vector<Component<Callback>> callbacks, const RunOptions& run) {
    Regression module;
    const auto dataset = std::make_shared<CountingDataset>(200);
    Trainer(quiet({.max_epochs = 1, .callbacks = std::move(callbacks)}))
        .fit(module, std::make_shared<DataLoader>(dataset, DataLoaderOptions{.batch_size = 2, .shuffle = true}), {}, run);
    CHECK(module.losses.size() == static_cast<std::size_t>(dataset->reads));
    return dataset->reads;
  };
  CHECK(reads({saves_after(89, folder / "a.ckpt")}, {}) == 100);
  CHECK(reads({}, {.ckpt_path = folder / "a.ckpt"}) == 10);
}

TEST_CASE("a run that resumes within an epoch is told that its data are others, or in another order") {
  const TemporaryFolder folder;
  const auto warns = [&](std::int64_t size, bool shuffle, std::vector<Component<Callback>> callbacks, const RunOptions& run) {
    Regression module;
    const ShownMessages messages;
    Trainer(quiet({.max_epochs = 1, .callbacks = std::move(callbacks)}))
        .fit(module,
             std::make_shared<DataLoader>(std::make_shared<CountingDataset>(size),
                                          DataLoaderOptions{.batch_size = 2, .shuffle = shuffle}),
             {}, run);
    return messages.text().find("training data of this run are others") != std::string::npos;
  };
  const RunOptions resume{.ckpt_path = folder / "a.ckpt"};
  CHECK_FALSE(warns(20, true, {saves_after(3, folder / "a.ckpt")}, {}));
  CHECK_FALSE(warns(20, true, {}, resume));
  CHECK(warns(30, true, {}, resume));
  CHECK(warns(20, false, {}, resume));
}

TEST_CASE("gradients that wait for a step of the user's own are in a checkpoint that the program saves after the run") {
  const TemporaryFolder folder;
  StepsEverySecondBatch whole, stopped, resumed;
  Trainer(quiet_options(1)).fit(whole, FixedLoader::of_rows(4, 4));
  const auto stop = [](Trainer& trainer, Module&, const Batch&, std::int64_t) { trainer.stop("after the first batch"); };
  Trainer trainer(quiet({.max_epochs = 1, .callbacks = {LambdaCallback({.on_train_batch_start = stop})}}));
  trainer.fit(stopped, FixedLoader::of_rows(4, 4));
  trainer.save_checkpoint(folder / "a.ckpt");
  Trainer(quiet_options(1)).fit(resumed, FixedLoader::of_rows(4, 4), {}, {.ckpt_path = folder / "a.ckpt"});
  CHECK(at::equal(resumed.layer->weight, whole.layer->weight));
  CHECK(at::equal(resumed.layer->bias, whole.layer->bias));
  CHECK_FALSE(at::equal(stopped.layer->weight, whole.layer->weight));
}

TEST_CASE("a loader that cannot tell its position resumes with the same batches only") {
  const TemporaryFolder folder;
  const RunOptions resume{.ckpt_path = folder / "a.ckpt"};
  Regression module, resumed;
  Trainer(quiet({.max_epochs = 1, .callbacks = {saves_after(1, folder / "a.ckpt")}})).fit(module, FixedLoader::of_rows(4, 4));
  Trainer(quiet_options(1)).fit(resumed, FixedLoader::of_rows(4, 4), {}, resume);
  CHECK(resumed.losses.size() == 2);
  struct OtherBatches : FixedLoader {
    using FixedLoader::FixedLoader;
    std::optional<std::int64_t> batch_size() const override { return 8; }
  };
  CHECK_THROWS_WITH(Trainer(quiet_options(1)).fit(resumed, std::make_shared<OtherBatches>(std::vector<Batch>{}), {}, resume),
                    Catch::Contains("within an epoch") && Catch::Contains("batches of 8"));
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
  resumed.fit(again, FixedLoader::of_rows(2, 4), {}, {.ckpt_path = folder / "a.ckpt"});
  CHECK(again.losses.empty());
  resumed.save_checkpoint(folder / "b.ckpt");
  options.max_epochs = 3;
  std::vector<std::vector<double>> losses;
  for (const char* file : {"a.ckpt", "b.ckpt"}) {
    Regression more;
    Trainer(options).fit(more, FixedLoader::of_rows(2, 4), {}, {.ckpt_path = folder / file});
    losses.push_back(more.losses);
  }
  CHECK(losses[0].size() == 2);
  CHECK(losses[0] == losses[1]);
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

TEST_CASE("a run that was saved in on_train_epoch_start writes the rates that hooks there found, and changes them once") {
  const auto rows_of = [](const TemporaryFolder& folder, const std::optional<std::string>& ckpt_path) {
    TrainerOptions options = quiet({.max_epochs = 4});
    options.logger = CsvLogger({.save_dir = folder.path(), .version = "0"});
    const auto halves = [](Trainer& trainer, Module&) {
      for (auto& group : trainer.optimizers()[0]->param_groups()) set_lr(group, 0.5 * get_lr(group));
    };
    const auto save = [&](const char* name) {
      return LambdaCallback({.on_train_epoch_start = [file = folder / name, saves = !ckpt_path](Trainer& trainer, Module&) {
        if (saves && trainer.current_epoch() == 2) trainer.save_checkpoint(file);
      }});
    };
    const LearningRateMonitorOptions after{.prefix = "after/"};
    options.callbacks = {save("first.ckpt"),         LearningRateMonitor(),
                         save("between.ckpt"),       LambdaCallback({.on_train_epoch_start = halves}),
                         LearningRateMonitor(after), save("last.ckpt")};
    struct Plain : Regression {
      OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.8); }
    } module;
    Trainer trainer(options);
    trainer.fit(module, FixedLoader::of_rows(2, 4), {}, {.ckpt_path = ckpt_path});
    return read_text(trainer.log_dir() / "metrics.csv");
  };
  torch::manual_seed(1);
  const TemporaryFolder folder;
  const std::string whole = rows_of(folder, std::nullopt);
  for (const char* name : {"lr-SGD", "after/lr-SGD", "0.8", "0.4", "0.2", "0.1", "0.05"})
    CHECK_THAT(whole, Catch::Contains(name));
  for (const char* name : {"first.ckpt", "between.ckpt", "last.ckpt"}) {
    INFO(name);
    CHECK(rows_of(folder, (folder / name).string()) == whole);
  }
}

namespace {

/// LEVIN_RESUME_SEED=… replays one program; LEVIN_RESUME_PROGRAMS=… runs so many, the first with that seed. From each of their
/// points, or from one of LEVIN_RESUME_STRIDE=….
struct ChosenPrograms {
  explicit ChosenPrograms(std::vector<std::uint64_t> given) : seeds(std::move(given)) {
    const char* one = std::getenv("LEVIN_RESUME_SEED");
    const char* count = std::getenv("LEVIN_RESUME_PROGRAMS");
    if (one != nullptr) seeds = {std::stoull(one)};
    if (count != nullptr) {
      seeds.resize(std::stoull(count));
      std::iota(seeds.begin(), seeds.end(), one != nullptr ? std::stoull(one) : 1);
    }
    const char* each = std::getenv("LEVIN_RESUME_STRIDE");
    stride = each != nullptr ? std::stoull(each) : one != nullptr || count != nullptr ? 1 : 2;
  }
  std::vector<std::uint64_t> seeds;
  std::size_t stride;
};

}  // namespace

TEST_CASE("generated programs of each source of data resume exactly from points at which hooks have them saved") {
  for (const std::string& source : resume_sources()) {
    const ResumePlan plan = first_resume_plan_of(source);
    INFO(source << " LEVIN_RESUME_SEED=" << plan.seed);
    const TemporaryFolder folder;
    CHECK(check_resume_plan(plan, folder.path(), 3) == "");
  }
}

TEST_CASE("generated programs resume exactly from every point at which hooks have them saved") {
  // 10, 13: the state of SpikeGuard, and statistics that StochasticWeightAveraging renews, after an end within an epoch; 16:
  // a part that a hook has frozen no longer drops out; 27: data that looks at the counters; 42: a group that a hook has added
  // and a schedule has changed.
  const ChosenPrograms programs({1, 2, 3, 4, 5, 6, 10, 13, 16, 27, 42});
  for (const std::uint64_t seed : programs.seeds) {
    INFO("LEVIN_RESUME_SEED=" << seed);
    const TemporaryFolder folder;
    CHECK(check_resume_plan(random_resume_plan(seed), folder.path(), programs.stride) == "");
  }
}

TEST_CASE("generated programs train by a session as by fit(), to the bit, and resume there from every point") {
  // 10: a step in whose validation the run was saved ends the epoch; 19: a local gradient, at an epoch's end.
  const ChosenPrograms programs({1, 2, 3, 4, 5, 6, 10, 19});
  for (const std::uint64_t seed : programs.seeds) {
    INFO("LEVIN_RESUME_SEED=" << seed);
    const TemporaryFolder folder;
    CHECK(check_session_plan(random_session_plan(seed), folder.path(), programs.stride) == "");
  }
}
