#include "levin/core/engine/step/optimization.h"

#include <catch2/catch.hpp>

#include "support/run_bench.h"

using namespace levin;
using namespace levin::test;

namespace {

/// loss = mean(w * x), so that the gradient of w is mean(x) and a step of SGD with lr 1 subtracts it.
class SteppedWeight final : public Module {
 public:
  SteppedWeight() : weight(register_parameter("weight", torch::zeros({1}))) {}
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    if (skips) return {};
    return (weight * batch[0]).mean();
  }
  // The default asks the Trainer for its options.
  void configure_gradient_clipping(torch::optim::Optimizer&) override {}
  at::Tensor weight;
  bool skips = false;
};

struct OptimizationBench : RunBench {
  OptimizationBench() {
    parts.module = &weight;
    parts.optimizers.push_back(std::make_shared<torch::optim::SGD>(weight.parameters(), 1.0));
  }
  StepOutput run(std::vector<float> samples, std::int64_t index, bool first, bool last) {
    const Batch batch{{"x", torch::tensor(samples)}};
    metrics->begin_batch({batch.batch_size(), 0, 1});
    votes.begin_batch();
    return optimization.run(&batch, index, first, last);
  }
  double value() const { return weight.weight.item<double>(); }

  SteppedWeight weight;
  Precision precision{PrecisionFormat::kFloat32, setup.strategy->accelerator(), at::Device(at::kCPU)};
  TrainedParameters trained{setup, parts};
  NanGuard nan{setup, progress, tracker};
  GradientScaler scaler;
  UnregisteredLeaves leaves{parts};
  StepGraph graph{setup};
  StepVotes votes{setup.strategy->vote_channel(), boundaries, trained, nan};
  AutomaticOptimization optimization{
      {*setup.strategy, parts, progress, hooks, accumulation, nan, scaler, leaves, graph}, votes, precision};
};

}  // namespace

TEST_CASE("a batch that is a window of its own takes a step") {
  OptimizationBench bench;
  const StepOutput output = bench.run({2, 4}, 0, true, true);
  CHECK(bench.value() == Approx(-3.0));
  CHECK(bench.progress.global_step == 1);
  CHECK_FALSE(bench.accumulation.window.open);
  CHECK_FALSE(output.loss.requires_grad());
}

TEST_CASE("a window of several batches takes one step with the mean over samples") {
  OptimizationBench bench;
  bench.accumulation.batches = 2;
  bench.accumulation.full_batch_size = 2;
  const StepOutput output = bench.run({2, 4}, 0, true, false);
  CHECK(bench.value() == 0.0);
  CHECK(bench.progress.global_step == 0);
  CHECK(bench.accumulation.window.open);
  CHECK(bench.accumulation.window.weight == 2);
  bench.run({9}, 1, false, true);
  CHECK(bench.value() == Approx(-(2.0 + 4.0 + 9.0) / 3.0));
  CHECK(bench.progress.global_step == 1);
  CHECK_FALSE(bench.accumulation.window.open);
  CHECK(output.loss.item<double>() == 0.0);
}

TEST_CASE("a window that ends early takes the mean over the batches that there were") {
  OptimizationBench bench;
  bench.accumulation.batches = 4;
  bench.run({6}, 0, true, true);
  CHECK(bench.value() == Approx(-6.0));
}

TEST_CASE("a step without any loss leaves the weights") {
  OptimizationBench bench;
  bench.run({5}, 0, true, true);
  bench.weight.skips = true;
  bench.run({5}, 1, true, true);
  CHECK(bench.value() == Approx(-5.0));
  CHECK(bench.progress.global_step == 2);
}
