// Milliseconds per training step of four networks with AdamW, batches of 32, one thread a rank: by hand on LibTorch, or as a
// package of Python's levin_train.export() under the Trainer with everything on. One sample a run, without the first epochs.
// The same networks in Python are in peers/exported_networks.py.
//
//     exported_step by_hand NETWORK
//     exported_step package NETWORK FILE [RANKS]
//
// NETWORK: mlp (64-256-256-10), resnet (six residual blocks of 16 to 64 channels), transformer (four layers of 192), lstm (two
// layers of 192). With the time it gives the peak memory in MB, and for a package the seconds in which it is loaded.
#include <levin/levin.h>

#include <cstdlib>
#include <functional>
#include <iostream>

#include "networks.h"
#include "sample.h"

namespace {

namespace nn = torch::nn;
using levin::benchmarks::status_megabytes, levin::benchmarks::Stopwatch;

constexpr std::int64_t kBatchSize = 32;

/// How much of which data: small networks need many steps to be measured, large ones few.
struct Measure {
  std::int64_t batches;
  std::int64_t warm_up_epochs;
  std::int64_t epochs;
};

Measure measure_of(const std::string& network) { return network == "mlp" ? Measure{46, 3, 33} : Measure{6, 1, 3}; }

levin::Batch data_of(const std::string& network, std::int64_t samples) {
  torch::manual_seed(0);
  if (network == "mlp") return {{"x", torch::rand({samples, 64})}, {"y", torch::randint(10, {samples})}};
  if (network == "resnet") return {{"x", torch::rand({samples, 3, 32, 32})}, {"y", torch::randint(10, {samples})}};
  return {{"x", torch::randint(96, {samples, 64})}, {"y", torch::randint(96, {samples, 64})}};
}

/// A network by hand.
struct Network {
  std::shared_ptr<nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> scores;
};

template <class Holder>
Network network_of(Holder net) {
  return {net.ptr(), [net](const torch::Tensor& x) mutable { return net->forward(x); }};
}

Network make_network(const std::string& network) {
  using nn::Linear, nn::ReLU, levin::benchmarks::Block;
  if (network == "mlp") return network_of(nn::Sequential(Linear(64, 256), ReLU(), Linear(256, 256), ReLU(), Linear(256, 10)));
  if (network == "resnet") {
    return network_of(nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)), nn::BatchNorm2d(16),
                                     ReLU(), Block(16, 16), Block(16, 16), Block(16, 32), Block(32, 32), Block(32, 64),
                                     Block(64, 64), nn::AdaptiveAvgPool2d(1), nn::Flatten(), Linear(64, 10)));
  }
  if (network == "transformer") return network_of(levin::benchmarks::Transformer());
  if (network == "lstm") return network_of(levin::benchmarks::Lstm());
  throw levin::ConfigError("no network " + network);
}

void print(const Measure& measure, const Stopwatch& stopwatch, double loading) {
  const auto steps = static_cast<double>((measure.epochs - measure.warm_up_epochs) * measure.batches);
  std::printf("{\"value\": %.9g, \"peak\": %.9g, \"loading\": %.9g}\n", stopwatch.seconds() / steps * 1e3,
              status_megabytes("VmHWM:"), loading);
}

void by_hand(const std::string& network) {
  const Measure measure = measure_of(network);
  const std::int64_t samples = measure.batches * kBatchSize;
  const levin::Batch data = data_of(network, samples);
  Network net = make_network(network);
  torch::optim::AdamW optimizer(net.module->parameters(), 1e-3);
  Stopwatch stopwatch;
  for (std::int64_t epoch = 0; epoch < measure.epochs; ++epoch) {
    if (epoch == measure.warm_up_epochs) stopwatch.start();
    const auto order = torch::randperm(samples, torch::kLong);
    for (std::int64_t first = 0; first < samples; first += kBatchSize) {
      const auto indices = order.narrow(0, first, kBatchSize);
      const auto x = data["x"].index_select(0, indices);
      const auto y = data["y"].index_select(0, indices);
      optimizer.zero_grad();
      nn::functional::cross_entropy(net.scores(x), y.flatten()).backward();
      optimizer.step();
    }
  }
  print(measure, stopwatch, 0);
}

class Timed : public levin::ExportedModule {
 public:
  Timed(const char* package, const Measure& measure) : ExportedModule({.package = package}), measure_(measure) {}
  void on_train_epoch_start() override {
    if (trainer().current_epoch() == measure_.warm_up_epochs) stopwatch.start();
  }
  void on_train_end() override { ended = stopwatch; }
  levin::OptimizerSetups configure_optimizers() override { return levin::AdamW(parameters(), 1e-3); }

  Stopwatch stopwatch;
  Stopwatch ended;

 private:
  Measure measure_;
};

void as_package(const std::string& network, const char* file, int ranks) {
  const Measure measure = measure_of(network);
  levin::TrainerOptions options;
  options.max_epochs = measure.epochs;
  options.accelerator = "cpu";
  options.devices = levin::Devices(ranks);
  options.threads = 1;
  options.enable_model_summary = false;
  options.log_level = levin::LogLevel::kWarning;
  options.callbacks = {levin::ProgressBar(),
                       levin::EarlyStopping({.monitor = "train_loss_epoch", .patience = 100, .check_on_train_epoch_end = true}),
                       levin::ModelCheckpoint()};
  levin::Trainer trainer(options);
  const Stopwatch loading;
  Timed module(file, measure);
  const double seconds = loading.seconds();
  const auto data = std::make_shared<levin::TensorDataset>(data_of(network, measure.batches * kBatchSize * ranks));
  trainer.fit(module, levin::DataLoader(data, {.batch_size = kBatchSize, .shuffle = true}));
  if (trainer.is_global_zero()) print(measure, module.ended, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: exported_step by_hand NETWORK, or exported_step package NETWORK FILE [RANKS]\n";
    return 2;
  }
  at::set_num_threads(1);
  return levin::run_main([&] {
    if (std::string(argv[1]) == "by_hand") return by_hand(argv[2]);
    as_package(argv[2], argv[3], argc > 4 ? std::atoi(argv[4]) : 1);
  });
}
