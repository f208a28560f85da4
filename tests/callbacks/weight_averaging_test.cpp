#include "levin/callbacks/weight_averaging.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/metrics/regression.h"
#include "levin/optim/fused_optimizers.h"
#include "levin/optim/lr_schedulers.h"
#include "levin/optim/schedule_free.h"
#include "support/file_text.h"

using namespace levin;
using namespace levin::test;

namespace {

/// As in make_weight_averaging_references.py.
class Regression final : public Module {
 public:
  Regression() {
    layer_->weight.set_data(torch::tensor({{0.5, -0.25}}, torch::kDouble));
    layer_->bias.set_data(torch::tensor({0.1}, torch::kDouble));
    to(torch::kDouble);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch); }
  void validation_step(const Batch& batch, std::int64_t) override {
    val_losses.push_back(loss(batch).item<double>());
    if (in_validation) in_validation();
  }
  OptimizerSetups configure_optimizers() override {
    if (is_free) return SGDScheduleFree(parameters(), {.lr = 0.1});
    return std::make_shared<torch::optim::SGD>(parameters(), 0.1);
  }

  bool is_free = false;
  std::vector<double> val_losses;
  std::function<void()> in_validation;

 private:
  at::Tensor loss(const Batch& batch) {
    return torch::mse_loss(layer_->forward(norm_->forward(batch["inputs"])), batch["targets"]);
  }
  torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(2));
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(2, 1));
};

/// As Deep in make_weight_averaging_references.py.
class DeepRegression final : public Module {
 public:
  explicit DeepRegression(const Value& reference)
      : decays_(reference.at("decays").as_bool()), normalizes_(reference.at("normalizes").as_bool()) {
    for (at::Tensor& parameter : parameters()) {
      parameter.set_data(torch::arange(1, parameter.numel() + 1, torch::kDouble).sin().reshape(parameter.sizes()));
    }
    if (normalizes_) norm_ = register_module("norm", torch::nn::BatchNorm1d(3));
    to(torch::kDouble);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch); }
  void validation_step(const Batch& batch, std::int64_t) override { val_losses.push_back(loss(batch).item<double>()); }
  void on_train_epoch_start() override { lrs.push_back(get_lrs(optimizer()).front()); }
  OptimizerSetups configure_optimizers() override {
    if (!decays_) return SGD(parameters(), 0.1);
    return {SGD(parameters(), 0.1), ExponentialLr::Options{.gamma = 0.8}};
  }

  std::vector<double> val_losses;
  std::vector<double> lrs;

 private:
  at::Tensor loss(const Batch& batch) {
    const at::Tensor hidden = first_->forward(batch["inputs"]);
    return torch::mse_loss(layer_->forward(normalizes_ ? norm_->forward(hidden) : hidden), batch["targets"]);
  }
  bool decays_, normalizes_;
  torch::nn::Linear first_ = register_module("first", torch::nn::Linear(2, 3));
  torch::nn::BatchNorm1d norm_{nullptr};
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(3, 1));
};

struct AveragedFit {
  explicit AveragedFit(Component<Callback> averaging) : run(3) {
    run.options.precision = PrecisionFormat::kFloat64;
    run.options.num_sanity_val_steps = 0;
    run.options.enable_checkpointing = std::nullopt;
    if (!averaging.empty()) run.options.callbacks.push_back(std::move(averaging));
    run.options.callbacks.push_back(
        std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = run.folder.path(), .save_last = true}));
  }
  void operator()() { (*this)(module); }
  void operator()(Module& fitted) {
    Trainer trainer(run.options);
    trainer.fit(fitted, waves(12, 3), {waves(5, 5)});
  }
  Checkpoint last() const { return Checkpoint::load(run.folder / "last.ckpt"); }

  ScriptedRun run;
  Regression module;
};

void check_numbers(const Value& expected, const std::function<at::Tensor(const std::string&)>& tensor_of) {
  for (const auto& [name, numbers] : expected.as_map()) {
    INFO(name);
    CHECK_THAT(numbers_in(tensor_of(name)), Catch::Approx(numbers_in(numbers)).epsilon(1e-9));
  }
}

at::Tensor tensor_of(const Module& module, const std::string& name) {
  const auto parameters = module.named_parameters();
  return parameters.contains(name) ? parameters[name] : module.named_buffers()[name];
}

}  // namespace

