// A user's program that trains on several ranks, with one behaviour for each scenario. Run by trainer_ranks_test.
// Arguments: scenario, number of ranks, folder for what each rank has to say, parameters of the scenario.
#include <signal.h>
#include <sys/wait.h>
#include <torch/torch.h>

#include <fstream>
#include <map>

#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "levin/core/data/data_loader.h"
#include "levin/core/data/tensor_dataset.h"
#include "levin/core/module.h"
#include "levin/core/options/registry.h"
#include "levin/core/trainer.h"

namespace {

using namespace levin;
using levin::test::numbers;
using levin::test::OneWeight;

struct Arguments {
  std::string scenario;
  int ranks;
  std::filesystem::path folder;
  std::vector<std::string> parameters;

  std::string parameter(std::size_t index, const std::string& fallback = "") const {
    return index < parameters.size() ? parameters[index] : fallback;
  }
  int number(std::size_t index) const { return std::stoi(parameter(index, "0")); }
};

/// What a rank reports at its end, as "name value" lines.
class Report {
 public:
  Report(const Arguments& arguments, int rank) : file_(arguments.folder / ("rank_" + std::to_string(rank))) {
    file_.precision(17);
  }
  template <class T>
  void add(const std::string& name, const T& value) {
    file_ << name << ' ' << value << std::endl;
  }

 private:
  std::ofstream file_;
};

TrainerOptions options_for(const Arguments& arguments) { return levin::test::rank_options(arguments.ranks, arguments.folder); }

void report_run(Report& report, const Trainer& trainer, const OneWeight& module) {
  report.add("weight", module.weight());
  report.add("global_step", trainer.global_step());
  report.add("epoch", trainer.current_epoch());
  report.add("steps", module.steps);
  for (const auto& [name, value] : trainer.callback_metrics()) report.add("metric:" + name, value);
}

/// parameters: samples in all, global batch size. A DataLoader divides them over ranks.
void samples(const Arguments& arguments) {
  TrainerOptions options = options_for(arguments);
  options.use_distributed_sampler = true;
  options.uneven = "keep";
  options.max_epochs = 2;
  Trainer trainer(options);
  OneWeight module;
  const at::Tensor values = torch::arange(arguments.number(0), torch::kFloat).pow(2).reshape({-1, 1});
  const auto dataset = std::make_shared<TensorDataset>(Batch{{"x", values}});
  const DataLoaderOptions loader{.batch_size = arguments.number(1) / arguments.ranks, .shuffle = true};
  trainer.fit(module, std::make_shared<DataLoader>(dataset, loader), {std::make_shared<DataLoader>(dataset, loader)});
  Report report(arguments, trainer.rank());
  report_run(report, trainer, module);
}

/// parameters: "whole", "interrupted" (by a signal to the last rank, in the middle of the second epoch) or "resumed"
void resumes(const Arguments& arguments) {
  struct Noisy : OneWeight {
    // Each rank has random numbers of its own.
    void on_fit_start() override { torch::manual_seed(100 + static_cast<std::uint64_t>(trainer().rank())); }
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      return OneWeight::training_step(Batch{{"x", torch::dropout(batch[0], 0.5, /*train=*/true)}}, batch_idx);
    }
  } module;
  const std::string part = arguments.parameter(0);
  TrainerOptions options = options_for(arguments);
  options.use_distributed_sampler = true;
  options.max_epochs = 2;
  options.enable_checkpointing = true;
  Value saving(Value::Map{});
  saving["dirpath"] = arguments.folder.string();
  options.callbacks = {Component<Callback>(Value("OnExceptionCheckpoint"), saving)};
  Trainer trainer(options);
  module.on_step = [&](OneWeight&, std::int64_t batch_idx) {
    const bool here = trainer.rank() == trainer.world_size() - 1 && trainer.current_epoch() == 1 && batch_idx == 2;
    if (part == "interrupted" && here) raise(SIGTERM);
  };
  const at::Tensor values = torch::arange(28, torch::kFloat).reshape({-1, 1});
  const auto dataset = std::make_shared<TensorDataset>(Batch{{"x", values}});
  RunOptions run;
  if (part == "resumed") run.ckpt_path = (arguments.folder / "on_exception.ckpt").string();
  trainer.fit(module, std::make_shared<DataLoader>(dataset, DataLoaderOptions{.batch_size = 2, .shuffle = true}), {}, run);
  Report report(arguments, trainer.rank());
  report_run(report, trainer, module);
  report.add("random", torch::rand({1}).item<double>());
}

