// A user's program that asks with Trainer::request() while it trains, on several ranks. Run by commands_ranks_test.
// Arguments: scenario=… ranks=… folder=… asks=RANK, which does so in step 2; group=auto|gloo manual=1
#include <signal.h>
#include <torch/torch.h>

#include <thread>

#include "distributed/one_weight_run.h"
#include "support/copied_program.h"

namespace levin::test::commands_program {

namespace {

constexpr int kSteps = 6;

/// Reports the order in which this rank trained, validated, saved and wrote rows, and after which step.
class Events final : public Callback {
 public:
  explicit Events(Report& report) : report_(report) {}
  void on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) override {
    add(trainer, "train");
  }
  void on_validation_start(Trainer& trainer, Module&) override { add(trainer, "validate"); }
  void on_save_checkpoint(Trainer& trainer, Module&, Checkpoint&) override { add(trainer, "save"); }
  void on_train_epoch_end(Trainer& trainer, Module&) override { add(trainer, "end"); }

 private:
  void add(const Trainer& trainer, const std::string& what) {
    report_.add("event", what + "@" + std::to_string(trainer.global_step()));
  }
  Report& report_;
};

class Asking final : public OneWeight {
 public:
  explicit Asking(const Settings& settings) : asks_(settings.number("asks")) {
    set_automatic_optimization(settings.number("manual") == 0);
  }
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (batch_idx == 2 && current_epoch() == 0 && trainer().rank() == asks_) ask();
    StepOutput output = OneWeight::training_step(batch, batch_idx);
    if (automatic_optimization()) return output;
    optimizer().zero_grad();
    manual_backward(output.loss);
    step_optimizer();
    return {};
  }
  std::function<void()> ask;

 private:
  int asks_;
};

/// When all ranks pause, a thread calls `then`, once.
class WhenPaused {
 public:
  WhenPaused(const Trainer& trainer, std::function<void()> then)
      : thread_([this, &trainer, then = std::move(then)] {
          while (!ends_ && !trainer.paused()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          if (!ends_) then();
        }) {}
  ~WhenPaused() {
    ends_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

void run(const Settings& settings) {
  const std::string scenario = settings.text("scenario");
  TrainerOptions options = options_for(settings);
  options.max_epochs = scenario == "stop" ? 5 : 1;
  if (settings.has("group")) options.strategy = {Value("ddp"), Value::Map{{"control_group", settings.text("group")}}};
  // Each directory has one run.
  const int local_rank =
      settings.number("ranks") > 1 ? std::atoi(std::getenv("RANK") == nullptr ? "0" : std::getenv("RANK")) : 0;
  Report report(settings.text("folder"), local_rank);
  options.callbacks = {std::make_shared<Events>(report)};
  Trainer trainer(options);
  Asking module(settings);
  const bool is_last = trainer.rank() == trainer.world_size() - 1;
  std::function<void()> then = [] {};
  module.ask = [&] { trainer.request(RunCommand::kPause); };
  if (scenario == "both") {
    module.ask = [&] {
      trainer.request(RunCommand::kSaveCheckpoint);
      trainer.request(RunCommand::kValidate);
    };
  } else if (scenario == "stop") {
    module.ask = [&] { trainer.request(RunCommand::kStopAfterEpoch); };
  } else if (scenario == "pause") {
    // All wishes of a rank other than the one that pauses.
    then = [&] {
      report.add("event", "paused");
      if (!is_last) return;
      trainer.request(RunCommand::kSaveCheckpoint);
      trainer.request(RunCommand::kValidate);
      const auto file = std::filesystem::path(settings.text("folder")) / "checkpoints/manual-epoch=0-step=3.ckpt";
      while (!std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      trainer.request(RunCommand::kContinue);
    };
  } else if (scenario == "stopped") {
    then = [&] { trainer.stop("enough"); };
  } else if (scenario == "killed") {
    then = [&] { is_last ? void(raise(SIGKILL)) : void(); };
  } else if (scenario == "interrupted") {
    then = [&] { trainer.rank() == 0 ? void(kill(getpid(), SIGINT)) : void(); };
  }
  const WhenPaused watch(trainer, then);
  trainer.fit(module, numbers(kSteps, 1 + trainer.rank()), {numbers(2, 1)});
  report.add("weight", module.weight());
  report.add("global_step", trainer.global_step());
  report.add("reason", trainer.stop_reason().empty() ? "none" : "some");
}

const RankProgram program("commands", run);

}  // namespace

}  // namespace levin::test::commands_program
