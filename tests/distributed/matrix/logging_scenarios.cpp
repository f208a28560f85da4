// What hooks may log on which ranks, and the results.
#include <algorithm>
#include <iterator>
#include <limits>

#include "distributed/matrix/scenario.h"
#include "distributed/one_weight.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/state/trainer_state.h"
#include "levin/optim/lr_schedulers.h"
#include "support/recording.h"

namespace levin::test {
namespace {

std::vector<std::string> words_in(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

double mean_rank(const Scenario& scenario) { return (scenario.ranks() - 1) / 2.0; }

/// OneWeight whose learning rate falls when a metric does not improve.
class MonitoringModule : public OneWeight {
 public:
  explicit MonitoringModule(SchedulerConfig config) : config_(std::move(config)) {}
  OptimizerSetups configure_optimizers() override {
    auto optimizer = std::make_shared<torch::optim::SGD>(parameters(), 1.0);
    auto plateau = std::make_shared<ReduceLrOnPlateau>(*optimizer, ReduceLrOnPlateauOptions{.factor = 0.5, .patience = 0});
    OptimizerSetup setup{.optimizer = optimizer};
    config_.scheduler = plateau;
    setup.schedulers.push_back(config_);
    return setup;
  }

 private:
  SchedulerConfig config_;
};

/// parameters: "guarded" or "all"; sync_dist: "unset", "true" or "false"; rank_zero_only: "true" or "false".
/// Outputs collected in validation_step are joined at the epoch's end, and logged; three monitors decide on them.
void collected_outputs(Scenario& scenario) {
  const bool guarded = scenario.text(0) == "guarded";
  LogOptions log_options;
  if (scenario.text(1) != "unset") log_options.sync_dist = scenario.flag(1);
  log_options.rank_zero_only = scenario.flag(2);

  TrainerOptions options = scenario.options();
  options.max_epochs = 20;
  options.enable_checkpointing = true;
  const auto stopping = std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "joined", .patience = 2});
  const auto saving = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.monitor = "joined"});
  options.callbacks = {stopping, saving};
  Trainer trainer(options);
  MonitoringModule module({.interval = levin::Interval::kEpoch, .monitor = "joined"});
  module.at_validation_end = [&](OneWeight& self) {
    if (guarded && !self.is_global_zero()) return;
    // The number of outputs is that of this rank's batches, however many other ranks had.
    scenario.expect("collected outputs", self.collected.size(), static_cast<std::size_t>(2 + trainer.rank()));
    // Falls for three epochs, then rises: 2, 1, 0, 1, 2; higher by one on each further rank.
    const double value = std::abs(static_cast<double>(self.current_epoch()) - 2) + trainer.rank();
    self.log("joined", value, log_options);
  };
  trainer.fit(module, numbers(2, 1), {numbers(2 + trainer.rank(), 5)});

  const bool reduced = !guarded && !log_options.rank_zero_only && log_options.sync_dist.value_or(true);
  const bool local = log_options.sync_dist.has_value() && !*log_options.sync_dist && !log_options.rank_zero_only;
  const double added = reduced ? mean_rank(scenario) : 0;
  scenario.expect("epochs", trainer.current_epoch(), 5);
  scenario.expect("monitored value", trainer.monitored("joined").value_or(-1), 2 + added);
  if (!local) {
    scenario.expect_metric(trainer, "joined", 2 + added);
  } else if (guarded && trainer.rank() != 0) {
    scenario.expect_no_metric(trainer, "joined");
  } else {
    scenario.expect_metric(trainer, "joined", 2 + trainer.rank());
  }
  scenario.expect("best score of EarlyStopping", stopping->best_score(), added);
  scenario.expect("best checkpoint", std::filesystem::path(saving->best_model_path()).filename().string(),
                  std::string("epoch=2-step=6.ckpt"));
  scenario.expect("best score of ModelCheckpoint", saving->best_model_score().value_or(-1), added);
  // Reduced after each of the two epochs without an improvement.
  scenario.expect("learning rate", get_lrs(*trainer.optimizers().front()).front(), 0.25);
}

