#include <c10/util/Logging.h>

#include <catch2/catch.hpp>

#include "device/device_run.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/run/run_setup.h"
#include "levin/core/step/optimizer_graph.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/temporary_folder.h"
#include "support/test_device.h"

using namespace levin;
using namespace levin::test;

namespace {

constexpr std::int64_t kStepsAnEpoch = 20;
constexpr std::int64_t kTrainedEpochs = 2;

using MakeOptimizer = std::function<OptimizerSetups(std::vector<at::Tensor>)>;

/// A network whose optimizer's steps are looked at.
struct Trained : Module {
  explicit Trained(MakeOptimizer made) : make(std::move(made)) {}
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return torch::nn::functional::mse_loss(network->forward(batch["x"]), batch["y"]);
  }
  void on_before_optimizer_step(torch::optim::Optimizer&) override { counts = QueuedDevice::counts(); }
  void optimizer_step(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& closure) override {
    optimizer.step(closure);
    kernels.push_back((QueuedDevice::counts() - counts).kernels);
    if (on_step) on_step(*this, static_cast<std::int64_t>(kernels.size()), optimizer);
  }
  OptimizerSetups configure_optimizers() override { return make(parameters()); }

  MakeOptimizer make;
  std::function<void(Trained&, std::int64_t, torch::optim::Optimizer&)> on_step;
  torch::nn::Sequential network =
      register_module("network", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 2)));
  QueuedDevice::Counts counts;
  std::vector<std::int64_t> kernels;  ///< that each optimizer step has given the device
};

struct TrainedFit {
  MakeOptimizer make;
  std::function<void(Trained&, std::int64_t, torch::optim::Optimizer&)> on_step = nullptr;
  std::function<void(TrainerOptions&)> options = [](TrainerOptions&) {};
};

std::shared_ptr<Trained> trained_by(const TrainedFit& fit, CudaGraph graph, const std::filesystem::path& log) {
  TrainerOptions options = graph_options(kTrainedEpochs, graph, log);
  fit.options(options);
  torch::manual_seed(5);
  auto trained = std::make_shared<Trained>(fit.make);
  trained->on_step = fit.on_step;
  std::vector<Batch> batches;
  for (std::int64_t index = 0; index < kStepsAnEpoch; ++index) {
    batches.push_back(Batch{{"x", torch::randn({8, 6})}, {"y", torch::randn({8, 2})}});
  }
  Trainer(options).fit(*trained, std::make_shared<FixedLoader>(std::move(batches)));
  return trained;
}

struct ComparedSteps {
  std::vector<std::int64_t> called, recorded;  ///< kernels of each step
  std::string log;
};
/// Fits with graphs and without, and checks that weights come to the same to the bit.
ComparedSteps compare_steps(const TrainedFit& fit) {
  const TemporaryFolder folder;
  const auto called = trained_by(fit, CudaGraph::kNever, folder / "called");
  const auto recorded = trained_by(fit, CudaGraph::kAuto, folder / "recorded");
  const auto weights = called->named_parameters();
  REQUIRE(weights.size() == 4);
  for (const auto& entry : recorded->named_parameters()) {
    INFO(entry.key());
    CHECK(entry.value().equal(weights[entry.key()]));
  }
  return {called->kernels, recorded->kernels, read_text(folder / "recorded")};
}

/// How many steps gave the device so many kernels.
std::int64_t steps_with(std::int64_t kernels, const std::vector<std::int64_t>& steps) {
  return std::ranges::count(steps, kernels);
}

template <class Optimizer, class Options>
MakeOptimizer make(Options options) {
  return [options](std::vector<at::Tensor> parameters) { return Optimizer(std::move(parameters), options); };
}

/// Steps before the first that is only replayed: 7 whose training step is called as well, one that has its gradients where the
/// recorded one leaves them, and three that are both replayed and called.
constexpr std::int64_t kStepsCalled = 7 + 1 + 3;
constexpr std::int64_t kSteps = kStepsAnEpoch * kTrainedEpochs;

bool counts_kernels() { return test_accelerator() == "cpu"; }

}  // namespace

