#include "levin/core/step/step_graph.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "device/device_run.h"
#include "levin/optim/fused_optimizers.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/temporary_folder.h"
#include "support/test_device.h"

using namespace levin;
using namespace levin::test;

namespace {

constexpr std::int64_t kBatches = 12;
constexpr std::int64_t kEpochs = 3;
/// Those that come before the first step which is replayed, and the last one of each epoch, which is smaller.
constexpr std::int64_t kCallsOfWholeFit = 8 + kEpochs;

LoaderPtr batches_of(std::int64_t last_size) {
  torch::manual_seed(11);
  std::vector<Batch> batches;
  for (std::int64_t index = 0; index < kBatches; ++index) {
    const std::int64_t size = index + 1 == kBatches ? last_size : 8;
    batches.push_back(Batch{{"x", torch::randn({size, 6})}, {"y", torch::randint(4, {size})}});
  }
  return std::make_shared<FixedLoader>(std::move(batches));
}

/// Everything that a step may have: a layer with running means, a layer that is frozen, hooks that count, metrics.
class Net : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    ++calls;
    const at::Tensor hidden = torch::relu(norm(first(batch["x"])));
    const at::Tensor logits = second(hidden);
    at::Tensor loss = torch::nn::functional::cross_entropy(logits, batch["y"]);
    log("loss", loss, {.on_step = true, .on_epoch = true});
    log("accuracy", (logits.argmax(1) == batch["y"]).to(torch::kFloat).mean(), {.on_epoch = true});
    if (also) loss = also(*this, loss, batch_idx);
    return {loss, {{"logits", logits}}};
  }
  void on_before_backward(const at::Tensor& loss) override { losses.push_back(loss.item<float>()); }
  void on_after_backward() override { gradient_norms.push_back(first->weight.grad().norm().item<float>()); }
  void on_train_epoch_end() override {
    metrics.push_back(trainer().callback_metrics().at("loss_epoch"));
    metrics.push_back(trainer().callback_metrics().at("accuracy"));
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<Adam>(parameters(), AdamOptions(0.01)); }

  std::function<at::Tensor(Net&, const at::Tensor&, std::int64_t)> also;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 16));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(16));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(16, 4));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(2, 2));
  at::Tensor seen = register_buffer("seen", torch::zeros({}));
  std::int64_t calls = 0;
  std::vector<float> losses;
  std::vector<float> gradient_norms;
  std::vector<double> metrics;
};

struct Fit {
  std::function<void(TrainerOptions&)> options = [](TrainerOptions&) {};
  std::function<at::Tensor(Net&, const at::Tensor&, std::int64_t)> also = nullptr;
  std::int64_t last_size = 5;
};

std::shared_ptr<Net> fitted(const Fit& fit, CudaGraph graph, const std::filesystem::path& log) {
  TrainerOptions options = graph_options(kEpochs, graph, log);
  fit.options(options);
  torch::manual_seed(5);
  auto net = std::make_shared<Net>();
  net->also = fit.also;
  const LoaderPtr loader = batches_of(fit.last_size);
  torch::manual_seed(3);
  Trainer(options).fit(*net, loader);
  return net;
}

struct Compared {
  std::int64_t calls = 0;  ///< of the step, with graphs
  std::string log;
};
/// Fits with graphs and without, and checks that nothing differs.
Compared compare(const Fit& fit) {
  const TemporaryFolder folder;
  const auto plain = fitted(fit, CudaGraph::kNever, folder / "plain");
  const auto graphed = fitted(fit, CudaGraph::kAuto, folder / "graphed");
  CHECK(graphed->losses == plain->losses);
  CHECK(graphed->gradient_norms == plain->gradient_norms);
  CHECK(graphed->metrics == plain->metrics);
  REQUIRE(plain->losses.size() == kBatches * kEpochs);
  const auto same = [](const auto& one, const auto& other) {
    for (const auto& entry : one) {
      INFO(entry.key());
      CHECK(entry.value().equal(other[entry.key()]));
    }
  };
  same(plain->named_parameters(), graphed->named_parameters());
  same(plain->named_buffers(), graphed->named_buffers());
  CHECK(plain->calls == kBatches * kEpochs);
  return {graphed->calls, read_text(folder / "graphed")};
}

}  // namespace

