// Callbacks in cases that Lightning's own tests look at.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <limits>

#include "levin/callbacks/backbone_finetuning.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/gradient_accumulation_scheduler.h"
#include "levin/callbacks/learning_rate_monitor.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/timer.h"
#include "levin/callbacks/weight_averaging.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/lr_schedulers.h"
#include "support/error_of.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
namespace fs = std::filesystem;

using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using Files = std::set<std::string>;

namespace {

Files files_in(const fs::path& folder) {
  Files names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

/// Options of a run with these callbacks, which saves where they do.
TrainerOptions with(std::vector<std::shared_ptr<Callback>> callbacks, std::int64_t max_epochs) {
  TrainerOptions options;
  options.max_epochs = max_epochs;
  for (auto& callback : callbacks) options.callbacks.emplace_back(std::move(callback));
  return quiet(std::move(options));
}

/// Logs one of these values in each validation, in turn.
void validates_to(ScriptedLine& module, const std::string& name, Doubles values) {
  module.on["on_validation_epoch_end"] = [name, values = std::move(values), at = std::size_t{0}](auto& self, auto) mutable {
    if (self.trainer().sanity_checking()) return;
    self.log(name, values.at(std::min(at, values.size() - 1)));
    ++at;
  };
}

struct CountsSaves final : Logger {
  void after_save_checkpoint(const fs::path&) override { ++saves; }
  int saves = 0;
};

}  // namespace

TEST_CASE("steps are as many as the accumulation of each epoch leaves") {
  const auto [scheduling, steps, weight] = GENERATE(table<AccumulationSchedule, Integers, double>(
      {{{{1, 2}, {3, 4}}, {10, 15, 20, 23}, -55 - 27.5 - 27.5 - (2.5 + 6.5 + 9.5)},
       {{{0, 2}, {2, 1}}, {5, 10, 20, 30}, -27.5 - 27.5 - 55 - 55}}));
  ScriptedLine module;
  Integers after;
  module.on["on_train_epoch_end"] = [&](auto& self, auto) { after.push_back(self.global_step()); };
  Trainer(
      with({std::make_shared<GradientAccumulationScheduler>(GradientAccumulationSchedulerOptions{.scheduling = scheduling})},
           4))
      .fit(module, counted(10));
  CHECK(after == steps);
  CHECK(module.value() == Approx(weight).epsilon(1e-12));
}

namespace {

constexpr const char* kParts[] = {"first", "second", "head"};

/// Parts that three optimizers train as far as they are not frozen, of which two have schedules.
struct Parts final : ScriptedLine {
  Parts() {
    set_automatic_optimization(false);
    for (const char* name : kParts) register_module(name, torch::nn::Linear(1, 1));
    optimizers = [](auto& self) -> OptimizerSetups {
      std::vector<at::Tensor> trained = self.parameters();
      std::erase_if(trained, [](const at::Tensor& each) { return !each.requires_grad(); });
      const StepLr::Options halves{.step_size = 1, .gamma = 0.5};
      return {{std::make_shared<torch::optim::SGD>(trained, 0.1), halves},
              {std::make_shared<torch::optim::Adam>(trained, 0.1), halves},
              {std::make_shared<torch::optim::AdamW>(trained, 0.1)}};
    };
    step = [](auto&, const Batch&, auto) { return StepOutput(); };
    on["on_train_epoch_end"] = [](auto& self, auto) { self.lr_scheduler(0).step(), self.lr_scheduler(1).step(); };
  }
};

struct OneByOne final : BaseFinetuning {
  void freeze_before_training(Module& module) override {
    for (const char* name : kParts) freeze(*module.named_children()[name]);
  }
  void finetune_function(Module& module, std::int64_t epoch, torch::optim::Optimizer& optimizer) override {
    const auto add = [&](const char* name) { unfreeze_and_add_param_group(*module.named_children()[name], optimizer, 0.1); };
    const bool is_adam = dynamic_cast<torch::optim::Adam*>(&optimizer) != nullptr;
    if (epoch == 1 && dynamic_cast<torch::optim::SGD*>(&optimizer) != nullptr) add("first");
    if (epoch == 2 && is_adam) add("head");
    if (epoch == 3 && is_adam) add("second");
  }
};

}  // namespace

TEST_CASE("parts that are unfrozen one by one have rates of their own, of several optimizers with and without schedules") {
  Parts module;
  const auto monitor = std::make_shared<LearningRateMonitor>();
  TrainerOptions options = with({std::make_shared<OneByOne>(), monitor}, 5);
  options.logger = std::make_shared<RowsOf>();
  Trainer(options).fit(module, counted(2));
  const std::map<std::string, Doubles> expected{
      {"lr-AdamW", {0.1, 0.1, 0.1, 0.1, 0.1}},    {"lr-SGD/pg1", {0.1, 0.05, 0.025, 0.0125, 0.00625}},
      {"lr-SGD/pg2", {0.1, 0.05, 0.025, 0.0125}}, {"lr-Adam/pg1", {0.1, 0.05, 0.025, 0.0125, 0.00625}},
      {"lr-Adam/pg2", {0.1, 0.05, 0.025}},        {"lr-Adam/pg3", {0.1, 0.05}}};
  CHECK(monitor->lrs() == expected);
}

TEST_CASE("a checkpoint of an epoch has its step, its score and its schedule's rate") {
  const TemporaryFolder folder;
  const bool of_training = GENERATE(false, true);
  const std::string monitor = of_training ? "train_log_epoch" : "val_log";
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) {
    self.log("train_log", 10 * self.current_epoch() + index, {.on_step = true, .on_epoch = true});
  };
  module.on["validation_step"] = [](auto& self, std::int64_t index) { self.log("val_log", 10 * self.current_epoch() + index); };
  module.optimizers = [](auto& self) -> OptimizerSetups {
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 0.1), StepLr::Options{.step_size = 1, .gamma = 2}};
  };
  const auto checkpoint = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
      .dirpath = folder.path(), .filename = "{" + monitor + ":.1f}-{epoch}", .monitor = monitor, .save_top_k = -1});
  Trainer(with({checkpoint}, 3)).fit(module, counted(5), of_training ? LoaderList{} : LoaderList{counted(7)});
  for (int epoch = 0; epoch < 3; ++epoch) {
    const double score = 10.0 * epoch + (of_training ? 2 : 3);
    const std::string name = monitor + "=" + std::to_string(static_cast<int>(score)) + ".0-epoch=" + std::to_string(epoch);
    const Value manifest = Checkpoint::load_manifest(folder / (name + ".ckpt"));
    CHECK(manifest.at("epoch") == Value(epoch));
    CHECK(manifest.at("global_step") == Value(5 * (epoch + 1)));
    CHECK(manifest.at("callbacks").at(checkpoint->state_key()).at("current_score") == Value(score));
    CHECK(manifest.at("lr_schedulers").as_list().at(0).at("last_epoch") == Value(epoch + 1));
    CHECK(manifest.at("lr_schedulers").as_list().at(0).at("_last_lr").as_list().at(0) == Value(0.1 * std::pow(2, epoch + 1)));
  }
}

