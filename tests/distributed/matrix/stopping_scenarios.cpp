// Ranks that want to stop, or to skip.
#include "distributed/matrix/scenario.h"
#include "distributed/one_weight.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/core/state/trainer_state.h"
#include "support/recording.h"

namespace levin::test {
namespace {

/// parameters: the hook ("M.training_step", "C.on_train_epoch_end", …), the rank that stops there.
/// Epochs have 4 steps and a validation after every second one. The hook's first call at or after step 5 asks to stop.
void stop_in_hook(Scenario& scenario) {
  const std::string& hook = scenario.text(0);
  const int who = scenario.number(1);
  TrainerOptions options = scenario.options();
  options.max_epochs = 10;
  options.val_check_interval = Limit(2);
  options.gradient_clip_val = 100.0;
  HookTrace trace;
  options.callbacks = {std::make_shared<RecordingCallback>(trace)};
  Trainer trainer(options);
  RecordingModule module(trace);
  std::int64_t asked_at = -1;
  trace.on_entry = [&](const std::string& entry) {
    if (entry != hook || asked_at >= 0 || trainer.global_step() < 5) return;
    asked_at = trainer.global_step();
    if (trainer.rank() == who) trainer.stop("enough");
  };
  trainer.fit(module, FixedLoader::of_rows(4, 2), {FixedLoader::of_rows(1, 2)});
  scenario.expect("the hook was called", asked_at >= 5, true);
  // During a step global_step does not count it yet.
  scenario.expect("steps after the wish", trainer.global_step() - asked_at <= 1, true);
  scenario.expect("should_stop()", trainer.should_stop(), true);
  const auto group = trainer.strategy().all_gather(torch::tensor({trainer.global_step()}));
  scenario.expect("ranks stopped at the same step", (group == trainer.global_step()).all().item<bool>(), true);
}

/// parameters: none. A stop costs no collective: as many as in a run of the same length that max_steps ends.
void stop_is_free(Scenario& scenario) {
  const auto collectives_of = [&](bool votes) {
    TrainerOptions options = scenario.options();
    options.log_every_n_steps = 0;
    if (!votes) options.max_steps = 8;
    Trainer trainer(options);
    OneWeight module;
    module.on_step = [&](OneWeight&, std::int64_t batch_idx) {
      if (votes && batch_idx == 7 && trainer.rank() == 1) trainer.stop();
    };
    trainer.fit(module, numbers(100, 1));
    scenario.expect("global_step", trainer.global_step(), 8);
    return TrainerState::of(trainer).metrics->collectives();
  };
  const std::int64_t voted = collectives_of(true);
  scenario.expect("collectives of a run that stops", voted, collectives_of(false));
}

/// parameters: the rank whose callback skips the rest of the epoch with its validation, "known" or "unknown" lengths.
void callback_skips_validation(Scenario& scenario) {
  const int who = scenario.number(0);
  TrainerOptions options = scenario.options();
  options.max_epochs = 3;
  LambdaCallbackOptions functions;
  functions.on_train_batch_start = [&](Trainer& trainer, Module&, const Batch&, std::int64_t batch_idx) {
    if (trainer.rank() == who && trainer.current_epoch() == 1 && batch_idx == 2) trainer.skip_epoch();
  };
  options.callbacks = {std::make_shared<LambdaCallback>(functions)};
  Trainer trainer(options);
  OneWeight module;
  std::string validated;
  module.at_validation_end = [&](OneWeight& self) { validated += std::to_string(self.current_epoch()); };
  const bool known = scenario.text(1) == "known";
  trainer.fit(module, numbers(5, 1, known), {numbers(1, 1, known)});
  scenario.expect("epochs with validation", validated, std::string("02"));
  scenario.expect("epochs", trainer.current_epoch(), 3);
  scenario.expect("global_step", trainer.global_step(), 13);
}

/// parameters: none. A stop that min_steps holds up, taken back by the rank that asked for it.
void stop_taken_back(Scenario& scenario) {
  TrainerOptions options = scenario.options();
  options.min_steps = 6;
  options.max_epochs = 2;
  Trainer trainer(options);
  OneWeight module;
  module.on_step = [&](OneWeight& self, std::int64_t) {
    if (trainer.rank() != scenario.ranks() - 1) return;
    if (self.global_step() == 1) trainer.stop();
    if (self.global_step() == 4) trainer.clear_stop();
  };
  trainer.fit(module, numbers(5, 1));
  scenario.expect("global_step", trainer.global_step(), 10);
  scenario.expect("epochs", trainer.current_epoch(), 2);
}

/// parameters: the strategy. Each rank asks to stop at another step: the first wish counts.
void stops_of_all(Scenario& scenario) {
  Trainer trainer(scenario.options(scenario.text(0)));
  OneWeight module;
  module.on_step = [&](OneWeight&, std::int64_t batch_idx) {
    if (batch_idx == 10 - trainer.rank()) trainer.stop();
  };
  trainer.fit(module, numbers(100, 1));
  scenario.expect("global_step", trainer.global_step(), 10 - (scenario.ranks() - 1) + 1);
}

}  // namespace

void add_stopping_scenarios(Scenarios& scenarios) {
  scenarios.insert({{"stop_in_hook", stop_in_hook},
                    {"stop_is_free", stop_is_free},
                    {"callback_skips_validation", callback_skips_validation},
                    {"stop_taken_back", stop_taken_back},
                    {"stops_of_all", stops_of_all}});
}

}  // namespace levin::test
