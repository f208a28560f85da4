#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "levin/core/callback.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "support/fixed_loader.h"
#include "support/hook_list.h"

namespace levin::test {

/// The hooks that ran, as Lightning's traces write them: "C.on_train_start M.on_train_start".
class HookTrace {
 public:
  void add(const std::string& entry) {
    if (before_entry) before_entry(entry);
    entries_.push_back(entry);
    if (on_entry) on_entry(entry);
  }
  std::string str() const {
    std::string text;
    for (const std::string& entry : entries_) text += (text.empty() ? "" : " ") + entry;
    return text;
  }
  void clear() { entries_.clear(); }

  /// Called inside each hook: lets a test act in every hook.
  std::function<void(const std::string& entry)> on_entry;
  std::function<void(const std::string& entry)> before_entry;  ///< and before that

 private:
  std::vector<std::string> entries_;
};

#define LEVIN_RECORD(hook, ...) \
  void hook(Trainer&, Module& __VA_OPT__(, ) __VA_ARGS__) override { trace_.add("C." #hook); }

/// Records every hook of a callback.
class RecordingCallback : public Callback {
 public:
  explicit RecordingCallback(HookTrace& trace) : trace_(trace) {}

  void setup(Trainer&, Module&, Stage stage) override { trace_.add(std::string("C.setup(") + name_of(stage) + ")"); }
  void teardown(Trainer&, Module&, Stage stage) override { trace_.add(std::string("C.teardown(") + name_of(stage) + ")"); }
  LEVIN_RECORD(on_sanity_check_start)
  LEVIN_RECORD(on_sanity_check_end)
  LEVIN_RUN_HOOKS(LEVIN_RECORD)
  LEVIN_BATCH_HOOKS(LEVIN_RECORD)
#undef LEVIN_RECORD
  Value state_dict() const override {
    trace_.add("C.state_dict");
    return {};
  }

  /// Lightning's names: fitting is "fit".
  static std::string name_of(Stage stage) { return stage == Stage::kTrain ? "fit" : std::string(stage_name(stage)); }

 private:
  HookTrace& trace_;
};

#define LEVIN_RECORD(hook, ...) \
  void hook(__VA_ARGS__) override { trace_.add("M." #hook); }

/// One linear layer of two inputs; records every hook, and logs nothing by default.
class RecordingModule : public Module {
 public:
  explicit RecordingModule(HookTrace& trace) : trace_(trace), layer_(register_module("layer", torch::nn::Linear(2, 1))) {}

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    trace_.add("M.training_step");
    return layer_->forward(batch[0]).pow(2).mean();
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    trace_.add("M.validation_step");
    const at::Tensor loss = layer_->forward(batch[0]).pow(2).mean();
    log("val_loss", loss);
  }
  void test_step(const Batch&, std::int64_t) override { trace_.add("M.test_step"); }
  Batch predict_step(const Batch& batch, std::int64_t) override {
    trace_.add("M.predict_step");
    return layer_->forward(batch[0]);
  }
  OptimizerSetups configure_optimizers() override {
    trace_.add("M.configure_optimizers");
    return make_optimizers();
  }
  virtual OptimizerSetups make_optimizers() { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  void setup(Stage stage) override { trace_.add("M.setup(" + RecordingCallback::name_of(stage) + ")"); }
  void teardown(Stage stage) override { trace_.add("M.teardown(" + RecordingCallback::name_of(stage) + ")"); }
  LEVIN_RECORD(prepare_data)
  LEVIN_RECORD(configure_model)
  LEVIN_RUN_HOOKS(LEVIN_RECORD)
  LEVIN_BATCH_HOOKS(LEVIN_RECORD)
#undef LEVIN_RECORD
  std::vector<std::shared_ptr<Callback>> configure_callbacks() override {
    trace_.add("M.configure_callbacks");
    return {};
  }
#define LEVIN_RECORD_AND_CALL(type, name, parameters, arguments) \
  type name parameters override {                                \
    trace_.add("M." #name);                                      \
    return Module::name arguments;                               \
  }
  LEVIN_RECORD_AND_CALL(Batch, on_before_batch_transfer, (Batch batch, std::int64_t index), (std::move(batch), index))
  LEVIN_RECORD_AND_CALL(Batch, transfer_batch_to_device, (Batch batch, const at::Device& device, std::int64_t index),
                        (std::move(batch), device, index))
  LEVIN_RECORD_AND_CALL(Batch, on_after_batch_transfer, (Batch batch, std::int64_t index), (std::move(batch), index))
  LEVIN_RECORD_AND_CALL(void, optimizer_zero_grad, (torch::optim::Optimizer & optimizer), (optimizer))
  LEVIN_RECORD_AND_CALL(void, backward, (const at::Tensor& loss), (loss))
  LEVIN_RECORD_AND_CALL(void, configure_gradient_clipping, (torch::optim::Optimizer & optimizer), (optimizer))
  LEVIN_RECORD_AND_CALL(void, optimizer_step, (torch::optim::Optimizer & optimizer, const std::function<at::Tensor()>& closure),
                        (optimizer, closure))
  LEVIN_RECORD_AND_CALL(void, lr_scheduler_step, (LrScheduler & scheduler, std::optional<double> metric), (scheduler, metric))
  LEVIN_RECORD_AND_CALL(void, on_validation_model_zero_grad, (), ())
  LEVIN_RECORD_AND_CALL(void, on_validation_model_eval, (), ())
  LEVIN_RECORD_AND_CALL(void, on_test_model_eval, (), ())
  LEVIN_RECORD_AND_CALL(void, on_predict_model_eval, (), ())
#undef LEVIN_RECORD_AND_CALL

 protected:
  HookTrace& trace_;
  torch::nn::Linear layer_;
};

/// Options for a quiet run that writes only what they ask for.
inline TrainerOptions quiet(TrainerOptions options) {
  if (options.logger.is_default()) options.logger = false;
  const bool saves = std::any_of(options.callbacks.begin(), options.callbacks.end(),
                                 [](const Component<Callback>& callback) { return callback.get()->saves_state(); });
  if (!saves) options.enable_checkpointing = options.enable_checkpointing.value_or(false);
  options.enable_progress_bar = options.enable_model_summary = false;
  options.num_sanity_val_steps = options.num_sanity_val_steps.value_or(0);
  return options;
}
inline TrainerOptions quiet_options(std::optional<std::int64_t> max_epochs = std::nullopt) {
  return quiet({.max_epochs = max_epochs});
}

}  // namespace levin::test
