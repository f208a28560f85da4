#include <catch2/catch.hpp>
#include <limits>

#include "levin/callbacks/lambda_callback.h"
#include "levin/core/accelerator.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/step/precision.h"
#include "levin/core/training_snapshot.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// A CPU whose mixed precision is 16-bit floats.
class HalfCpu : public Accelerator {
 public:
  std::string name() const override { return "half_cpu"; }
  at::DeviceType device_type() const override { return at::kCPU; }
  std::optional<at::ScalarType> autocast_type(PrecisionFormat) const override { return at::kHalf; }
};
LEVIN_REGISTER_ACCELERATOR(HalfCpu, "16-bit floats on the CPU");

/// One weight, stepped by its gradient: the loss's slope, which is a batch's only number, passes through 16-bit floats.
struct Slope : Module {
  explicit Slope(bool automatic)
      : layer(register_module("layer", torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)))) {
    set_automatic_optimization(automatic);
    const at::NoGradGuard no_grad;
    layer->weight.zero_();
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor out = layer->forward(torch::ones({1, 1}));
    CHECK(out.scalar_type() == at::kHalf);
    const at::Tensor loss = (out.to(at::kFloat) * batch[0]).sum();
    losses.push_back(loss.item<double>());
    if (automatic_optimization()) return loss;
    optimizer_zero_grad(optimizer());
    manual_backward(loss);
    step_optimizer();
    return {};
  }
  void on_after_backward() override { scaled.push_back(layer->weight.grad().item<double>()); }
  void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override {
    weights.push_back(layer->weight.item<double>());
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }

  torch::nn::Linear layer;
  std::vector<double> losses, scaled, weights;
};

TrainerOptions half_options() {
  return quiet({.max_epochs = 1, .accelerator = "HalfCpu", .precision = PrecisionFormat::kFloat16Mixed});
}

std::shared_ptr<FixedLoader> batch_of_each(const std::vector<double>& numbers) {
  std::vector<Batch> batches;
  for (const double number : numbers) batches.emplace_back(torch::tensor(number, torch::kFloat));
  return std::make_shared<FixedLoader>(std::move(batches));
}

std::shared_ptr<FixedLoader> one_batch(const at::Tensor& values) {
  return std::make_shared<FixedLoader>(std::vector<Batch>{Batch(values)});
}

/// A convolution of images.
struct Images : Module {
  Images() : layer(register_module("layer", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 2)))) {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) parameter.copy_(torch::arange(parameter.numel()).view_as(parameter) / 48);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    input = batch[0];
    return layer->forward(batch[0]).pow(2).mean();
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::Adam>(parameters(), 0.1); }
  const at::Tensor& weight() const { return layer->weight; }
  at::Tensor momentum(const Trainer& trainer) const {
    const auto& state = trainer.optimizers().front()->state();
    return static_cast<torch::optim::AdamParamState&>(*state.at(weight().unsafeGetTensorImpl())).exp_avg();
  }

  torch::nn::Conv2d layer;
  at::Tensor input;
};

}  // namespace

TEST_CASE("precision 64-true computes in double, bf16-mixed in bfloat16 with float weights") {
  struct Typed : Module {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor out = layer->forward(batch[0].reshape({1, 1}));
      input_type = batch[0].scalar_type();
      output_type = out.scalar_type();
      weight_type = layer->weight.scalar_type();
      return out.mean();
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(1, 1));
    at::ScalarType input_type{}, output_type{}, weight_type{};
  };
  const auto [format, input, output, weight] = GENERATE(table<PrecisionFormat, at::ScalarType, at::ScalarType, at::ScalarType>(
      {{PrecisionFormat::kFloat64, at::kDouble, at::kDouble, at::kDouble},
       {PrecisionFormat::kBfloat16Mixed, at::kFloat, at::kBFloat16, at::kFloat}}));
  Typed module;
  Trainer(quiet({.max_epochs = 1, .precision = format})).fit(module, one_batch(torch::ones({1, 1})));
  CHECK(module.input_type == input);
  CHECK(module.output_type == output);
  CHECK(module.weight_type == weight);
}

TEST_CASE("under bf16-mixed a manual backward pass and step compute in full, and forward passes see the step") {
  struct Own : Module {
    Own() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor before = torch::mm(batch[0], weight);
      optimizer().zero_grad();
      manual_backward(before.sum());
      step_optimizer();
      const at::Tensor after = torch::mm(batch[0], weight);
      CHECK(before.scalar_type() == at::kBFloat16);
      CHECK(after.scalar_type() == at::kBFloat16);
      CHECK(before.item<double>() == 1);
      CHECK(after.item<double>() == 0);  // of a weight of 1 and a gradient of 1
      return {};
    }
    void note() { types.push_back(torch::mm(weight, weight).scalar_type()); }
    void backward(const at::Tensor& loss) override {
      note();
      loss.backward();
    }
    void on_before_optimizer_step(torch::optim::Optimizer&) override { note(); }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }
    at::Tensor weight = register_parameter("weight", torch::ones({1, 1}));
    std::vector<at::ScalarType> types;
  };
  Own module;
  Trainer(quiet({.max_epochs = 1, .precision = PrecisionFormat::kBfloat16Mixed})).fit(module, one_batch(torch::ones({1, 1})));
  CHECK(module.types == std::vector<at::ScalarType>{at::kFloat, at::kFloat});
}