TEST_CASE("fused steps on a device have the numbers of LibTorch's") {
  const auto check_alike = [](const MakeOptimizer& fused, const MakeOptimizer& plain) {
    const TemporaryFolder folder;
    const auto one = trained_by({.make = fused}, CudaGraph::kNever, folder / "fused");
    const auto other = trained_by({.make = plain}, CudaGraph::kNever, folder / "plain");
    const auto weights = other->named_parameters();
    for (const auto& entry : one->named_parameters()) CHECK(entry.value().allclose(weights[entry.key()], 1e-3, 1e-5));
    if (counts_kernels()) CHECK(one->kernels.back() < other->kernels.back() / 4);
  };
  const auto momentum = SGDOptions(0.01).momentum(0.9).weight_decay(0.1);
  check_alike(make<levin::SGD>(momentum), make<torch::optim::SGD>(momentum));
  check_alike(make<levin::Adam>(AdamOptions(0.01)), make<torch::optim::Adam>(AdamOptions(0.01)));
  check_alike(make<levin::AdamW>(AdamWOptions(0.01)), make<torch::optim::AdamW>(AdamWOptions(0.01)));
  check_alike(make<levin::Adagrad>(AdagradOptions(0.01)), make<torch::optim::Adagrad>(AdagradOptions(0.01)));
}

TEST_CASE("a recorded step of an optimizer comes to what a called one does, and gives the device nothing but itself") {
  const auto in_groups = [](const std::vector<at::Tensor>& parameters) -> OptimizerSetups {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector{parameters[0], parameters[1]}, std::make_unique<AdamWOptions>(0.01));
    groups.emplace_back(std::vector{parameters[2]}, std::make_unique<AdamWOptions>(AdamWOptions(0.003).weight_decay(0)));
    return levin::AdamW(groups, AdamWOptions(0.02));
  };
  const std::vector<MakeOptimizer> all = {
      make<levin::SGD>(SGDOptions(0.01)),
      make<levin::SGD>(SGDOptions(0.01).momentum(0.9).weight_decay(0.1).nesterov(true)),
      make<levin::Adam>(AdamOptions(0.01).weight_decay(0.1)),
      make<levin::AdamW>(AdamWOptions(0.003).amsgrad(true)),
      make<levin::Adagrad>(AdagradOptions(0.01).lr_decay(0.1)),
      in_groups,
  };
  for (const MakeOptimizer& each : all) {
    const ComparedSteps compared = compare_steps({.make = each});
    CHECK_THAT(compared.log, !Catch::Contains("cuda_graph"));
    if (!counts_kernels()) continue;
    CHECK(steps_with(0, compared.called) == 0);
    CHECK(steps_with(0, compared.recorded) == kSteps - kStepsCalled);
  }
}

TEST_CASE("gradients that batches accumulate are recorded, too") {
  const auto accumulated = [](TrainerOptions& options) { options.accumulate_grad_batches = 2; };
  const ComparedSteps compared = compare_steps({.make = make<levin::Adam>(AdamOptions(0.01)), .options = accumulated});
  CHECK_THAT(compared.log, !Catch::Contains("cuda_graph"));
  // As above, but two batches make a step.
  if (counts_kernels()) CHECK(steps_with(0, compared.recorded) == kSteps / 2 - (4 + 1 + 3));
}

TEST_CASE("a recorded step has the learning rate of now, which is all that is sent for it") {
  const auto schedule = [](Trained&, std::int64_t step, torch::optim::Optimizer& optimizer) {
    set_lr(optimizer.param_groups()[0], 0.01 / static_cast<double>(step));
  };
  const ComparedSteps compared = compare_steps({.make = make<levin::AdamW>(AdamWOptions(0.01)), .on_step = schedule});
  if (counts_kernels()) CHECK(steps_with(1, compared.recorded) == kSteps - kStepsCalled);
}

TEST_CASE("what changes in an optimizer on the way is in its next step, and is recorded again") {
  constexpr std::int64_t kStepOfChange = 15;
  using Change = std::function<void(Trained&, torch::optim::Optimizer&)>;
  const Change other_option = [](Trained&, torch::optim::Optimizer& optimizer) {
    static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).weight_decay(0.5);
  };
  const Change other_count = [](Trained& module, torch::optim::Optimizer& optimizer) {
    for (const at::Tensor& parameter : module.parameters()) {
      static_cast<torch::optim::AdamWParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl())).step(3);
    }
  };
  const Change other_state = [](Trained& module, torch::optim::Optimizer& optimizer) {
    const at::Tensor first = module.parameters().front();
    auto& state = static_cast<torch::optim::AdamWParamState&>(*optimizer.state().at(first.unsafeGetTensorImpl()));
    state.exp_avg(torch::ones_like(first, first.options().requires_grad(false)));
  };
  for (const auto& [change, sent] :
       std::vector<std::pair<Change, std::int64_t>>{{other_option, 1 + 3}, {other_count, 1}, {other_state, 1 + 3}}) {
    const auto changes = [&change = change](Trained& module, std::int64_t step, torch::optim::Optimizer& optimizer) {
      if (step == kStepOfChange) change(module, optimizer);
    };
    const ComparedSteps compared = compare_steps({.make = make<levin::AdamW>(AdamWOptions(0.01)), .on_step = changes});
    if (counts_kernels()) CHECK(steps_with(0, compared.recorded) == kSteps - kStepsCalled - sent);
  }
}

