// A user's program that trains on several ranks, with one behaviour for each scenario. Run by trainer_ranks_test.
// Arguments: scenario, number of ranks, folder for what each rank has to say, parameters of the scenario.
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <fstream>
#include <functional>
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

/// parameters: batches of each rank, "known" or "unknown", accumulate_grad_batches
void uneven(const Arguments& arguments) {
  TrainerOptions options = options_for(arguments);
  options.accumulate_grad_batches = arguments.number(arguments.ranks + 1);
  Trainer trainer(options);
  OneWeight module;
  const int rank = trainer.rank();
  const bool known = arguments.parameter(arguments.ranks) == "known";
  const auto validation = numbers(arguments.number(rank), 10.0 * rank, known);
  trainer.fit(module, numbers(arguments.number(rank), 10.0 * rank, known), {validation});
  Report report(arguments, rank);
  report_run(report, trainer, module);
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

/// parameters: "guarded" or "all", sync_dist true/false, rank_zero_only true/false
void monitors_rank_zero_metric(const Arguments& arguments) {
  TrainerOptions options = options_for(arguments);
  options.max_epochs = 20;
  options.enable_checkpointing = true;
  Value stopping(Value::Map{});
  stopping["monitor"] = "joined";
  stopping["patience"] = 2;
  Value saving(Value::Map{});
  saving["monitor"] = "joined";
  options.callbacks = {Component<Callback>(Value("EarlyStopping"), stopping),
                       Component<Callback>(Value("ModelCheckpoint"), saving)};
  Trainer trainer(options);
  OneWeight module;
  module.at_validation_end = [&](OneWeight& self) {
    if (arguments.parameter(0) == "guarded" && !self.is_global_zero()) return;
    // Falls for three epochs, then rises: the third epoch is the best. On other ranks it would never rise.
    const auto epoch = static_cast<double>(self.current_epoch());
    const double value = self.is_global_zero() ? std::abs(epoch - 2) : -epoch;
    self.log("joined", value,
             {.sync_dist = arguments.parameter(1) == "true", .rank_zero_only = arguments.parameter(2) == "true"});
  };
  trainer.fit(module, numbers(2, 1), {numbers(2 + trainer.rank(), 5)});
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

/// parameters: the rank that fails, at which step, how
void fails(const Arguments& arguments) {
  Trainer trainer(options_for(arguments));
  OneWeight module;
  module.on_step = [&](OneWeight&, std::int64_t batch_idx) {
    if (trainer.rank() != arguments.number(0) || batch_idx != arguments.number(1)) return;
    const std::string how = arguments.parameter(2);
    if (how == "throw") throw std::runtime_error("the sensor returned garbage");
    if (how == "throw_int") throw 42;
    if (how == "abort") std::abort();
    if (how == "segfault") raise(SIGSEGV);
    if (how == "exit") _exit(0);
    if (how == "kill") raise(SIGKILL);
    if (how == "sigterm") raise(SIGTERM);
  };
  trainer.fit(module, numbers(1000, 1));
}

/// parameters: the rank that calls something else
void different_collectives(const Arguments& arguments) {
  Trainer trainer(options_for(arguments));
  OneWeight module;
  module.on_step = [&](OneWeight& self, std::int64_t batch_idx) {
    if (batch_idx != 2) return;
    if (trainer.rank() == arguments.number(0)) {
      if (arguments.parameter(1) == "barrier") trainer.strategy().barrier("odd one");
      if (arguments.parameter(1) == "nothing") return;
    } else {
      self.all_gather(torch::ones({2}));
    }
  };
  trainer.fit(module, numbers(100, 1));
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

/// parameters: none. Rank 1 is told another number of epochs.
void different_options(const Arguments& arguments) {
  TrainerOptions options = options_for(arguments);
  const char* rank = std::getenv("RANK");
  if (rank != nullptr && std::string(rank) == "1") options.max_epochs = 3;
  Trainer trainer(options);
  OneWeight module;
  trainer.fit(module, numbers(2, 1));
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)(const Arguments&)> scenarios{{"uneven", uneven},
                                                                    {"samples", samples},
                                                                    {"stops", stops},
                                                                    {"monitors_rank_zero_metric", monitors_rank_zero_metric},
                                                                    {"different_keys", different_keys},
                                                                    {"fails", fails},
                                                                    {"different_collectives", different_collectives},
                                                                    {"skips_epoch", skips_epoch},
                                                                    {"different_options", different_options}};
  const Arguments arguments{argv[1], std::stoi(argv[2]), argv[3], {argv + 4, argv + argc}};
  return levin::test::run_program([&] { scenarios.at(arguments.scenario)(arguments); });
}