TEST_CASE("true precision leaves buffers of whole numbers, truth values and complex numbers as they are") {
  struct Counting : Module {
    StepOutput training_step(const Batch& batch, std::int64_t) override { return norm->forward(batch[0]).pow(3).mean(); }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(2));
    at::Tensor counts = register_buffer("counts", torch::tensor({std::int64_t{1} << 40, std::int64_t{3}}));
    at::Tensor mask = register_buffer("mask", torch::tensor({true, false}));
    at::Tensor phases = register_buffer("phases", torch::ones({2}, torch::kComplexFloat));
  } module;
  TrainerOptions options = quiet_options(300);
  options.precision = GENERATE(PrecisionFormat::kFloat64, PrecisionFormat::kBfloat16);
  const bool is_double = options.precision == PrecisionFormat::kFloat64;
  Trainer(options).fit(module, one_batch(torch::arange(4.0).view({2, 2})));
  CHECK(module.norm->weight.scalar_type() == (is_double ? at::kDouble : at::kBFloat16));
  CHECK(module.norm->running_mean.scalar_type() == (is_double ? at::kDouble : at::kBFloat16));
  CHECK(module.norm->num_batches_tracked.scalar_type() == at::kLong);
  CHECK(module.norm->num_batches_tracked.item<std::int64_t>() == 300);  // as bfloat16 it would stay at 256
  CHECK(module.counts[0].item<std::int64_t>() == std::int64_t{1} << 40);
  CHECK(module.counts.scalar_type() == at::kLong);
  CHECK(module.mask.scalar_type() == at::kBool);
  CHECK(module.phases.scalar_type() == at::kComplexFloat);  // a checkpoint has no place for others
}