TEST_CASE("gradients of replayed steps are the parameters' own: a stored one has its values later, too") {
  const auto fit = [](bool set_to_none, std::vector<std::pair<at::Tensor, at::Tensor>>& stored) {
    const auto keep = [&stored](Trained& module, std::int64_t step, torch::optim::Optimizer&) {
      const at::Tensor gradient = module.parameters().front().grad();
      if (step % 4 == 0) stored.emplace_back(gradient, gradient.clone());
    };
    struct ZeroGrad : Callback {
      void on_before_zero_grad(Trainer&, Module&, torch::optim::Optimizer& optimizer) override {
        zero_grad(optimizer, /*set_to_none=*/false);
      }
    };
    const auto options = [=](TrainerOptions& trainer) {
      if (!set_to_none) trainer.callbacks = {std::make_shared<ZeroGrad>()};
    };
    compare_steps({.make = make<levin::SGD>(SGDOptions(0.01)), .on_step = keep, .options = options});
  };
  std::vector<std::pair<at::Tensor, at::Tensor>> stored;
  fit(/*set_to_none=*/true, stored);
  REQUIRE(stored.size() == 2 * kSteps / 4);
  for (const auto& [gradient, values] : stored) CHECK(gradient.equal(values));
  fit(/*set_to_none=*/false, stored);
}

TEST_CASE("an optimizer's step that cannot be recorded is called, and a line says why") {
  const auto check_called = [](const TrainedFit& fit, const std::string& why) {
    const ComparedSteps compared = compare_steps(fit);
    CHECK_THAT(compared.log, Catch::Contains("cuda_graph: the optimizer's step is called, not replayed: " + why));
    if (counts_kernels()) CHECK(steps_with(0, compared.recorded) == 0);
  };
  check_called({.make = make<levin::Lion>(LionOptions{.lr = 0.001})}, "Lion has none that can be recorded");
  check_called({.make = make<torch::optim::AdamW>(AdamWOptions(0.01))}, "AdamW has none that can be recorded");
  const auto not_fused = [](std::vector<at::Tensor> parameters) {
    return levin::SGD(std::move(parameters), SGDOptions(0.01), /*fused=*/false);
  };
  check_called({.make = not_fused}, "SGD has none that can be recorded");
  const auto in_double = [](TrainerOptions& options) { options.precision = PrecisionFormat::kFloat64; };
  check_called({.make = make<levin::Adam>(AdamOptions(0.01)), .options = in_double}, "some weights are not of 32 bits");
}

namespace {

/// Adds a number to a tensor on the device.
struct AddedNumber : RecordableStep {
  void call() override {
    ++calls;
    tensor.add_(1);
  }
  void send_numbers() override {}
  void call_with_sent_numbers() override {
    if (!error.empty()) throw std::runtime_error(error);
    tensor.add_(when_recorded);
  }
  std::optional<Fixed> fixed() const override { return Fixed{{tensor.const_data_ptr()}, {}}; }
  std::vector<at::Tensor> changed() const override { return {tensor}; }

  at::Tensor tensor = torch::zeros({1 << 10}, QueuedDevice::device());
  double when_recorded = 1;
  std::string error;
  int calls = 0;
};

}  // namespace

TEST_CASE("an optimizer's step that comes to something else when replayed is called, and counts once") {
  if (!counts_kernels()) return;
  TrainerOptions options = quiet_options(1);
  options.accelerator = "QueuedAccelerator";
  const RunSetup setup(options);
  constexpr int kCalls = 8;
  const auto do_steps = [&](AddedNumber& step, std::optional<std::int64_t> more_memory = std::nullopt) {
    OptimizerGraph graph(setup);
    if (more_memory)
      QueuedDevice::limit_memory(setup.strategy->accelerator().memory(setup.strategy->device())->allocated + *more_memory);
    for (int index = 0; index < kCalls; ++index) graph.run(step);
    QueuedDevice::limit_memory(std::numeric_limits<std::int64_t>::max());
    CHECK(step.tensor.eq(kCalls).all().item<bool>());
    return step.calls;
  };
  AddedNumber right;
  CHECK(do_steps(right) == 1 + 3);
  AddedNumber wrong;
  wrong.when_recorded = 1.5;
  CHECK(do_steps(wrong) == kCalls);
  AddedNumber failing;
  failing.error = "no";
  CHECK(do_steps(failing) == kCalls);
  for (const std::int64_t copies : {0, 1, 2}) {
    AddedNumber large;
    CHECK(do_steps(large, copies * static_cast<std::int64_t>(large.tensor.nbytes())) == kCalls);
  }
}
