// What a fit does before its first epoch, and again between epochs: a validation, and asking for loaders.
#include <catch2/catch.hpp>
#include <filesystem>

#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/config/value_json.h"
#include "levin/core/random/seed.h"
#include "levin/data/data_loader.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

Value lightning(const char* what) {
  return parse_json(read_text(LEVIN_SOURCE_DIR "/tests/core/train/flag_references.json")).at(what);
}

/// The program of make_flag_references.py.
class OneNumber final : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = mean_of("train", batch);
    log("loss", loss, {.on_step = false, .on_epoch = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", mean_of("val", batch), {.on_step = true, .on_epoch = true});
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.5); }

  at::Tensor weight = register_parameter("weight", torch::full({1}, 0.5));
  std::map<std::string, std::vector<std::vector<double>>> seen;

 private:
  at::Tensor mean_of(const char* stage, const Batch& batch) {
    const at::Tensor numbers = batch[0].to(torch::kDouble).contiguous();
    seen[stage].emplace_back(numbers.data_ptr<double>(), numbers.data_ptr<double>() + numbers.numel());
    return (weight * batch[0]).mean();
  }
};

LoaderPtr numbers_up_to(double last, bool shuffle = false) {
  return std::make_shared<DataLoader>(std::make_shared<TensorDataset>(Batch{{"x", torch::arange(1.0, last + 1)}}),
                                      DataLoaderOptions{.batch_size = 2, .shuffle = shuffle});
}

}  // namespace

TEST_CASE("a validation before training has validate()'s hooks, before the first epoch, and Lightning's rows") {
  HookTrace trace;
  RecordingModule module(trace);
  TrainerOptions options = quiet({.max_epochs = 1, .callbacks = {std::make_shared<RecordingCallback>(trace)}});
  Trainer(options).validate(module, {FixedLoader::of_rows(2, 3)}, {.verbose = false});
  const std::string whole = trace.str();
  const std::size_t begin = whole.find("M.on_validation_model_eval");
  const std::string validation = whole.substr(begin, whole.find("C.teardown") - begin);
  trace.clear();
  options.num_sanity_val_steps = 2;
  options.validate_before_training = true;
  Trainer(options).fit(module, FixedLoader::of_rows(1, 3), {FixedLoader::of_rows(2, 3)});
  CHECK_THAT(trace.str(),
             Catch::Contains("M.on_train_start " + validation + "C.on_train_epoch_start") && !Catch::Contains("sanity"));

  const auto logger = std::make_shared<RowsOf>();
  options.logger = std::static_pointer_cast<Logger>(logger);
  options.log_every_n_steps = 1;
  OneNumber numbers;
  Trainer(options).fit(numbers, numbers_up_to(10), {numbers_up_to(6)});
  const Value expected = lightning("validation_before_training");
  REQUIRE(logger->rows.size() == expected.size());
  for (std::size_t index = 0; index < expected.size(); ++index) {
    const MetricRow& row = logger->rows[index];
    Value values = expected.as_list()[index].as_list()[1];
    CAPTURE(index, to_json(row), to_json(values));
    CHECK(row.values.size() + (row.epoch_end ? 1 : 0) == values.size());
    for (const auto& [name, value] : row.values) CHECK(value == Approx(values.at(name).as_double()));
    CHECK(row.step == (index < 4 ? 0 : 4));
  }
}

TEST_CASE("a validation before training is there for monitors to see, and nothing that they decide on; training is the same") {
  const MonitorMode mode = GENERATE(MonitorMode::kMin, MonitorMode::kMax);
  // The weight falls with each step: of mode max an untrained value would be the best.
  const auto fit = [&](bool validates) {
    const TemporaryFolder folder;
    const auto stopping = std::make_shared<EarlyStopping>(
        EarlyStoppingOptions{.monitor = "val_loss", .patience = 100, .mode = mode, .check_on_train_epoch_end = false});
    const auto saving = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
        .dirpath = folder.path(), .monitor = "val_loss", .mode = mode, .save_on_train_epoch_end = false});
    double at_start = 0;
    const auto watch =
        std::make_shared<LambdaCallback>(LambdaCallbackOptions{.on_train_epoch_start = [&](Trainer& trainer, Module&) {
          if (trainer.current_epoch() == 0) at_start = trainer.monitored("val_loss").value_or(-1);
        }});
    TrainerOptions options = quiet({.max_epochs = 2, .callbacks = {watch, stopping, saving}, .val_check_interval = 2});
    options.validate_before_training = validates;
    seed_everything(5);
    OneNumber module;
    Trainer(options).fit(module, numbers_up_to(10, /*shuffle=*/true), {numbers_up_to(6, /*shuffle=*/true)});
    CHECK(at_start == Approx(validates ? 1.75 : -1));
    return to_json(Value::Map{{"stopping", stopping->state_dict()},
                              {"best", *saving->best_model_score()},
                              {"file", std::filesystem::path(saving->best_model_path()).filename().string()},
                              {"weight", module.weight.item<double>()},
                              {"random", torch::rand({1}).item<double>()}});
  };
  CHECK(fit(true) == fit(false));
}

TEST_CASE("overfit_batches takes the first batches of each loader, in order, and a warning says that none shuffles") {
  const TemporaryFolder folder;
  OneNumber module;
  Trainer trainer(quiet({.max_epochs = 2, .overfit_batches = 2, .log_file = folder / "console.txt"}));
  trainer.fit(module, numbers_up_to(10, /*shuffle=*/true), {numbers_up_to(6, /*shuffle=*/true)});
  using Seen = std::map<std::string, std::vector<std::vector<double>>>;
  CHECK(module.seen == OptionType<Seen>::read(lightning("overfitted")));
  CHECK_THAT(read_text(folder / "console.txt"),
             Catch::Contains("overfit_batches takes the first batches in the dataset's order"));
}

TEST_CASE("loaders are asked for in Lightning's epochs, and by a run that resumes as in the epoch in which they were") {
  using Epochs = std::vector<std::int64_t>;
  const std::int64_t every = GENERATE(0, 1, 2, 3);
  const TemporaryFolder folder;
  const auto saving = std::make_shared<LambdaCallback>(LambdaCallbackOptions{
      .on_train_batch_end = [&](Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx) {
        if (batch_idx == 1) trainer.save_checkpoint(folder / std::to_string(trainer.current_epoch()));
      }});
  const auto asked_in_fit = [&](const RunOptions& run) {
    std::map<std::string, Epochs> asked;
    AskedData data;
    ScriptedLine module;
    Trainer trainer(quiet({.max_epochs = 5, .callbacks = {saving}, .reload_dataloaders_every_n_epochs = every}));
    data.on_ask = [&](const std::string& stage) { asked[stage].push_back(trainer.current_epoch()); };
    trainer.fit(module, data, run);
    CHECK(asked["val"] == asked["train"]);
    return asked["train"];
  };
  const auto expected = OptionType<Epochs>::read(lightning("reloaded").at(std::to_string(every)).at("train"));
  CHECK(asked_in_fit({}) == expected);
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    // From the last request before the checkpoint on.
    const auto last = std::prev(std::ranges::upper_bound(expected, epoch));
    CHECK(asked_in_fit({.ckpt_path = (folder / std::to_string(epoch)).string()}) == Epochs(last, expected.end()));
  }
}
