// What a run asks of its device: which steps wait, and for how much.
#include <levin/levin.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "support/fixed_loader.h"
#include "support/queued_device/queued_device.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// Learns classes of rows, and logs in every way that a step can.
struct Classes : Module {
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor output = network->forward(batch[0]);
    const at::Tensor loss = torch::nn::functional::cross_entropy(output, batch[1]);
    log("train_loss", loss, {.on_step = true, .on_epoch = true, .prog_bar = true});
    log("train_acc", (output.argmax(1) == batch[1]).to(at::kFloat).mean(), {.on_step = true, .on_epoch = true});
    log("largest", output.max().detach(), {.on_step = false, .on_epoch = true, .reduce = Reduce::kMax});
    log("norm", output.norm().detach(), {.on_epoch = false, .prog_bar = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", torch::nn::functional::cross_entropy(network->forward(batch[0]), batch[1]));
  }
  OptimizerSetups configure_optimizers() override { return levin::AdamW(parameters(), 0.01); }

  torch::nn::Sequential network = register_module(
      "network", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::ReLU(), torch::nn::Linear(16, 3)));
};

LoaderPtr rows(std::int64_t number) {
  const at::Tensor x = torch::randn({number, 6});
  return DataLoader(TensorDataset(Batch::of({x, x.slice(1, 0, 3).argmax(1)})), {.batch_size = 8});
}

/// What each training step has asked of the device, by its number.
struct CountSteps : Callback {
  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
  void on_train_start(Trainer&, Module&) override { before = QueuedDevice::counts(); }
  void on_train_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t) override {
    const auto now = QueuedDevice::counts();
    steps.push_back({.waits = now.waits - before.waits,
                     .copies_to_device = now.copies_to_device - before.copies_to_device,
                     .copies_to_host = now.copies_to_host - before.copies_to_host,
                     .blocking_to_device = now.blocking_to_device - before.blocking_to_device,
                     .blocking_to_host = now.blocking_to_host - before.blocking_to_host,
                     .allocations = now.allocations - before.allocations,
                     .kernels = now.kernels - before.kernels});
    before = now;
  }
  QueuedDevice::Counts before;
  std::vector<QueuedDevice::Counts> steps;
};

TEST_CASE("explore") {
  const TemporaryFolder folder;
  torch::manual_seed(3);
  Classes module;
  const auto counted = std::make_shared<CountSteps>();
  TrainerOptions options{.max_epochs = 2, .accelerator = "QueuedAccelerator", .log_every_n_steps = 5, .gradient_clip_val = 1.0, .default_root_dir = folder.path()};
  options.callbacks.push_back(counted);
  Trainer trainer(options);
  std::vector<std::string> where;
  QueuedDevice::on_wait([&](const char* what) { where.push_back(std::string(what) + " " + std::to_string(trainer.global_step())); });
  trainer.fit(module, rows(160), {rows(32)});
  QueuedDevice::on_wait({});
  for (const auto& step : counted->steps) {
    std::printf("waits %ld to_device %ld/%ld to_host %ld/%ld allocations %ld kernels %ld\n", step.waits, step.copies_to_device, step.blocking_to_device,
                step.copies_to_host, step.blocking_to_host, step.allocations, step.kernels);
  }
  for (const auto& line : where) std::printf("%s\n", line.c_str());
}

}  // namespace
}  // namespace levin::test