TEST_CASE("checkpoints of validations within an epoch are behind their batches, and before the epoch's schedule has stepped") {
  const TemporaryFolder folder;
  const auto [share, per_validation] = GENERATE(table<double, int>({{0.25, 3}, {0.42, 5}}));
  ScriptedLine module;
  module.optimizers = [](auto& self) -> OptimizerSetups {
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 0.1), StepLr::Options{.step_size = 1, .gamma = 2}};
  };
  validates_to(module, "val_log", {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2});
  const auto checkpoint = std::make_shared<ModelCheckpoint>(
      ModelCheckpointOptions{.dirpath = folder.path(), .filename = "{step}", .monitor = "val_log", .save_top_k = -1});
  TrainerOptions options = with({checkpoint}, 3);
  options.val_check_interval = share;
  Trainer(options).fit(module, counted(12), {counted(1)});
  std::size_t files = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int batch = per_validation; batch <= 12; batch += per_validation, ++files) {
      const std::string file = "step=" + std::to_string(12 * epoch + batch) + ".ckpt";
      INFO(file);
      const Value manifest = Checkpoint::load_manifest(folder / file);
      CHECK(manifest.at("epoch") == Value(epoch));
      const int steps = epoch + (batch == 12 ? 1 : 0);  // the schedule's, behind the last batch
      CHECK(manifest.at("lr_schedulers").as_list().at(0).at("last_epoch") == Value(steps));
    }
  }
  CHECK(files_in(folder.path()).size() == files);
}