/// parameters: the one rank that logs, or -1 for all; sync_dist: "true" or "false"; log_every_n_steps.
/// Monitors, in epochs, after steps and in a scheduler's step, decide on what training_step logs: on the newest value, whether
/// a row was due or not, and whether validation lies between.
void step_monitors(Scenario& scenario) {
  constexpr std::int64_t kBatches = 5;
  const int only = scenario.number(0);
  const LogOptions log_options = scenario.flag(1) ? LogOptions{.sync_dist = true} : LogOptions();
  TrainerOptions options = scenario.options();
  options.max_epochs = 20;
  options.enable_checkpointing = true;
  options.log_every_n_steps = scenario.number(2);
  const auto stopping = std::make_shared<EarlyStopping>(
      EarlyStoppingOptions{.monitor = "falling", .patience = 2, .check_on_train_epoch_end = true});
  const auto saving = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.monitor = "falling", .every_n_train_steps = 2});
  // Falls in each epoch, and from epoch to epoch for three of them; higher by one on each further rank.
  const auto value = [](std::int64_t epoch, std::int64_t batch_idx, double rank) {
    return 10.0 * static_cast<double>(std::abs(epoch - 2)) + static_cast<double>(kBatches - 1 - batch_idx) + rank;
  };
  const double decides = only >= 0 ? only : scenario.flag(1) ? mean_rank(scenario) : 0;
  LambdaCallbackOptions functions;
  functions.on_train_batch_end = [&](Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx) {
    if (batch_idx % 3 != 1) return;
    scenario.expect("the value of now", trainer.monitored_now("falling").value_or(-1),
                    value(trainer.current_epoch(), batch_idx, decides));
  };
  functions.on_validation_epoch_end = [&](Trainer& trainer, Module&) {
    scenario.expect("the value in validation", trainer.monitored("falling").value_or(-1),
                    value(trainer.current_epoch(), kBatches - 1, decides));
  };
  options.callbacks = {std::make_shared<LambdaCallback>(functions), stopping, saving};
  Trainer trainer(options);
  MonitoringModule module({.interval = levin::Interval::kStep, .frequency = kBatches, .monitor = "falling"});
  module.on_step = [&](OneWeight& self, std::int64_t batch_idx) {
    if (only < 0 || trainer.rank() == only)
      self.log("falling", value(self.current_epoch(), batch_idx, trainer.rank()), log_options);
  };
  trainer.fit(module, numbers(kBatches, 1), {numbers(1, 1)});

  scenario.expect("epochs", trainer.current_epoch(), 5);
  scenario.expect("best score of EarlyStopping", stopping->best_score(), value(2, 4, decides));
  scenario.expect("best checkpoint", std::filesystem::path(saving->best_model_path()).filename().string(),
                  std::string("epoch=2-step=14.ckpt"));
  scenario.expect("best score of ModelCheckpoint", saving->best_model_score().value_or(-1), value(2, 3, decides));
  // Reduced in each of the two epochs without an improvement.
  scenario.expect("learning rate", get_lrs(*trainer.optimizers().front()).front(), 0.25);
}

