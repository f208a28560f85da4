// The module and the run of make_logging_reference.py.
#include "distributed/numbers_scenarios.h"

#include <torch/torch.h>

#include <algorithm>

#include "distributed/rank_program.h"
#include "levin/core/callback.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/loggers/csv_logger.h"

namespace levin::test {

namespace {

struct Key {
  std::string name;
  LogOptions options;
};

std::vector<Key> keys(bool epoch_only) {
  std::vector<Key> made;
  for (const std::string level : {"s", "e", "se"}) {
    if (epoch_only && level != "e") continue;
    for (const bool sync_dist : {true, false}) {
      for (const Reduce reduce : {Reduce::kMean, Reduce::kSum, Reduce::kMax}) {
        LogOptions options{.on_step = level != "e", .on_epoch = level != "s", .prog_bar = reduce == Reduce::kMean};
        options.reduce = reduce;
        options.sync_dist = sync_dist;
        made.push_back({level + (sync_dist ? "_true_" : "_false_") + reduce_name(reduce), options});
      }
    }
  }
  return made;
}

class Logging : public Module {
 public:
  Logging() : weight_(register_parameter("weight", torch::zeros({1}))) {}

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor mean = batch[0].mean();
    log_all("t_", mean.item<double>());
    log("t_default", mean);
    log_dict({{"t_first", batch[0][0]}, {"t_last", batch[0][-1]}}, {.on_epoch = true, .prog_bar = true});
    log("t_hidden", mean, {.on_epoch = true, .logger = false});
    log("t_weighted", mean, {.on_epoch = true, .sync_dist = true, .batch_size = 3});
    if (is_global_zero()) log("t_rank_zero", mean, {.on_epoch = true, .rank_zero_only = true});
    return (weight_ * batch[0]).mean();
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    const at::Tensor mean = batch[0].mean();
    log_all("v_", mean.item<double>());
    log("v_default", mean, {.prog_bar = true});
    if (dataloader_idx() == 0) log("v_shared", mean, {.sync_dist = true, .add_dataloader_idx = false});
    if (is_global_zero()) log("v_rank_zero", mean, {.rank_zero_only = true});
  }
  void test_step(const Batch& batch, std::int64_t) override { log_all("x_", batch[0].mean().item<double>()); }
  void on_train_epoch_end() override {
    log_all("te_", static_cast<double>(2 * current_epoch() + trainer().rank() + 1), /*epoch_only=*/true);
  }
  void on_validation_epoch_end() override {
    log_all("ve_", static_cast<double>(3 * current_epoch() + trainer().rank()), /*epoch_only=*/true);
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.0); }

 private:
  void log_all(const std::string& prefix, double value, bool epoch_only = false) {
    for (const Key& key : keys(epoch_only)) log(prefix + key.name, value, key.options);
  }
  at::Tensor weight_;
};

/// Reports what the Trainer shows at hooks, as "PLACE|VIEW|KEY value".
class Watch : public Callback {
 public:
  explicit Watch(Report& report) : report_(report) {}

  void snapshot(const Trainer& trainer, std::string place) {
    std::replace(place.begin(), place.end(), ' ', '_');
    const auto add = [&](const std::string& view, const MetricMap& metrics) {
      report_.add(place + "|" + view, metrics.size());
      for (const auto& [name, value] : metrics) report_.add(place + "|" + view + "|" + name, value);
    };
    add("callback_metrics", trainer.callback_metrics());
    add("logged_metrics", trainer.logged_metrics());
    add("progress_bar_metrics", trainer.progress_bar_metrics());
  }
  void on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx) override {
    snapshot(trainer, epoch(trainer) + "on_train_batch_end " + std::to_string(batch_idx));
  }
  void on_train_epoch_end(Trainer& trainer, Module&) override { snapshot(trainer, epoch(trainer) + "on_train_epoch_end"); }
  void on_validation_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx,
                               std::int64_t dataloader_idx) override {
    const std::string where = std::to_string(dataloader_idx) + " " + std::to_string(batch_idx);
    snapshot(trainer, epoch(trainer) + "on_validation_batch_end " + where);
  }
  void on_validation_end(Trainer& trainer, Module&) override { snapshot(trainer, epoch(trainer) + "on_validation_end"); }

 private:
  static std::string epoch(const Trainer& trainer) { return "epoch " + std::to_string(trainer.current_epoch()) + " "; }
  Report& report_;
};

LoaderPtr loader(std::int64_t count, bool shuffle) {
  return dataset_loader(torch::arange(count, torch::kFloat), {.batch_size = 4, .shuffle = shuffle});
}

}  // namespace

void logs_as_the_reference(const Settings& settings) {
  const std::filesystem::path folder = settings.text("folder");
  TrainerOptions options = rank_options(settings.number("ranks"), folder);
  options.max_epochs = 2;
  options.use_distributed_sampler = true;
  options.logger = std::make_shared<CsvLogger>(CsvLoggerOptions{.save_dir = folder, .name = "", .version = "run"});
  options.log_every_n_steps = settings.number("log_every");
  options.accumulate_grad_batches = settings.number("accumulate");
  const char* rank = std::getenv("RANK");
  Report report(folder, rank == nullptr ? 0 : std::stoi(rank));
  const auto watch = std::make_shared<Watch>(report);
  options.callbacks = {std::static_pointer_cast<Callback>(watch)};
  Trainer trainer(options);
  Logging module;
  LoaderList evaluation;
  for (const std::int64_t count : settings.numbers("val")) evaluation.push_back(loader(count, false));
  // Lightning shuffles training data that is divided over ranks, even if its loader does not ask for it.
  trainer.fit(module, loader(settings.number("train"), true), evaluation);
  watch->snapshot(trainer, "after fit");
  const auto results = trainer.test(module, evaluation, {.verbose = false});
  watch->snapshot(trainer, "after test");
  for (std::size_t index = 0; index < results.size(); ++index) {
    const std::string place = "test_result_" + std::to_string(index) + "|result";
    report.add(place, results[index].size());
    for (const auto& [name, value] : results[index]) report.add(place + "|" + name, value);
  }
}

}  // namespace levin::test
