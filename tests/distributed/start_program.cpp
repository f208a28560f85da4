// A user's program that trains a little: started on one host or several, by any launcher, and killed where its arguments say.
// Arguments: name=value
//   folder=…, ranks=…, num_nodes=…, max_restarts=…, min_devices=…, connect_timeout=…, timeout=…, epochs=…,
//   samples=…, scale=… (of the data), width=… (of the network), save_every=steps (0: never), async=0, save_on_exception=1,
//   ckpt=…, toy=FILE (devices are those of an accelerator of which the file says how many there are),
//   fail=RESTARTS:RANK:STEP:MANNER, several with commas between them; RANK all: each of them; STEP 0: in setup
// Writes FOLDER/weights_RANK when training is done.
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>

#include "distributed/dataset_loader.h"
#include "distributed/fail_in.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "distributed/tensor_text.h"
#include "levin/core/module.h"
#include "levin/core/random/seed.h"
#include "levin/core/trainer.h"
#include "support/toy_accelerator.h"

namespace levin::test::start_program {

namespace {

/// As many toy devices as a file says, which may be fewer when the run is started again.
class CountedToy : public Toy {
 public:
  explicit CountedToy(std::filesystem::path file) : file_(std::move(file)) {}
  int device_count() const override {
    int count = 0;
    std::ifstream(file_) >> count;
    return count;
  }

 private:
  std::filesystem::path file_;
};

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

int restarts() { return std::max(number_in("LEVIN_RESTARTS"), number_in("TORCHELASTIC_RESTART_COUNT")); }

/// Fails where the program's arguments say.
class Failures {
 public:
  Failures(const std::string& plans, std::filesystem::path folder) : folder_(std::move(folder)) {
    std::istringstream list(plans);
    for (std::string plan; std::getline(list, plan, ',');) {
      std::istringstream parts(plan);
      std::string restart, rank, step, manner;
      std::getline(parts, restart, ':');
      std::getline(parts, rank, ':');
      std::getline(parts, step, ':');
      std::getline(parts, manner);
      plans_.push_back({std::stoi(restart), rank == "all" ? -1 : std::stoi(rank), std::stoll(step), manner});
    }
  }
  void reach(int rank, std::int64_t step) const {
    for (const Plan& plan : plans_) {
      if (plan.restarts != restarts() || plan.step != step || (plan.rank >= 0 && plan.rank != rank)) continue;
      if (plan.manner == "config_error") throw ConfigError("the number of layers is wrong");
      if (plan.manner.starts_with("take_device=")) {
        std::ofstream(plan.manner.substr(plan.manner.find('=') + 1)) << 1;
        levin::test::fail_in("sigkill");
      }
      if (plan.manner == "damage_newest") {
        std::filesystem::resize_file(*checkpoints().rbegin(), 100);
        levin::test::fail_in("sigkill");
      }
      if (plan.manner == "sigkill_saved") {  // the thread of rank 0 that writes the file may be late
        while (checkpoints().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        levin::test::fail_in("sigkill");
      }
      levin::test::fail_in(plan.manner, rank);
    }
  }

 private:
  struct Plan {
    int restarts;
    int rank;
    std::int64_t step;
    std::string manner;
  };
  /// The whole ones, by their names, which begin with the epoch and the step: times are those of a clock that may be set back.
  std::set<std::filesystem::path> checkpoints() const {
    std::set<std::filesystem::path> found;
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "logs/version_0/checkpoints", none_yet)) {
      if (entry.path().extension() == ".ckpt") found.insert(entry.path());
    }
    return found;
  }

  std::vector<Plan> plans_;
  std::filesystem::path folder_;
};

/// Draws random numbers of each rank, so that a run which does not resume exactly has another result.
class Network : public Module {
 public:
  Network(const Settings& settings, const Failures& failures)
      : failures_(failures),
        layers_(register_module(
            "layers", torch::nn::Sequential(torch::nn::Linear(4, settings.number("width", 8)), torch::nn::Dropout(0.3),
                                            torch::nn::Linear(settings.number("width", 8), 1)))) {
    set_hparams(Value(Value::Map{{"width", Value(std::int64_t{settings.number("width", 8)})}}));
  }
  void setup(Stage) override { failures_.reach(trainer().rank(), 0); }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    failures_.reach(trainer().rank(), global_step() + 1);
    const at::Tensor loss = layers_->forward(batch[0]).pow(2).mean();
    log("loss", loss, {.on_step = true, .on_epoch = true});
    log("noise", torch::rand({1}).mean(), {.on_step = true, .on_epoch = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override { log("val_loss", layers_->forward(batch[0]).pow(2).mean()); }
  OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::Adam>(parameters(), torch::optim::AdamOptions(0.01));
  }

 private:
  const Failures& failures_;
  torch::nn::Sequential layers_;
};

LoaderPtr rows(std::int64_t count, bool shuffle, int scale = 1) {
  const at::Tensor values = torch::arange(count * 4, torch::kFloat).reshape({count, 4}) * scale / (count * 4);
  return dataset_loader(values, {.batch_size = 2, .shuffle = shuffle});
}

TrainerOptions options_of(const Settings& settings) {
  TrainerOptions options = levin::test::rank_options(settings.number("ranks", 2), settings.text("folder"));
  options.max_epochs = settings.number("epochs", 2);
  options.num_nodes = settings.number("num_nodes", 1);
  options.use_distributed_sampler = true;
  options.max_restarts = settings.number("max_restarts", 0);
  if (settings.number("min_devices", 0) > 0) options.min_devices = settings.number("min_devices", 0);
  options.connect_timeout_seconds = settings.number("connect_timeout", 60);
  options.timeout_seconds = settings.number("timeout", 60);
  options.logger = true;
  for (const RequeueSignal signal : {RequeueSignal::kTerm, RequeueSignal::kUsr2}) {
    if (settings.text("requeue", "") == choice_name(signal)) options.process.requeue_signals = {signal};
  }
  if (settings.has("toy")) options.accelerator = std::make_shared<CountedToy>(settings.text("toy"));
  const int every = settings.number("save_every", 3);
  const bool on_exception = settings.number("save_on_exception", 0) == 1;
  if (every == 0 && !on_exception) return options;
  options.enable_checkpointing = true;
  Value saving(
      Value::Map{{"save_on_exception", on_exception}, {"save_top_k", -1}, {"async", settings.number("async", 1) == 1}});
  saving[every > 0 ? "every_n_train_steps" : "every_n_epochs"] = every > 0 ? every : 1000;
  options.callbacks = {Component<Callback>(Value("ModelCheckpoint"), saving)};
  return options;
}

void run(const Settings& settings) {
  const Failures failures(settings.text("fail", ""), settings.text("folder"));
  seed_everything(7);
  Trainer trainer(options_of(settings));
  Network network(settings, failures);
  const int samples = settings.number("samples", 24);
  RunOptions run;
  if (settings.has("ckpt")) run.ckpt_path = settings.text("ckpt");
  trainer.fit(network, rows(samples, /*shuffle=*/true, settings.number("scale", 1)), {rows(8, /*shuffle=*/false)}, run);
  std::ofstream file(std::filesystem::path(settings.text("folder")) / ("weights_" + std::to_string(trainer.rank())));
  file << numbers_text(network.parameters());
}

const RankProgram program("start", run);

}  // namespace

}  // namespace levin::test::start_program