/// parameters: the one rank that logs, or -1 for all. Every hook that permits log() logs under its own key, in the module
/// and in a callback; every hook that does not permit it throws.
void every_hook(Scenario& scenario) {
  const int only = scenario.number(0);
  TrainerOptions options = scenario.options();
  options.num_sanity_val_steps = 1;
  HookTrace module_trace;
  HookTrace callback_trace;
  const auto callback = std::make_shared<RecordingCallback>(callback_trace);
  options.callbacks = {callback};
  Trainer trainer(options);
  struct LoggingModule : RecordingModule {
    using RecordingModule::RecordingModule;
    void test_step(const Batch& batch, std::int64_t batch_idx) override {
      RecordingModule::test_step(batch, batch_idx);
      set_step_output(layer_->forward(batch[0]).mean());
    }
  } module(module_trace);

  std::map<std::string, int> logged;   // key: hooks that permit log()
  std::map<std::string, int> refused;  // hooks that do not
  const auto log_here = [&](const std::string& entry) {
    if (!module.has_trainer() || trainer.sanity_checking() || !trainer.strategy().world_size()) return;
    if (only >= 0 && trainer.rank() != only) return;
    const Hook hook = TrainerState::of(trainer).tracker.hook();
    std::string key = entry;
    std::replace(key.begin(), key.end(), '.', '_');
    if (!hook_policy(hook).may_log) {
      try {
        module.log(key, 1.0);
        scenario.expect("log() in " + entry, "accepted", std::string("refused"));
      } catch (const MisuseError&) {
        ++refused[entry];
      }
      return;
    }
    module.log(key, 1.0 + trainer.rank(), {.on_step = false, .on_epoch = true});
    ++logged[key];
  };
  module_trace.on_entry = callback_trace.on_entry = log_here;
  const auto rows = FixedLoader::of_rows(3, 2);
  trainer.fit(module, rows, {FixedLoader::of_rows(2, 2)});
  const double expected = only < 0 ? 1 + mean_rank(scenario) : 1.0 + only;
  const auto check = [&](const std::string& entry) {
    if (only < 0 || trainer.rank() == only) scenario.expect("log() was called in " + entry, logged[entry] > 0, true);
    scenario.expect_metric(trainer, entry, expected);
  };
  for (const std::string& entry :
       words_in("C_on_train_start M_on_train_start C_on_train_epoch_start M_on_train_epoch_start C_on_train_batch_start "
                "M_on_train_batch_start M_training_step C_on_before_zero_grad M_on_before_zero_grad M_optimizer_zero_grad "
                "C_on_before_backward M_on_before_backward M_backward C_on_after_backward M_on_after_backward "
                "C_on_before_optimizer_step M_on_before_optimizer_step M_configure_gradient_clipping M_optimizer_step "
                "C_on_train_batch_end M_on_train_batch_end C_on_train_epoch_end M_on_train_epoch_end C_on_validation_start "
                "M_on_validation_start C_on_validation_epoch_start M_on_validation_epoch_start C_on_validation_batch_start "
                "M_on_validation_batch_start M_validation_step C_on_validation_batch_end M_on_validation_batch_end "
                "C_on_validation_epoch_end M_on_validation_epoch_end")) {
    check(entry);
  }
  if (only < 0 || trainer.rank() == only) scenario.expect("hooks that refuse log()", refused.size() > 10, true);
  trainer.test(module, {FixedLoader::of_rows(2, 2)}, {.verbose = false});
  for (const std::string& entry :
       words_in("C_on_test_start M_on_test_start C_on_test_epoch_start M_on_test_epoch_start C_on_test_batch_start "
                "M_on_test_batch_start M_test_step C_on_test_batch_end M_on_test_batch_end C_on_test_epoch_end "
                "M_on_test_epoch_end")) {
    check(entry);
  }
  module_trace.on_entry = callback_trace.on_entry = nullptr;
}

/// parameters: none. Each rank has keys that others lack, the shared ones in another order, some in some steps only.
void different_keys(Scenario& scenario) {
  Trainer trainer(scenario.options());
  OneWeight module;
  const int rank = trainer.rank();
  const LogOptions epoch{.on_step = false, .on_epoch = true};
  module.on_step = [&](OneWeight& self, std::int64_t batch_idx) {
    // An even rank logs a, b, …; an odd one the other way round.
    std::vector<std::string> shared = {"a", "b", "c", "d"};
    if (rank % 2 == 1) std::reverse(shared.begin(), shared.end());
    for (const std::string& name : shared) self.log(name, rank, epoch);
    for (const std::string& name : shared) self.log(name + "_synced", rank, {.sync_dist = true});
    self.log("rank_" + std::to_string(rank) + "_own", rank * 10.0, epoch);
    self.log("rank_" + std::to_string(rank) + "_own_step", rank * 10.0 + static_cast<double>(batch_idx), {.sync_dist = true});
    if (rank == 1 && batch_idx == 2) self.log("once", 7.0, {.on_epoch = true, .sync_dist = true});
    if (batch_idx % scenario.ranks() == rank) self.log("in_turn", static_cast<double>(batch_idx), epoch);
    if (rank == scenario.ranks() - 1)
      self.log("last_rank_min", static_cast<double>(-batch_idx), {.on_step = false, .on_epoch = true, .reduce = Reduce::kMin});
  };
  trainer.fit(module, numbers(4, 1));
  for (const char* name : {"a", "b", "c", "d", "a_synced", "b_synced", "c_synced", "d_synced"}) {
    scenario.expect_metric(trainer, name, mean_rank(scenario));
  }
  for (int other = 0; other < scenario.ranks(); ++other) {
    const std::string prefix = "rank_" + std::to_string(other);
    scenario.expect_metric(trainer, prefix + "_own", other * 10.0);
    scenario.expect_metric(trainer, prefix + "_own_step", other * 10.0 + 3);
  }
  scenario.expect_metric(trainer, "once_epoch", 7);
  scenario.expect_metric(trainer, "once_step", 7);
  scenario.expect_metric(trainer, "in_turn", 1.5);
  scenario.expect_metric(trainer, "last_rank_min", -3);
}

