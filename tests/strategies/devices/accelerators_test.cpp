#include "levin/core/accelerator.h"

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/module.h"
#include "levin/core/random/seed.h"
#include "levin/core/trainer.h"
#include "levin/strategies/devices/accelerators.h"
#include "support/recording.h"
#include "support/temporary_folder.h"
#include "support/toy_accelerator.h"

namespace {

using levin::test::FixedLoader;
using levin::test::TemporaryFolder;

levin::TrainerOptions options_on(const std::string& accelerator, const std::filesystem::path& folder) {
  levin::TrainerOptions options = levin::test::quiet_options(1);
  options.accelerator = accelerator;
  options.default_root_dir = folder;
  return options;
}

/// Learns nothing; draws from the device's generator at each step, or from the CPU's where the device has none.
class Draws : public levin::Module {
 public:
  Draws() : weight_(register_parameter("weight", torch::zeros({1}))) {}
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t batch_idx) override {
    drawn.push_back(at::rand({1}, trainer().strategy().accelerator().generator(device())).item<double>());
    if (batch_idx == save_after) trainer().save_checkpoint(file);
    return (weight_ * batch[0]).mean();
  }
  void on_train_batch_end(const levin::StepOutput&, const levin::Batch&, std::int64_t batch_idx) override {
    if (batch_idx == save_at_end_of) trainer().save_checkpoint(file);
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  std::vector<double> drawn;
  std::int64_t save_after = -1, save_at_end_of = -1;
  std::filesystem::path file;

 private:
  torch::Tensor weight_;
};

std::vector<double> fit(Draws& module, const levin::TrainerOptions& options, const levin::RunOptions& run = {}) {
  levin::Trainer(options).fit(module, FixedLoader::of_rows(4, 2), {}, run);
  return module.drawn;
}

}  // namespace

TEST_CASE("devices become those of the ranks of this host") {
  const Toy toy;
  CHECK(toy.devices_of_ranks({}) == std::vector{0, 1, 2});
  CHECK(toy.devices_of_ranks(2) == std::vector{0, 1});
  CHECK(toy.devices_of_ranks(-1) == std::vector{0, 1, 2});
  CHECK(toy.devices_of_ranks("2,0") == std::vector{2, 0});
  CHECK_THROWS_WITH(toy.devices_of_ranks(4), "devices: toy device 3 does not exist; visible are 0, 1, 2");
  CHECK_THROWS_AS(toy.devices_of_ranks("1,3"), levin::ConfigError);

  toy.choose("2,0", 1);
  CHECK(toy.selected == 0);
  toy.choose({}, 2);  // under a launcher, which says how many ranks this host has
  CHECK(toy.selected == 2);
  CHECK_THROWS_WITH(toy.choose({}, 3),
                    "devices: toy device 3 for the rank with LOCAL_RANK=3 does not exist; visible are 0, 1, 2");
  CHECK_THROWS_WITH(toy.choose("1", 1), Catch::Contains("1 of this host are requested") && Catch::Contains("rank 1"));
}

TEST_CASE("a device that does not exist is an error with those that are visible, and the variable that chose them") {
  /// Sees the devices that a variable names, as GPUs do.
  struct Chosen : Toy {
    std::string visibility_variable() const override { return "TOY_VISIBLE_DEVICES"; }
    int device_count() const override {
      const std::string chosen = std::getenv("TOY_VISIBLE_DEVICES");
      return chosen.empty() ? 0 : static_cast<int>(std::count(chosen.begin(), chosen.end(), ',')) + 1;
    }
  } toy;
  setenv("TOY_VISIBLE_DEVICES", "4,6", 1);
  CHECK(toy.devices_of_ranks(-1) == std::vector{0, 1});
  CHECK_THROWS_WITH(toy.devices_of_ranks("0,4"),
                    "devices: toy device 4 does not exist; visible are 0, 1 (TOY_VISIBLE_DEVICES=4,6)");
  CHECK_THROWS_WITH(toy.choose({}, 2),
                    Catch::Contains("LOCAL_RANK=2 does not exist; visible are 0, 1 (TOY_VISIBLE_DEVICES=4,6)"));
  CHECK_THROWS_WITH(toy.choose(2, 2), Catch::Contains("its rank 2 (LOCAL_RANK") && Catch::Contains("visible are 0, 1 ("));
  setenv("TOY_VISIBLE_DEVICES", "", 1);
  CHECK_THROWS_WITH(toy.devices_of_ranks(-1),
                    Catch::Contains("one toy device is needed; none is visible (TOY_VISIBLE_DEVICES=)"));
  unsetenv("TOY_VISIBLE_DEVICES");
}

TEST_CASE("any number of ranks share the CPU, which has no indices") {
  const levin::CpuAccelerator cpu;
  CHECK(cpu.devices_of_ranks({}).size() == 1);
  CHECK(cpu.devices_of_ranks(64).size() == 64);
  CHECK(cpu.choose(4, 7) == at::Device(at::kCPU));
  CHECK_THROWS_WITH(cpu.devices_of_ranks(-1), Catch::Contains("indices choose among GPUs"));
  CHECK_THROWS_AS(cpu.devices_of_ranks("0,1"), levin::ConfigError);
  CHECK_FALSE(cpu.generator(at::kCPU));
  CHECK_FALSE(cpu.memory(at::kCPU));
  CHECK_FALSE(cpu.pins_memory());
  CHECK(cpu.autocast_type(levin::PrecisionFormat::kFloat16Mixed) == at::kBFloat16);
}

