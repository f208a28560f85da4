#include <torch/csrc/profiler/stubs/base.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <regex>

#include "levin/core/base/error.h"
#include "levin/core/profiler.h"
#include "support/fixed_loader.h"
#include "support/recording.h"
#include "support/toy_accelerator.h"

namespace levin::test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

/// Takes ranges instead of a device's library: a line each, set in below the one that it is within.
struct RecordedRanges final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex*, torch::profiler::impl::ProfilerVoidEventStub*, std::int64_t*) const override {}
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub*,
                const torch::profiler::impl::ProfilerVoidEventStub*) const override {
    return 0;
  }
  void mark(const char*) const override {}
  void rangePush(const char* name) const override {
    text += std::string(2 * static_cast<std::size_t>(open++), ' ') + name + "\n";
  }
  void rangePop() const override { --open; }
  bool enabled() const override { return is_there; }
  void onEachDevice(std::function<void(int)>) const override {}
  void synchronize() const override {}

  mutable std::string text;
  mutable int open = 0;
  bool is_there = true;
};

/// A device of another kind than the CPU, as far as it says.
struct MarkedDevice final : Toy {
  explicit MarkedDevice(at::DeviceType type) : type(type) {}
  at::DeviceType device_type() const override { return type; }
  bool pins_memory() const override { return false; }
  at::DeviceType type;
};

struct Marked final : Module {
  void on_train_start() override {
    if (fails) kept.emplace(trainer().profiler(), "kept");
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const auto timing = trainer().profile("augment");
    if (fails) throw std::runtime_error("no batch today");
    return (weight * batch[0]).sum();
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  at::Tensor weight = register_parameter("weight", torch::ones({2}));
  bool fails = false;
  std::optional<ProfiledAction> kept;  ///< ends after the fit
};

/// The ranges of a fit of one batch on a device of this kind. `library`: LibTorch's knows ranges.
std::string ranges_of(Marked& module, at::DeviceType type, bool operators = false, bool library = true) {
  namespace profiling = torch::profiler::impl;
  static RecordedRanges ranges;  // LibTorch keeps it
  ranges.text.clear();
  ranges.is_there = library;
  (type == at::kCUDA ? profiling::registerCUDAMethods : profiling::registerPrivateUse1Methods)(&ranges);
  TrainerOptions options = quiet({.max_epochs = 1});
  options.accelerator = std::static_pointer_cast<Accelerator>(std::make_shared<MarkedDevice>(type));
  options.profiler = Component<Profiler>(Value("nvtx"), Value(Value::Map{{"operators", operators}}));
  Trainer trainer(options);
  const auto fit = [&] { trainer.fit(module, FixedLoader::of_rows(1, 2)); };
  if (!library) {
    CHECK_THROWS_AS(fit(), ConfigError);
  } else if (module.fails) {
    CHECK_THROWS_WITH(fit(), Contains("no batch today"));
  } else {
    fit();
  }
  // Nothing is left open, and nothing is marked when the run has ended.
  CHECK(ranges.open == 0);
  module.kept.reset();
  CHECK(ranges.open == 0);
  const auto size = ranges.text.size();
  torch::ones({2}).add(1);
  CHECK(ranges.text.size() == size);
  return ranges.text;
}

}  // namespace

TEST_CASE("the nvtx profiler marks hooks and actions as ranges within one another") {
  Marked module;
  CHECK(ranges_of(module, GENERATE(at::kCUDA, at::kPrivateUse1)) ==
        R"([LightningModule]Marked.configure_model
[LightningModule]Marked.on_fit_start
[LightningModule]Marked.on_train_start
run_training_epoch
  [LightningModule]Marked.on_train_epoch_start
  [_TrainingEpochLoop].train_dataloader_next
  [LightningModule]Marked.on_before_batch_transfer
  [LightningModule]Marked.transfer_batch_to_device
  [LightningModule]Marked.on_after_batch_transfer
  [LightningModule]Marked.on_train_batch_start
  run_training_batch
    [LightningModule]Marked.optimizer_step
      [LightningModule]Marked.training_step
        augment
      [LightningModule]Marked.on_before_zero_grad
      [LightningModule]Marked.optimizer_zero_grad
      [LightningModule]Marked.on_before_backward
      [LightningModule]Marked.backward
      [LightningModule]Marked.on_after_backward
      [LightningModule]Marked.on_before_optimizer_step
      [LightningModule]Marked.configure_gradient_clipping
  [LightningModule]Marked.on_train_batch_end
  [LightningModule]Marked.on_train_epoch_end
[LightningModule]Marked.on_train_end
[LightningModule]Marked.on_fit_end
)");
}

TEST_CASE("the nvtx profiler marks operators too where an option says so, and which of a backward pass belongs to which") {
  Marked module;
  const std::string text = ranges_of(module, GENERATE(at::kCUDA, at::kPrivateUse1), /*operators=*/true);
  INFO(text);
  const std::regex pair(
      R"(\n {8}augment\n {10}aten::mul, seq = (\d+)\n[\s\S]*\n {6}\S+\.backward\n[\s\S]*\n {10}MulBackward0, seq = (\d+)\n)");
  std::smatch match;
  REQUIRE(std::regex_search(text, match, pair));
  CHECK(match[1] == match[2]);
}

TEST_CASE("a fit that fails leaves no range open") {
  Marked module;
  module.fails = true;
  CHECK_THAT(ranges_of(module, at::kCUDA, /*operators=*/true), EndsWith(".training_step\n          augment\n"));
}

TEST_CASE("the nvtx profiler says what it needs on a device that has no ranges") {
  Marked module;
  CHECK(ranges_of(module, at::kCUDA, /*operators=*/false, /*library=*/false).empty());
  TrainerOptions options = quiet({.max_epochs = 1});
  options.profiler = "nvtx";
  CHECK_THROWS_WITH(Trainer(options).fit(module, FixedLoader::of_rows(1, 2)),
                    Contains("on accelerator: cuda; this run's, cpu, takes none") && Contains("`profiler: simple`"));
}

}  // namespace levin::test