TEST_CASE("averaged weights are Lightning's: in validation, in checkpoints and after the fit") {
  const Value references = parse_json(read_text(LEVIN_SOURCE_DIR "/tests/callbacks/weight_averaging_references.json"));
  for (const Value& reference : references.as_list()) {
    INFO(to_json(reference.at("arguments")));
    AveragedFit averaged({reference.at("class"), reference.at("arguments")});
    averaged();
    const auto& losses = reference.at("val_losses").as_list();
    REQUIRE(averaged.module.val_losses.size() == losses.size());
    for (std::size_t epoch = 0; epoch < losses.size(); ++epoch) {
      // Lightning validates its initial weights here, before the end of the first epoch has averaged any.
      if (epoch == 0 && reference.at("arguments").find("update_starting_at_epoch") != nullptr &&
          reference.at("arguments").at("update_every_n_steps") == Value(0)) {
        CHECK(averaged.module.val_losses[0] < losses[0].as_double() * 0.9);
        continue;
      }
      CHECK(averaged.module.val_losses[epoch] == Approx(losses[epoch].as_double()).epsilon(1e-9));
    }
    const Checkpoint last = averaged.last();
    check_numbers(reference.at("module"), [&](const std::string& name) { return tensor_of(averaged.module, name); });
    check_numbers(reference.at("state_dict"), [&](const std::string& name) { return last.tensors.at("state_dict." + name); });
    check_numbers(reference.at("current_model_state"),
                  [&](const std::string& name) { return last.tensors.at("current_model_state." + name); });
  }
}

TEST_CASE("an exception in validation leaves the weights that are trained, and a checkpoint has both") {
  const bool is_free = GENERATE(false, true);
  AveragedFit plain({});
  plain.run.options.max_epochs = 2;
  plain.module.is_free = is_free;
  plain();
  const Checkpoint last = plain.last();
  AveragedFit averaged(is_free ? Component<Callback>() : EMAWeightAveraging({.decay = 0.5}));
  averaged.module.is_free = is_free;
  averaged.module.in_validation = [&] {
    if (averaged.module.val_losses.size() < 2) return;
    averaged.module.trainer().save_checkpoint((averaged.run.folder / "inside.ckpt").string());
    throw std::runtime_error("the validation fails");
  };
  CHECK_THROWS_WITH(averaged(), Catch::Contains("the validation fails"));
  const Checkpoint inside = Checkpoint::load(averaged.run.folder / "inside.ckpt");
  for (const auto& parameter : averaged.module.named_parameters()) {
    INFO(parameter.key());
    const at::Tensor trained = last.tensors.at((is_free ? "current_model_state." : "state_dict.") + parameter.key());
    CHECK(torch::equal(parameter.value(), trained));
    CHECK(torch::equal(inside.tensors.at("current_model_state." + parameter.key()), trained));
    CHECK_FALSE(torch::equal(inside.tensors.at("state_dict." + parameter.key()), trained));
  }
}

TEST_CASE("what a schedule-free optimizer averages is validated, saved and handed over") {
  AveragedFit free({});
  free.module.is_free = true;
  Trainer trainer(free.run.options);
  trainer.fit(free.module, waves(12, 3), {waves(5, 5)});
  trainer.save_checkpoint(free.run.folder / "after.ckpt");
  trainer.validate(free.module, {waves(5, 5)});
  REQUIRE(free.module.val_losses.size() == 4);
  CHECK(free.module.val_losses[3] == free.module.val_losses[2]);
  for (const Checkpoint& saved : {free.last(), Checkpoint::load(free.run.folder / "after.ckpt")}) {
    for (const auto& parameter : free.module.named_parameters()) {
      CHECK(torch::equal(saved.tensors.at("state_dict." + parameter.key()), parameter.value()));
      CHECK_FALSE(torch::equal(saved.tensors.at("current_model_state." + parameter.key()), parameter.value()));
    }
  }
  trainer.save_checkpoint(free.run.folder / "weights.ckpt", /*weights_only=*/true);
  CHECK_FALSE(Checkpoint::load(free.run.folder / "weights.ckpt").tensors.contains("current_model_state.layer.bias"));
}

TEST_CASE("StochasticWeightAveraging has Lightning's rates, and averages what each epoch ends with, the last one too") {
  for (const Value& reference : parse_json(read_text(LEVIN_SOURCE_DIR "/tests/callbacks/swa_references.json")).as_list()) {
    INFO(to_json(reference.at("arguments")));
    AveragedFit averaged({"StochasticWeightAveraging", reference.at("arguments")});
    averaged.run.options.max_epochs = 5;
    DeepRegression module(reference);
    averaged(module);
    CHECK_THAT(module.val_losses, Catch::Approx(numbers_in(reference.at("val_losses"))).epsilon(1e-9));
    CHECK_THAT(module.lrs, Catch::Approx(numbers_in(reference.at("lrs"))).epsilon(1e-9));
    const Checkpoint last = averaged.last();
    check_numbers(reference.at("module"), [&](const std::string& name) { return tensor_of(module, name); });
    check_numbers(reference.at("module"), [&](const std::string& name) { return last.tensors.at("state_dict." + name); });
    check_numbers(reference.at("trained"),
                  [&](const std::string& name) { return last.tensors.at("current_model_state." + name); });
    CHECK(last.tensors.at("averaging_state.n_averaged").item<std::int64_t>() == reference.at("averaged").as_int());
  }
}

