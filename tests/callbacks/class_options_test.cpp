#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>

#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/timer.h"
#include "levin/core/base/error.h"
#include "levin/core/trainer.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/strategies/gradients/ddp.h"

namespace levin {
namespace {

struct SavesInAnotherWay : Callback {
  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
};
LEVIN_REGISTER_CALLBACK(SavesInAnotherWay, "Saves without being one of the built-in classes");

struct Wrong {
  std::string error;
  std::function<void()> make;
};

void check_all(const std::vector<Wrong>& table) {
  for (const Wrong& wrong : table) {
    CAPTURE(wrong.error);
    CHECK_THROWS_AS(wrong.make(), ConfigError);
    CHECK_THROWS_WITH(wrong.make(), Catch::Contains(wrong.error));
  }
}

/// With two devices, which a Trainer would start ranks for.
std::function<void()> trainer(const std::function<void(TrainerOptions&)>& change) {
  return [change] {
    TrainerOptions options{.accelerator = "cpu", .devices = 2};
    change(options);
    Trainer trainer(options);
  };
}

// What YAML can say too is in acceptance/cases/class_options.txt.
TEST_CASE("a Trainer with wrong options starts no ranks") {
  check_all({{"uneven: must be one of 'pad', 'drop', 'keep', got string ''",
              trainer([](TrainerOptions& options) { options.uneven = static_cast<Uneven>(9); })},
             {"max_time: got string '-5.0 seconds'",
              trainer([](TrainerOptions& options) { options.max_time = std::chrono::seconds(-5); })},
             {"callbacks: holds an empty entry",
              trainer([](TrainerOptions& options) { options.callbacks = {Component<Callback>()}; })},
             {"enable_checkpointing is false, but callbacks hold SavesInAnotherWay", trainer([](TrainerOptions& options) {
                options.enable_checkpointing = false;
                options.callbacks = {Component<Callback>("SavesInAnotherWay")};
              })}});
}

TEST_CASE("a class that is made in C++ with wrong options says which") {
  const auto dataset = std::make_shared<TensorDataset>(Batch{{"x", torch::zeros({4, 1})}});
  check_all({{"EarlyStopping: monitor: is an empty string", [] { EarlyStopping(EarlyStoppingOptions{}); }},
             {"Timer: interval: must be one of 'step', 'epoch', got string ''",
              [] { Timer({.interval = static_cast<Interval>(5)}); }},
             {"strategy ddp: bucket_cap_mb: must be at least 0.001, got float 0.0", [] { DdpStrategy({.bucket_cap_mb = 0}); }},
             {"DataLoader: batch_size: must be at least 1, got int 0", [&] { DataLoader(dataset, {.batch_size = 0}); }},
             {"DataLoader: shuffle and sampler exclude each other",
              [&] { DataLoader(dataset, {.shuffle = true, .sampler = std::make_shared<RandomSampler>()}); }}});
}

}  // namespace
}  // namespace levin