TEST_CASE("checkpoints are written once a validation, and once more for last.ckpt") {
  struct Row {
    std::int64_t k, epochs;
    double interval;
    int saves;
  };
  const Row row = GENERATE(Row{1, 1, 1.0, 1}, Row{2, 2, 1.0, 2}, Row{2, 1, 0.25, 4}, Row{2, 2, 0.3, 6});
  const bool monitored = GENERATE(false, true);
  const bool save_last = GENERATE(false, true);
  const TemporaryFolder folder;
  ModelCheckpointOptions saving{.dirpath = folder.path()};
  if (monitored) saving.monitor = "my_loss", saving.save_top_k = row.k;
  saving.save_last = save_last;
  ScriptedLine module;
  module.on["training_step"] = [&](auto& self, auto) {
    self.log("my_loss", 10 - 0.01 * static_cast<double>(self.seen.size()));
  };
  const auto counts = std::make_shared<CountsSaves>();
  TrainerOptions options = with({std::make_shared<ModelCheckpoint>(saving)}, row.epochs);
  options.logger = counts;
  options.val_check_interval = row.interval;
  Trainer(options).fit(module, counted(64), {counted(1)});
  // Where training goes on behind its last validation, last.ckpt is written once more.
  const int at_end = save_last && row.interval == 0.3 ? 1 : 0;
  CHECK(counts->saves == row.saves * (save_last ? 2 : 1) + at_end);
}

TEST_CASE("a score that is no number is the worst, and makes room for any") {
  const MonitorMode mode = GENERATE(MonitorMode::kMin, MonitorMode::kMax);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto scores = [&](Doubles values) {
    const TemporaryFolder folder;
    ScriptedLine module;
    const auto epochs = static_cast<std::int64_t>(values.size());
    validates_to(module, "abc", std::move(values));
    const auto checkpoint =
        std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = folder.path(), .monitor = "abc", .mode = mode});
    TrainerOptions options = with({checkpoint}, epochs);
    options.log_level = LogLevel::kError;
    Trainer(options).fit(module, counted(1), {counted(1)});
    return Doubles{checkpoint->best_model_score().value(), checkpoint->current_score().value()};
  };
  const double worst = mode == MonitorMode::kMin ? HUGE_VAL : -HUGE_VAL;
  CHECK(scores({nan}) == Doubles{worst, worst});
  CHECK(scores(mode == MonitorMode::kMin ? Doubles{nan, 8, 7, 5} : Doubles{nan, 5, 7, 8}) ==
        (mode == MonitorMode::kMin ? Doubles{5, 5} : Doubles{8, 8}));
}

