#include <catch2/catch.hpp>
#include <filesystem>

#include "levin/optim/lr_schedulers.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

// Lightning's trace of two epochs with two training batches and one validation batch each (version 2.6.6), without its
// strategy and logger entries. A/B.x stands for "A.x B.x".
const std::string kTransfer = "M.on_before_batch_transfer M.transfer_batch_to_device M.on_after_batch_transfer ";
const std::string kForwardBackward =
    "M.optimizer_step M.training_step C.on_before_zero_grad M.on_before_zero_grad M.optimizer_zero_grad "
    "C.on_before_backward M.on_before_backward M.backward C.on_after_backward M.on_after_backward "
    "C.on_before_optimizer_step M.on_before_optimizer_step M.configure_gradient_clipping ";
const std::string kBatchStart = "C.on_train_batch_start M.on_train_batch_start ";
const std::string kBatchEnd = "C.on_train_batch_end M.on_train_batch_end ";
const std::string kStep = kTransfer + kBatchStart + kForwardBackward + kBatchEnd;
const std::string kLastStep = kTransfer + kBatchStart + kForwardBackward + "M.lr_scheduler_step " + kBatchEnd;

std::string both(const std::string& hook) { return "C." + hook + " M." + hook + " "; }

std::string evaluation(const std::string& stage) {
  const auto of_stage = [&](const std::string& hook) { return both("on_" + stage + hook); };
  return "M.on_" + stage + "_model_eval " + of_stage("_start") + of_stage("_epoch_start") + kTransfer +
         of_stage("_batch_start") + "M." + stage + "_step " + of_stage("_batch_end") + of_stage("_epoch_end") +
         of_stage("_end");
}

const std::string kSave = "C.state_dict C.on_save_checkpoint M.on_save_checkpoint ";

/// Saves twice at the end of each epoch, as ModelCheckpoint(monitor, save_last) does.
class SavesTwice : public Callback {
 public:
  explicit SavesTwice(std::filesystem::path folder) : folder_(std::move(folder)) {}
  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
  void on_train_epoch_end(Trainer& trainer, Module&) override {
    trainer.save_checkpoint(folder_ / "best.ckpt");
    trainer.save_checkpoint(folder_ / "last.ckpt");
  }

 private:
  std::filesystem::path folder_;
};

class ScheduledModule : public RecordingModule {
 public:
  using RecordingModule::RecordingModule;
  OptimizerSetups make_optimizers() override {
    auto optimizer = std::make_shared<torch::optim::SGD>(parameters(), 0.1);
    return {optimizer, {{.scheduler = std::make_shared<StepLr>(*optimizer, StepLrOptions{.step_size = 1})}}};
  }
};

}  // namespace

TEST_CASE("fit calls every hook in Lightning's order") {
  const TemporaryFolder folder;
  HookTrace trace;
  ScheduledModule module(trace);
  Trainer trainer(quiet({.max_epochs = 2,
                         .callbacks = {std::make_shared<SavesTwice>(folder.path()), std::make_shared<RecordingCallback>(trace)},
                         .num_sanity_val_steps = 1,
                         .gradient_clip_val = 1.0}));
  trainer.fit(module, FixedLoader::of_rows(2, 3), {FixedLoader::of_rows(1, 3)});

  const std::string epoch = both("on_train_epoch_start") + kStep + kLastStep + "M.on_validation_model_zero_grad " +
                            evaluation("validation") + both("on_train_epoch_end") + kSave + kSave;
  const std::string expected =
      "M.configure_callbacks M.prepare_data C.setup(fit) M.setup(fit) M.configure_model "
      "M.configure_optimizers " +
      both("on_fit_start") + "C.on_sanity_check_start " + evaluation("validation") + "C.on_sanity_check_end " +
      both("on_train_start") + epoch + epoch + both("on_train_end") + both("on_fit_end") + both("teardown(fit)");
  CHECK(trace.str() + " " == expected);
}

TEST_CASE("accumulating batches run backward only, and the optimizer steps at the end of the window and of the epoch") {
  HookTrace trace;
  RecordingModule module(trace);
  const auto recording = std::make_shared<RecordingCallback>(trace);
  Trainer trainer(quiet({.max_epochs = 1, .callbacks = {recording}, .accumulate_grad_batches = 2}));
  trainer.fit(module, FixedLoader::of_rows(3, 3));

  const std::string zero = "C.on_before_zero_grad M.on_before_zero_grad M.optimizer_zero_grad ";
  const std::string backward = "C.on_before_backward M.on_before_backward M.backward C.on_after_backward M.on_after_backward ";
  const std::string step = "C.on_before_optimizer_step M.on_before_optimizer_step M.configure_gradient_clipping ";
  const std::string expected = kTransfer + kBatchStart + "M.training_step " + zero + backward + kBatchEnd +  //
                               kTransfer + kBatchStart + "M.optimizer_step M.training_step " + backward + step + kBatchEnd +
                               kTransfer + kBatchStart + "M.optimizer_step M.training_step " + zero + backward + step +
                               kBatchEnd;
  CHECK_THAT(trace.str() + " ", Catch::Contains(expected));
  CHECK(trainer.global_step() == 2);
}

TEST_CASE("validate, test and predict call their hooks in Lightning's order") {
  HookTrace trace;
  RecordingModule module(trace);
  Trainer trainer(quiet({.callbacks = {std::make_shared<RecordingCallback>(trace)}}));
  const auto expect = [&](const std::string& entry_point, const std::string& stage) {
    CHECK(trace.str() + " " == "M.configure_callbacks M.prepare_data " + both("setup(" + entry_point + ")") +
                                   "M.configure_model " + evaluation(stage) + both("teardown(" + entry_point + ")"));
    trace.clear();
  };
  trainer.validate(module, {FixedLoader::of_rows(1, 3)}, {.verbose = false});
  expect("validate", "validation");
  trainer.test(module, {FixedLoader::of_rows(1, 3)}, {.verbose = false});
  expect("test", "test");
  trainer.predict(module, {FixedLoader::of_rows(1, 3)});
  expect("predict", "predict");
}

TEST_CASE("an exception in a step reaches on_exception and teardown hooks and leaves as it was thrown") {
  struct Failing : RecordingModule {
    using RecordingModule::RecordingModule;
    StepOutput training_step(const Batch&, std::int64_t) override {
      trace_.add("M.training_step");
      throw std::domain_error("the loss exploded");
    }
  };
  HookTrace trace;
  Failing module(trace);
  Trainer trainer(quiet({.max_epochs = 1, .callbacks = {std::make_shared<RecordingCallback>(trace)}}));
  CHECK_THROWS_AS(trainer.fit(module, FixedLoader::of_rows(2, 3)), std::domain_error);
  const std::string end = "M.optimizer_step M.training_step " + both("on_exception") + both("teardown(fit)");
  CHECK_THAT(trace.str() + " ", Catch::EndsWith(end));
  CHECK_FALSE(trainer.fitting());
}