TEST_CASE("channels_last brings images and weights into that order, and changes neither numbers nor checkpoints") {
  const TemporaryFolder folder;
  const auto fit = [&](Images& module, bool channels_last, std::int64_t epochs, const RunOptions& run = {}) {
    Trainer trainer(quiet({.max_epochs = epochs, .channels_last = channels_last}));
    trainer.fit(module, one_batch(torch::arange(150.0).view({2, 3, 5, 5}) / 150), {}, run);
    trainer.save_checkpoint(folder / "saved.ckpt");
    CHECK(module.momentum(trainer).is_contiguous(at::MemoryFormat::ChannelsLast) == channels_last);
  };
  Images plain;
  fit(plain, false, 2);
  CHECK(plain.input.is_contiguous());
  Images whole;
  fit(whole, true, 2);
  CHECK(whole.input.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(whole.weight().is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(at::allclose(whole.weight(), plain.weight(), 1e-4, 1e-5));

  Images begun;
  fit(begun, true, 1);
  for (const auto& [name, tensor] : Checkpoint::load(folder / "saved.ckpt").tensors) {
    INFO(name);
    CHECK(tensor.is_contiguous());
  }
  Images resumed;
  fit(resumed, true, 2, {.ckpt_path = (folder / "saved.ckpt").string()});
  CHECK(resumed.weight().equal(whole.weight()));
}

TEST_CASE("16-mixed steps by gradients that 16-bit floats do not hold, and leaves out a step that overflows") {
  const bool automatic = GENERATE(true, false);
  const double infinity = std::numeric_limits<double>::infinity();
  Slope module(automatic);
  Trainer trainer(half_options());
  // 1e-8 is less than the smallest 16-bit float; 3 times 65536 is more than the largest.
  trainer.fit(module, batch_of_each({1e-8, 3.0, 1e-8, 1.5}));
  REQUIRE(module.scaled.size() == 4);
  CHECK(module.scaled[0] == Approx(1e-8 * 65536).epsilon(1e-3));
  CHECK(module.scaled[1] == infinity);
  CHECK(module.scaled[2] == Approx(1e-8 * 32768).epsilon(1e-3));
  CHECK(module.scaled[3] == Approx(1.5 * 32768).epsilon(1e-3));
  CHECK(module.weights[0] == Approx(-1e-8).epsilon(1e-3));
  CHECK(module.weights[1] == module.weights[0]);
  CHECK(module.weights[2] == Approx(-2e-8).epsilon(1e-3));
  CHECK(module.weights[3] == Approx(-1.5).epsilon(1e-3));
  CHECK(trainer.global_step() == 4);
}

TEST_CASE("clipping and callbacks under 16-mixed see loss and gradients as they are") {
  TrainerOptions options = half_options();
  options.gradient_clip_val = 0.25;
  std::vector<double> seen;
  options.callbacks = {LambdaCallback({.on_fit_start = [](Trainer& trainer, Module&) { keep_step_losses(trainer); },
                                       .on_before_optimizer_step =
                                           [&](Trainer& trainer, Module&, torch::optim::Optimizer& sgd) {
                                             seen.push_back(total_norm(gradient_norms(trainer, sgd)).value());
                                             const StepLoss loss = loss_of_step(trainer);
                                             seen.push_back(loss.sum / loss.weight);
                                           }})};
  Slope module(/*automatic=*/true);
  Trainer(options).fit(module, batch_of_each({0.125, 0.5}));
  REQUIRE(module.weights.size() == 2);
  CHECK(module.weights[0] == -0.125);
  CHECK(module.weights[1] == Approx(-0.375).epsilon(1e-4));
  REQUIRE(seen.size() == 4);
  CHECK(seen[0] == 0.125);
  CHECK(seen[1] == 0);
  CHECK(seen[2] == 0.5);
  CHECK(seen[3] == -0.0625);
}

TEST_CASE("a snapshot that is restored restores the factor of 16-mixed") {
  TrainerOptions options = half_options();
  TrainingSnapshot snapshot;
  const auto at_end = [&](Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx) {
    if (batch_idx == 0) snapshot.take(trainer);
    if (batch_idx == 1) snapshot.restore(trainer);
  };
  options.callbacks = {LambdaCallback({.on_train_batch_end = at_end})};
  Slope module(/*automatic=*/true);
  Trainer(options).fit(module, batch_of_each({1e-8, 3.0, 1e-8}));
  REQUIRE(module.scaled.size() == 3);
  CHECK(module.scaled[1] == std::numeric_limits<double>::infinity());
  CHECK(module.scaled[2] == module.scaled[0]);
}

TEST_CASE("the factor of 16-mixed doubles after 2000 good batches, and continues from a checkpoint") {
  const TemporaryFolder folder;
  const std::string file = (folder / "saved.ckpt").string();
  const auto scaled_after = [&](std::size_t batches, const RunOptions& run) {
    TrainerOptions options = half_options();
    options.max_epochs = run.ckpt_path ? 2 : 1;
    Slope module(/*automatic=*/true);
    Trainer trainer(options);
    trainer.fit(module, batch_of_each(std::vector<double>(batches, 1.0 / 1024)), {}, run);
    trainer.save_checkpoint(file);
    return module.scaled;
  };
  const auto first = scaled_after(1999, {});
  CHECK(first.front() == 64);
  CHECK(first.back() == 64);
  const Value saved = Checkpoint::load(file).manifest.at("gradient_scaler");
  CHECK(saved.at("scale").as_double() == 65536);
  CHECK(saved.at("_growth_tracker").as_int() == 1999);
  const auto second = scaled_after(1999, {.ckpt_path = file});
  CHECK(second[0] == 64);
  CHECK(second[1] == 128);
}

TEST_CASE("a warning says that 16 bits are slow on a processor without arithmetic for them") {
  using Format = PrecisionFormat;
  for (const Format format : {Format::kBfloat16, Format::kBfloat16Mixed, Format::kFloat16Mixed}) {
    CHECK_THAT(slow_format_warning(format, at::kCPU, /*has_bfloat16=*/false),
               Catch::StartsWith("trainer.precision: " + std::string(choice_name(format)) + " is slower here than 32-true"));
    CHECK(slow_format_warning(format, at::kCPU, /*has_bfloat16=*/true).empty());
    CHECK(slow_format_warning(format, at::kCUDA, /*has_bfloat16=*/false).empty());
  }
  for (const Format format : {Format::kFloat32, Format::kFloat64})
    CHECK(slow_format_warning(format, at::kCPU, /*has_bfloat16=*/false).empty());
}

TEST_CASE("weights of 64 bits begin from a file with all of them") {
  struct Third : Module {
    StepOutput training_step(const Batch&, std::int64_t) override { return (weight - 1).pow(2).sum(); }
    void on_fit_start() override { first = weight.item<double>(); }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0 / 3); }
    at::Tensor weight = register_parameter("weight", torch::zeros({1}));
    double first = 0;
  } module, begun;
  const TemporaryFolder folder;
  const TrainerOptions options = quiet({.max_epochs = 1, .precision = PrecisionFormat::kFloat64});
  Trainer trainer(options);
  trainer.fit(module, one_batch(torch::ones({1})));
  trainer.save_checkpoint(folder / "saved.ckpt");
  const double saved = module.weight.item<double>();
  CHECK(saved != static_cast<float>(saved));
  Trainer(options).fit(begun, one_batch(torch::ones({1})), {}, {.init_from = InitialWeights{folder / "saved.ckpt"}});
  CHECK(begun.first == saved);
}
