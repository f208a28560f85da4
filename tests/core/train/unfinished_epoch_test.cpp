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
  std::vector<at::Tensor> weights;
  std::string rows;
  std::string reason;
};

/// The settings of a fit. The last one resumes from `ckpt_path`.
struct Fit {
  TrainerOptions options;
  std::string ckpt_path = {};
  std::int64_t stop_at = -1;
  bool knows_size = true;
};

/// Eight batches an epoch, a validation after each three of them, and a row after each four steps.
Ended run(const TemporaryFolder& folder, Fit fit) {
  TrainerOptions& options = fit.options;
  options.logger = CsvLogger({.save_dir = folder.path(), .version = "0"});
  options.log_every_n_steps = 4;
  options.val_check_interval = CheckInterval(Limit(3));
  options.callbacks = {ModelCheckpoint({.dirpath = folder / "checkpoints", .save_last = true}),
                       EarlyStopping({.monitor = "val_loss", .patience = 100, .check_on_train_epoch_end = false})};
  Trainer trainer(quiet(options));
  torch::manual_seed(fit.ckpt_path.empty() ? 1 : 2);
  Traced module;
  module.stop_at = fit.stop_at;
  RunOptions how;
  if (!fit.ckpt_path.empty()) how.ckpt_path = (folder / fit.ckpt_path).string();
  trainer.fit(module, FixedLoader::of_rows(8, 4, fit.knows_size), {FixedLoader::of_rows(2, 4)}, how);
  Ended ended{module.trace, module.unfinished, {}, read_text(trainer.log_dir() / "metrics.csv"), trainer.stop_reason()};
  for (const at::Tensor& parameter : module.parameters()) ended.weights.push_back(parameter.detach().clone());
  return ended;
}

/// Two runs, the second resumed from the end of the first, did the same as a whole run, except for the end of the first: the
/// last `of_end` entries of its trace.
void check_same(const Ended& first, const Ended& second, const Ended& whole, std::size_t of_end) {
  std::vector<std::string> trace(first.trace.begin(), first.trace.end() - static_cast<std::ptrdiff_t>(of_end));
  trace.insert(trace.end(), second.trace.begin(), second.trace.end());
  CHECK(trace == whole.trace);
  REQUIRE(second.weights.size() == whole.weights.size());
  for (std::size_t index = 0; index < whole.weights.size(); ++index) {
    CHECK(torch::equal(second.weights[index], whole.weights[index]));
  }
  CHECK(second.rows == whole.rows);
}

constexpr const char* kLast = "checkpoints/last.ckpt";

}  // namespace

TEST_CASE("a run that max_steps has ended inside an epoch goes on there, as one that was not ended") {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  const std::int64_t accumulate = GENERATE(1, 3);
  // With a validation after the last batch, and without.
  const std::int64_t steps = accumulate == 1 ? GENERATE(5, 6) : 2;
  const auto options = [&](std::int64_t max_steps) {
    return TrainerOptions{.max_epochs = -1, .max_steps = max_steps, .accumulate_grad_batches = accumulate};
  };
  const Ended first = run(folder, {.options = options(steps)});
  CHECK(first.trace.back() == format("E0@{}", steps));
  CHECK(first.unfinished == std::vector<bool>{true});
  CHECK(first.reason == format("max_steps={} reached", steps));
  const Ended second = run(folder, {.options = options(steps + 7), .ckpt_path = kLast});
  CHECK(second.trace.front() == (steps == 5 ? "T0.5" : "T0.6"));
  CHECK(second.unfinished.front() == false);
  check_same(first, second, run(other, {.options = options(steps + 7)}), 1);
}

TEST_CASE("a run that was asked to stop inside an epoch goes on there, also within a window of batches") {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  const std::int64_t accumulate = GENERATE(1, 4);
  const bool knows_size = GENERATE(true, false);
  const TrainerOptions options{.max_epochs = 2, .accumulate_grad_batches = accumulate};
  const Ended first = run(folder, {.options = options, .stop_at = 4, .knows_size = knows_size});
  const std::int64_t steps = accumulate == 1 ? 5 : 1;
  // As in Lightning, a validation and a row come with it.
  CHECK(first.trace == std::vector<std::string>{"T0.0", "T0.1", "T0.2", accumulate == 1 ? "V0@3" : "V0@0", "T0.3", "T0.4",
                                                format("V0@{}", steps), format("E0@{}", steps)});
  CHECK(first.reason == "the test says so");
  const Ended second = run(folder, {.options = options, .ckpt_path = kLast, .knows_size = knows_size});
  check_same(first, second, run(other, {.options = options, .knows_size = knows_size}), 2);
}

