// What a run asks of its device: which steps wait, for how much, and what takes memory.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "core/console/pseudo_terminal.h"
#include "device/device_run.h"
#include "levin/callbacks/progress_bar.h"
#include "levin/core/checkpoint/background_files.h"
#include "levin/core/console/console.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// A run on the device: six steps of each of two epochs, a row every third.
struct CountedRun {
  CountedRun() : options(quiet({.max_epochs = 2, .accelerator = "QueuedAccelerator", .log_every_n_steps = 3})) {
    options.default_root_dir = folder.path();
    options.limit_val_batches = 0;
    options.callbacks = {counted};
    torch::manual_seed(3);
  }
  /// The steps between two rows, without the first two: in them memory is taken for the first time.
  std::vector<QueuedDevice::Counts> run() {
    Trainer(options).fit(module, class_rows(96), {class_rows(16)});
    REQUIRE(counted->steps.size() == 22);
    return {counted->steps.begin() + 3, counted->steps.end()};
  }

  TemporaryFolder folder;
  std::shared_ptr<CountSteps> counted = std::make_shared<CountSteps>();
  TrainerOptions options;
  LoggedClasses module;
};

/// How many steps wait how often.
std::map<std::int64_t, std::size_t> by_waits(const std::vector<QueuedDevice::Counts>& steps) {
  std::map<std::int64_t, std::size_t> counts;
  for (const auto& step : steps) ++counts[step.waits];
  return counts;
}

TEST_CASE("a training step does not wait for its device, and a row waits for one copy") {
  CountedRun counted;
  SECTION("with what every run has") {}
  SECTION("with clipping by norm") { counted.options.gradient_clip_val = 0.1; }
  SECTION("with clipping by value") {
    counted.options.gradient_clip_val = 0.1;
    counted.options.gradient_clip_algorithm = GradientClipAlgorithm::kValue;
  }
  SECTION("with accumulation") { counted.options.accumulate_grad_batches = 2; }
  SECTION("with a metric object") { counted.module.counts = true; }
  SECTION("under autocast") { counted.options.precision = PrecisionFormat::kBfloat16Mixed; }
  const auto steps = counted.run();
  const std::size_t rows = counted.options.accumulate_grad_batches == 1 ? 5 : 2;  // but those that end an epoch
  CHECK(by_waits(steps) == std::map<std::int64_t, std::size_t>{{0, steps.size() - rows}, {1, rows}});
  for (const auto& step : steps) {
    CHECK(step.blocking_to_host <= 1);
    CHECK(step.copies_to_device <= 3);  // a batch, and what a metric object has told goes back
    CHECK(step.blocking_to_device == 0);
  }
}

TEST_CASE("a step gives its device what the loop by hand gives it, and a key of the epoch one operation more") {
  struct LogsOne : LoggedClasses {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      const StepOutput output = LoggedClasses::training_step(batch, batch_idx);
      if (of_epoch) log("loss", output.loss, {.on_step = true, .on_epoch = true});
      return output;
    }
    bool of_epoch = false;
  } module;
  module.logs = false;
  module.to(QueuedDevice::device());
  const Batch batch = Batch::of({torch::randn({8, 6}), torch::randint(3, {8})}).to(QueuedDevice::device());
  levin::AdamW optimizer(module.parameters(), 0.01);
  std::int64_t by_hand = 0;
  for (int step = 0; step < 3; ++step) {
    const auto before = QueuedDevice::counts();
    const at::Tensor loss = module.training_step(batch, step).loss;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    by_hand = (QueuedDevice::counts() - before).kernels;
  }
  module.of_epoch = GENERATE(false, true);
  const auto counted = std::make_shared<CountSteps>();
  Trainer(quiet({.max_epochs = 1, .accelerator = "QueuedAccelerator", .callbacks = {counted}, .log_every_n_steps = 100}))
      .fit(module, class_rows(96));
  REQUIRE(counted->steps.size() == 11);
  for (std::size_t step = 2; step < 11; ++step) CHECK(counted->steps[step].kernels == by_hand + (module.of_epoch ? 1 : 0));
}

