// A user's program that trains on several ranks, with one behaviour for each scenario. Run by trainer_ranks_test.
// Arguments: scenario=… ranks=… folder=… and what the scenario takes, as name=value.
#include <signal.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <limits>
#include <sstream>
#include <vector>

#include "distributed/dataset_loader.h"
#include "distributed/one_weight.h"
#include "distributed/one_weight_run.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "distributed/tensor_text.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/optimizers/parameter_groups.h"
#include "levin/core/trainer.h"
#include "support/mean_gradients.h"

namespace levin::test::trainer_program {

namespace {

/// Validates before it trains; samples=
void validates_first(const Settings& settings) {
  TrainerOptions options = options_for(settings);
  options.use_distributed_sampler = true;
  options.max_epochs = 1;
  options.num_sanity_val_steps = 2;
  options.validate_before_training = true;
  std::ostringstream order;
  const auto note = [&](const std::string& hook) {
    return [&order, hook](Trainer& trainer, Module&) {
      order << hook << ":" << trainer.monitored("val_input").value_or(-1) << ":" << evaluation_of_all_ranks(trainer).samples
            << ",";
    };
  };
  options.callbacks = {LambdaCallback({.on_sanity_check_start = note("sanity"),
                                       .on_train_start = note("start"),
                                       .on_train_epoch_start = note("epoch"),
                                       .on_validation_end = note("validation")})};
  Trainer trainer(options);
  OneWeight module;
  const LoaderPtr loader = dataset_loader(torch::arange(settings.number("samples"), torch::kFloat).reshape({-1, 1}));
  trainer.fit(module, loader, {loader});
  report_run(settings, trainer, module).add("order", order.str());
}

/// Data of other sizes on the last rank: more=, of which; shared=1, divided over ranks by levin, or 0
void uneven_data(const Settings& settings) {
  TrainerOptions options = options_for(settings);
  options.use_distributed_sampler = settings.number("shared") == 1;
  options.max_epochs = 1;
  Trainer trainer(options);
  OneWeight module;
  const auto loader = [&](const std::string& name) {
    const bool is_last = trainer.rank() == trainer.world_size() - 1;
    const std::int64_t samples = is_last && settings.text("more") == name ? 10 : 8;
    const double value = is_last && settings.text("other", "") == name ? 2 : 1;
    return dataset_loader(torch::full({samples, 1}, value), {.batch_size = 2});
  };
  trainer.fit(module, loader("train"), {loader("val_0"), loader("val")});
}

/// allow=0 or 1; differs=0: the loader gives every rank the same batches; 1: the last rank has others; samples=own: in a loader
/// that does not say which samples they are, known: in a DataLoader that does not divide them
void same_batches(const Settings& settings) {
  TrainerOptions options = options_for(settings);
  options.allow_same_batches = settings.number("allow") == 1;
  Trainer trainer(options);
  OneWeight module;
  const bool differs = settings.number("differs") == 1 && trainer.rank() == trainer.world_size() - 1;
  if (settings.text("samples") == "own") return trainer.fit(module, numbers(2, differs ? 2 : 1));
  trainer.fit(module, dataset_loader(torch::zeros({8, 1}), {.batch_size = 2}));
}

/// From some moment on (when=epoch: an epoch's start; batch: the end of its second batch) rank= accumulates the gradients of
/// two batches, or with rank=-1 all do; knows_size=0 or 1
void accumulates(const Settings& settings) {
  TrainerOptions options = options_for(settings);
  Trainer trainer(options);
  const bool does = settings.number("rank") == -1 || settings.number("rank") == trainer.rank();
  struct Accumulating : OneWeight {
    void on_train_epoch_start() override {
      if (does && from_epoch) trainer().set_accumulate_grad_batches(2);
    }
    void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t batch_idx) override {
      if (does && !from_epoch && batch_idx == 1) trainer().set_accumulate_grad_batches(2);
    }
    bool does = false, from_epoch = false;
  } module;
  module.does = does;
  module.from_epoch = settings.text("when") == "epoch";
  std::vector<Batch> ones(6, Batch{{"x", torch::ones({1})}});
  trainer.fit(module, std::make_shared<levin::test::FixedLoader>(std::move(ones), settings.number("knows_size") == 1));
  report_run(settings, trainer, module);
}

/// part=saves; or resumes: each rank resumes from its own file of one name; other=: the file of that rank differs.
void own_checkpoints(const Settings& settings) {
  const std::filesystem::path folder = settings.text("folder");
  TrainerOptions options = options_for(settings);
  const bool resumes = settings.text("part") == "resumes";
  options.max_epochs = resumes ? 2 : 1;
  Trainer trainer(options);
  OneWeight module;
  RunOptions run;
  if (resumes) {
    const std::filesystem::path own = folder / std::to_string(trainer.rank());
    std::filesystem::create_directories(own);
    Checkpoint saved = Checkpoint::load(folder / "saved.ckpt");
    if (settings.number("other") == trainer.rank()) saved.manifest["global_step"] = 1;
    saved.save(own / "saved.ckpt");
    std::filesystem::current_path(own);
    run.ckpt_path = "saved.ckpt";
  }
  trainer.fit(module, numbers(2, 1), {}, run);
  if (!resumes) trainer.save_checkpoint(folder / "saved.ckpt");
  report_run(settings, trainer, module);
}

/// Each rank has a batch more than the one before it, or its part of samples=, as uneven= says, in batches of 2. A schedule
/// that steps with the optimizer takes all of training, and the bias has no weight decay. Reports how long a rank thinks
/// training is, before ranks have agreed and after.
void length_of_training(const Settings& settings) {
  struct Biased : OneWeight {
    Biased() : bias(register_parameter("bias", torch::ones({1}))) {}
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      StepOutput output = OneWeight::training_step(batch, batch_idx);
      output.loss = output.loss + (bias * 0).sum();
      return output;
    }
    void on_fit_start() override { before = trainer().estimated_stepping_batches(); }
    void on_train_start() override { agreed = trainer().estimated_stepping_batches(); }
    at::Tensor bias;
    std::int64_t before = 0, agreed = 0;
  } module;
  TrainerOptions options = options_for(settings);
  options.max_epochs = 3;
  const bool divides = settings.has("samples");
  options.use_distributed_sampler = divides;
  if (divides) options.uneven = *choice_of<Uneven>(settings.text("uneven"));
  Trainer trainer(options);
  ParameterGroupOptions groups;
  groups.no_decay = {"bias"};
  const Value sgd(Value::Map{{"lr", Value(0.01)}, {"weight_decay", Value(0.5)}});
  trainer.override_optimizers(grouped_optimizer_factory("SGD", sgd, groups),
                              Registry<LrSchedulerFactory>::instance().make("CosineAnnealingLR", Value(Value::Map{})),
                              Value(Value::Map{{"interval", "step"}}));
  LoaderPtr loader = numbers(4 + trainer.rank(), 1);
  if (divides) loader = dataset_loader(torch::ones({settings.number("samples"), 1}), {.batch_size = 2});
  trainer.fit(module, loader);
  Report report = report_run(settings, trainer, module);
  report.add("before", module.before);
  report.add("agreed", module.agreed);
  report.add("bias", module.bias.item<double>());
  report.add("groups", trainer.optimizers().at(0)->param_groups().size());
  report.add("T_max", trainer.scheduler_configs().at(0).scheduler->state_dict().at("T_max").as_int());
}

