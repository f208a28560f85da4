// A user's program whose module freezes parts, loads weights, draws its own random numbers and optimizes manually, on
// several ranks. Run by module_ranks_test. Arguments: scenario=… ranks=… folder=… and what the scenario takes, as name=value.
#include <torch/torch.h>

#include <map>
#include <sstream>

#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/weight_averaging.h"
#include "levin/core/activation_checkpointing.h"
#include "levin/core/callback.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/random/seed.h"
#include "levin/core/weights.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/optim/fused_optimizers.h"
#include "levin/optim/schedule_free.h"

namespace levin::test::module_program {

namespace {

/// Two layers, one after the other.
class TwoLayers : public Module {
 public:
  TwoLayers() {
    for (const auto& layer : {first_, second_}) {
      const at::NoGradGuard no_grad;
      layer->weight.fill_(0.5);
    }
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return second_->forward(first_->forward(batch[0])).pow(2).mean();
  }
  void validation_step(const Batch&, std::int64_t) override {}
  OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.001).momentum(0.5));
  }
  /// "0.5,0.25": first and second weight.
  std::string weights() const {
    std::ostringstream text;
    text.precision(9);
    text << first_->weight.item<float>() << ',' << second_->weight.item<float>();
    return text.str();
  }

 protected:
  static torch::nn::Linear layer() { return torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)); }
  torch::nn::Linear first_ = register_module("first", layer());
  torch::nn::Linear second_ = register_module("second", layer());
};

/// Rank r's numbers, whose mean over ranks is that of one process whose numbers begin with 6.
std::shared_ptr<levin::test::FixedLoader> numbers_of(const Trainer& trainer) {
  const int ranks = trainer.world_size();
  return numbers(4, ranks == 1 ? 6 : trainer.rank() * 12.0 / (ranks - 1));
}

/// The first layer is frozen in the second epoch, and trained again from the third on.
void frozen_part(const Settings& settings) {
  struct Freezing final : TwoLayers {
    void on_train_epoch_start() override {
      if (current_epoch() == 1) levin::freeze(*first_);
      if (current_epoch() == 2) levin::unfreeze(*first_);
    }
    void on_train_epoch_end() override { modes += first_->is_training() ? "trains," : "frozen,"; }
    std::string modes;
  } module;
  TrainerOptions options = levin::test::rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = 3;
  LambdaCallbackOptions functions;
  std::vector<std::string> by_epoch;
  functions.on_train_epoch_end = [&](Trainer&, Module&) { by_epoch.push_back(module.weights()); };
  options.callbacks = {std::make_shared<LambdaCallback>(functions)};
  Trainer trainer(options);
  trainer.fit(module, numbers_of(trainer), {numbers(2, 1)});
  Report report(settings.text("folder"), trainer.rank());
  report.add("modes", module.modes);
  for (const std::string& weights : by_epoch) report.add("weights", weights);
}

/// Loads weights.safetensors, whose second weight has another name: by itself, or as init_from.
void loads_weights(const Settings& settings) {
  const std::filesystem::path folder = settings.text("folder");
  TrainerOptions options = levin::test::rank_options(settings.number("ranks"), folder);
  options.max_epochs = 0;
  Trainer trainer(options);
  if (trainer.is_global_zero()) {
    Checkpoint file;
    file.tensors = {{"first.weight", torch::full({1, 1}, 2.0)}, {"last.weight", torch::full({1, 1}, 3.0)}};
    file.save(folder / "weights.safetensors");
  }
  struct Loads final : TwoLayers {
    explicit Loads(std::filesystem::path file) : file_(std::move(file)) {}
    void setup(Stage) override {
      if (!file_.empty()) load_weights(*this, file_, {.strict = false});
    }
    std::filesystem::path file_;
  };
  const std::filesystem::path file = folder / "weights.safetensors";
  const bool by_fit = settings.text("by") == "init_from";
  Loads module(by_fit ? std::filesystem::path() : file);
  RunOptions run;
  if (by_fit) run.init_from = InitialWeights{.path = file, .options = {.strict = false}};
  trainer.fit(module, numbers_of(trainer), {}, run);
  Report(folder, trainer.rank()).add("weights", module.weights());
}