/// parameters: none. Keys come and go over epochs, on changing ranks.
void keys_by_epoch(Scenario& scenario) {
  TrainerOptions options = scenario.options();
  options.max_epochs = 2 * scenario.ranks();
  Trainer trainer(options);
  OneWeight module;
  const int rank = trainer.rank();
  module.at_validation_end = [&](OneWeight& self) {
    const auto epoch = self.current_epoch();
    if (epoch % scenario.ranks() == rank) self.log("travelling", static_cast<double>(epoch));
    if (epoch > 0) scenario.expect_metric(trainer, "travelling", static_cast<double>(epoch - 1));
    if (epoch == 1 && rank == scenario.ranks() - 1) self.log("late", 3.0);
  };
  trainer.fit(module, numbers(1, 1), {numbers(1, 1)});
  scenario.expect_metric(trainer, "travelling", 2.0 * scenario.ranks() - 1);
  scenario.expect_metric(trainer, "late", 3);
}

/// parameters: none. One rank logs NaN and infinities.
void not_finite(Scenario& scenario) {
  TrainerOptions options = scenario.options();
  options.max_epochs = 5;
  const auto stopping =
      std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "mean", .patience = 10, .check_finite = true});
  options.callbacks = {stopping};
  Trainer trainer(options);
  OneWeight module;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  module.at_validation_end = [&](OneWeight& self) {
    const bool odd_one = trainer.rank() == 1 && self.current_epoch() == 2;
    self.log("mean", odd_one ? kNan : 5.0);
    self.log("min", odd_one ? kNan : 5.0, {.reduce = Reduce::kMin});
    self.log("max", odd_one ? kNan : 5.0, {.reduce = Reduce::kMax});
    self.log("infinite", odd_one ? kInf : 5.0);
    self.log("least", odd_one ? -kInf : 5.0, {.reduce = Reduce::kMin});
    self.log("largest", odd_one ? -kInf : 5.0, {.reduce = Reduce::kMax});
  };
  trainer.fit(module, numbers(2, 1), {numbers(1, 1)});
  scenario.expect("epochs", trainer.current_epoch(), 3);
  scenario.expect("reason of EarlyStopping", static_cast<int>(stopping->stopping_reason()),
                  static_cast<int>(EarlyStoppingReason::kNonFiniteMetric));
  for (const char* name : {"mean", "min", "max"}) scenario.expect_metric(trainer, name, kNan);
  scenario.expect_metric(trainer, "infinite", kInf);
  scenario.expect_metric(trainer, "least", -kInf);
  scenario.expect_metric(trainer, "largest", 5);
}

