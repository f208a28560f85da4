// A user's program that does on several ranks what Lightning's own tests look at. Run by lightning_ranks_test.
// Arguments: scenario=… ranks=… folder=… and what the scenario takes, as name=value.
#include <torch/torch.h>

#include <random>
#include <sstream>

#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/gradient_accumulation_scheduler.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/metrics/classification.h"
#include "levin/metrics/curves.h"
#include "levin/optim/lr_schedulers.h"
#include "support/scripted_line.h"

namespace levin::test::lightning_program {

namespace {

void report(const Settings& settings, const Trainer& trainer, const ScriptedLine& module) {
  Report report(settings.text("folder"), trainer.rank());
  report.add("weight", module.value());
  report.add("step", trainer.global_step());
  report.add("epoch", trainer.current_epoch());
  report.add_all("metric", trainer.callback_metrics());
}

TrainerOptions options_of(const Settings& settings, std::int64_t epochs) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = epochs;
  return options;
}

/// Values that differ by rank, under each reduction, of steps and of epochs, and whether each is synchronized.
void logs(const Settings& settings) {
  Trainer trainer(options_of(settings, 1));
  ScriptedLine module;
  const auto kinds = [](ScriptedLine& self, std::int64_t index, const std::string& stage) {
    const double value = static_cast<double>(1 + self.trainer().rank()) * static_cast<double>(index + 1);
    for (const Reduce reduce : {Reduce::kMean, Reduce::kSum, Reduce::kMin, Reduce::kMax}) {
      const std::string name = stage + "_" + std::string(reduce_name(reduce));
      self.log(name, value, {.on_step = stage == "train", .on_epoch = true, .reduce = reduce, .sync_dist = true});
    }
  };
  module.on["training_step"] = [&](auto& self, std::int64_t index) { kinds(self, index, "train"); };
  module.on["validation_step"] = [&](auto& self, std::int64_t index) { kinds(self, index, "val"); };
  trainer.fit(module, counted(3), {counted(3)});
  report(settings, trainer, module);
}

/// A sample is a number, whose score and label follow from it. Rank r of two has each second one, rank 0 in batches of two and
/// rank 1 in batches of three, so that it has fewer.
class Pairs final : public ScriptedLine {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    take("train", train_accuracy, train_area, batch);
    return weight.sum() * 0;
  }
  void validation_step(const Batch& batch, std::int64_t) override { take("val", val_accuracy, val_area, batch); }
  static std::shared_ptr<FixedLoader> loader(const Trainer& trainer, int samples) {
    const at::Tensor mine = torch::arange(trainer.rank(), samples, trainer.world_size(), torch::kDouble);
    std::vector<Batch> batches;
    for (const at::Tensor& rows : mine.split(2 + trainer.rank())) batches.emplace_back(rows);
    return std::make_shared<FixedLoader>(std::move(batches));
  }

 private:
  void take(const std::string& stage, Accuracy& accuracy, AUROC& area, const Batch& batch) {
    const at::Tensor scores = (batch[0] * 0.37).frac();
    const at::Tensor labels = batch[0].remainder(3).eq(0).to(torch::kLong);
    accuracy.update(scores, labels);
    area.update(scores, labels);
    log(stage + "_acc", accuracy, {.on_step = true, .on_epoch = true, .sync_dist = true});
    log(stage + "_auroc", area, {.on_step = true, .on_epoch = true});
  }
  Accuracy& train_accuracy = add_metric<Accuracy>("train_accuracy");
  Accuracy& val_accuracy = add_metric<Accuracy>("val_accuracy");
  AUROC& train_area = add_metric<AUROC>("train_area");
  AUROC& val_area = add_metric<AUROC>("val_area");
};

/// samples: of training; validation has 13.
void pairs(const Settings& settings) {
  TrainerOptions options = options_of(settings, 2);
  options.num_sanity_val_steps = 2;
  Trainer trainer(options);
  Pairs module;
  trainer.fit(module, Pairs::loader(trainer, settings.number("samples")), {Pairs::loader(trainer, 13)});
  report(settings, trainer, module);
}