std::string drawn(at::Generator generator) {
  std::ostringstream text;
  const at::Tensor values = torch::randint(0, 1000000, {4}, generator, torch::kLong);
  for (int index = 0; index < 4; ++index) text << values[index].item<std::int64_t>() << ',';
  return text.str();
}

/// part=saves: seeds with 5, draws in each epoch, and saves at the end of the first; resumes: with another seed.
void draws(const Settings& settings) {
  const bool resumes = settings.text("part") == "resumes";
  const std::filesystem::path file = std::filesystem::path(settings.text("folder")) / "epoch.ckpt";
  seed_everything(resumes ? 77 : 5);
  struct Drawing final : levin::test::OneWeight {
    void on_train_epoch_start() override {
      if (current_epoch() == 0) return;
      own += drawn(rank_generator());
      shared += drawn(shared_generator());
    }
    void on_train_batch_start(const Batch&, std::int64_t batch_idx) override {
      if (batch_idx != 0) return;
      own += drawn(rank_generator());
      shared += drawn(shared_generator());
    }
    std::string own;
    std::string shared;
  } module;
  TrainerOptions options = levin::test::rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = 2;
  options.use_distributed_sampler = true;
  LambdaCallbackOptions functions;
  functions.on_train_epoch_end = [&](Trainer& trainer, Module&) {
    if (resumes || trainer.current_epoch() != 0) return;
    trainer.save_checkpoint(file);
    // A resumed run draws the same numbers from here on.
    module.own.clear();
    module.shared.clear();
  };
  options.callbacks = {std::make_shared<LambdaCallback>(functions)};
  Trainer trainer(options);
  RunOptions run;
  if (resumes) run.ckpt_path = file.string();
  const auto dataset = std::make_shared<TensorDataset>(Batch{{"x", torch::ones({8, 1})}});
  trainer.fit(module, std::make_shared<DataLoader>(dataset, DataLoaderOptions{.batch_size = 1}), {}, run);
  Report report(settings.text("folder"), trainer.rank());
  report.add("own", module.own);
  report.add("shared", module.shared);
}

/// Manual optimization, with a batch of rank + 1 samples on each rank.
void manual_samples(const Settings& settings) {
  struct Manual final : levin::test::OneWeight {
    Manual() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      optimizer().zero_grad();
      manual_backward((parameters()[0] * batch[0]).mean());
      step_optimizer();
      return {};
    }
  } module;
  TrainerOptions options = levin::test::rank_options(settings.number("ranks"), settings.text("folder"));
  LambdaCallbackOptions functions;
  std::vector<std::int64_t> samples;
  functions.on_train_batch_end = [&](Trainer& trainer, Module&, const StepOutput&, const Batch& batch, std::int64_t) {
    samples.push_back(samples_of_all_ranks(trainer, batch).value_or(-1));
  };
  options.callbacks = {std::make_shared<LambdaCallback>(functions)};
  Trainer trainer(options);
  std::vector<Batch> batches(3, Batch{{"x", torch::ones({trainer.rank() + 1})}});
  trainer.fit(module, std::make_shared<levin::test::FixedLoader>(std::move(batches)));
  Report report(settings.text("folder"), trainer.rank());
  for (const std::int64_t count : samples) report.add("samples", count);
}

