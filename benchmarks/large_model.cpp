// Milliseconds per training step of networks whose arithmetic takes longer than anything else, with AdamW: by hand on LibTorch,
// or under the Trainer. One sample a run, without the first steps, in which memory is taken for the first time.
//
//     large_model by_hand|trainer|averaged NETWORK
//     large_model ddp|ddp_sharded NETWORK RANKS [checkpoint]
//
// averaged: with EMAWeightAveraging. NETWORK: layers_N (24 square linear layers of N units: 25 million weights for 1024, 100
// million for 2048), convolutions, or transformer; wide_batch has 24 layers of 256 units and batches of 8,192 rows,
// wide_batch_segments the same in six checkpointed segments. One process computes with LibTorch's default threads, each of
// several ranks with one. With the time it gives what memory the ranks have on average, at the peak and at the end, in MB;
// with `checkpoint`, what rank 0 takes above that while ModelCheckpoint writes the run in the background, as a share of the
// file.
#include <levin/levin.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "networks.h"
#include "sample.h"

namespace {

namespace nn = torch::nn;
using levin::benchmarks::status_megabytes, levin::benchmarks::Stopwatch;

constexpr std::int64_t kWarmUpSteps = 4;
constexpr std::int64_t kSteps = kWarmUpSteps + 12;

/// A network, and a batch that it learns again and again.
struct Work {
  std::shared_ptr<nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> scores;
  torch::Tensor input;
  torch::Tensor target;
};

Work work_of(nn::Sequential net, const torch::Tensor& input, const torch::Tensor& target) {
  return {net.ptr(), [net](const torch::Tensor& rows) mutable { return net->forward(rows); }, input, target};
}

Work layers(std::int64_t units, std::int64_t rows = 32) {
  nn::Sequential net;
  for (int layer = 0; layer < 24; ++layer) {
    net->push_back(nn::Linear(units, units));
    net->push_back(nn::ReLU());
  }
  return work_of(net, torch::rand({rows, units}), torch::randint(units, {rows}));
}

Work wide_batch(bool in_segments) {
  Work work = layers(256, 8192);
  if (!in_segments) return work;
  const nn::Sequential net(std::dynamic_pointer_cast<nn::SequentialImpl>(work.module));
  work.scores = [net](const torch::Tensor& rows) { return levin::checkpointed_sequential(net, 6, rows); };
  return work;
}

Work convolutions() {
  nn::Sequential net;
  std::int64_t channels = 3;
  for (const std::int64_t wider : {64, 64, 128, 128, 256}) {
    net->push_back(nn::Conv2d(nn::Conv2dOptions(channels, wider, 3).padding(1).bias(false)));
    net->push_back(nn::BatchNorm2d(wider));
    net->push_back(nn::ReLU());
    if (wider == 2 * channels) net->push_back(nn::MaxPool2d(2));
    channels = wider;
  }
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(channels, 10));
  return work_of(net, torch::rand({32, 3, 32, 32}), torch::randint(10, {32}));
}

Work make_work(const std::string& network) {
  torch::manual_seed(0);
  if (network == "convolutions") return convolutions();
  if (network.starts_with("wide_batch")) return wide_batch(network != "wide_batch");
  if (network == "transformer") {
    levin::benchmarks::Transformer net;
    const auto scores = [net](const torch::Tensor& characters) mutable { return net->forward(characters); };
    return {net.ptr(), scores, torch::randint(96, {32, 64}), torch::randint(96, {32, 64})};
  }
  const std::string prefix = "layers_";
  if (!network.starts_with(prefix)) throw levin::ConfigError("no network " + network);
  return layers(std::stoll(network.substr(prefix.size())));
}

torch::Tensor loss_of(Work& work, const torch::Tensor& input, const torch::Tensor& target) {
  return nn::functional::cross_entropy(work.scores(input), target.flatten());
}

double milliseconds_per_step(const Stopwatch& stopwatch) {
  return stopwatch.seconds() / static_cast<double>(kSteps - kWarmUpSteps) * 1e3;
}

/// From here on VmHWM is the most that there was since.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