namespace {

/// Gives its second layer to the optimizer at the start of an epoch, as a group with a separate rate. Each epoch has rates
/// and, at its end, weights.
class Growing final : public Module {
 public:
  explicit Growing(std::int64_t grows_in) : grows_in_(grows_in) {
    for (at::Tensor& parameter : parameters()) {
      parameter.set_data(torch::arange(1, parameter.numel() + 1, torch::kDouble).cos().reshape(parameter.sizes()));
    }
    for (at::Tensor& parameter : late_->parameters()) parameter.requires_grad_(false);
  }
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (batch_idx == 0) lrs.push_back(get_lrs(optimizer()));
    return torch::mse_loss(late_->forward(first_->forward(batch["inputs"])), batch["targets"]);
  }
  void on_train_epoch_start() override {
    if (current_epoch() != grows_in_) return;
    for (at::Tensor& parameter : late_->parameters()) parameter.requires_grad_(true);
    torch::optim::OptimizerParamGroup group(late_->parameters());
    group.set_options(std::make_unique<torch::optim::SGDOptions>(0.05));
    optimizer().add_param_group(group);
  }
  void on_train_epoch_end() override { ends.push_back(weights()); }
  OptimizerSetups configure_optimizers() override { return SGD(first_->parameters(), 0.1); }
  at::Tensor weights() const {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& parameter : parameters()) flat.push_back(parameter.detach().flatten());
    return torch::cat(flat);
  }

  std::vector<std::vector<double>> lrs;
  std::vector<at::Tensor> ends;

 private:
  std::int64_t grows_in_;
  torch::nn::Linear first_ = register_module("first", torch::nn::Linear(2, 3));
  torch::nn::Linear late_ = register_module("late", torch::nn::Linear(3, 1));
};

}  // namespace

TEST_CASE(
    "a parameter group that is added before or while StochasticWeightAveraging is on follows it, also in runs that resume") {
  const std::int64_t grows_in = GENERATE(1, 3);
  const auto run_with = [&](ScriptedRun& run, Growing& module, const std::string& ckpt_path = "") {
    run.options.max_epochs = 6;
    run.options.precision = PrecisionFormat::kFloat64;
    run.options.enable_checkpointing = std::nullopt;
    run.options.callbacks = {
        StochasticWeightAveraging(
            {.swa_lrs = 0.01, .swa_epoch_start = 3, .annealing_epochs = 4, .annealing_strategy = "linear"}),
        ModelCheckpoint({.dirpath = run.folder.path(), .filename = "{epoch}", .save_top_k = -1})};
    RunOptions how;
    if (!ckpt_path.empty()) how.ckpt_path = ckpt_path;
    Trainer(run.options).fit(module, waves(12, 3), {}, how);
  };
  ScriptedRun run(6);
  Growing whole(grows_in);
  run_with(run, whole);
  // A quarter of the way to 0.01 with each epoch behind epoch 2, and from where a group is when it comes.
  const std::vector<double> first = {0.1, 0.1, 0.1, 0.0775, 0.055, 0.0325};
  const double begin = (0.05 - 0.25 * 0.01) / 0.75;  // of a line that is at 0.05 in epoch 3
  const std::vector<double> late =
      grows_in == 1 ? std::vector{0.05, 0.05, 0.04, 0.03, 0.02} : std::vector{0.05, (begin + 0.01) / 2, (begin + 0.03) / 4};
  REQUIRE(whole.lrs.size() == 6);
  for (std::size_t epoch = 0; epoch < 6; ++epoch) {
    INFO("epoch " << epoch);
    CHECK(whole.lrs[epoch].at(0) == Approx(first[epoch]).epsilon(1e-12));
    const auto since = static_cast<std::ptrdiff_t>(epoch) - grows_in;
    REQUIRE(whole.lrs[epoch].size() == (since < 0 ? 1 : 2));
    if (since >= 0) CHECK(whole.lrs[epoch][1] == Approx(late[static_cast<std::size_t>(since)]).epsilon(1e-12));
  }
  // The mean of what the epoch before it and each from there on ended with.
  const std::vector<at::Tensor> averaged(whole.ends.begin() + 1, whole.ends.end());
  CHECK(torch::allclose(whole.weights(), torch::stack(averaged).mean(0), 1e-12, 1e-12));
  CHECK_FALSE(torch::equal(whole.ends[5], whole.ends[4]));
  for (int epoch = 0; epoch < 5; ++epoch) {
    INFO("resumed from the end of epoch " << epoch);
    ScriptedRun another(6);
    Growing resumed(grows_in);
    run_with(another, resumed, (run.folder / ("epoch=" + std::to_string(epoch) + ".ckpt")).string());
    CHECK(torch::equal(resumed.weights(), whole.weights()));
    CHECK(resumed.lrs == std::vector(whole.lrs.begin() + epoch + 1, whole.lrs.end()));
  }
}

