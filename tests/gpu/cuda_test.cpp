#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <set>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/random/seed.h"
#include "levin/core/trainer.h"
#include "levin/optim/fused_optimizers.h"
#include "levin/strategies/devices/accelerators.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

at::Device gpu() {
  static const at::Device device = CudaAccelerator().choose({}, 0);
  return device;
}

TrainerOptions gpu_options(std::int64_t epochs) {
  TrainerOptions options = quiet_options(epochs);
  options.accelerator = "cuda";
  return options;
}

/// A small classifier with dropout and BatchNorm.
struct Classifier : Module {
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    devices.insert(batch["x"].device().str());
    const at::Tensor hidden = torch::dropout(torch::relu(norm(first(batch["x"]))), 0.3, true);
    const at::Tensor loss = torch::nn::functional::cross_entropy(second(hidden), batch["y"]);
    log("loss", loss, {.on_step = true, .on_epoch = true});
    return loss;
  }
  void on_train_epoch_end() override { losses.push_back(trainer().callback_metrics().at("loss_epoch")); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<AdamW>(parameters(), AdamWOptions(0.01)); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 32));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(32));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(32, 4));
  std::set<std::string> devices;
  std::vector<double> losses;
};

LoaderPtr batches() {
  torch::manual_seed(11);
  std::vector<Batch> made;
  for (int index = 0; index < 20; ++index) {
    const at::Tensor x = torch::randn({16, 8});
    made.push_back(Batch{{"x", x}, {"y", x.slice(1, 0, 4).argmax(1)}});
  }
  return std::make_shared<FixedLoader>(std::move(made));
}

/// The weights, on the CPU.
std::vector<at::Tensor> weights_of(const Module& module) {
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : module.parameters()) weights.push_back(parameter.detach().cpu());
  for (const at::Tensor& buffer : module.buffers()) weights.push_back(buffer.detach().cpu());
  return weights;
}

bool equal(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const at::Tensor& left, const at::Tensor& right) { return left.equal(right); });
}

}  // namespace

// In a separate process: LibTorch asks only once.
TEST_CASE("a program may ask LibTorch about CUDA before levin uses the GPU", "[.][asked_first]") {
  torch::manual_seed(3);
  CHECK(torch::cuda::is_available());
  Classifier module;
  Trainer(gpu_options(1)).fit(module, batches());
  CHECK(module.devices == std::set<std::string>{"cuda:0"});
}

TEST_CASE("auto takes the GPU") {
  AutoAccelerator chosen;
  REQUIRE(chosen.resolve());
  CHECK(chosen.resolve()->name() == "cuda");
  CHECK(chosen.resolve() == chosen.resolve());
  Classifier module;
  TrainerOptions options = quiet_options(1);
  Trainer(options).fit(module, batches());
  CHECK(module.devices == std::set<std::string>{"cuda:0"});
}

TEST_CASE("memory in tensors is counted, and unused memory is released") {
  const CudaAccelerator cuda;
  const DeviceMemory before = *cuda.memory(gpu());
  {
    const at::Tensor held = torch::empty({64 << 20}, torch::TensorOptions(gpu()).dtype(torch::kByte));
    const DeviceMemory during = *cuda.memory(gpu());
    CHECK(during.allocated - before.allocated == 64 << 20);
    CHECK(during.reserved >= during.allocated);
    CHECK(*during.used >= during.reserved);
    CHECK(cuda.statistics(gpu()).at("allocated_bytes.all.current") == static_cast<double>(during.allocated));
  }
  CHECK(cuda.memory(gpu())->allocated == before.allocated);
  cuda.clear_memory(gpu());
  CHECK(cuda.memory(gpu())->reserved <= before.reserved);
}

TEST_CASE("recorded work is done again in the same memory, and what fails while it is recorded leaves the GPU usable") {
  const CudaAccelerator cuda;
  const at::Tensor x = torch::ones({8}, torch::TensorOptions(gpu()));
  const auto failing = cuda.make_graph(gpu(), nullptr);
  CHECK_THROWS(failing->record([&] { x.sum().item<float>(); }));
  const auto graph = cuda.make_graph(gpu(), nullptr);
  graph->record([&] { x.mul_(2); });
  CHECK(x.sum().item<float>() == 8);
  graph->replay();
  graph->replay();
  CHECK(x.sum().item<float>() == 32);
}

TEST_CASE("gradients travel over NCCL") {
  const CudaAccelerator cuda;
  REQUIRE(cuda.device_count() >= 1);
  const auto backend = cuda.make_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1, 30);
  CHECK(backend->getBackendName() == "nccl");
  std::vector<at::Tensor> values{torch::full({1000}, 3.0, torch::TensorOptions(gpu()))};
  backend->allreduce(values)->wait();
  CHECK(values[0].sum().item<double>() == 3000);
}

TEST_CASE("a fit on the GPU resumes from its checkpoint to the bit, random numbers of the GPU included") {
  const TemporaryFolder folder;
  const auto options = [](std::int64_t epochs) {
    TrainerOptions made = gpu_options(epochs);
    made.deterministic = true;
    return made;
  };
  const auto fitted = [&](std::int64_t epochs, const std::optional<std::string>& from) {
    torch::manual_seed(5);
    auto module = std::make_shared<Classifier>();
    Trainer trainer(options(epochs));
    seed_everything(7);
    trainer.fit(*module, batches(), {}, {.ckpt_path = from});
    trainer.save_checkpoint(folder / ("after_" + std::to_string(epochs)));
    return module;
  };
  const auto whole = fitted(4, std::nullopt);
  fitted(2, std::nullopt);
  const auto resumed = fitted(4, (folder / "after_2").string());
  CHECK(equal(weights_of(*whole), weights_of(*resumed)));
  CHECK(whole->losses.back() == resumed->losses.back());
  CHECK(whole->losses.back() < whole->losses.front());
}

TEST_CASE("mixed precisions train on the GPU") {
  const auto precision = GENERATE(PrecisionFormat::kFloat16Mixed, PrecisionFormat::kBfloat16Mixed);
  const auto graph = GENERATE(CudaGraph::kNever, CudaGraph::kAuto);
  torch::manual_seed(5);
  Classifier module;
  TrainerOptions options = gpu_options(10);
  options.precision = precision;
  options.cuda_graph = graph;
  Trainer(options).fit(module, batches());
  CHECK(module.losses.back() < 0.8 * module.losses.front());
}

TEST_CASE("LibTorch's settings reach the GPU") {
  TrainerOptions options = gpu_options(1);
  options.float32_matmul_precision = GENERATE(MatmulPrecision::kHighest, MatmulPrecision::kHigh);
  Classifier module;
  bool tf32 = false;
  struct Look : Callback {
    explicit Look(bool& found) : tf32(found) {}
    void on_train_start(Trainer&, Module&) override { tf32 = at::globalContext().allowTF32CuBLAS(); }
    bool& tf32;
  };
  options.callbacks = {std::make_shared<Look>(tf32)};
  Trainer(options).fit(module, batches());
  CHECK(tf32 == (options.float32_matmul_precision == MatmulPrecision::kHigh));
}