class Learner : public levin::Module {
 public:
  explicit Learner(Work work) : work_(std::move(work)) { register_module("net", work_.module); }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t batch_idx) override {
    if (batch_idx == kWarmUpSteps) stopwatch_.start();
    const auto loss = loss_of(work_, batch["input"], batch["target"]);
    log("train_loss", loss);
    return loss;
  }
  void on_train_epoch_end() override {
    milliseconds_ = milliseconds_per_step(stopwatch_);
    const auto memory = torch::tensor({status_megabytes("VmHWM:"), status_megabytes("VmRSS:")});
    memory_ = all_gather(memory).mean(0);
    forget_peak();
    settled_ = status_megabytes("VmRSS:");
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<levin::AdamW>(parameters(), 1e-4); }

  /// `checkpoint`: what was written at the end of the epoch, of 0 bytes where nothing was.
  void print(const std::filesystem::path& checkpoint) const {
    std::printf("{\"value\": %.9g, \"peak\": %.9g, \"settled\": %.9g", milliseconds_, memory_[0].item<double>(),
                memory_[1].item<double>());
    if (!checkpoint.empty()) {
      const double file = static_cast<double>(std::filesystem::file_size(checkpoint)) * 1e-6;
      std::printf(", \"copies\": %.9g", (status_megabytes("VmHWM:") - settled_) / file);
    }
    std::printf("}\n");
  }

 private:
  Work work_;
  Stopwatch stopwatch_;
  double milliseconds_ = 0;
  torch::Tensor memory_;
  double settled_ = 0;
};

void with_trainer(const std::string& side, const std::string& network, int ranks, bool saves) {
  levin::TrainerOptions options;
  options.max_epochs = 1;
  options.accelerator = "cpu";
  options.devices = levin::Devices(ranks);
  if (side.starts_with("ddp")) options.strategy = levin::Component<levin::Strategy>(side);
  if (ranks > 1) options.threads = 1;
  options.logger = false;
  options.enable_checkpointing = saves;
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "levin_large_model";
  if (saves)
    options.callbacks = {std::make_shared<levin::ModelCheckpoint>(
        levin::ModelCheckpointOptions{.dirpath = folder, .filename = "large", .enable_version_counter = false})};
  if (side == "averaged") options.callbacks = {levin::EMAWeightAveraging()};
  options.enable_progress_bar = false;
  options.enable_model_summary = false;
  options.allow_same_batches = true;
  options.log_level = levin::LogLevel::kWarning;
  levin::Trainer trainer(options);
  Work work = make_work(network);
  // The same batch in each step, on each rank: a dataset of as many copies as are requested, which share memory.
  const std::int64_t batch_size = work.input.size(0);
  const std::int64_t samples = batch_size * kSteps * ranks;
  const auto rows = torch::arange(samples).remainder(batch_size);
  const levin::Batch data = {{"input", work.input.index_select(0, rows)}, {"target", work.target.index_select(0, rows)}};
  Learner module(std::move(work));
  trainer.fit(module, std::make_shared<levin::DataLoader>(std::make_shared<levin::TensorDataset>(data),
                                                          levin::DataLoaderOptions{.batch_size = batch_size}));
  if (!trainer.is_global_zero()) return;
  module.print(saves ? folder / "large.ckpt" : "");
  std::filesystem::remove_all(folder);
}

void by_hand(const std::string& network) {
  Work work = make_work(network);
  torch::optim::AdamW optimizer(work.module->parameters(), 1e-4);
  Stopwatch stopwatch;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    if (step == kWarmUpSteps) stopwatch.start();
    optimizer.zero_grad();
    loss_of(work, work.input, work.target).backward();
    optimizer.step();
  }
  levin::benchmarks::print_sample(milliseconds_per_step(stopwatch));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr
        << "usage: large_model by_hand|trainer|averaged NETWORK, or large_model ddp|ddp_sharded NETWORK RANKS [checkpoint]\n";
    return 2;
  }
  const std::string side = argv[1];
  return levin::run_main([&] {
    if (side == "by_hand") return by_hand(argv[2]);
    with_trainer(side, argv[2], argc > 3 ? std::atoi(argv[3]) : 1, argc > 4);
  });
}
