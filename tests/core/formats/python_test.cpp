#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/formats/lightning_regression.h"
#include "levin/core/config/value_json.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/optim/composed_lr_schedulers.h"
#include "levin/optim/lr_schedulers.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

// Registered with CTest only where a Python with these packages is found (see CMakeLists.txt).

void run_python(const std::string& script, const std::filesystem::path& argument, const char* variable = "LEVIN_TORCH_PYTHON") {
  const char* const python = std::getenv(variable);
  REQUIRE(python != nullptr);
  const std::string command =
      std::string(python) + " " LEVIN_SOURCE_DIR "/tests/core/formats/" + script + " " + argument.string() + " 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
}

TEST_CASE("Python's safetensors package opens a checkpoint", "[.safetensors_python]") {
  const TemporaryFolder folder;
  Checkpoint checkpoint;
  checkpoint.manifest["epoch"] = 3;
  checkpoint.tensors = {{"flags", torch::tensor({true, false, true})},
                        {"counts", torch::arange(5)},
                        {"scalar", torch::tensor(2.5)},
                        {"empty", torch::empty({0, 3})},
                        {"transposed", torch::arange(6, torch::kDouble).view({2, 3}).t()}};
  checkpoint.save(folder / "model.ckpt");
  run_python("read_with_safetensors.py", folder / "model.ckpt", "LEVIN_SAFETENSORS_PYTHON");
}

TEST_CASE("what torch and Lightning write today is read as what they wrote for the tests", "[.torch_python]") {
  const TemporaryFolder folder;
  run_python("data/make_torch_files.py", folder.path());
  for (const char* name : {"state_dict.pt", "training_loop.pt", "lightning_SGD.ckpt", "lightning_within_epoch.ckpt"}) {
    CAPTURE(name);
    const TensorFile now = TensorFile::open(folder / name);
    const TensorFile then = TensorFile::open(kTorchFiles / name);
    CHECK(now.kind == then.kind);
    CHECK(now.names == then.names);
    for (const std::string& tensor : then.names) {
      CAPTURE(tensor);
      const at::Tensor expected = then.content.tensors.at(tensor);
      CHECK(now.content.tensors.at(tensor).scalar_type() == expected.scalar_type());
      CHECK(at::allclose(now.content.tensors.at(tensor).to(at::kComplexDouble), expected.to(at::kComplexDouble)));
    }
  }
}

TEST_CASE("Python's torch, safetensors and Lightning load what is exported", "[.torch_python]") {
  const TemporaryFolder folder;
  export_file(kTorchFiles / "state_dict.pt", folder / "all.pt", {.format = ExportFormat::kStateDict});

  for (const std::string& optimizer : kOptimizers) {
    LightningRegression module(optimizer);
    module.begin_alike();
    Trainer trainer(quiet_options(2));
    trainer.fit(module, lightning_batches());
    const std::filesystem::path file = folder / ("levin_" + optimizer + ".ckpt");
    trainer.save_checkpoint(file);
    export_file(file, folder / (optimizer + ".safetensors"), {.format = ExportFormat::kSafetensors});
    export_file(file, folder / (optimizer + ".pt"), {.format = ExportFormat::kStateDict});
    export_file(file, folder / (optimizer + ".ckpt"), {.format = ExportFormat::kLightning});
  }
  run_python("read_exports.py", folder.path());  // trains two epochs more with Lightning
  for (const std::string& optimizer : kOptimizers) {
    CAPTURE(optimizer);
    LightningRegression module(optimizer);
    Trainer trainer(quiet_options(4));
    trainer.fit(module, lightning_batches(), {}, {.ckpt_path = (folder / ("levin_" + optimizer + ".ckpt")).string()});
    CHECK(distance(module, folder / (optimizer + "_later.pt")) < 1e-6);
  }
}

