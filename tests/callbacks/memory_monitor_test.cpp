#include "levin/callbacks/memory_growth.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "levin/core/accelerator.h"
#include "levin/core/config/component.h"
#include "support/file_text.h"
#include "support/fixed_loader.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kHalfMb = 1 << 17;  // of floats

/// What a run of 8 epochs of 4 batches prints, in which a hook of the module acts.
std::string console_of_fit(const char* hook, const std::function<void(ScriptedLine&)>& act,
                           std::int64_t warn_after_epochs = 4) {
  const TemporaryFolder folder;
  TrainerOptions options = quiet({.max_epochs = 8});
  options.log_file = folder.path() / "console.txt";
  options.callbacks = {
      Component<Callback>(Value("MemoryMonitor"), Value(Value::Map{{"warn_after_epochs", warn_after_epochs}}))};
  ScriptedLine module;
  module.on[hook] = [&](ScriptedLine& self, std::int64_t) { act(self); };
  Trainer(options).fit(module, FixedLoader::of_rows(4, 2), {FixedLoader::of_rows(3, 2)});
  return read_text(folder.path() / "console.txt");
}

}  // namespace

// First: a warning is given once in a process.
TEST_CASE("memory that is allocated once, or in one epoch, is no reason to warn") {
  std::vector<at::Tensor> stored;
  const auto once = [&](ScriptedLine& module) {
    if (stored.empty() || module.current_epoch() == 4) stored.push_back(torch::zeros({100 * kHalfMb}));
  };
  CHECK_THAT(console_of_fit("on_train_epoch_end", once), !Contains("Memory grows"));
  const auto always = [&](ScriptedLine&) { stored.push_back(torch::zeros({4 * kHalfMb})); };
  CHECK_THAT(console_of_fit("on_train_epoch_end", always, 0), !Contains("Memory grows"));
}

TEST_CASE("memory that grows is reported once") {
  std::vector<at::Tensor> stored;
  // Tensors that live for a while only are no growth, nor are those that are the same in every epoch.
  const std::string step = console_of_fit("training_step", [&](ScriptedLine&) {
    stored.push_back(torch::zeros({kHalfMb}));
    const at::Tensor passing = torch::zeros({8 * kHalfMb});
  });
  CHECK_THAT(step, Contains("Memory grows: by 2.0 MB in each of the last 4 epochs"));
  CHECK(count(step, "Memory grows") == 1);
}

TEST_CASE("the memory of each rank is in the rows of an epoch") {
  const auto rows = std::make_shared<RowsOf>();
  TrainerOptions options = quiet_options();
  options.max_epochs = 2;
  options.logger = std::static_pointer_cast<Logger>(rows);
  options.callbacks = {Component<Callback>("MemoryMonitor")};
  ScriptedLine module;
  Trainer(options).fit(module, FixedLoader::of_rows(2, 2));
  std::vector<double> resident;
  for (const MetricRow& row : rows->rows) {
    const auto found = row.values.find("memory_resident");
    if (found == row.values.end()) continue;
    resident.push_back(found->second);
    // A process with LibTorch has some hundred MB, and never had less than it has.
    CHECK(found->second > 10);
    CHECK(row.values.at("memory_peak") >= found->second);
    CHECK_FALSE(row.values.contains("memory_allocated"));
  }
  CHECK(resident.size() == 2);
}

TEST_CASE("validation holds no output, batch or loss that the user does not keep") {
  struct Weak final : Module {
    Weak() : weight(register_parameter("weight", torch::ones({1}))) {}
    StepOutput training_step(const Batch& batch, std::int64_t) override { return (weight * batch[0]).sum(); }
    void validation_step(const Batch& batch, std::int64_t) override {
      for (const auto& tensor : outputs) alive += tensor.expired() ? 0 : 1;
      const at::Tensor loss = (weight * batch[0]).mean();
      const at::Tensor extra = batch[0] * 2;
      log("val_loss", loss);
      for (const at::Tensor& tensor : {loss, extra}) outputs.emplace_back(tensor.getIntrusivePtr());
      set_step_output({loss, Batch{{"extra", extra}}});
    }
    void on_validation_end() override {
      for (const auto& tensor : outputs) alive += tensor.expired() ? 0 : 1;
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    at::Tensor weight;
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> outputs;
    int alive = 0;
  } module;
  TrainerOptions options = quiet_options();
  options.max_epochs = 2;
  Trainer trainer(options);
  trainer.fit(module, FixedLoader::of_rows(2, 2), {FixedLoader::of_rows(4, 2)});
  trainer.validate(module, {FixedLoader::of_rows(4, 2)});
  CHECK(module.outputs.size() == 2 * 4 * 3);
  CHECK(module.alive == 0);
}

#if !defined(__SANITIZE_ADDRESS__)  // which holds on to what is freed
TEST_CASE("memory that is given back is no more resident") {
  clear_memory();  // what earlier tests have freed would be used again
  const std::int64_t before = process_memory().resident;
  {
    // Small blocks, which the system's allocator keeps.
    std::vector<std::unique_ptr<char[]>> blocks;
    for (int block = 0; block < 20000; ++block) blocks.push_back(std::make_unique<char[]>(1000));
    CHECK(process_memory().resident > before + 10'000'000);
  }
  clear_memory();
  CHECK(process_memory().resident < before + 10'000'000);
  CHECK(process_memory().peak > before);
}
#endif

namespace {

MemoryGrowth after(const std::vector<std::int64_t>& in_use) {
  MemoryGrowth growth(10);
  for (const std::int64_t bytes : in_use) growth.add(bytes);
  return growth;
}

}  // namespace

TEST_CASE("memory that grows in each epoch is counted from where it began, or from where the growth is of another kind") {
  const MemoryGrowth growth = after({100, 90, 110, 130, 155});
  CHECK(growth.epochs() == 3);
  CHECK(growth.bytes() == 65);
  CHECK(growth.in_use() == 155);
  for (const auto& [in_use, epochs] : std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>>{
           {{}, 0},
           {{100}, 0},
           {{0, 20}, 1},
           // What is allocated once, what stops growing, and what comes and goes.
           {{100, 1000, 1000, 1000}, 0},
           {{100, 120, 140, 140}, 0},
           {{100, 120, 110, 130, 120}, 0},
           {{100, 109, 118, 127}, 0},
           // Growth that becomes much smaller, or much larger.
           {{0, 100, 200, 300, 320}, 1},
           {{0, 20, 40, 60, 300}, 1},
           {{0, 100, 130, 160}, 3}}) {
    CAPTURE(in_use);
    CHECK(after(in_use).epochs() == epochs);
  }
}