TEST_CASE("what reads the loss in a step is counted as a wait") {
  struct Reads : Callback {
    void on_train_batch_end(Trainer&, Module&, const StepOutput& output, const Batch&, std::int64_t) override {
      static_cast<void>(output.loss.item<float>());
    }
  };
  CountedRun counted;
  counted.options.callbacks.push_back(std::make_shared<Reads>());
  const auto steps = counted.run();
  CHECK(by_waits(steps).at(1) == steps.size() - 5);
}

TEST_CASE("log() takes no memory on the device once its keys are known") {
  CountedRun with;
  CountedRun without;
  without.module.logs = false;
  const auto most = [](CountedRun& counted) {
    std::vector<std::int64_t> taken;
    for (const auto& step : counted.run()) {
      if (step.waits == 0) taken.push_back(step.allocations);
    }
    return *std::ranges::max_element(taken);
  };
  // The logged values themselves: a mean over right answers, max, sum and norm, each of several operators.
  const auto made = [&] {
    const at::Tensor output = torch::ones({8, 3}, QueuedDevice::device());
    const at::Tensor classes = torch::ones({8}, at::TensorOptions(at::kLong).device(QueuedDevice::device()));
    const std::int64_t before = QueuedDevice::counts().allocations;
    accuracy(output, classes);
    output.max();
    output.abs().sum();
    output.norm();
    return QueuedDevice::counts().allocations - before;
  }();
  CHECK(most(with) == most(without) + made);
}

TEST_CASE("a checkpoint within an epoch is read from the device at once") {
  struct Saves : Callback {
    void on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx) override {
      if (batch_idx != 4) return;
      trainer.checkpoint_files().promise("counted", [this] { before = QueuedDevice::counts(); });
      trainer.save_checkpoint(*trainer.options().default_root_dir / "saved.ckpt");
      trainer.checkpoint_files().when_done([this] { saved.push_back(QueuedDevice::counts() - before); });
    }
    QueuedDevice::Counts before;
    std::vector<QueuedDevice::Counts> saved;
  };
  const auto saves = std::make_shared<Saves>();
  CountedRun counted;
  counted.options.callbacks.push_back(saves);
  counted.run();
  REQUIRE(saves->saved.size() == 2);
  // Four parameters and, for AdamW, two moments of each.
  constexpr std::int64_t kTensors = 12;
  for (const auto& save : saves->saved) {
    CHECK(save.waits == 2);  // for what has been logged, and for all tensors
    CHECK(save.copies_to_host == kTensors + 1);
    CHECK(save.blocking_to_host == 1);
  }
  const Checkpoint saved = Checkpoint::load(counted.folder.path() / "saved.ckpt");
  CHECK(saved.tensors.size() >= kTensors);
}

TEST_CASE("a bar on a terminal shows what has arrived, and does not wait for it") {
  const EnvironmentVariable term("TERM", "xterm");
  const PseudoTerminal terminal(150);
  Console console(terminal.fd(), terminal.fd());
  const auto draws = [now = 0.0]() mutable { return now += 1; };
  CountedRun counted;
  counted.module.counts = true;
  counted.options.enable_progress_bar = true;
  counted.options.progress = ProgressView::kBar;
  counted.options.callbacks.push_back(std::make_shared<ProgressBar>(ProgressBarOptions{}, console, draws));
  const auto steps = counted.run();
  CHECK(by_waits(steps) == std::map<std::int64_t, std::size_t>{{0, steps.size() - 5}, {1, 5}});
  const std::string shown = terminal.read();
  // Of several steps, not the first that has arrived alone.
  std::set<std::string> losses;
  const std::regex loss("train_loss_step=([0-9.]+)");
  for (std::sregex_iterator match(shown.begin(), shown.end(), loss), end; match != end; ++match) losses.insert((*match)[1]);
  CHECK(losses.size() > 4);
  CHECK_THAT(shown, Catch::Contains("norm=") && Catch::Contains("right_step="));
}

}  // namespace
}  // namespace levin::test