/// Every scheduler that has a twin in PyTorch; arguments and names are the same there.
constexpr const char* kSchedules = R"([
  {"optimizer": "SGD", "class_path": "OneCycleLR", "init_args": {"max_lr": 0.2, "total_steps": 6}},
  {"optimizer": "AdamW", "class_path": "OneCycleLR", "init_args": {"max_lr": [0.1], "epochs": 2, "steps_per_epoch": 3, "three_phase": true, "anneal_strategy": "linear"}},
  {"optimizer": "Adagrad", "class_path": "OneCycleLR", "init_args": {"max_lr": 0.1, "total_steps": 5, "cycle_momentum": false}},
  {"optimizer": "SGD", "class_path": "StepLR", "init_args": {"step_size": 1, "gamma": 0.5}},
  {"optimizer": "SGD", "class_path": "MultiStepLR", "init_args": {"milestones": [1, 1, 3], "gamma": 0.5}},
  {"optimizer": "SGD", "class_path": "ExponentialLR", "init_args": {"gamma": 0.7}},
  {"optimizer": "SGD", "class_path": "ConstantLR", "init_args": {"factor": 0.5, "total_iters": 3}},
  {"optimizer": "SGD", "class_path": "LinearLR", "init_args": {"start_factor": 0.25, "total_iters": 3}},
  {"optimizer": "SGD", "class_path": "PolynomialLR", "init_args": {"total_iters": 5, "power": 2.0}},
  {"optimizer": "SGD", "class_path": "CosineAnnealingLR", "init_args": {"T_max": 3}},
  {"optimizer": "SGD", "class_path": "CosineAnnealingWarmRestarts", "init_args": {"T_0": 1, "T_mult": 2}},
  {"optimizer": "SGD", "class_path": "ReduceLROnPlateau", "init_args": {"patience": 0, "threshold": 0.9}},
  {"optimizer": "SGD", "class_path": "SequentialLR", "init_args": {"milestones": [1], "schedulers": [
    {"class_path": "ConstantLR", "init_args": {"factor": 0.1, "total_iters": 4}}, {"class_path": "ExponentialLR", "init_args": {"gamma": 0.5}}]}},
  {"optimizer": "SGD", "class_path": "SequentialLR", "init_args": {"milestones": [3], "schedulers": [
    {"class_path": "OneCycleLR", "init_args": {"max_lr": 0.2, "total_steps": 6}}, {"class_path": "StepLR", "init_args": {"step_size": 1}}]}},
  {"optimizer": "SGD", "class_path": "LambdaLR", "init_args": {}},
  {"optimizer": "SGD", "class_path": "LambdaLR", "init_args": {"lr_lambda": "0.8 ** epoch"}},
  {"optimizer": "SGD", "class_path": "MultiplicativeLR", "init_args": {"lr_lambda": "1 - epoch / 9"}},
  {"optimizer": "SGD", "class_path": "CyclicLR", "init_args": {"base_lr": 0.02, "max_lr": 0.2, "step_size_up": 1, "step_size_down": 2, "mode": "exp_range", "gamma": 0.9}},
  {"optimizer": "AdamW", "class_path": "CyclicLR", "init_args": {"base_lr": 0.02, "max_lr": 0.2, "step_size_up": 1, "mode": "triangular2"}},
  {"optimizer": "Adagrad", "class_path": "CyclicLR", "init_args": {"base_lr": [0.02], "max_lr": 0.2, "step_size_up": 3, "cycle_momentum": false}},
  {"optimizer": "SGD", "class_path": "SWALR", "init_args": {"swa_lr": 0.2, "anneal_epochs": 3}},
  {"optimizer": "SGD", "class_path": "ChainedScheduler", "init_args": {"schedulers": [
    {"class_path": "ConstantLR", "init_args": {"factor": 0.1, "total_iters": 3}}, {"class_path": "SWALR", "init_args": {"swa_lr": 0.2, "anneal_strategy": "linear"}}]}},
  {"optimizer": "SGD", "class_path": "SequentialLR", "init_args": {"milestones": [1], "schedulers": [
    {"class_path": "ConstantLR", "init_args": {"factor": 0.1, "total_iters": 4}}, {"class_path": "CyclicLR", "init_args": {"base_lr": 0.02, "max_lr": 0.2, "step_size_up": 2}}]}}
])";

class ScheduledRegression : public LightningRegression {
 public:
  explicit ScheduledRegression(const Value& schedule)
      : LightningRegression(schedule.at("optimizer").as_string()), schedule_(schedule) {}
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    StepOutput output = LightningRegression::training_step(batch, batch_idx);
    log("loss", output.loss, {.on_step = false, .on_epoch = true});
    return output;
  }
  OptimizerSetups configure_optimizers() override {
    const auto optimizer = made_optimizer();
    SchedulerConfig config{.monitor = "loss"};
    if (schedule_.at("class_path") == Value("LambdaLR") && !schedule_.at("init_args").contains("lr_lambda")) {
      config.scheduler = std::make_shared<LambdaLr>(*optimizer, [](std::int64_t epoch) { return std::pow(0.8, epoch); });
    } else {
      const auto& registry = Registry<LrSchedulerFactory>::instance();
      config.scheduler = registry.make(schedule_.at("class_path"), schedule_.at("init_args"))->make(*optimizer, {});
    }
    return {optimizer, std::vector{config}};
  }

 private:
  Value schedule_;
};

TEST_CASE("Lightning resumes with each scheduler, and comes to the weights that levin comes to", "[.torch_python]") {
  const TemporaryFolder folder;
  const Value schedules = parse_json(kSchedules);
  std::ofstream(folder / "schedules.json") << to_json(schedules);
  const auto named = [&](std::size_t index, const char* end) { return folder / (std::to_string(index) + end); };
  for (std::size_t index = 0; index < schedules.size(); ++index) {
    ScheduledRegression module(schedules.as_list()[index]);
    module.begin_alike();
    Trainer trainer(quiet_options(2));
    trainer.fit(module, lightning_batches());
    trainer.save_checkpoint(named(index, "_levin.ckpt"));
    export_file(named(index, "_levin.ckpt"), named(index, ".ckpt"), {.format = ExportFormat::kLightning});
  }
  run_python("read_schedules.py", folder.path());  // trains two epochs more with Lightning
  for (std::size_t index = 0; index < schedules.size(); ++index) {
    CAPTURE(index, to_json(schedules.as_list()[index]));
    ScheduledRegression module(schedules.as_list()[index]);
    Trainer(quiet_options(4)).fit(module, lightning_batches(), {}, {.ckpt_path = named(index, "_levin.ckpt").string()});
    CHECK(distance(module, named(index, "_later.pt")) < 1e-6);
    // And levin, from what it has exported.
    ScheduledRegression again(schedules.as_list()[index]);
    Trainer(quiet_options(4)).fit(again, lightning_batches(), {}, {.ckpt_path = named(index, ".ckpt").string()});
    CHECK(distance(again, named(index, "_later.pt")) < 1e-6);
  }
}

}  // namespace
}  // namespace levin::test
