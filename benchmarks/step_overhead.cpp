// Microseconds per training step of the digits' MLP (64-256-256-10), batches of 32 a rank, one thread: written by hand on
// LibTorch, or under the Trainer. One sample a run, without the first epochs, in which memory is taken for the first time. All
// sides begin with the same weights and data: how many numbers come near to zero, which processors are slow with, depends on
// them.
//
//     step_overhead by_hand|by_hand_saving|trainer|session|everything|live|graphed|CLASS OPTIMIZER [RANKS] [ACCELERATOR]
//
// `session` is the trainer's steps in a loop of its own. `live` is everything on a terminal, with the live view. `graphed` is
// everything with `cuda_graph: auto`. CLASS, such as TensorBoardLogger, is everything with that logger in addition to
// CSVLogger; an MLflowLogger has a server that does not answer. OPTIMIZER: torch::optim::Adam and the like are LibTorch's
// classes; a name alone, such as AdamW, is the class that `optimizer:` makes in YAML. With `small_` before it, by_hand, trainer
// and session train one layer instead, for ten times as many steps, which show what a step costs besides.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <levin/levin.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "sample.h"

namespace {

namespace fs = std::filesystem;
using levin::benchmarks::Stopwatch;

constexpr std::int64_t kSamples = 1472;  // 46 batches, as many as the digits' training part
constexpr std::int64_t kBatchSize = 32;
constexpr std::int64_t kStepsOfEpoch = kSamples / kBatchSize;
constexpr std::int64_t kWarmUpEpochs = 3;
constexpr std::int64_t kEpochs = kWarmUpEpochs + 30;
constexpr std::int64_t kLogEverySteps = 50;
constexpr int kMetrics = 10;

/// The command line.
struct Request {
  std::string side;
  std::string optimizer;
  int ranks = 1;
  std::string accelerator = "cpu";
  at::Device device = at::kCPU;
  bool is_small = false;

  std::int64_t epochs() const { return is_small ? 10 * kEpochs : kEpochs; }
  bool has_logger() const { return side.ends_with("Logger"); }
  bool is_whole() const { return side == "everything" || side == "live" || side == "graphed" || has_logger(); }
};

torch::nn::Sequential make_net(const Request& request) {
  using torch::nn::Linear, torch::nn::ReLU;
  if (request.is_small) return torch::nn::Sequential(Linear(64, 10));
  return torch::nn::Sequential(Linear(64, 256), ReLU(), Linear(256, 256), ReLU(), Linear(256, 10));
}

levin::Batch make_data(std::int64_t samples) {
  return {{"image", torch::rand({samples, 64})}, {"label", torch::randint(10, {samples})}};
}

std::shared_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, std::vector<torch::Tensor> parameters) {
  if (name == "torch::optim::Adam") return std::make_shared<torch::optim::Adam>(parameters, 1e-3);
  if (name == "torch::optim::AdamW") return std::make_shared<torch::optim::AdamW>(parameters, 1e-3);
  if (name == "torch::optim::SGD") return std::make_shared<torch::optim::SGD>(parameters, 1e-3);
  const auto factory = levin::Registry<levin::OptimizerFactory>::instance().make(
      name, levin::Value(levin::Value::Map{{"lr", levin::Value(1e-3)}}));
  return factory->make(std::move(parameters));
}

double microseconds_per_step(const Stopwatch& stopwatch, const Request& request) {
  return stopwatch.seconds() / static_cast<double>((request.epochs() - kWarmUpEpochs) * kStepsOfEpoch) * 1e6;
}

