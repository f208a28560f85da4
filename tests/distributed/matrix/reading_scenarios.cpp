// Reading is pure: metrics, folders and getters on one rank only.
#include "distributed/matrix/scenario.h"

#include "distributed/one_weight.h"
#include "levin/core/console/console.h"
#include "levin/core/logger.h"
#include "levin/core/state/trainer_state.h"
#include "support/recording.h"

namespace levin::test {
namespace {

/// Reads everything that a hook may ask a Trainer for.
double read_everything(const Trainer& trainer) {
  double sum = 0;
  for (const MetricMap* metrics : {&trainer.callback_metrics(), &trainer.logged_metrics(), &trainer.progress_bar_metrics()}) {
    for (const auto& [name, value] : *metrics) sum += value;
  }
  sum += trainer.monitored("val_loss").value_or(0) + trainer.monitored("never").value_or(0);
  sum += static_cast<double>(trainer.log_dir().string().size() + trainer.default_root_dir().string().size());
  for (const auto& logger : trainer.loggers()) {
    sum += static_cast<double>(logger->log_dir().string().size() + logger->name().size() + logger->version().size());
  }
  for (const auto& callback : trainer.callbacks()) sum += static_cast<double>(callback->state_key().size());
  sum += static_cast<double>(trainer.num_training_batches() + trainer.estimated_stepping_batches() + trainer.current_epoch() +
                             trainer.global_step() + trainer.batch_idx() + trainer.total_batch_idx());
  for (const std::int64_t batches : trainer.num_evaluation_batches()) sum += static_cast<double>(batches);
  sum += trainer.rank() + trainer.world_size() + trainer.local_rank() + trainer.strategy().node_rank();
  sum += trainer.should_stop() + trainer.fitting() + trainer.is_last_batch() + trainer.sanity_checking();
  sum +=
      static_cast<double>(trainer.strategy().name().size() + trainer.optimizers().size() + trainer.scheduler_configs().size());
  return sum;
}

struct LoggingModule : RecordingModule {
  using RecordingModule::RecordingModule;
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    const StepOutput output = RecordingModule::training_step(batch, batch_idx);
    log("loss", output.loss, {.on_step = true, .on_epoch = true, .prog_bar = true, .sync_dist = true});
    return output;
  }
};

/// parameters: the rank that reads, or -1 for none. In every hook of module and callbacks; gives what the run cost and found.
std::pair<std::int64_t, double> run(Scenario& scenario, int reader) {
  TrainerOptions options = scenario.options();
  options.max_epochs = 2;
  options.logger = true;
  options.enable_checkpointing = true;
  options.num_sanity_val_steps = 1;
  HookTrace trace;
  options.callbacks = {std::make_shared<RecordingCallback>(trace)};
  Trainer trainer(options);
  torch::manual_seed(1);
  LoggingModule module(trace);
  int reads = 0;
  trace.on_entry = [&](const std::string&) {
    if (trainer.rank() != reader) return;
    rank_zero_only([&] { read_everything(trainer); });
    reads += read_everything(trainer) > 0 ? 1 : 0;
  };
  trainer.fit(module, FixedLoader::of_rows(3, 2), {FixedLoader::of_rows(2, 2)});
  if (trainer.rank() == reader) scenario.expect("reads", reads > 100, true);
  trace.on_entry = nullptr;
  return {TrainerState::of(trainer).metrics->collectives(), trainer.callback_metrics().at("val_loss")};
}

/// parameters: the rank that reads. The run costs as many collectives, and finds the same, as without.
void one_rank_reads(Scenario& scenario) {
  const auto quiet = run(scenario, -1);
  const auto reading = run(scenario, scenario.number(0));
  scenario.expect("collectives", reading.first, quiet.first);
  scenario.expect("val_loss", reading.second, quiet.second);
}

/// parameters: none. A logger that reads metrics on rank 0 whenever it is called, as a progress bar's thread might.
void logger_reads(Scenario& scenario) {
  struct ReadingLogger : Logger {
    void log_metrics(const MetricRow& row) override {
      rows += 1;
      for (const auto& [name, value] : row.values) last = value;
      read_everything(*trainer);
    }
    void save() override {
      if (trainer->is_global_zero()) read_everything(*trainer);
    }
    const Trainer* trainer = nullptr;
    int rows = 0;
    double last = 0;
  };
  const auto logger = std::make_shared<ReadingLogger>();
  TrainerOptions options = scenario.options();
  options.logger = Loggers(logger);
  Trainer trainer(options);
  logger->trainer = &trainer;
  OneWeight module;
  trainer.fit(module, numbers(4, trainer.rank()), {numbers(2, trainer.rank())});
  // Four rows of steps, one of the validation, one of the epoch; on rank 0 alone.
  scenario.expect("rows", logger->rows, trainer.rank() == 0 ? 6 : 0);
}

}  // namespace

void add_reading_scenarios(Scenarios& scenarios) {
  scenarios.insert({{"one_rank_reads", one_rank_reads}, {"logger_reads", logger_reads}});
}

}  // namespace levin::test
