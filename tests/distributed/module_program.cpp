// A user's program whose module loads weights, draws its own random numbers and optimizes manually, on
// several ranks. Run by module_ranks_test. Arguments: scenario=… ranks=… folder=… and what the scenario takes, as name=value.
#include <torch/torch.h>

#include "distributed/dataset_loader.h"
#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "distributed/tensor_text.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/weight_averaging.h"
#include "levin/core/activation_checkpointing.h"
#include "levin/core/callback.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/random/seed.h"
#include "levin/core/weights.h"
#include "levin/optim/fused_optimizers.h"
#include "levin/optim/schedule_free.h"

namespace levin::test::module_program {

namespace {

/// Loads weights.safetensors, whose second weight has another name: by itself, or as init_from.
void loads_weights(const Settings& settings) {
  const std::filesystem::path folder = settings.text("folder");
  const std::filesystem::path file = folder / "weights.safetensors";
  const bool by_fit = settings.text("by") == "init_from";
  TrainerOptions options = rank_options(settings.number("ranks"), folder);
  options.max_epochs = 0;
  Trainer trainer(options);
  if (trainer.is_global_zero()) {
    Checkpoint saved;
    saved.tensors = {{"weight", torch::full({1}, 2.0)}, {"last", torch::full({1}, 3.0)}};
    saved.save(file);
  }
  struct Loads final : OneWeight {
    void setup(Stage) override {
      if (!file.empty()) load_weights(*this, file, {.strict = false});
    }
    at::Tensor second = register_parameter("second", torch::full({1}, 0.5));
    std::filesystem::path file;
  } module;
  RunOptions run;
  if (by_fit) {
    run.init_from = InitialWeights{.path = file, .options = {.strict = false}};
  } else {
    module.file = file;
  }
  trainer.fit(module, numbers(1, 0), {}, run);
  Report(folder, trainer.rank()).add("weights", numbers_text(module.parameters()));
}

at::Tensor drawn(at::Generator generator) { return torch::randint(0, 1000000, {4}, generator, torch::kLong); }

/// part=saves: seeds with 5, draws in each epoch, and saves at the end of the first; resumes: with another seed.
void draws(const Settings& settings) {
  const bool resumes = settings.text("part") == "resumes";
  const std::filesystem::path file = std::filesystem::path(settings.text("folder")) / "epoch.ckpt";
  seed_everything(resumes ? 77 : 5);
  struct Drawing final : OneWeight {
    void draw() {
      own.push_back(drawn(rank_generator()));
      shared.push_back(drawn(shared_generator()));
    }
    void on_train_epoch_start() override {
      if (current_epoch() > 0) draw();
    }
    void on_train_batch_start(const Batch&, std::int64_t batch_idx) override {
      if (batch_idx == 0) draw();
    }
    std::vector<at::Tensor> own, shared;
  } module;
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = 2;
  options.use_distributed_sampler = true;
  options.callbacks = {LambdaCallback({.on_train_epoch_end = [&](Trainer& trainer, Module&) {
    if (resumes || trainer.current_epoch() != 0) return;
    trainer.save_checkpoint(file);
    // A resumed run draws the same numbers from here on.
    module.own.clear();
    module.shared.clear();
  }})};
  Trainer trainer(options);
  RunOptions run;
  if (resumes) run.ckpt_path = file.string();
  trainer.fit(module, dataset_loader(torch::ones({8, 1})), {}, run);
  Report report(settings.text("folder"), trainer.rank());
  report.add("own", numbers_text(module.own));
  report.add("shared", numbers_text(module.shared));
}

/// Manual optimization, with a batch of rank + 1 samples on each rank.
void manual_samples(const Settings& settings) {
  struct Manual final : OneWeight {
    Manual() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      optimizer().zero_grad();
      manual_backward((parameters()[0] * batch[0]).mean());
      step_optimizer();
      return {};
    }
    void on_train_batch_end(const StepOutput&, const Batch& batch, std::int64_t) override {
      samples.push_back(samples_of_all_ranks(trainer(), batch).value_or(-1));
    }
    std::vector<std::int64_t> samples;
  } module;
  Trainer trainer(rank_options(settings.number("ranks"), settings.text("folder")));
  std::vector<Batch> batches(3, Batch{{"x", torch::ones({trainer.rank() + 1})}});
  trainer.fit(module, std::make_shared<FixedLoader>(std::move(batches)));
  Report report(settings.text("folder"), trainer.rank());
  for (const std::int64_t count : module.samples) report.add("samples", count);
}

/// segments=, of a network with dropout and BatchNorm, 0: none is checkpointed; precision=
void checkpointed_segments(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.strategy = settings.text("strategy");
  options.accumulate_grad_batches = 2;
  options.max_epochs = 2;
  options.use_distributed_sampler = true;
  if (settings.has("precision")) options.precision = PrecisionFormat::kBfloat16Mixed;
  Trainer trainer(options);
  seed_everything(5);
  struct Deep final : Module {
    Deep() {
      for (int layer = 0; layer < 4; ++layer) {
        net->push_back(torch::nn::Linear(6, 6));
        net->push_back(torch::nn::BatchNorm1d(6));
        net->push_back(torch::nn::ReLU());
        net->push_back(torch::nn::Dropout(0.3));
      }
      register_module("net", net);
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor scores = segments == 0 ? net->forward(batch[0]) : checkpointed_sequential(net, segments, batch[0]);
      return scores.to(at::kFloat).square().mean();
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    torch::nn::Sequential net;
    std::int64_t segments = 0;
  } module;
  module.segments = settings.number("segments");
  trainer.fit(module, dataset_loader(torch::randn({48, 6}), {.batch_size = 4}));
  Report report(settings.text("folder"), trainer.rank());
  report.add("parameters", numbers_text(module.parameters()));
  report.add("buffers", numbers_text(module.buffers()));
}

/// Averages the weights of two epochs of a layer that normalizes its input. optimizer=: schedule-free instead.
void averages(const Settings& settings) {
  struct Normalized final : Module {
    explicit Normalized(bool is_free) : is_free_(is_free) { torch::nn::init::constant_(layer_->weight, 0.5); }
    StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch); }
    void validation_step(const Batch& batch, std::int64_t) override { log("val_loss", loss(batch)); }
    OptimizerSetups configure_optimizers() override {
      if (is_free_) return SGDScheduleFree(parameters(), {.lr = 0.1});
      return SGD(parameters(), 0.1);
    }
    at::Tensor loss(const Batch& batch) { return layer_->forward(norm_->forward(batch["x"])).exp().mean(); }
    bool is_free_;
    torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(1));
    torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)));
  };
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = 2;
  options.use_distributed_sampler = true;
  const bool is_free = settings.number("free") == 1;
  if (!is_free) options.callbacks = {StochasticWeightAveraging({.swa_lrs = 0.05, .swa_epoch_start = 1})};
  Trainer trainer(options);
  Normalized module(is_free);
  const at::Tensor values = torch::arange(12, torch::kFloat).pow(2).reshape({-1, 1});
  const std::filesystem::path file = std::filesystem::path(settings.text("folder")) / "averages.ckpt";
  trainer.fit(module, dataset_loader(values, {.batch_size = 4}), {dataset_loader(values, {.batch_size = 12})});
  trainer.save_checkpoint(file);
  Report report(settings.text("folder"), trainer.rank());
  report.add("mean", module.norm_->running_mean.item<float>());
  report.add("variance", module.norm_->running_var.item<float>());
  report.add("weight", module.layer_->weight.item<float>());
  report.add("val_loss", *trainer.monitored("val_loss"));
  const Checkpoint saved = Checkpoint::load(file);
  report.add("evaluated", saved.tensors.at("state_dict.layer.weight").item<float>());
  report.add("trained", saved.tensors.at("current_model_state.layer.weight").item<float>());
}

