#include <algorithm>
#include <array>
#include <random>
#include <sstream>

#include "support/resume_plans.h"
#include "support/resume_sources.h"

namespace levin::test {

std::string ResumePlan::str() const {
  std::ostringstream text;
  text << "seed " << seed << ", epochs " << epochs << ", samples " << samples << ", batch " << batch_size << ", accumulate "
       << accumulate << ", val_check_interval "
       << (val_check_interval
               ? std::to_string(val_check_interval->limit().is_share() ? -1 : val_check_interval->limit().batches())
               : "none")
       << ", check_val_every_n_epoch " << check_val_every_n_epoch.value_or(-1) << ", validation " << validation_samples
       << ", sanity " << sanity_steps << ", log_every " << log_every << ", every_n_train_steps "
       << every_n_train_steps.value_or(-1) << ", skip " << skip_in_epoch << " in " << skip_in << ", patience " << patience
       << ", max_steps " << max_steps << ", workers " << workers << (source.empty() ? "" : ", " + source)
       << (manual ? ", manual" : "") << (plateau_each_step ? ", plateau step" : "") << ", own from " << own_from
       << ", shared until " << shared_until << ", precision " << choice_name(precision) << (tied ? ", tied" : "")
       << (odd_weights.empty() ? "" : ", " + odd_weights) << (sequential ? ", sequential" : "")
       << (bad_losses ? ", bad losses" : "") << (local ? ", local" : "") << ", reload " << reload
       << (validate_first ? ", validate first" : "") << (averaging.empty() ? "" : ", averaged by " + averaging)
       << (guard.empty() ? "" : ", guarded by " + guard) << (finetuning ? ", finetuning" : "")
       << (pruning.empty() ? "" : ", pruning by " + pruning) << (strategy.empty() ? "" : ", " + strategy);
  if (!cut_by.empty()) text << ", cut by " << cut_by << " at " << cut_at;
  if (ask_at >= 0) text << ", asks for validation in " << ask_in << " at " << ask_at;
  for (const ParameterChange& change : changes) {
    constexpr std::array kNames = {"add_param_group", "freeze", "unfreeze", "set_lr"};
    text << ", " << kNames[static_cast<std::size_t>(change.kind)] << " in " << change.hook << " at " << change.at;
  }
  return text.str();
}

namespace {

constexpr std::array kChangingHooks = {
    "on_fit_start",       "on_train_start",          "on_train_epoch_start",      "on_train_batch_start",
    "training_step",      "on_before_zero_grad",     "optimizer_zero_grad",       "on_before_backward",
    "backward",           "on_after_backward",       "on_before_optimizer_step",  "configure_gradient_clipping",
    "on_train_batch_end", "on_validation_start",     "on_validation_epoch_start", "on_validation_batch_start",
    "validation_step",    "on_validation_batch_end", "on_validation_epoch_end",   "on_validation_end",
    "on_train_epoch_end"};

}  // namespace

bool happens_for_each_validation_batch(const std::string& hook) {
  return hook.find("validation_batch") != std::string::npos || hook == "validation_step";
}

ResumePlan random_resume_plan(std::uint64_t seed, int ranks) {
  std::mt19937_64 random(seed);
  const auto pick = [&](auto... choices) {
    const std::array all = {choices...};
    return all[random() % all.size()];
  };
  ResumePlan plan;
  plan.seed = seed;
  plan.ranks = ranks;
  plan.epochs = pick(2, 3);
  plan.samples = ranks == 3 ? pick(6, 9, 12) : pick(4, 7, 10);
  plan.batch_size = pick(1, 2, 3);
  plan.manual = pick(0, 0, 0, 1) == 1;
  plan.accumulate = plan.manual ? 1 : pick(1, 1, 2, 3);
  const std::int64_t own_samples = (plan.samples + ranks - 1) / ranks;
  const std::int64_t batches = (own_samples + plan.batch_size - 1) / plan.batch_size;
  switch (pick(0, 1, 2, 3)) {
    case 1:
      plan.val_check_interval = CheckInterval(0.5);
      break;
    case 2:
      plan.val_check_interval = CheckInterval(Limit(std::min<std::int64_t>(batches, pick(1, 2, 3))));
      break;
    case 3:
      plan.val_check_interval = CheckInterval(Limit(pick(3, 4, 5)));
      plan.check_val_every_n_epoch = std::nullopt;
      break;
    default:
      plan.check_val_every_n_epoch = pick(1, 1, 2);
  }
  plan.validation_samples = pick(0, 1, 3);
  plan.sanity_steps = pick(0, 2);
  plan.log_every = pick(1, 2, 3);
  if (pick(0, 1) == 1) plan.every_n_train_steps = pick(1, 2, 3);
  plan.skip_in_epoch = pick(-1, -1, 0, 1);
  plan.skip_in = pick("training_step", "on_train_batch_start", "on_train_batch_end");
  plan.patience = pick(1, 2, 10);
  plan.max_steps = pick(-1, -1, -1, 5);
  plan.workers = pick(0, 0, 2);
  plan.plateau_each_step = pick(0, 1) == 1;
  using Kind = ParameterChange::Kind;
  const auto add_change = [&](Kind kind) {
    ParameterChange change{.kind = kind, .hook = kChangingHooks[random() % kChangingHooks.size()]};
    // A rank may have no validation batch.
    if (ranks > 1 && happens_for_each_validation_batch(change.hook)) change.hook = "on_validation_start";
    const bool by_epoch = change.hook == "on_train_epoch_start" || change.hook == "on_train_epoch_end";
    change.at = by_epoch ? pick(0, 1) : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * batches));
    plan.changes.push_back(change);
  };
  if (pick(0, 1) == 1) {
    for (const Kind kind : {Kind::kAddGroup, Kind::kFreeze, Kind::kUnfreeze}) add_change(kind);
  }
  plan.own_from = pick(0, 0, 1, 4);
  plan.shared_until = pick(0, 1, 4, 100);
  using Format = PrecisionFormat;
  plan.precision = pick(Format::kFloat32, Format::kFloat32, Format::kFloat64, Format::kBfloat16);
  plan.tied = pick(0, 0, 1) == 1;
  plan.odd_weights = pick("", "", "sparse", "complex");
  plan.sequential = pick(0, 0, 1) == 1;
  plan.bad_losses = pick(0, 0, 1) == 1;
  plan.local = pick(0, 1) == 1;
  if (ranks > 1) {
    plan.strategy = pick("", "static_graph", "find_unused_parameters", "gradient_as_bucket_view", "power_sgd", "fp16_compress",
                         "ddp_sharded");
  }
  if (pick(0, 0, 1) == 1) add_change(Kind::kSetRate);
  plan.guard = pick("", "skip", "rollback");
  // After a resume there is no earlier state to return to: see SpikeGuard in docs/callbacks.md.
  if (plan.guard == "rollback" && plan.strategy == "ddp_sharded") plan.guard = "skip";
  plan.averaging = pick("", "", "mean", "ema", "swa", "schedule_free");
  // It needs automatic optimization.
  if (plan.averaging == "swa" && plan.manual) plan.averaging = "mean";
  if (plan.averaging == "schedule_free") {
    plan.odd_weights.clear();
    if (plan.strategy == "ddp_sharded") plan.strategy.clear();
  }
  // Of two that add the late part to the optimizer, the second one fails.
  const auto adds = [](const ParameterChange& change) { return change.kind == Kind::kAddGroup; };
  plan.finetuning = pick(0, 1) == 1 && std::ranges::none_of(plan.changes, adds);
  plan.pruning = pick("", "", "l1_unstructured", "random_unstructured");
  plan.reload = pick(0, 0, 1, 2);
  plan.validate_first = pick(0, 0, 1) == 1;
  plan.ask_at = pick(-1, 0, 1, 2, 4);
  plan.ask_in = pick("training_step", "on_after_backward", "on_before_zero_grad");
  plan.cut_by = pick("max_steps", "stop");
  plan.cut_at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * batches));
  if (plan.max_steps >= 0) plan.cut_at = std::min(plan.cut_at, plan.max_steps - 1);
  if (plan.precision == Format::kFloat32 && pick(0, 0, 1) == 1) plan.precision = Format::kBfloat16Mixed;
  // A stream does not make ranks even.
  const std::int64_t all_batches = (plan.samples + plan.batch_size - 1) / plan.batch_size;
  const bool is_even = ranks == 1 || (all_batches % ranks == 0 && plan.samples % plan.batch_size == 0);
  if (is_even && pick(0, 0, 1) == 1) plan.source = "pipeline";
  if (is_even && plan.source.empty() && pick(0, 1) == 1) plan.source = resume_sources()[random() % resume_sources().size()];
  // Of most sources nobody knows beforehand how many batches an epoch has.
  if (!plan.source.empty() && plan.source != "pipeline" && plan.val_check_interval &&
      plan.val_check_interval->limit().is_share())
    plan.val_check_interval.reset();
  return plan;
}