TEST_CASE("files of an earlier run stay beside those of one that begins anew, or are replaced where nobody counts versions") {
  const bool counts = GENERATE(true, false);
  const TemporaryFolder folder;
  Files of_second;
  for (int run = 0; run < 2; ++run) {
    const auto checkpoint = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = folder.path(),
                                                                                     .filename = "{epoch}",
                                                                                     .monitor = "epoch",
                                                                                     .save_last = true,
                                                                                     .save_top_k = -1,
                                                                                     .enable_version_counter = counts});
    ScriptedLine module;
    Trainer(with({checkpoint}, 2)).fit(module, counted(1), {counted(1)});
    of_second.clear();
    for (const auto& [file, score] : checkpoint->best_k_models()) of_second.insert(fs::path(file).filename().string());
  }
  const Files first{"epoch=0.ckpt", "epoch=1.ckpt", "last.ckpt"};
  if (!counts) {
    CHECK(files_in(folder.path()) == first);
    CHECK(of_second == Files{"epoch=0.ckpt", "epoch=1.ckpt"});
    return;
  }
  CHECK(of_second == Files{"epoch=0-v1.ckpt", "epoch=1-v1.ckpt"});
  Files all = first;
  all.insert({"epoch=0-v1.ckpt", "epoch=1-v1.ckpt", "last-v1.ckpt"});
  CHECK(files_in(folder.path()) == all);
}

TEST_CASE("a run that goes on in another folder leaves the first as it is, and in the same one the file that it began from") {
  const bool same = GENERATE(true, false);
  const TemporaryFolder folder;
  const fs::path first = folder / "first", second = same ? first : folder / "second";
  const auto fit = [](const fs::path& path, std::int64_t steps, const std::optional<std::string>& from) {
    const auto checkpoint = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
        .dirpath = path, .monitor = "step", .save_top_k = 2, .mode = MonitorMode::kMax, .every_n_train_steps = 2});
    TrainerOptions options = with({checkpoint}, -1);
    options.max_steps = steps;
    ScriptedLine module;
    Trainer(options).fit(module, counted(10), LoaderList{}, {.ckpt_path = from});
  };
  fit(first, 5, std::nullopt);
  CHECK(files_in(first) == Files{"epoch=0-step=2.ckpt", "epoch=0-step=4.ckpt"});
  fit(second, 8, (first / "epoch=0-step=4.ckpt").string());
  if (!same) CHECK(files_in(first) == Files{"epoch=0-step=2.ckpt", "epoch=0-step=4.ckpt"});
  CHECK(files_in(second).contains("epoch=0-step=6.ckpt"));
  CHECK(files_in(second).contains("epoch=0-step=8.ckpt"));
}

namespace {

/// The files that an error leaves which `hook` throws from the third step on; unset where it is not called.
std::optional<Files> left_by_error(const std::string& hook) {
  const TemporaryFolder folder;
  HookTrace trace;
  RecordingModule module(trace);
  const ModelCheckpointOptions saving{
      .dirpath = folder.path(), .filename = "a", .save_on_exception = true, .every_n_epochs = 7};
  TrainerOptions options = with({std::make_shared<RecordingCallback>(trace), std::make_shared<ModelCheckpoint>(saving)}, 3);
  options.gradient_clip_val = 1.0;
  Trainer trainer(options);
  trace.on_entry = [&](const std::string& entry) {
    if (entry == hook && trainer.global_step() >= 3) throw std::runtime_error("Trouble!");
  };
  const auto loader = FixedLoader::of_rows(2, 1);
  const std::string error = error_of<std::runtime_error>([&] { trainer.fit(module, loader, {loader}); });
  return error.empty() ? std::nullopt : std::optional(files_in(folder.path()));
}

}  // namespace

TEST_CASE("an error in any hook of training or validation is saved where that is asked for, and once") {
  std::vector<std::string> hooks;
  for (const char* hook :
       {"on_train_epoch_start", "on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward",
        "on_before_optimizer_step", "on_train_batch_end", "on_validation_start", "on_validation_epoch_start",
        "on_validation_batch_start", "on_validation_batch_end", "on_validation_epoch_end", "on_validation_end",
        "on_train_epoch_end", "on_train_end", "on_fit_end"}) {
    hooks.insert(hooks.end(), {std::string("C.") + hook, std::string("M.") + hook});
  }
  for (const char* hook : {"training_step", "validation_step", "backward", "optimizer_step", "optimizer_zero_grad",
                           "configure_gradient_clipping", "on_validation_model_eval"}) {
    hooks.push_back(std::string("M.") + hook);
  }
  for (const std::string& hook : hooks) {
    INFO(hook);
    CHECK(left_by_error(hook) == Files{"a.ckpt"});
  }
}