TEST_CASE("what LibTorch knows of a kind of device is the default") {
  struct Plain : levin::Accelerator {
    std::string name() const override { return "plain"; }
    at::DeviceType device_type() const override { return at::kCPU; }
  } plain;
  CHECK(plain.device_count() == 1);
  CHECK(plain.choose({}, 0) == at::Device(at::kCPU, 0));
  CHECK(plain.backend_name() == "gloo");
  CHECK_THROWS_AS(plain.make_backend({}, 0, 1, 1.0), levin::MisuseError);
  CHECK(plain.autocast_type(levin::PrecisionFormat::kBfloat16Mixed) == at::kBFloat16);
  CHECK_FALSE(plain.autocast_type(levin::PrecisionFormat::kFloat16Mixed));
}

TEST_CASE("an accelerator is known by name before anything is launched") {
  const auto& registry = levin::Registry<levin::Accelerator>::instance();
  CHECK(registry.make("auto", levin::Value::Map{})->resolve()->name() == "cpu");  // tests see no GPU
  CHECK(registry.make("gpu", levin::Value::Map{})->name() == "cuda");
  CHECK_THROWS_WITH(levin::Trainer({.accelerator = "cudda"}),
                    Catch::Contains("unknown accelerator class 'cudda'; did you mean 'cuda'?"));
  CHECK_THROWS_WITH(levin::Trainer({.accelerator = "neuron"}), Catch::Contains("'auto', 'cpu', 'cuda', 'gpu'"));
  CHECK_THROWS_WITH(levin::Trainer({.accelerator = {}}), Catch::Contains("accelerator is empty; use auto, or leave it out"));
}

TEST_CASE("a run asks the accelerator of its options, by name or as an object") {
  const TemporaryFolder folder;
  auto options = options_on("Toy", folder.path());
  options.devices = "2,";
  levin::Trainer trainer(options);
  Draws module;
  trainer.fit(module, FixedLoader::of_rows(4, 2));
  auto& toy = dynamic_cast<Toy&>(trainer.strategy().accelerator());
  CHECK(toy.selected == 2);
  CHECK(trainer.device() == at::Device(at::kCPU));
  CHECK(module.drawn.size() == 4);
  toy.synchronize(trainer.device());
  CHECK(toy.synchronizations == 1);
  CHECK(toy.memory(trainer.device())->reserved == 128);

  const auto own = std::make_shared<Toy>();
  options.accelerator = own;
  options.precision = levin::PrecisionFormat::kBfloat16Mixed;
  levin::Trainer second(options);
  CHECK(&second.strategy().accelerator() == own.get());
  CHECK(own->selected == 2);
  CHECK_THROWS_WITH(second.fit(module, FixedLoader::of_rows(4, 2)),
                    "trainer.precision: 'bf16-mixed' is not available on cpu; it is 32-true, 64-true, or bf16-true.");
}

TEST_CASE("seed_everything seeds the device, whether it comes before the Trainer or after") {
  const TemporaryFolder folder;
  const auto options = options_on("Toy", folder.path());
  levin::seed_everything(11);
  Draws before;
  levin::Trainer first(options);
  first.fit(before, FixedLoader::of_rows(4, 2));
  levin::seed_everything(12);
  levin::Trainer second(options);
  levin::seed_everything(11);
  Draws after;
  second.fit(after, FixedLoader::of_rows(4, 2));
  CHECK(before.drawn == after.drawn);
  CHECK(std::set<double>(after.drawn.begin(), after.drawn.end()).size() == 4);
}

TEST_CASE("random numbers of the device go on in a run that resumes, from whichever hook it was saved") {
  const TemporaryFolder folder;
  const auto options = options_on("Toy", folder.path());
  Draws whole;
  whole.file = folder / "middle.ckpt";
  (GENERATE(true, false) ? whole.save_after : whole.save_at_end_of) = 1;
  levin::seed_everything(5);
  const std::vector<double> drawn = fit(whole, options);
  CHECK(levin::Checkpoint::load(whole.file).tensors.contains("rng.0.toy"));
  levin::seed_everything(6);
  Draws resumed;
  const std::vector<double> rest = fit(resumed, options, {.ckpt_path = whole.file.string()});
  CHECK(rest == std::vector<double>(drawn.begin() + 2, drawn.end()));
}

TEST_CASE("a checkpoint of another kind of device, or of an earlier levin, loads; the device's numbers go on from the seed") {
  const TemporaryFolder folder;
  Draws on_cpu;
  on_cpu.file = folder / "cpu.ckpt";
  on_cpu.save_at_end_of = 1;
  levin::seed_everything(5);
  const std::vector<double> drawn = fit(on_cpu, options_on("cpu", folder.path()));
  CHECK_FALSE(levin::Checkpoint::load(on_cpu.file).tensors.contains("rng.0.toy"));
  const levin::RunOptions run{.ckpt_path = on_cpu.file.string()};
  Draws on_toy;
  CHECK(fit(on_toy, options_on("Toy", folder.path()), run).size() == 2);
  Draws again;
  CHECK(fit(again, options_on("cpu", folder.path()), run) == std::vector<double>(drawn.begin() + 2, drawn.end()));
}