/// parameters: none. A program that a rank starts, and that dies of a signal which levin keeps from ending the rank itself.
void starts_programs(const Arguments& arguments) {
  Trainer trainer(options_for(arguments));
  OneWeight module;
  int status = 0;
  module.on_step = [&](OneWeight&, std::int64_t) { status = std::system("kill -PIPE $$"); };
  trainer.fit(module, numbers(1, 1));
  raise(SIGPIPE);
  Report report(arguments, trainer.rank());
  report.add("signal_of_the_program", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/// parameters: the rank that stops, at which step
void stops(const Arguments& arguments) {
  TrainerOptions options = options_for(arguments);
  options.log_every_n_steps = 0;
  Trainer trainer(options);
  OneWeight module;
  module.on_step = [&](OneWeight&, std::int64_t batch_idx) {
    if (trainer.rank() == arguments.number(0) && batch_idx == arguments.number(1)) trainer.stop("enough");
  };
  trainer.fit(module, numbers(100, trainer.rank()));
  Report report(arguments, trainer.rank());
  report_run(report, trainer, module);
}

/// parameters: the rank that logs keys of its own
void different_keys(const Arguments& arguments) {
  TrainerOptions options = options_for(arguments);
  Trainer trainer(options);
  OneWeight module;
  module.on_step = [&](OneWeight& self, std::int64_t batch_idx) {
    const int rank = trainer.rank();
    if (rank == arguments.number(0) && batch_idx % 2 == 1) self.log("rare", 4.0, {.on_epoch = true, .sync_dist = true});
    if (rank % 2 == 0) self.log("a", rank, {.on_step = false, .on_epoch = true});
    self.log("b", rank, {.on_step = false, .on_epoch = true});
    if (rank % 2 == 1) self.log("a", rank, {.on_step = false, .on_epoch = true});
    self.log("rank_" + std::to_string(rank) + "_own", rank * 10.0, {.on_step = false, .on_epoch = true});
  };
  trainer.fit(module, numbers(4, 1));
  Report report(arguments, trainer.rank());
  report_run(report, trainer, module);
}

/// parameters: the rank that skips the epoch, at which batch
void skips_epoch(const Arguments& arguments) {
  struct Skipping : OneWeight {
    void on_train_batch_start(const Batch&, std::int64_t batch_idx) override {
      if (trainer().rank() == rank && batch_idx == batch) trainer().skip_epoch();
    }
    int rank = 0, batch = 0;
  } module;
  module.rank = arguments.number(0);
  module.batch = arguments.number(1);
  TrainerOptions options = options_for(arguments);
  options.max_epochs = 2;
  Trainer trainer(options);
  trainer.fit(module, numbers(5, 1), {numbers(1, 1)});
  Report report(arguments, trainer.rank());
  report_run(report, trainer, module);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)(const Arguments&)> scenarios{{"samples", samples},
                                                                    {"resumes", resumes},
                                                                    {"starts_programs", starts_programs},
                                                                    {"stops", stops},
                                                                    {"different_keys", different_keys},
                                                                    {"skips_epoch", skips_epoch}};
  const Arguments arguments{argv[1], std::stoi(argv[2]), argv[3], {argv + 4, argv + argc}};
  return levin::test::run_program([&] { scenarios.at(arguments.scenario)(arguments); });
}