TEST_CASE("an error in the sanity check or a dry run is not saved, nor one where the step is saved already") {
  const TemporaryFolder folder;
  const auto files = [&](TrainerOptions options, std::optional<std::int64_t> every_n_steps, const char* hook,
                         const ScriptedLine::Script& script) {
    const fs::path path = folder / hook;
    fs::remove_all(path);
    options.enable_checkpointing = std::nullopt;
    options.callbacks = {std::make_shared<ModelCheckpoint>(
        ModelCheckpointOptions{.dirpath = path, .save_on_exception = true, .every_n_train_steps = every_n_steps})};
    ScriptedLine module;
    module.on[hook] = script;
    CHECK_THROWS_WITH(Trainer(options).fit(module, counted(3), {counted(1)}), Catch::Contains("Trouble!"));
    return files_in(path);
  };
  const ScriptedLine::Script trouble = [](auto&, std::int64_t index) {
    if (index != 0) throw std::runtime_error("Trouble!");
  };
  CHECK(files(quiet({.max_epochs = 2, .num_sanity_val_steps = 4}), std::nullopt, "on_validation_start", trouble).empty());
  CHECK(files(quiet({.fast_dev_run = 2}), std::nullopt, "on_train_batch_start", trouble).empty());
  CHECK(files(quiet_options(2), 1, "on_train_batch_start", trouble) == Files{"epoch=0-step=1.ckpt"});
}

TEST_CASE("StochasticWeightAveraging without a number of epochs averages from its epoch to the end of training") {
  ScriptedLine module;
  const auto averaging = std::make_shared<StochasticWeightAveraging>(
      StochasticWeightAveragingOptions{.swa_lrs = 1.0, .swa_epoch_start = 2, .annealing_epochs = 1});
  TrainerOptions options = with({averaging}, -1);
  options.max_steps = 30;
  Trainer trainer(options);
  trainer.fit(module, counted(5));
  CHECK(trainer.global_step() == 30);
  // Each epoch takes 15 away; averaged are the ends of those from the one before epoch 2 (counted from 1) on, as the docs say.
  double sum = 0;
  for (std::int64_t epoch = 6 - averaging->averaged(); epoch < 6; ++epoch) sum -= 15.0 * static_cast<double>(epoch + 1);
  CHECK(averaging->averaged() >= 4);
  CHECK(module.value() == Approx(sum / static_cast<double>(averaging->averaged())));
}

TEST_CASE("rates of groups are StochasticWeightAveraging's own from its epoch on") {
  ScriptedLine module;
  const at::Tensor other = module.register_parameter("other", torch::zeros({1}, torch::kDouble));
  module.optimizers = [&](auto& self) -> OptimizerSetups {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const auto& [parameter, lr] : {std::pair{self.weight, 0.1}, std::pair{other, 0.2}}) {
      groups.emplace_back(std::vector<at::Tensor>{parameter}, std::make_unique<torch::optim::SGDOptions>(lr));
    }
    return std::make_shared<torch::optim::SGD>(std::move(groups), torch::optim::SGDOptions(0.1));
  };
  std::vector<Doubles> rates;
  module.on["training_step"] = [&](auto& self, auto) { rates.push_back(get_lrs(*self.trainer().optimizers().at(0))); };
  const Value list(Value::List{0.123, 0.321});
  Trainer(with({std::make_shared<StochasticWeightAveraging>(
                   StochasticWeightAveragingOptions{.swa_lrs = list, .swa_epoch_start = 1, .annealing_epochs = 1})},
               2))
      .fit(module, counted(1));
  REQUIRE(rates.size() == 2);
  CHECK(rates[0] == Doubles{0.1, 0.2});
  CHECK(rates[1] == Doubles{0.123, 0.321});
}