/// part=saves: after `steps` steps of batches of batch=, on each rank; resumes: with those of this run. Reports the samples
/// that this rank sees after that, and the step that ends the epoch.
void resumes_elsewhere(const Settings& settings) {
  struct Sees : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      seen.push_back(batch[0].clone());
      return OneWeight::training_step(batch, batch_idx);
    }
    std::vector<at::Tensor> seen;
  } module;
  const bool resumes = settings.text("part") == "resumes";
  const std::string file = settings.text("folder") + "/middle.ckpt";
  TrainerOptions options = options_for(settings);
  options.use_distributed_sampler = true;
  options.uneven = levin::Uneven::kKeep;
  options.max_steps = resumes ? -1 : settings.number("steps");
  options.callbacks = {
      LambdaCallback({.on_train_batch_end = [&](Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) {
        if (!resumes && trainer.global_step() == settings.number("steps")) trainer.save_checkpoint(file);
      }})};
  Trainer trainer(options);
  const LoaderPtr loader = dataset_loader(torch::arange(64, torch::kFloat).reshape({-1, 1}),
                                          {.batch_size = settings.number("batch"), .shuffle = true, .seed = 5});
  RunOptions run;
  if (resumes) run.ckpt_path = file;
  trainer.fit(module, loader, {}, run);
  Report(settings.text("folder"), trainer.rank()).add("seen", numbers_text(module.seen));
}