TEST_CASE("statistics are computed also where training ends before max_epochs, and in a run that resumes from its end") {
  const Value reference = parse_json(read_text(LEVIN_SOURCE_DIR "/tests/callbacks/swa_references.json")).as_list().back();
  AveragedFit averaged({"StochasticWeightAveraging", reference.at("arguments")});
  averaged.run.options.max_epochs = -1;
  averaged.run.options.max_steps = 20;
  const bool resumes = GENERATE(false, true);
  if (resumes) averaged.run.options.max_steps = 16;
  DeepRegression module(reference);
  averaged(module);
  if (resumes) {
    averaged.run.options.max_steps = 20;
    Trainer(averaged.run.options)
        .fit(module, waves(12, 3), {waves(5, 5)}, {.ckpt_path = (averaged.run.folder / "last.ckpt").string()});
  }
  check_numbers(reference.at("module"), [&](const std::string& name) { return tensor_of(module, name); });
}

// What else cannot be is in acceptance/cases/class_options.txt and runs.txt.
TEST_CASE("StochasticWeightAveraging needs one optimizer that the run steps") {
  AveragedFit fit(StochasticWeightAveraging({.swa_lrs = 0.1}));
  fit.module.set_automatic_optimization(false);
  CHECK_THROWS_WITH(fit(), Catch::Contains("sets the learning rate of one optimizer"));
}

namespace {

/// Takes one more pass over the data where no batch is left, twice an epoch.
class Visiting final : public Callback {
 public:
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&, std::int64_t) override {
    if (trainer.is_last_batch()) return visit(trainer, module);
    CHECK_THROWS_WITH(visit(trainer, module), Catch::Contains("after its last batch"));
  }
  void on_train_epoch_end(Trainer& trainer, Module& module) override { visit(trainer, module); }
  int batches = 0;

 private:
  void visit(Trainer& trainer, Module& module) {
    trainer.visit_training_data([&](const Batch& batch, std::int64_t batch_idx) {
      CHECK(batches++ % 4 == batch_idx);
      CHECK_FALSE(module.training_step(batch, batch_idx).loss.requires_grad());
    });
  }
};

/// Draws random numbers and logs.
class LoggingModule final : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = (layer_->forward(batch["inputs"].to(torch::kFloat)) - torch::rand({1})).pow(2).mean();
    log("loss", loss, {.on_step = true, .on_epoch = true});
    errors_.update(loss, torch::zeros({}));
    return loss;
  }
  void on_train_epoch_end() override { log("errors", errors_); }
  OptimizerSetups configure_optimizers() override { return SGD(parameters(), 0.1); }

 private:
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(2, 1));
  MeanSquaredError& errors_ = add_metric<MeanSquaredError>("errors");
};

}  // namespace

TEST_CASE("one more pass over the training data leaves no trace") {
  std::vector<at::Tensor> weights;
  std::vector<std::vector<MetricRow>> rows;
  for (const bool visits : {false, true}) {
    const auto visiting = std::make_shared<Visiting>();
    const auto logger = std::make_shared<RowsOf>();
    ScriptedRun run(2, visits ? std::vector<std::shared_ptr<Callback>>{visiting} : std::vector<std::shared_ptr<Callback>>());
    run.options.logger = logger;
    run.options.log_every_n_steps = 1;
    torch::manual_seed(3);
    LoggingModule module;
    Trainer(run.options).fit(module, waves(12, 3, /*shuffle=*/true));
    CHECK(visiting->batches == (visits ? 2 * 2 * 4 : 0));
    weights.push_back(module.parameters()[0].detach());
    rows.push_back(logger->rows);
  }
  CHECK(torch::equal(weights[0], weights[1]));
  REQUIRE(rows[0].size() == rows[1].size());
  for (std::size_t row = 0; row < rows[0].size(); ++row) CHECK(rows[0][row].values == rows[1][row].values);
}