TEST_CASE("a run whose time was up inside an epoch goes on there with more of it") {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  const Ended first = run(folder, {.options = {.max_epochs = 2, .max_time = Duration(0.0001)}});
  CHECK(first.unfinished == std::vector<bool>{true});
  const Ended second = run(folder, {.options = {.max_epochs = 2}, .ckpt_path = kLast});
  // Behind which batch, and whether behind a validation, is a matter of time.
  const bool validates = first.trace.at(first.trace.size() - 2).starts_with("V") && first.trace.size() != 6;
  check_same(first, second, run(other, {.options = {.max_epochs = 2}}), validates ? 2 : 1);
}

TEST_CASE("a run that resumes where its limits still hold trains nothing, and ends as before") {
  const TemporaryFolder folder;
  const bool stops = GENERATE(true, false);
  const TrainerOptions options{.max_epochs = -1, .max_steps = stops ? 100 : 5};
  const Ended first = run(folder, {.options = options, .stop_at = stops ? 4 : -1});
  const Ended second = run(folder, {.options = {.max_epochs = -1, .max_steps = 5}, .ckpt_path = kLast});
  CHECK(second.trace == (stops ? std::vector<std::string>{"V0@5", "E0@5"} : std::vector<std::string>{"E0@5"}));
  CHECK(second.rows == first.rows);
  for (std::size_t index = 0; index < first.weights.size(); ++index) {
    CHECK(torch::equal(second.weights[index], first.weights[index]));
  }
}

TEST_CASE("what hooks of an unfinished epoch's end log and draw does not count, nor does what monitors see there") {
  const TemporaryFolder folder;
  run(folder, {.options = {.max_epochs = -1, .max_steps = 5}});
  const Checkpoint checkpoint = Checkpoint::load(folder / kLast);
  CHECK(checkpoint.manifest.at("epoch") == Value(0));
  CHECK(checkpoint.manifest.at("loops").at("place") == Value("stopped"));
  CHECK(checkpoint.manifest.at("loops").at("batches_done") == Value(5));
  // The validation after the third batch, and none at the end.
  const Value& stopping = checkpoint.manifest.at("callbacks").at("EarlyStopping{'monitor': 'val_loss', 'mode': 'min'}");
  CHECK(stopping.at("wait_count").as_int() == 0);
  CHECK(stopping.at("best_score").as_double() < 1e9);
}

TEST_CASE("who takes a stop back at an unfinished epoch's end goes on with the next one") {
  const auto takes_back = [](Trainer& trainer, Module&) { trainer.clear_stop(); };
  Trainer trainer(quiet({.max_epochs = 2, .callbacks = {LambdaCallback({.on_train_epoch_end = takes_back})}}));
  Traced module;
  module.stop_at = 4;
  trainer.fit(module, FixedLoader::of_rows(8, 4));
  CHECK(module.trace[5] == "E0@5");
  CHECK(module.trace[6] == "T1.0");
  CHECK(module.trace.back() == "E1@13");
}

TEST_CASE("a Trainer fits again inside an epoch with ckpt_path, and from the next one without") {
  const TemporaryFolder folder;
  const auto options = [&] {
    return quiet({.max_epochs = 2, .callbacks = {ModelCheckpoint({.dirpath = folder.path(), .save_last = true})}});
  };
  const LoaderPtr data = FixedLoader::of_rows(8, 4);
  torch::manual_seed(1);
  Trainer trainer(options());
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
    for (std::size_t index = 0; index < 2; ++index) {
      CHECK(torch::equal(module.parameters()[index], whole.parameters()[index]));
    }
  }
  SECTION("without") {
    trainer.fit(module, data);
    CHECK(module.trace[6] == "T1.0");
    CHECK(module.trace.back() == "E1@13");
  }
}