/// A generator and a discriminator in turns; see lightning_manual_test. Batches of two ranks lie on both sides of those of one
/// process.
class Game final : public ScriptedLine {
 public:
  Game() {
    set_automatic_optimization(false);
    const at::NoGradGuard no_grad;
    weight.fill_(1);
    other.fill_(0.5);
    optimizers = [this](auto&) -> OptimizerSetups {
      const StepLr::Options halves{.step_size = 1, .gamma = 0.5};
      const auto sgd = [](const at::Tensor& of) { return std::make_shared<torch::optim::SGD>(std::vector{of}, 1.0); };
      return {{sgd(weight), halves}, {sgd(other), halves, {.interval = Interval::kStep}}};
    };
    on["on_train_epoch_end"] = [](auto& self, auto) { self.lr_scheduler(0).step(); };
    step = [this](auto&, const Batch& batch, std::int64_t index) {
      toggle_optimizer(1);
      manual_backward((other * batch[0] - other * weight * batch[0] / 2).mean(), /*synchronize=*/index % 2 == 1);
      if (index % 2 == 1) {
        clip_gradients(optimizer(1), 5, GradientClipAlgorithm::kValue);
        step_optimizer(1);
        optimizer(1).zero_grad();
        lr_scheduler(1).step();
      }
      untoggle_optimizer(1);
      toggle_optimizer(0);
      optimizer(0).zero_grad();
      manual_backward((-other * weight * batch[0]).mean());
      clip_gradients(optimizer(0), 4);
      step_optimizer(0);
      untoggle_optimizer(0);
      return StepOutput();
    };
  }
  at::Tensor other = register_parameter("other", torch::zeros({1}, torch::kDouble));
};

void game(const Settings& settings) {
  Trainer trainer(options_of(settings, 3));
  Game module;
  const double offset = trainer.world_size() == 1 ? 0 : trainer.rank() == 0 ? -0.5 : 0.5;
  trainer.fit(module, counted(4, 1 + offset), {counted(1)});
  report(settings, trainer, module);
}

/// seed: turns of two optimizers over three weights, of which they share one: how many passes make a step and which of them are
/// reduced, whether a turn is toggled, clipped and zeroed, and which schedule steps, are drawn.
class Turns final : public ScriptedLine {
 public:
  explicit Turns(unsigned seed) : random_(seed) {
    set_automatic_optimization(false);
    const at::NoGradGuard no_grad;
    for (const at::Tensor& each : parameters()) each.fill_(0.5);
    optimizers = [this](auto&) -> OptimizerSetups {
      const auto sgd = [](std::vector<at::Tensor> of) { return std::make_shared<torch::optim::SGD>(std::move(of), 0.1); };
      const StepLr::Options slower{.step_size = 2, .gamma = 0.7};
      return {{sgd({weight, shared}), slower}, {sgd({other, shared}), slower}};
    };
    step = [this](auto&, const Batch& batch, auto) {
      turn(batch[0]);
      return StepOutput();
    };
  }
  std::string weights() const {
    std::ostringstream text;
    text.precision(17);
    text << weight.item<double>() << ',' << other.item<double>() << ',' << shared.item<double>();
    return text.str();
  }

 private:
  bool chance() { return random_() % 2 == 0; }
  void turn(const at::Tensor& x) {
    const std::size_t index = random_() % 2;
    const bool toggles = chance();
    if (toggles) toggle_optimizer(index);
    for (std::int64_t left = static_cast<std::int64_t>(random_() % 3); left >= 0; --left) {
      const double factor = chance() ? 1 : -0.5;
      manual_backward((weight * other * shared * x * factor + weight * x - other * x / 2 + shared * x / 4).mean(),
                      /*synchronize=*/left == 0 || chance());
    }
    if (chance())
      clip_gradients(optimizer(index), 0.7, chance() ? GradientClipAlgorithm::kNorm : GradientClipAlgorithm::kValue);
    step_optimizer(index);
    if (chance()) optimizer(index).zero_grad();
    if (chance()) lr_scheduler(index).step();
    if (toggles) untoggle_optimizer(index);
  }
  at::Tensor other = register_parameter("other", torch::zeros({1}, torch::kDouble));
  at::Tensor shared = register_parameter("shared", torch::zeros({1}, torch::kDouble));
  std::mt19937 random_;
};

