// What a session does with each part of a run: the table of docs/session.md, row by row.
#include <levin/levin.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>

#include "support/file_text.h"
#include "support/fixed_loader.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// Classifies rows of two numbers, with a layer to drop out and one to freeze.
class Classifier : public Module {
 public:
  Classifier() {
    torch::manual_seed(1);
    encoder_ = register_module("encoder", torch::nn::Linear(2, 6));
    head_ = register_module("head", torch::nn::Linear(6, 1));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor hidden = torch::dropout(torch::relu(encoder_->forward(batch["rows"])), 0.3, is_training());
    const at::Tensor loss = head_->forward(hidden).square().mean();
    log("loss", loss, {.on_step = true, .on_epoch = true});
    return loss;
  }
  OptimizerSetups configure_optimizers() override { return Adam(parameters(), 0.05); }

 private:
  torch::nn::Linear encoder_ = nullptr, head_ = nullptr;
};

/// Batches of two rows.
std::shared_ptr<FixedLoader> data() { return FixedLoader::of_rows(4, 2); }

TrainerOptions options_in(const std::filesystem::path& folder) {
  return {.max_epochs = 3,
          .logger = CsvLogger(),
          .log_every_n_steps = 1,
          .enable_checkpointing = false,
          .enable_progress_bar = false,
          .enable_model_summary = false,
          .default_root_dir = folder,
          .log_level = LogLevel::kError};
}

/// The same training by fit() and by a session.
struct Ended {
  std::vector<at::Tensor> weights;
  std::string columns;  ///< of metrics.csv
  std::int64_t steps = 0;
  std::string error;
};

template <class Train>
Ended end_of(const std::function<void(TrainerOptions&)>& change, const Train& train) {
  const TemporaryFolder folder;
  TrainerOptions options = options_in(folder.path());
  change(options);
  Classifier module;
  torch::manual_seed(7);
  Ended ended;
  try {
    const auto [steps, log_dir] = train(options, module);
    ended.steps = steps;
    const bool has_rows = std::filesystem::exists(log_dir / "metrics.csv");  // not in a fast_dev_run
    const std::string rows = has_rows ? read_text(log_dir / "metrics.csv") : "";
    ended.columns = rows.substr(0, rows.find('\n'));
  } catch (const std::exception& error) {
    ended.error = error.what();
  }
  for (const at::Tensor& parameter : module.parameters()) ended.weights.push_back(parameter.detach().clone());
  return ended;
}

Ended fitted(const std::function<void(TrainerOptions&)>& change) {
  return end_of(change, [](const TrainerOptions& options, Classifier& module) {
    Trainer trainer(options);
    trainer.fit(module, data());
    return std::pair(trainer.global_step(), trainer.log_dir());
  });
}

Ended stepped(const std::function<void(TrainerOptions&)>& change) {
  return end_of(change, [](const TrainerOptions& options, Classifier& module) {
    Session session(options, module);
    session.begin();
    const auto batches = data();
    while (!session.should_stop()) {
      batches->start_epoch(0);
      while (const auto batch = batches->next()) {
        if (session.step(*batch).ends_epoch) break;
      }
      session.end_epoch();
    }
    session.end();
    return std::pair(session.global_step(), session.trainer().log_dir());
  });
}

void check_same(const std::function<void(TrainerOptions&)>& change) {
  const Ended fit = fitted(change), session = stepped(change);
  CHECK(fit.error == "");
  CHECK(session.error == "");
  CHECK(session.steps == fit.steps);
  CHECK(session.columns == fit.columns);
  CHECK(std::ranges::equal(session.weights, fit.weights, [](const auto& one, const auto& other) { return one.equal(other); }));
}

/// Arguments that a callback cannot do without here.
const std::map<std::string, Value::Map>& needed_arguments() {
  static const std::map<std::string, Value::Map> all = {
      {"BackboneFinetuning", {{"backbone", "encoder"}, {"unfreeze_backbone_at_epoch", 1}}},
      {"EarlyStopping", {{"monitor", "loss_epoch"}, {"check_on_train_epoch_end", true}, {"patience", 1}}},
      {"GradientAccumulationScheduler", {{"scheduling", Value::Map{{"0", 1}, {"1", 2}}}}},
      {"ModelPruning", {{"pruning_fn", "l1_unstructured"}, {"amount", 2}}},
      {"OnExceptionCheckpoint", {{"dirpath", "checkpoints"}}},
      {"PredictionWriter", {{"dirpath", "predictions"}}},
      {"SpikeDetection", {{"atol", 1e9}, {"rtol", 1e9}}},
      {"SpikeGuard", {{"warmup", 2}, {"window", 3}}},
      {"StochasticWeightAveraging", {{"swa_lrs", 0.01}}},
      {"Timer", {{"duration", "01:00:00:00"}}},
  };
  return all;
}