TEST_CASE("a moving average takes in every so many steps, and begins at a step or an epoch") {
  struct Row {
    EMAWeightAveragingOptions options;
    std::function<bool(int step)> takes;  ///< steps count from 0, four in each of two epochs
  };
  const auto row = GENERATE_COPY(from_range(std::vector<Row>{
      {{.decay = 0.5}, [](int) { return true; }},
      {{.decay = 0.9, .update_every_n_steps = 3}, [](int step) { return step % 3 == 0; }},
      {{.decay = 0.9, .update_starting_at_step = 5}, [](int step) { return step >= 5; }},
      {{.decay = 0.25, .update_every_n_steps = 2, .update_starting_at_step = 3},
       [](int step) { return step >= 3 && step % 2 == 0; }},
      {{.decay = 0.5, .update_every_n_steps = 0, .update_starting_at_epoch = 1}, [](int step) { return step == 7; }},
  }));
  double weight = 0, average = 0;
  bool any = false;
  for (int step = 0; step < 8; ++step) {
    weight -= step % 4 + 1;
    if (!row.takes(step)) continue;
    average = any ? row.options.decay * average + (1 - row.options.decay) * weight : weight;
    any = true;
  }
  ScriptedLine module;
  Trainer(with({std::make_shared<EMAWeightAveraging>(row.options)}, 2)).fit(module, counted(4));
  CHECK(module.value() == Approx(average).epsilon(1e-12));
}

TEST_CASE("averages of chosen epochs are those of their ends, also in a run that an error has cut in two") {
  struct Chosen final : WeightAveraging {
    bool should_update(std::optional<std::int64_t>, std::optional<std::int64_t> epoch) const override {
      return epoch == 3 || epoch == 5 || epoch == 7;
    }
  };
  const TemporaryFolder folder;
  const std::int64_t crash = GENERATE(-1, 1, 4, 6);
  const auto fit = [&](std::int64_t crash_at, const std::optional<std::string>& from) {
    ScriptedLine module;
    module.on["training_step"] = [&](auto& self, auto) {
      if (self.current_epoch() == crash_at) throw std::runtime_error("crash");
    };
    const auto checkpoint =
        std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = folder.path(), .filename = "a"});
    const auto averaging = std::make_shared<Chosen>();
    TrainerOptions options = with({averaging, checkpoint}, 8);
    options.accumulate_grad_batches = 2;
    const std::string error =
        error_of<std::runtime_error>([&] { Trainer(options).fit(module, counted(4), LoaderList{}, {.ckpt_path = from}); });
    CHECK(error.empty() == (crash_at < 0));
    return Doubles{module.value(), static_cast<double>(averaging->averaged())};
  };
  if (crash >= 0) fit(crash, std::nullopt);
  const Doubles end = fit(-1, crash >= 0 ? std::optional((folder / "a.ckpt").string()) : std::nullopt);
  CHECK(end == Doubles{-5.0 * (4 + 6 + 8) / 3, 3});
}

TEST_CASE("a time that is over before training lets nothing train, unless minimums ask for it") {
  const auto [interval, min_epochs, min_steps, steps] =
      GENERATE(table<Interval, std::optional<std::int64_t>, std::optional<std::int64_t>, std::int64_t>(
          {{Interval::kStep, std::nullopt, std::nullopt, 0},
           {Interval::kEpoch, std::nullopt, std::nullopt, 0},
           {Interval::kStep, 2, std::nullopt, 8},
           {Interval::kStep, std::nullopt, 3, 4},
           {Interval::kStep, 2, 3, 8}}));
  TrainerOptions options = with(
      {std::make_shared<Timer>(TimerOptions{.duration = std::chrono::seconds(0), .interval = interval, .verbose = false})}, 9);
  options.min_epochs = min_epochs;
  options.min_steps = min_steps;
  options.log_level = LogLevel::kError;
  Trainer trainer(options);
  ScriptedLine module;
  trainer.fit(module, counted(4));
  CHECK(trainer.global_step() == steps);
  CHECK(trainer.current_epoch() == (steps + 3) / 4);
}