void turns(const Settings& settings) {
  std::string all;
  const int first = settings.number("seed");
  int rank = 0;
  for (int seed = first; seed < first + settings.number("seeds"); ++seed) {
    Trainer trainer(options_of(settings, 2));
    Turns module(static_cast<unsigned>(seed));
    const double offset = trainer.world_size() == 1 ? 0 : trainer.rank() == 0 ? -0.5 : 0.5;
    trainer.fit(module, counted(7, 1 + offset), {counted(1)});
    all += (all.empty() ? "" : ",") + module.weights();
    rank = trainer.rank();
  }
  Report(settings.text("folder"), rank).add("weights", all);
}

/// Rank 0's metric gets worse in epoch 2, while rank 1's still improves.
void stops(const Settings& settings) {
  TrainerOptions options = options_of(settings, 20);
  options.callbacks = {EarlyStopping({.monitor = "abc", .patience = 1}), EarlyStopping({.monitor = "cba", .patience = 9})};
  Trainer trainer(options);
  ScriptedLine module;
  const std::vector<double> losses{8, 4, 2, 1, 0.5, 0.25};
  module.on["on_validation_epoch_end"] = [&](auto& self, auto) {
    const bool worse = self.current_epoch() >= 2 && self.trainer().rank() == 0;
    self.log("abc", worse ? 10.0 : losses.at(static_cast<std::size_t>(self.current_epoch())));
    self.log("cba", 0.0);
  };
  trainer.fit(module, counted(2), {counted(1)});
  report(settings, trainer, module);
}

/// Validates every three batches of streams, across epochs; ranks have four and five batches.
void interval(const Settings& settings) {
  TrainerOptions options = options_of(settings, -1);
  options.max_steps = 12;
  options.val_check_interval = 3;
  options.check_val_every_n_epoch = std::nullopt;
  Trainer trainer(options);
  ScriptedLine module;
  std::string after;
  module.on["on_validation_start"] = [&](auto& self, auto) { after += std::to_string(self.global_step()) + ","; };
  trainer.fit(module, counted(4 + trainer.rank(), 1, /*knows_size=*/false), {counted(1)});
  Report report(settings.text("folder"), trainer.rank());
  report.add("weight", module.value());
  report.add("validated", after);
}

/// Gradients of other numbers of batches in each epoch.
void accumulates(const Settings& settings) {
  TrainerOptions options = options_of(settings, 3);
  options.callbacks = {GradientAccumulationScheduler({.scheduling = {{0, 2}, {2, 1}}})};
  Trainer trainer(options);
  ScriptedLine module;
  trainer.fit(module, counted(5, 1 + trainer.rank()));
  report(settings, trainer, module);
}

/// synchronize: the best two by a value that each rank has another of, of its step.
void keeps(const Settings& settings) {
  TrainerOptions options = options_of(settings, 2);
  options.enable_checkpointing = true;
  options.val_check_interval = 0.3;
  const auto checkpoint = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = settings.text("folder") + "/ckpt",
                                                                                   .filename = "{step}",
                                                                                   .monitor = "mine_step",
                                                                                   .save_top_k = 2,
                                                                                   .mode = MonitorMode::kMax});
  options.callbacks = {checkpoint};
  Trainer trainer(options);
  ScriptedLine module;
  const bool sync = settings.number("synchronize") == 1;
  module.on["training_step"] = [sync](auto& self, std::int64_t index) {
    self.log("mine", static_cast<double>(index) * static_cast<double>(1 + self.trainer().rank()),
             {.on_step = true, .on_epoch = true, .sync_dist = sync});
  };
  trainer.fit(module, counted(10), {counted(1)});
  Report report(settings.text("folder"), trainer.rank());
  report.add("score", checkpoint->best_model_score().value());
  report.add("best", std::filesystem::path(checkpoint->best_model_path()).filename().string());
  for (const auto& [file, score] : checkpoint->best_k_models()) report.add(std::filesystem::path(file).stem().string(), score);
}

const RankProgram program("lightning", {{"logs", logs},
                                        {"pairs", pairs},
                                        {"game", game},
                                        {"turns", turns},
                                        {"stops", stops},
                                        {"interval", interval},
                                        {"accumulates", accumulates},
                                        {"keeps", keeps}});

}  // namespace

}  // namespace levin::test::lightning_program
