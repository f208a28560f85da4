#pragma once

#include <levin/levin.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "support/queued_device/queued_device.h"
#include "support/recording.h"
#include "support/test_device.h"

namespace levin::test {

/// Learns the classes of rows of six numbers, and logs in every way in which a step can.
struct LoggedClasses : Module {
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor output = network->forward(batch[0]);
    const at::Tensor loss = torch::nn::functional::cross_entropy(output, batch[1]);
    if (!logs) return loss;
    log("train_loss", loss, {.on_step = true, .on_epoch = true, .prog_bar = true});
    log("train_acc", accuracy(output, batch[1]), {.on_step = true, .on_epoch = true});
    log("largest", output.max(), {.on_step = false, .on_epoch = true, .reduce = Reduce::kMax});
    log("all", output.abs().sum(), {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    log("norm", output.norm(), {.on_epoch = false, .prog_bar = true});
    if (counts) {
      right.update(output, batch[1]);
      log("right", right, {.on_step = true, .on_epoch = true, .prog_bar = true});
    }
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", torch::nn::functional::cross_entropy(network->forward(batch[0]), batch[1]));
  }
  OptimizerSetups configure_optimizers() override { return levin::AdamW(parameters(), 0.01); }

  torch::nn::Sequential network =
      register_module("network", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::ReLU(), torch::nn::Linear(16, 3)));
  Accuracy& right = add_metric<Accuracy>("right", {.num_classes = 3});
  bool logs = true;
  bool counts = false;
};

/// Batches of eight such rows.
inline LoaderPtr class_rows(std::int64_t number) {
  const at::Tensor x = torch::randn({number, 6}, at::make_generator<at::CPUGeneratorImpl>(5));
  return DataLoader(TensorDataset(Batch::of({x, x.slice(1, 0, 3).argmax(1)})), {.batch_size = 8});
}

inline QueuedDevice::Counts operator-(const QueuedDevice::Counts& now, const QueuedDevice::Counts& before) {
  return {.waits = now.waits - before.waits,
          .copies_to_device = now.copies_to_device - before.copies_to_device,
          .copies_to_host = now.copies_to_host - before.copies_to_host,
          .copies_between = now.copies_between - before.copies_between,
          .blocking_to_device = now.blocking_to_device - before.blocking_to_device,
          .blocking_to_host = now.blocking_to_host - before.blocking_to_host,
          .allocations = now.allocations - before.allocations,
          .kernels = now.kernels - before.kernels};
}

/// What each training step has asked of the device, its row and what other callbacks do at its end included: from one batch's
/// start to the next.
struct CountSteps : Callback {
  void on_train_batch_start(Trainer&, Module&, const Batch&, std::int64_t) override { look(); }
  void on_train_epoch_end(Trainer&, Module&) override { is_within = false; }
  void look() {
    const auto now = QueuedDevice::counts();
    if (is_within) steps.push_back(now - before);
    is_within = true;
    before = now;
  }

  bool is_within = false;
  QueuedDevice::Counts before;
  std::vector<QueuedDevice::Counts> steps;
};

/// Of a run that records steps, or calls them, on the device, or on the GPU where the tests run on one.
inline TrainerOptions graph_options(std::int64_t max_epochs, CudaGraph graph, const std::filesystem::path& log) {
  const std::string accelerator = test_accelerator() == "cpu" ? "QueuedAccelerator" : test_accelerator();
  TrainerOptions options = quiet({.max_epochs = max_epochs, .accelerator = accelerator, .cuda_graph = graph});
  options.deterministic = test_accelerator() != "cpu";
  options.log_level = LogLevel::kDebug;
  options.log_file = log;
  return options;
}

}  // namespace levin::test