TEST_CASE("last.ckpt is there when nothing else was due, is no link to itself, and needs no validation") {
  const auto [saving, validates] = GENERATE(table<ModelCheckpointOptions, bool>(
      {{{.save_last = true, .save_on_train_epoch_end = false}, false},
       {{.save_last = SaveLast::kLink, .save_top_k = -1, .every_n_epochs = 10}, true},
       {{.save_last = true, .save_top_k = 0, .every_n_epochs = 0, .save_on_train_epoch_end = true}, false},
       {{.save_last = true, .save_top_k = 0, .every_n_epochs = 5, .save_on_train_epoch_end = true}, true}}));
  const TemporaryFolder folder;
  ModelCheckpointOptions options = saving;
  options.dirpath = folder.path();
  ScriptedLine module;
  Trainer(with({std::make_shared<ModelCheckpoint>(options)}, 2))
      .fit(module, counted(2), validates ? LoaderList{counted(1)} : LoaderList{});
  CHECK(Checkpoint::load_manifest(folder / "last.ckpt").at("global_step") == Value(4));
}

TEST_CASE("what is due between validations is ranked by the next, also where not each epoch validates") {
  struct Row {
    Doubles scores;
    std::optional<CheckInterval> interval;
    std::optional<std::int64_t> every_n_steps;
    std::int64_t check, epochs;
  };
  const Row row = GENERATE(Row{{0.1, 0.5, 1.0}, std::nullopt, 2, 1, 3}, Row{{0.1, 0.9}, CheckInterval(0.5), 1, 1, 1},
                           Row{{0.5, 3.0}, std::nullopt, 2, 2, 4}, Row{{0.2, 0.4, 0.9}, std::nullopt, std::nullopt, 1, 3},
                           Row{{0.6}, std::nullopt, std::nullopt, 2, 2});
  const TemporaryFolder folder;
  ModelCheckpointOptions saving{.dirpath = folder.path(), .monitor = "auroc", .mode = MonitorMode::kMax};
  saving.every_n_train_steps = row.every_n_steps;
  if (!row.every_n_steps) saving.train_time_interval = std::chrono::seconds(0);
  saving.save_on_train_epoch_end = false;
  const auto checkpoint = std::make_shared<ModelCheckpoint>(saving);
  ScriptedLine module;
  validates_to(module, "auroc", row.scores);
  TrainerOptions options = with({checkpoint}, row.epochs);
  options.val_check_interval = row.interval;
  options.check_val_every_n_epoch = row.check;
  Trainer(options).fit(module, counted(row.interval ? 4 : 2), {counted(1)});
  CHECK(checkpoint->best_model_score() == *std::max_element(row.scores.begin(), row.scores.end()));
}

TEST_CASE("a checkpoint every so many epochs is written in those of them that validate") {
  const TemporaryFolder folder;
  const auto [monitor, every, check, expected] = GENERATE(table<const char*, std::int64_t, std::int64_t, Files>({
      {"val", 2, 3, {"epoch=5.ckpt", "epoch=11.ckpt"}},
      {"val", 1, 4, {"epoch=3.ckpt", "epoch=7.ckpt", "epoch=11.ckpt"}},
      {"", 2, 3, {"epoch=5.ckpt", "epoch=11.ckpt"}},
      {"train", 2, 3, {"epoch=5.ckpt", "epoch=11.ckpt"}},
  }));
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, auto) { self.log("train", self.current_epoch()); };
  module.on["validation_step"] = [](auto& self, auto) { self.log("val", self.current_epoch()); };
  ModelCheckpointOptions saving{.dirpath = folder.path(), .filename = "{epoch}", .save_top_k = -1, .every_n_epochs = every};
  if (*monitor != '\0') saving.monitor = monitor;
  TrainerOptions options = quiet_options(12);
  options.enable_checkpointing = std::nullopt;
  options.check_val_every_n_epoch = check;
  options.callbacks = {std::make_shared<ModelCheckpoint>(saving)};
  Trainer(options).fit(module, counted(1), {counted(1)});
  CHECK(files_in(folder.path()) == expected);
}
