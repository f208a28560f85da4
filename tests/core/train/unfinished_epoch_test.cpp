#include <levin/levin.h>

#include <catch2/catch.hpp>

#include "levin/core/base/format.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// What a run did, one entry a hook: "T0.5" is batch 5 of epoch 0, "V0@6" a validation after step 6, "E0@6" on_train_epoch_end.
class Traced : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    trace.push_back(format("T{}.{}", current_epoch(), batch_idx));
    const at::Tensor loss = (layer_->forward(batch[0]) - torch::rand({1})).pow(2).mean();
    log("loss", loss, {.on_epoch = true});
    if (stop_at == trainer().total_batch_idx()) trainer().stop("the test says so");
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", (layer_->forward(batch[0]) - torch::rand({1})).pow(2).mean());
  }
  void on_validation_epoch_end() override { trace.push_back(format("V{}@{}", current_epoch(), global_step())); }
  void on_train_epoch_end() override {
    trace.push_back(format("E{}@{}", current_epoch(), global_step()));
    unfinished.push_back(trainer().epoch_is_unfinished());
    // As many do, and what a schedule of manual optimization does.
    for (auto& group : trainer().optimizers()[0]->param_groups()) set_lr(group, 0.5 * get_lr(group));
    log("drawn", torch::rand({1}).item<double>());
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::Adam>(parameters(), 0.1); }

  std::int64_t stop_at = -1;
  std::vector<std::string> trace;
  std::vector<bool> unfinished;

 private:
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(2, 1));
};

struct Ended {
  std::vector<std::string> trace;
  std::vector<bool> unfinished;
  at::Tensor weights;
  std::string rows;
  std::string reason;
};

/// The settings of a fit.
struct Fit {
  TrainerOptions options;
  std::int64_t stop_at = -1;
  bool knows_size = true;
};

/// Eight batches an epoch, a validation after each three of them, and a row after each four steps.
Ended run(const TemporaryFolder& folder, Fit fit, bool resumes = false) {
  TrainerOptions& options = fit.options;
  options.logger = CsvLogger({.save_dir = folder.path(), .version = "0"});
  options.log_every_n_steps = 4;
  options.val_check_interval = CheckInterval(Limit(3));
  options.callbacks = {ModelCheckpoint({.dirpath = folder.path(), .save_last = true}),
                       EarlyStopping({.monitor = "val_loss", .patience = 100, .check_on_train_epoch_end = false})};
  Trainer trainer(quiet(options));
  torch::manual_seed(resumes ? 2 : 1);
  Traced module;
  module.stop_at = fit.stop_at;
  RunOptions how;
  if (resumes) how.ckpt_path = folder / "last.ckpt";
  trainer.fit(module, FixedLoader::of_rows(8, 4, fit.knows_size), {FixedLoader::of_rows(2, 4)}, how);
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : module.parameters()) weights.push_back(parameter.detach().flatten());
  return {module.trace, module.unfinished, torch::cat(weights), read_text(trainer.log_dir() / "metrics.csv"),
          trainer.stop_reason()};
}

/// A run that `first` ended, resumed with `second`, did the same as one with `second` alone, but for the end of the first.
/// Returns the first.
Ended check_resumed(const Fit& first, const Fit& second, const std::string& next_batch = "") {
  const TemporaryFolder folder, other;
  const Ended ended = run(folder, first);
  CHECK(ended.unfinished == std::vector<bool>{true});
  const Ended resumed = run(folder, second, /*resumes=*/true);
  if (!next_batch.empty()) CHECK(resumed.trace.front() == next_batch);
  CHECK_FALSE(resumed.unfinished.front());
  const Ended whole = run(other, second);
  // Its end, and the validation of a stop, are the first one's alone.
  std::vector<std::string> trace(ended.trace.begin(), ended.trace.end() - 1);
  if (trace.size() + resumed.trace.size() > whole.trace.size()) trace.pop_back();
  trace.insert(trace.end(), resumed.trace.begin(), resumed.trace.end());
  CHECK(trace == whole.trace);
  CHECK(torch::equal(resumed.weights, whole.weights));
  CHECK(resumed.rows == whole.rows);
  return ended;
}

}  // namespace

TEST_CASE("a run that max_steps has ended inside an epoch resumes there, as one that was not ended") {
  // With a validation after the last batch, and without; within windows of three batches.
  const auto [accumulate, steps, next] =
      GENERATE(table<std::int64_t, std::int64_t, std::string>({{1, 5, "T0.5"}, {1, 6, "T0.6"}, {3, 2, "T0.6"}}));
  const auto fit = [accumulate = accumulate](std::int64_t max_steps) {
    return Fit{.options = {.max_epochs = -1, .max_steps = max_steps, .accumulate_grad_batches = accumulate}};
  };
  const Ended first = check_resumed(fit(steps), fit(steps + 7), next);
  CHECK(first.trace.back() == format("E0@{}", steps));
  CHECK(first.reason == format("max_steps={} reached", steps));
}