/// Callbacks that read training data themselves.
const std::set<std::string> kRefused = {"BatchSizeFinder", "CheckData", "CheckGradients", "CheckInit", "LearningRateFinder"};

TEST_CASE("every callback does in a session what it does in fit(), or is refused in a sentence") {
  const std::string page = read_text(std::string(LEVIN_SOURCE_DIR) + "/docs/session.md");
  for (const ClassInfo* const info : Registry<Callback>::instance().classes()) {
    INFO(info->name);
    const auto change = [&](TrainerOptions& options) {
      options.enable_progress_bar = info->name.ends_with("ProgressBar");
      if (info->name.ends_with("Checkpoint")) options.enable_checkpointing.reset();
      options.enable_model_summary = info->name == "ModelSummary";
      const auto arguments = needed_arguments().find(info->name);
      options.callbacks = {
          {Value(info->name), Value(arguments == needed_arguments().end() ? Value::Map{} : arguments->second)}};
    };
    if (!kRefused.contains(info->name)) {
      check_same(change);
      continue;
    }
    CHECK_THAT(stepped(change).error, Catch::Contains("A Session has no training data to read"));
    CHECK(page.find("`" + info->name + "`") != std::string::npos);
  }
}

TEST_CASE("options of the Trainer do in a session what they do in fit()") {
  using Change = std::function<void(TrainerOptions&)>;
  const auto& [name, change] = GENERATE(table<std::string, Change>({
      {"precision", [](TrainerOptions& options) { options.precision = PrecisionFormat::kBfloat16Mixed; }},
      {"accumulate_grad_batches", [](TrainerOptions& options) { options.accumulate_grad_batches = 2; }},
      {"gradient_clip_val", [](TrainerOptions& options) { options.gradient_clip_val = 0.1; }},
      {"max_steps", [](TrainerOptions& options) { options.max_steps = 5; }},
      {"min_epochs", [](TrainerOptions& options) { options.min_epochs = 2; }},
      {"max_time", [](TrainerOptions& options) { options.max_time = Duration{std::chrono::hours(1)}; }},
      {"limit_train_batches", [](TrainerOptions& options) { options.limit_train_batches = Limit(std::int64_t{3}); }},
      {"fast_dev_run", [](TrainerOptions& options) { options.fast_dev_run = 1; }},
      {"detect_anomaly", [](TrainerOptions& options) { options.detect_anomaly = true; }},
      {"deterministic", [](TrainerOptions& options) { options.deterministic = true; }},
      {"cuda_graph", [](TrainerOptions& options) { options.cuda_graph = CudaGraph::kAuto; }},
      {"profiler",
       [](TrainerOptions& options) {
         options.profiler = {Value("simple"), Value(Value::Map{})};
       }},
      {"profiler, of PyTorch",
       [](TrainerOptions& options) {
         options.profiler = {Value("torch"), Value(Value::Map{})};
       }},
      {"enable_progress_bar", [](TrainerOptions& options) { options.enable_progress_bar = true; }},
      {"enable_checkpointing", [](TrainerOptions& options) { options.enable_checkpointing = true; }},
      {"TensorBoardLogger",
       [](TrainerOptions& options) {
         options.logger = std::vector<Component<Logger>>{CsvLogger(), {Value("TensorBoardLogger"), Value(Value::Map{})}};
       }},
  }));
  INFO(name);
  check_same(change);
}

TEST_CASE("StochasticWeightAveraging, which renews statistics from training data, is refused with layers that have some") {
  struct Normalized : Classifier {
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(2));
  };
  const TemporaryFolder folder;
  TrainerOptions options = options_in(folder.path());
  options.callbacks = {{Value("StochasticWeightAveraging"), Value(Value::Map{{"swa_lrs", 0.01}})}};
  Normalized module;
  Session session(options, module);
  CHECK_THROWS_WITH(session.begin(), Catch::Contains("a Session has none to read"));
}

}  // namespace
}  // namespace levin::test