/// segments=, of a network with dropout and BatchNorm, 0: none is checkpointed; precision=
void checkpointed_segments(const Settings& settings) {
  TrainerOptions options = levin::test::rank_options(settings.number("ranks"), settings.text("folder"));
  options.strategy = settings.text("strategy");
  options.accumulate_grad_batches = 2;
  options.max_epochs = 2;
  options.use_distributed_sampler = true;
  if (settings.has("precision")) options.precision = levin::PrecisionFormat::kBfloat16Mixed;
  Trainer trainer(options);
  levin::seed_everything(5);
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
      const at::Tensor scores =
          segments == 0 ? net->forward(batch[0]) : levin::checkpointed_sequential(net, segments, batch[0]);
      return scores.to(at::kFloat).square().mean();
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    torch::nn::Sequential net;
    std::int64_t segments = 0;
  } module;
  module.segments = settings.number("segments");
  const auto rows = std::make_shared<TensorDataset>(Batch{{"x", torch::randn({48, 6})}});
  trainer.fit(module, std::make_shared<DataLoader>(rows, DataLoaderOptions{.batch_size = 4}));
  Report report(settings.text("folder"), trainer.rank());
  int index = 0;
  for (const auto& list : {module.parameters(), module.buffers()}) {
    for (const at::Tensor& tensor : list)
      report.add("tensor_" + std::to_string(index++), tensor.to(at::kDouble).norm().item<double>());
  }
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
  TrainerOptions options = levin::test::rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = 2;
  options.use_distributed_sampler = true;
  const bool is_free = settings.number("free") == 1;
  if (!is_free) options.callbacks = {StochasticWeightAveraging({.swa_lrs = 0.05, .swa_epoch_start = 1})};
  Trainer trainer(options);
  Normalized module(is_free);
  const at::Tensor values = torch::arange(12, torch::kFloat).pow(2).reshape({-1, 1});
  const auto loader = [&](std::int64_t size) {
    return std::make_shared<DataLoader>(std::make_shared<TensorDataset>(Batch{{"x", values}}),
                                        DataLoaderOptions{.batch_size = size});
  };
  trainer.fit(module, loader(4), {loader(12)});
  trainer.save_checkpoint(std::filesystem::path(settings.text("folder")) / "averages.ckpt");
  Report report(settings.text("folder"), trainer.rank());
  report.add("mean", module.norm_->running_mean.item<float>());
  report.add("variance", module.norm_->running_var.item<float>());
  report.add("weight", module.layer_->weight.item<float>());
  report.add("val_loss", *trainer.monitored("val_loss"));
  const Checkpoint saved = Checkpoint::load(std::filesystem::path(settings.text("folder")) / "averages.ckpt");
  report.add("evaluated", saved.tensors.at("state_dict.layer.weight").item<float>());
  report.add("trained", saved.tensors.at("current_model_state.layer.weight").item<float>());
}

/// Steps by hand under bf16-mixed with gradients of rank 1, which power_sgd gives exactly, and saves halfway. resumes=1:
/// resumes from there.
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
  const std::filesystem::path folder = settings.text("folder");
  TrainerOptions options = levin::test::rank_options(settings.number("ranks"), folder);
  options.precision = PrecisionFormat::kBfloat16Mixed;
  options.strategy = {Value("ddp"), Value(Value::Map{{"comm_hook", Value("power_sgd")},
                                                     {"start_power_sgd_iter", Value(2)},
                                                     {"min_compression_rate", Value(0.1)}})};
  const bool resumes = settings.number("resumes") == 1;
  const std::filesystem::path file = folder / "middle.ckpt";
  options.callbacks = {LambdaCallback(
      {.on_train_batch_end = [&](Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx) {
        if (!resumes && batch_idx == 4) trainer.save_checkpoint(file);
      }})};
  Trainer trainer(options);
  Matrix module;
  RunOptions how;
  if (resumes) how.ckpt_path = file.string();
  trainer.fit(module, numbers(9, 1), {}, how);
  Report report(folder, trainer.rank());
  report.add("steps", trainer.global_step());
  report.add("worst", module.worst_);
  std::ostringstream weights;
  weights.precision(9);
  for (std::int64_t index = 0; index < 24; ++index) weights << module.weight_.flatten()[index].item<float>() << ',';
  report.add("weights", weights.str());
}

const RankProgram program("module", {{"frozen_part", frozen_part},
                                     {"loads_weights", loads_weights},
                                     {"draws", draws},
                                     {"manual_samples", manual_samples},
                                     {"checkpointed_segments", checkpointed_segments},
                                     {"averages", averages},
                                     {"approximated", approximated}});

}  // namespace

}  // namespace levin::test::module_program