class Mlp : public levin::Module {
 public:
  Mlp(const Request& request, int metrics) : request_(request), net_(register_module("net", make_net(request))) {
    for (int index = 1; index < metrics; ++index) names_.push_back("metric_" + std::to_string(index));
  }
  void on_train_epoch_start() override {
    if (trainer().current_epoch() == kWarmUpEpochs) stopwatch_.start();
  }
  void on_train_end() override {
    trainer().strategy().accelerator().synchronize(device());
    microseconds_ = microseconds_per_step(stopwatch_, request_);
  }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::nn::functional::cross_entropy(net_->forward(batch["image"]), batch["label"]);
    log("train_loss", loss, {.on_step = true, .on_epoch = true, .prog_bar = true});
    for (const std::string& name : names_) log(name, loss);
    return loss;
  }
  levin::OptimizerSetups configure_optimizers() override { return make_optimizer(request_.optimizer, parameters()); }

  double microseconds() const { return microseconds_; }

 private:
  Request request_;
  torch::nn::Sequential net_;
  std::vector<std::string> names_;
  Stopwatch stopwatch_;
  double microseconds_ = 0;
};

levin::Component<levin::Logger> make_logger(const std::string& name) {
  levin::Value arguments(levin::Value::Map{});
  if (name == "MLflowLogger") arguments = levin::Value::Map{{"tracking_uri", "http://127.0.0.1:9"}, {"end_timeout", 1}};
  if (name == "WandbLogger") arguments = levin::Value::Map{{"offline", true}};
  return levin::Registry<levin::Logger>::instance().make(name, arguments);
}

levin::TrainerOptions trainer_options(const Request& request, const fs::path& folder) {
  levin::TrainerOptions options;
  options.max_epochs = request.epochs();
  options.accelerator = request.accelerator;
  if (request.side == "live") options.progress = levin::ProgressView::kLive;
  if (request.side == "graphed") options.cuda_graph = levin::CudaGraph::kAuto;
  options.devices = levin::Devices(request.ranks);
  options.threads = 1;
  options.default_root_dir = folder;
  options.log_every_n_steps = kLogEverySteps;
  options.enable_model_summary = false;
  options.log_level = levin::LogLevel::kWarning;
  if (request.is_whole()) {
    std::vector<levin::Component<levin::Logger>> loggers = {std::make_shared<levin::CsvLogger>()};
    if (request.has_logger()) loggers.push_back(make_logger(request.side));
    options.logger = loggers;
    options.callbacks = {std::make_shared<levin::ProgressBar>(),
                         std::make_shared<levin::EarlyStopping>(levin::EarlyStoppingOptions{
                             .monitor = "train_loss_epoch", .patience = kEpochs, .check_on_train_epoch_end = true}),
                         std::make_shared<levin::ModelCheckpoint>()};
  } else {
    options.logger = false;
    options.enable_checkpointing = false;
    options.enable_progress_bar = false;
  }
  return options;
}