/// Steps by hand under bf16-mixed with gradients of rank 1, which power_sgd gives exactly.
void approximated(const Settings& settings) {
  struct Matrix final : Module {
    Matrix() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      // Not a matrix product, which autocast would round.
      const at::Tensor gradient = column_of(batch_idx) * torch::linspace(0.1, 0.7, 6) * (1 + 2 * trainer().rank());
      optimizer().zero_grad();
      manual_backward((weight_ * gradient).sum() + 0 * batch["x"].sum());
      const at::Tensor expected = column_of(batch_idx).to(torch::kDouble) * torch::linspace(0.1, 0.7, 6).to(torch::kDouble) * 2;
      const at::Tensor error = (weight_.grad().to(torch::kDouble) - expected).abs() / expected.abs();
      worst_ = std::max(worst_, error.max().item<double>());
      step_optimizer();
      return {};
    }
    OptimizerSetups configure_optimizers() override { return SGD(parameters(), 0.5); }
    static at::Tensor column_of(std::int64_t batch_idx) {
      return torch::arange(1, 5).add(0.3 * static_cast<double>(batch_idx)).sin().add(1.5).unsqueeze(1);
    }
    at::Tensor weight_ = register_parameter("weight", torch::zeros({4, 6}));
    double worst_ = 0;
  };
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.precision = PrecisionFormat::kBfloat16Mixed;
  options.strategy = {Value("ddp"), Value(Value::Map{{"comm_hook", Value("power_sgd")},
                                                     {"start_power_sgd_iter", Value(2)},
                                                     {"min_compression_rate", Value(0.1)}})};
  Trainer trainer(options);
  Matrix module;
  trainer.fit(module, numbers(9, 1));
  Report report(settings.text("folder"), trainer.rank());
  report.add("steps", trainer.global_step());
  report.add("worst", module.worst_);
  report.add("weights", numbers_text({module.weight_}));
}

const RankProgram program("module", {{"loads_weights", loads_weights},
                                     {"draws", draws},
                                     {"manual_samples", manual_samples},
                                     {"checkpointed_segments", checkpointed_segments},
                                     {"averages", averages},
                                     {"approximated", approximated}});

}  // namespace

}  // namespace levin::test::module_program