/// A program that a rank starts, and that a signal ends which levin prevents from ending the rank itself.
void starts_programs(const Settings& settings) {
  Trainer trainer(options_for(settings));
  OneWeight module;
  int status = 0;
  module.on_step = [&](OneWeight&, std::int64_t) { status = std::system("kill -PIPE $$"); };
  trainer.fit(module, numbers(1, 1));
  raise(SIGPIPE);
  Report(settings.text("folder"), trainer.rank()).add("signal_of_the_program", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/// on_nan=, when the last rank's second loss is NaN, though its gradient is not
void loss_is_nan(const Settings& settings) {
  struct Nan : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      StepOutput output = OneWeight::training_step(batch, batch_idx);
      const bool here = batch_idx == 1 && trainer().rank() == trainer().world_size() - 1;
      return here ? output.loss + std::numeric_limits<float>::quiet_NaN() : output.loss;
    }
  } module;
  TrainerOptions options = options_for(settings);
  options.on_nan = OptionType<OnNan>::read(Value(settings.text("on_nan")));
  Trainer trainer(options);
  trainer.fit(module, numbers(4, 1));
  report_run(settings, trainer, module);
}

/// signal=, which the last rank raises in its second step
void crashes(const Settings& settings) {
  Trainer trainer(options_for(settings));
  OneWeight module;
  module.on_step = [&](OneWeight&, std::int64_t batch_idx) {
    if (batch_idx == 1 && trainer.rank() == trainer.world_size() - 1) raise(settings.number("signal"));
  };
  trainer.fit(module, numbers(3, 1));
}

/// backend=, of gradients; rank 1 ends its step when rank 0 has its gradient
void waits(const Settings& settings) {
  struct Waits final : Profiler {
    void start(std::string_view) override {}
    void stop(std::string_view) override {}
    void waited(WaitReason kind, double arrived, double left) override {
      if (kind == WaitReason::kGradients) times.emplace_back(arrived, left);
    }
    std::vector<std::pair<double, double>> times;
  };
  const auto profiler = std::make_shared<Waits>();
  TrainerOptions options = options_for(settings);
  options.strategy = {"ddp", Value(Value::Map{{"process_group_backend", Value(settings.text("backend"))}})};
  options.profiler = profiler;
  Trainer trainer(options);
  const std::filesystem::path ready = std::filesystem::path(settings.text("folder")) / "ready_";
  OneWeight module;
  int done = 0;
  module.on_step = [&](OneWeight& self, std::int64_t batch_idx) {
    const std::string file = ready.string() + std::to_string(batch_idx);
    if (trainer.rank() == 0) {
      if (batch_idx > 0) return;
      self.parameters().front().register_hook(
          [&](const at::Tensor&) { std::ofstream(ready.string() + std::to_string(done++)); });
    } else {
      while (!std::filesystem::exists(file)) usleep(100);
    }
  };
  trainer.fit(module, numbers(5, 1));
  Report report(settings.text("folder"), trainer.rank());
  report.add("reductions", profiler->times.size());
  for (std::size_t index = 0; index < profiler->times.size(); ++index) {
    report.add("arrived_" + std::to_string(index), profiler->times[index].first);
    report.add("left_" + std::to_string(index), profiler->times[index].second);
  }
}

const RankProgram program("trainer", {{"validates_first", validates_first},
                                      {"length_of_training", length_of_training},
                                      {"resumes_elsewhere", resumes_elsewhere},
                                      {"starts_programs", starts_programs},
                                      {"crashes", crashes},
                                      {"loss_is_nan", loss_is_nan},
                                      {"uneven_data", uneven_data},
                                      {"same_batches", same_batches},
                                      {"accumulates", accumulates},
                                      {"own_checkpoints", own_checkpoints},
                                      {"waits", waits}});

}  // namespace

}  // namespace levin::test::trainer_program