/// While it lives, standard output is a new terminal, which a thread reads as a terminal's window does.
class OwnTerminal {
 public:
  OwnTerminal() {
    winsize size{.ws_row = 40, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
    int terminal = -1;
    if (openpty(&window_, &terminal, nullptr, nullptr, &size) != 0) throw std::runtime_error("no terminal can be opened");
    setenv("TERM", "xterm", /*overwrite=*/1);
    setenv("LC_ALL", "C.UTF-8", /*overwrite=*/1);
    dup2(terminal, STDOUT_FILENO);
    close(terminal);
    reader_ = std::thread([this] {
      std::array<char, 65536> bytes;
      while (read(window_, bytes.data(), bytes.size()) > 0) {
      }
    });
  }
  ~OwnTerminal() {
    dup2(output_, STDOUT_FILENO);
    reader_.join();
    close(window_);
  }
  OwnTerminal(const OwnTerminal&) = delete;
  OwnTerminal& operator=(const OwnTerminal&) = delete;

 private:
  int output_ = dup(STDOUT_FILENO);
  int window_ = -1;
  std::thread reader_;
};

/// Nothing on ranks other than the first.
std::optional<double> with_trainer(const Request& request, const fs::path& folder) {
  levin::Trainer trainer(trainer_options(request, folder));
  torch::manual_seed(0);
  const auto data = std::make_shared<levin::TensorDataset>(make_data(kSamples * request.ranks));
  Mlp module(request, request.is_whole() ? kMetrics : 1);
  const auto loader =
      std::make_shared<levin::DataLoader>(data, levin::DataLoaderOptions{.batch_size = kBatchSize, .shuffle = true});
  trainer.fit(module, loader);
  return trainer.is_global_zero() ? std::optional(module.microseconds()) : std::nullopt;
}

/// The same epochs in a loop of the caller's.
std::optional<double> with_session(const Request& request, const fs::path& folder) {
  torch::manual_seed(0);
  levin::DataLoader loader(levin::TensorDataset(make_data(kSamples * request.ranks)),
                           levin::DataLoaderOptions{.batch_size = kBatchSize, .shuffle = true});
  Mlp module(request, 1);
  levin::Session session(trainer_options(request, folder), module);
  session.begin();
  loader.set_shard(session.shard());
  for (std::int64_t epoch = 0; epoch < request.epochs(); ++epoch) {
    loader.start_epoch(epoch);
    while (auto batch = loader.next()) session.step(*std::move(batch));
    session.end_epoch();
  }
  session.end();
  return session.trainer().is_global_zero() ? std::optional(module.microseconds()) : std::nullopt;
}

/// `saves`: a row of numbers as often as the Trainer writes one, and model and optimizer after each epoch.
double by_hand(const Request& request, bool saves, const fs::path& folder) {
  const levin::Batch data = make_data(kSamples);
  auto net = make_net(request);
  net->to(request.device);
  const auto optimizer = make_optimizer(request.optimizer, net->parameters());
  std::ofstream log(folder / "metrics.csv");
  std::int64_t step = 0;
  Stopwatch stopwatch;
  for (std::int64_t epoch = 0; epoch < request.epochs(); ++epoch) {
    if (epoch == kWarmUpEpochs) stopwatch.start();
    const auto order = torch::randperm(kSamples, torch::kLong);
    for (std::int64_t first = 0; first < kSamples; first += kBatchSize) {
      const auto indices = order.narrow(0, first, kBatchSize);
      const auto images = data["image"].index_select(0, indices).to(request.device);
      const auto labels = data["label"].index_select(0, indices).to(request.device);
      optimizer->zero_grad();
      const auto loss = torch::nn::functional::cross_entropy(net->forward(images), labels);
      loss.backward();
      optimizer->step();
      if (saves && ++step % kLogEverySteps == 0) log << epoch << ',' << step << ',' << loss.item<float>() << std::endl;
    }
    if (!saves) continue;
    torch::save(net, (folder / "model.pt").string());
    torch::save(*optimizer, (folder / "optimizer.pt").string());
  }
  if (!request.device.is_cpu()) c10::impl::VirtualGuardImpl(request.device.type()).synchronizeDevice(request.device.index());
  return microseconds_per_step(stopwatch, request);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: step_overhead by_hand|by_hand_saving|trainer|session|everything|live|graphed|CLASS OPTIMIZER [RANKS] "
                 "[ACCELERATOR]\n";
    return 2;
  }
  Request request{.side = argv[1], .optimizer = argv[2], .ranks = argc > 3 ? std::atoi(argv[3]) : 1};
  if (argc > 4) request.accelerator = argv[4];
  constexpr std::string_view kSmall = "small_";
  request.is_small = request.side.starts_with(kSmall);
  if (request.is_small) request.side.erase(0, kSmall.size());
  at::set_num_threads(1);
  const fs::path folder = fs::current_path();
  // Before levin checks what standard output is.
  std::optional<OwnTerminal> terminal;
  if (request.side == "live") terminal.emplace();
  std::optional<double> sample;
  const int status = levin::run_main([&] {
    if (!request.side.starts_with("by_hand")) {
      sample = request.side == "session" ? with_session(request, folder) : with_trainer(request, folder);
      return;
    }
    request.device = levin::Registry<levin::Accelerator>::instance().make(request.accelerator, {})->choose({}, 0);
    torch::manual_seed(0);
    sample = by_hand(request, request.side == "by_hand_saving", folder);
  });
  terminal.reset();
  if (sample) levin::benchmarks::print_sample(*sample);
  return status;
}