ResumePlan first_resume_plan_of(const std::string& source, int ranks) {
  for (std::uint64_t seed = 1;; ++seed) {
    ResumePlan plan = random_resume_plan(seed, ranks);
    plan.cut_by.clear();  // what other plans are for
    if (plan.source == source && plan.samples > 2 * plan.batch_size * ranks && plan.max_steps < 0) return plan;
  }
}

ResumePlan random_session_plan(std::uint64_t seed, int ranks) {
  ResumePlan plan = random_resume_plan(seed, ranks);
  plan.source.clear();  // the driver reads a dataset
  const std::int64_t own_samples = (plan.samples + ranks - 1) / ranks;
  plan.samples = own_samples * ranks;  // the driver reads batches by themselves, in which none is there to make ranks even
  const std::int64_t batches = (own_samples + plan.batch_size - 1) / plan.batch_size;
  // A step at an epoch's end that was not known before counts an iteration of its own.
  if (batches % plan.accumulate != 0) plan.accumulate = 1;
  if (plan.val_check_interval && plan.val_check_interval->limit().is_share()) plan.val_check_interval.reset();
  // In fit() a schedule that steps after an epoch's last batch sees what the epoch's validation gives.
  plan.plateau_each_step = false;
  if (plan.averaging == "swa") plan.averaging = "ema";  // it renews statistics from data that a session does not have
  plan.cut_by.clear();
  return plan;
}

}  // namespace levin::test