/// parameters: the one rank that logs them, or -1 for all.
void thousand_keys(Scenario& scenario) {
  const int only = scenario.number(0);
  Trainer trainer(scenario.options());
  OneWeight module;
  constexpr int kKeys = 1000;
  module.on_step = [&](OneWeight& self, std::int64_t batch_idx) {
    if (only >= 0 && trainer.rank() != only) return;
    for (int key = 0; key < kKeys; ++key) {
      self.log("key_" + std::to_string(key), key + trainer.rank() + static_cast<double>(batch_idx),
               {.on_step = true, .on_epoch = true, .sync_dist = true});
    }
  };
  trainer.fit(module, numbers(3, 1));
  const double added = only < 0 ? mean_rank(scenario) : only;
  for (int key = 0; key < kKeys; ++key) {
    scenario.expect_metric(trainer, "key_" + std::to_string(key) + "_step", key + added + 2);
    scenario.expect_metric(trainer, "key_" + std::to_string(key) + "_epoch", key + added + 1);
  }
}

/// parameters: the one rank on which a key changes its options half-way, or -1 for all. Ends with an error on every rank.
void options_change(Scenario& scenario) {
  const int only = scenario.number(0);
  Trainer trainer(scenario.options());
  OneWeight module;
  module.on_step = [&](OneWeight& self, std::int64_t batch_idx) {
    const bool changes = batch_idx == 3 && (only < 0 || trainer.rank() == only);
    self.log("fickle", 1.0, {.reduce = changes ? Reduce::kMax : Reduce::kMean});
  };
  trainer.fit(module, numbers(100, 1));
}

/// parameters: none. From the start, ranks disagree about the options of a key.
void options_differ(Scenario& scenario) {
  Trainer trainer(scenario.options());
  OneWeight module;
  module.on_step = [&](OneWeight& self, std::int64_t) {
    if (trainer.rank() == 0) {
      self.log("disputed", 1.0, {.sync_dist = true});
    } else {
      self.log("disputed", 1.0, {.sync_dist = false});
    }
  };
  trainer.fit(module, numbers(100, 1));
}

/// parameters: the rank whose callback logs. Callbacks log as modules do.
void callback_logs(Scenario& scenario) {
  const int only = scenario.number(0);
  TrainerOptions options = scenario.options();
  LambdaCallbackOptions functions;
  functions.on_train_batch_end = [&](Trainer& trainer, Module& module, const StepOutput&, const Batch&,
                                     std::int64_t batch_idx) {
    if (trainer.rank() == only)
      module.log("of_callback", static_cast<double>(batch_idx), {.on_step = true, .on_epoch = true, .sync_dist = true});
  };
  functions.on_validation_end = [&](Trainer& trainer, Module&) {
    if (trainer.rank() == only) scenario.expect("metrics seen", trainer.callback_metrics().count("val_input"), std::size_t{1});
  };
  options.callbacks = {std::make_shared<LambdaCallback>(functions)};
  Trainer trainer(options);
  OneWeight module;
  trainer.fit(module, numbers(4, 1), {numbers(2, trainer.rank())});
  scenario.expect_metric(trainer, "of_callback_step", 3);
  scenario.expect_metric(trainer, "of_callback_epoch", 1.5);
  scenario.expect_metric(trainer, "val_input", 0.5 + mean_rank(scenario));
}

/// parameters: none. strict_logging turns a key that one rank did not log into an error on all.
void strict_logging(Scenario& scenario) {
  TrainerOptions options = scenario.options();
  options.strict_logging = true;
  Trainer trainer(options);
  OneWeight module;
  module.on_step = [&](OneWeight& self, std::int64_t) {
    if (trainer.rank() != 1) self.log("partial", 1.0, {.sync_dist = true});
  };
  trainer.fit(module, numbers(100, 1));
}

}  // namespace

void add_logging_scenarios(Scenarios& scenarios) {
  scenarios.insert({{"collected_outputs", collected_outputs},
                    {"step_monitors", step_monitors},
                    {"every_hook", every_hook},
                    {"different_keys", different_keys},
                    {"keys_by_epoch", keys_by_epoch},
                    {"not_finite", not_finite},
                    {"thousand_keys", thousand_keys},
                    {"options_change", options_change},
                    {"options_differ", options_differ},
                    {"callback_logs", callback_logs},
                    {"strict_logging", strict_logging}});
}

}  // namespace levin::test
