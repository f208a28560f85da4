#include "levin/core/train/fit_loop.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/diagnostics/announcements.h"
#include "levin/core/diagnostics/parameter_warnings.h"
#include "levin/core/state/checkpoint_state.h"
#include "levin/core/state/wish_section.h"

namespace levin {

FitLoop::FitLoop(TrainerState& run, const PrecisionPolicy& precision, DataSource& source)
    : run_(run),
      batches_before_(run.progress.total_batch_idx),
      data_(run, source),
      validation_(run, precision, source),
      epoch_(run, precision, data_, validation_, plan_) {
  run_.visit_training_data = [this, &precision](const BatchVisitor& visit) { data_.visit(precision, visit); };
}

void FitLoop::run(const ResumePoint& resume) {
  begin(resume);
  while (continues()) {
    begin_epoch();
    while (epoch_.continues()) epoch_.iterate();
    end_epoch();
  }
  end();
}

void FitLoop::begin(const ResumePoint& resume) {
  const TrainerOptions& options = run_.options();
  if (!run_.setup.limits_given) {
    rank_zero_warn(
        format("max_epochs is not set: training stops after {} epochs. Set max_epochs: -1 for no limit.", *options.max_epochs));
  }
  const std::int64_t every = options.reload_dataloaders_every_n_epochs;
  const std::int64_t epoch = run_.progress.epoch;
  std::int64_t& asked = run_.progress.loaders_epoch;
  // Where no epoch is to follow, what reads the data at the end of training reads those of the last one.
  const bool had_stopped = resume.resumes && run_.sections->get<WishSection>().had_stopped();
  const bool goes_on = !had_stopped && !epoch_.end_reason();
  if (!resume.resumes) asked = epoch;
  if (resume.resumes && goes_on) asked = std::max(asked, every > 0 ? epoch / every * every : 0);
  ask_for_loaders([&] { validation_.set_up_first(); });
  validation_.sanity_check();
  epoch_.throw_if_signalled();
  // A loader that was requested early, such as for a schedule, may not be that of the checkpoint's epoch.
  DataSource* const source = std::exchange(run_.data_ahead, nullptr);
  if (source != nullptr && resume.resumes && asked > 0) source->forget_ahead();
  ask_for_loaders([&] { data_.set_up(); });
  resume_ = resume;
  if (resume.is_in_epoch()) {
    resume_.batches_done = data_.seek(resume);
    run_.accumulation.full_batch_size = resume.data.batch_size;
  }
  agree_on_epoch();
  if (may_train() && run_.progress.num_training_batches == 0) throw_without_batches();
  announce();
  if (!resume.resumes && batches_before_ > 0) {
    rank_zero_info(format(
        "This Trainer has trained before: it counts on from epoch {}, step {}, with new optimizers and schedules. To continue "
        "with those of the last fit(), save a checkpoint after it, and pass that as ckpt_path.",
        run_.progress.epoch, run_.progress.global_step));
  }
  if (!options.fast_dev_run) {
    warn_of_unreached_schedules(run_.parts,
                                TrainingLength(options, run_.accumulation.batches, [&] { return plan_.iterations(); }));
  }
  continues_ = resume.is_in_epoch() || !done();
  if (continues_) {
    begin_training();
    if (resume.resumes && resume.place == Place::kEpochStart) {
      resume_here(run_, data_, resume);
      if (had_stopped) agree_on_another_epoch();
    }
    return;
  }
  run_.metrics->begin_stage(Stage::kTrain);
  if (resume.resumes) resume_here(run_, data_, resume);
  begin_place(run_, Place::kEpochStart);
}

void FitLoop::end() {
  hand_over();
  if (has_begun_) {
    run_.hooks.run(Hook::kOnTrainEnd, &Callback::on_train_end, &Module::on_train_end);
    save_requested(run_);
    const bool trains = run_.progress.global_step > steps_before_ && !run_.options().fast_dev_run;
    if (trains) schedules_->warn_of_unstepped(run_.parts);
  }
  rank_zero_info("Training stopped: " + run_.progress.end_reason + ".");
  if (may_train() && run_.progress.total_batch_idx == batches_before_ && !run_.wishes.stop_agreed()) {
    rank_zero_warn(
        format("This fit trained nothing: {} was true before it began, after {}. Raise the limit; and to train another module, "
               "or one from the beginning, make another Trainer.",
               run_.progress.end_reason, counted(static_cast<std::size_t>(run_.progress.epoch), "epoch")));
  }
}

bool FitLoop::may_train() const {
  const TrainerOptions& options = run_.options();
  const bool takes_any = !options.limit_train_batches || takes_batches(*options.limit_train_batches);
  return *options.max_epochs != 0 && options.max_steps != 0 && takes_any;
}

void FitLoop::throw_without_batches() const {
  const bool ends_with_first = run_.world_size() > 1 && !run_.module().automatic_optimization();
  throw of_all_ranks(MisuseError(format(
      "fit has nothing to train on: the training loader gives no batch{}{}. Look at what its dataset reads, at its size(), and "
      "at drop_last, which leaves out a batch that is not full. If it is meant, set limit_train_batches to 0.",
      ends_with_first ? " on some rank, with whose last batch an epoch of manual optimization ends" : "", claim_of_loader())));
}

std::string FitLoop::claim_of_loader() const {
  const std::int64_t size = data_.loader().size().value_or(0);
  return size > 0 ? format(", though its size() says {}", size) : "";
}

void FitLoop::begin_training() {
  has_begun_ = true;
  // Before the hook, since what it logs belongs to the first epoch.
  run_.metrics->begin_stage(Stage::kTrain);
  if (resume_.resumes && resume_.place == Place::kTrainStart) resume_here(run_, data_, resume_);
  if (!resume_.resumes) warn_of_layers_in_evaluation_mode(run_.module());
  run_.hooks.run(Hook::kOnTrainStart, &Callback::on_train_start, &Module::on_train_start);
  const bool begins = !resume_.resumes || resume_.place == Place::kTrainStart;
  if (begins && run_.progress.total_batch_idx == 0) validation_.validate_before_training();
  epoch_.throw_if_signalled();
  validation_.start_clock();
  schedules_.emplace(run_.parts);
  steps_before_ = run_.progress.global_step;
}

void FitLoop::end_epoch() {
  epoch_.end();
  epoch_.throw_if_signalled();
  if (epoch_.was_empty() && !data_.is_stepped()) {
    if (run_.progress.total_batch_idx == batches_before_) throw_without_batches();
    Console::instance().warn_once(
        format("Epoch {} had no training batch: the training loader gave none{}.", run_.progress.epoch - 1, claim_of_loader()),
        "epoch without batches", Speaker::kRun);
  }
  agree_on_another_epoch();
}

void FitLoop::agree_on_another_epoch() {
  if (reload_is_due()) reload();
  agree_on_epoch();
  continues_ = !done();
}

void FitLoop::hand_over() {
  const auto scope = run_.hooks.enter(Hook::kOnTrainEnd);
  run_.weights.end_training(run_.trainer);
  run_.weights.evaluate();
  // Averaged buffers may differ between ranks.
  if (run_.weights.is_evaluating()) run_.strategy().synchronize_buffers(run_.module());
}

void FitLoop::announce() const {
  std::vector<LoaderInUse> loaders = {{"train", &data_.loader(), data_.batches()}};
  if (const EvaluationLoop* validation = validation_.loop()) {
    const auto more = evaluation_loaders(Stage::kValidate, validation->loaders(), validation->num_batches());
    loaders.insert(loaders.end(), more.begin(), more.end());
  }
  announce_rank(run_.strategy(), loaders);
}

bool FitLoop::reload_is_due() {
  const std::int64_t every = run_.options().reload_dataloaders_every_n_epochs;
  if (every == 0 || run_.progress.loaders_epoch >= run_.progress.epoch / every * every || epoch_.end_reason()) return false;
  // A request to stop may wait for a boundary: without this one it would depend on whether a checkpoint came between.
  // Every rank reaches this because all ask for loaders in the same epochs.
  run_.boundaries.meet(BoundaryKind::kCheckpoint);
  return !epoch_.end_reason();
}

void FitLoop::reload() {
  const std::int64_t every = run_.options().reload_dataloaders_every_n_epochs;
  run_.progress.loaders_epoch = run_.progress.epoch;
  data_.set_up();
  // Loaders of epochs that do not validate would not be read.
  const std::int64_t epoch = run_.progress.epoch;
  const std::int64_t each = run_.options().check_val_every_n_epoch.value_or(1);
  if ((epoch + every) / each > epoch / each) validation_.set_up();
}

void FitLoop::ask_for_loaders(const std::function<void()>& ask) {
  const auto back = c10::make_scope_exit([this, now = run_.progress.epoch] { run_.progress.epoch = now; });
  run_.progress.epoch = run_.progress.loaders_epoch;
  ask();
}

void FitLoop::agree_on_epoch() {
  // Every rank reaches this because all begin the same epochs.
  const BoundaryOutcome outcome = run_.boundaries.meet(
      BoundaryKind::kEpochStart,
      {data_.epoch_batches().value_or(-1), data_.loader().batch_size().value_or(0), validation_.rank_batches()});
  epoch_.throw_if_signalled();
  std::vector<std::int64_t> batches;
  for (const BoundaryPayload& payload : outcome.payloads) batches.push_back(payload[0]);
  plan_ = EpochPlan(batches, ends_with_first_rank(run_.options(), run_.module().automatic_optimization()));
  const auto batches_of_plan = plan_.known() ? std::optional(plan_.iterations()) : std::nullopt;
  run_.progress.num_training_batches = batch_cap(batches_of_plan, run_.options().limit_train_batches).value_or(-1);
  const std::int64_t batch_size = outcome.payloads.front()[1];
  const auto agrees = [&](const BoundaryPayload& payload) { return payload[1] == batch_size; };
  if (!data_.is_stepped()) run_.accumulation.full_batch_size = std::ranges::all_of(outcome.payloads, agrees) ? batch_size : 0;
  const auto validates = [](const BoundaryPayload& payload) { return payload[2] != 0; };
  validation_.agree(std::ranges::any_of(outcome.payloads, validates), batches_of_plan);
  warn_of_long_interval();
}

void FitLoop::warn_of_long_interval() const {
  const std::int64_t every = run_.options().step_row_interval();
  if (run_.setup.loggers.empty() || !plan_.known() || plan_.iterations() == 0 || plan_.iterations() >= every) return;
  Console::instance().warn_once(format("An epoch has {} training batches, fewer than log_every_n_steps = {}: most epochs write "
                                       "no step values. Lower log_every_n_steps to see them.",
                                       plan_.iterations(), every),
                                "log_every_n_steps", Speaker::kRun);
}

bool FitLoop::done() {
  const auto reason = epoch_.end_reason();
  run_.progress.end_reason = reason.value_or("");
  return reason.has_value();
}

}  // namespace levin