TEST_CASE("a run that was asked to stop inside an epoch resumes there, also within a window of batches") {
  const std::int64_t accumulate = GENERATE(1, 4);
  const bool knows_size = GENERATE(true, false);
  const TrainerOptions options{.max_epochs = 2, .accumulate_grad_batches = accumulate};
  const Ended first = check_resumed({.options = options, .stop_at = 4, .knows_size = knows_size},
                                    {.options = options, .knows_size = knows_size});
  const std::int64_t steps = accumulate == 1 ? 5 : 1;
  // As in Lightning, a validation and a row come with it.
  CHECK(first.trace == std::vector<std::string>{"T0.0", "T0.1", "T0.2", accumulate == 1 ? "V0@3" : "V0@0", "T0.3", "T0.4",
                                                format("V0@{}", steps), format("E0@{}", steps)});
  CHECK(first.reason == "the test says so");
}

TEST_CASE("a run whose time was up inside an epoch resumes there with more of it") {
  check_resumed({.options = {.max_epochs = 2, .max_time = Duration(0.0001)}}, {.options = {.max_epochs = 2}});
}

TEST_CASE("a run that resumes where its limits still hold trains nothing, and ends as before") {
  const TemporaryFolder folder;
  const bool stops = GENERATE(true, false);
  const Ended first = run(folder, {.options = {.max_epochs = -1, .max_steps = stops ? 100 : 5}, .stop_at = stops ? 4 : -1});
  const Ended second = run(folder, {.options = {.max_epochs = -1, .max_steps = 5}}, /*resumes=*/true);
  CHECK(second.trace == (stops ? std::vector<std::string>{"V0@5", "E0@5"} : std::vector<std::string>{"E0@5"}));
  CHECK(second.rows == first.rows);
  CHECK(torch::equal(second.weights, first.weights));
}

TEST_CASE("what hooks of an unfinished epoch's end log and draw does not count, nor does what monitors see there") {
  const TemporaryFolder folder;
  run(folder, {.options = {.max_epochs = -1, .max_steps = 5}});
  const Checkpoint checkpoint = Checkpoint::load(folder / "last.ckpt");
  CHECK(checkpoint.manifest.at("epoch") == Value(0));
  CHECK(checkpoint.manifest.at("loops").at("place") == Value("stopped"));
  CHECK(checkpoint.manifest.at("loops").at("batches_done") == Value(5));
  // The validation after the third batch, and none at the end.
  const Value& stopping = checkpoint.manifest.at("callbacks").at("EarlyStopping{'monitor': 'val_loss', 'mode': 'min'}");
  CHECK(stopping.at("wait_count").as_int() == 0);
  CHECK(stopping.at("best_score").as_double() < 1e9);
}

TEST_CASE("a stop that is taken back at an unfinished epoch's end leaves the next one to be trained") {
  const auto takes_back = [](Trainer& trainer, Module&) { trainer.clear_stop(); };
  Traced module;
  module.stop_at = 4;
  Trainer(quiet({.max_epochs = 2, .callbacks = {LambdaCallback({.on_train_epoch_end = takes_back})}}))
      .fit(module, FixedLoader::of_rows(8, 4));
  CHECK(module.trace[5] == "E0@5");
  CHECK(module.trace[6] == "T1.0");
  CHECK(module.trace.back() == "E1@13");
}

TEST_CASE("a Trainer fits again inside an epoch with ckpt_path, and from the next one without") {
  const TemporaryFolder folder;
  const LoaderPtr data = FixedLoader::of_rows(8, 4);
  torch::manual_seed(1);
  Trainer trainer(quiet({.max_epochs = 2, .callbacks = {ModelCheckpoint({.dirpath = folder.path(), .save_last = true})}}));
  Traced module;
  module.stop_at = 4;
  trainer.fit(module, data);
  module.stop_at = -1;
  SECTION("with") {
    trainer.fit(module, data, {}, {.ckpt_path = "last"});
    torch::manual_seed(1);
    Traced whole;
    Trainer(quiet({.max_epochs = 2})).fit(whole, data);
    std::erase(module.trace, "E0@5");
    CHECK(module.trace == whole.trace);
    for (std::size_t index = 0; index < 2; ++index) CHECK(torch::equal(module.parameters()[index], whole.parameters()[index]));
  }
  SECTION("without") {
    trainer.fit(module, data);
    CHECK(module.trace[6] == "T1.0");
    CHECK(module.trace.back() == "E1@13");
  }
}