TEST_CASE("steps that are replayed come to what they come to when called, accumulated, clipped and under autocast too") {
  const std::function<void(TrainerOptions&)> accumulated = [](TrainerOptions& options) {
    options.accumulate_grad_batches = 3;
    options.gradient_clip_val = 0.1;
  };
  const std::function<void(TrainerOptions&)> mixed = [](TrainerOptions& options) {
    options.precision = PrecisionFormat::kBfloat16Mixed;
  };
  for (const Fit& fit : {Fit(), Fit{.options = accumulated}, Fit{.options = mixed}}) {
    const Compared compared = compare(fit);
    CHECK(compared.calls == kCallsOfWholeFit);
    CHECK_THAT(compared.log, !Catch::Contains("cuda_graph"));
  }
}

TEST_CASE("a step that is replayed draws new random numbers each time, those of the called one") {
  if (test_accelerator() != "cpu") return;  // a GPU that replays draws others
  const auto draws = [](Net&, const at::Tensor& loss, std::int64_t) {
    return torch::nn::functional::dropout(loss.expand({64})).mean() *
           torch::rand({}, loss.options().requires_grad(false)).add(1);
  };
  CHECK(compare({.also = draws}).calls == kCallsOfWholeFit);
}

TEST_CASE("a layer that is frozen on the way makes a step another one") {
  struct FreezesOnTheWay : Callback {
    void on_train_epoch_start(Trainer& trainer, Module& module) override {
      if (trainer.current_epoch() == 1) dynamic_cast<Net&>(module).second->weight.requires_grad_(false);
      if (trainer.current_epoch() == 2) dynamic_cast<Net&>(module).norm->eval();
    }
  };
  const Compared compared =
      compare({.options = [](TrainerOptions& options) { options.callbacks = {std::make_shared<FreezesOnTheWay>()}; }});
  CHECK(compared.calls == 3 * 8 + kEpochs);
}

TEST_CASE("a step that cannot be recorded, or comes to something else when replayed, is called, and a line says why") {
  const auto [also, reason] = GENERATE(table<decltype(Fit::also), std::string>({
      {[](Net&, const at::Tensor& loss, std::int64_t) { return loss * loss.item<float>(); },
       "operation not permitted when stream is capturing"},
      {[](Net& net, const at::Tensor& loss, std::int64_t batch_idx) {
         net.log("index", static_cast<double>(batch_idx));
         return loss;
       },
       "log(\"index\") was given a number that is not on"},
      {[](Net&, const at::Tensor& loss, std::int64_t) { return loss * torch::rand({}).add(1); },
       "a step drew random numbers on the CPU"},
      {[](Net&, const at::Tensor& loss, std::int64_t batch_idx) { return loss * static_cast<double>(batch_idx + 1); },
       "the loss differs when replayed"},
      // The same loss, and another gradient.
      {[](Net& net, const at::Tensor& loss, std::int64_t batch_idx) {
         const at::Tensor weight = net.first->weight.sum() * static_cast<double>(batch_idx);
         return loss + (weight - weight.detach());
       },
       "a gradient differs when replayed"},
      {[](Net& net, const at::Tensor& loss, std::int64_t batch_idx) {
         const at::NoGradGuard no_grad;
         net.seen.fill_(static_cast<double>(batch_idx));
         return loss;
       },
       "a buffer differs when replayed"},
  }));
  const Compared compared = compare({.also = also});
  CHECK(compared.calls >= kBatches * kEpochs);
  CHECK(compared.calls <= kBatches * kEpochs + 1);  // once to be recorded
  CHECK_THAT(compared.log, Catch::Contains("cuda_graph: training steps are called, not replayed: ") && Catch::Contains(reason));
}

TEST_CASE("an error of the step itself is thrown, whether it would be replayed or not") {
  const TemporaryFolder folder;
  const auto fails = [](Net& net, const at::Tensor& loss, std::int64_t) {
    if (net.calls == 2) throw std::runtime_error("of the step");
    return loss;
  };
  CHECK_THROWS_WITH(fitted({.also = fails}, CudaGraph::kAuto, folder / "log"), Catch::Contains("of the step"));
}
