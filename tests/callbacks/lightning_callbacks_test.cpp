// Callbacks in cases that Lightning's own tests look at.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/backbone_finetuning.h"
#include "levin/callbacks/gradient_accumulation_scheduler.h"
#include "levin/callbacks/learning_rate_monitor.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/weight_averaging.h"
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

/// Options of a run with these callbacks, which saves where they do.
TrainerOptions with(std::vector<std::shared_ptr<Callback>> callbacks, std::int64_t max_epochs) {
  TrainerOptions options;
  options.max_epochs = max_epochs;
  for (auto& callback : callbacks) options.callbacks.emplace_back(std::move(callback));
  return quiet(std::move(options));
}

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

TEST_CASE("parts that are unfrozen one by one have separate rates, of several optimizers with and without schedules") {
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
  return error.empty() ? std::nullopt : std::optional(file_names(folder.path()));
}

}  // namespace

TEST_CASE("an error in any hook of training or validation is saved where an option says so, and once") {
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
