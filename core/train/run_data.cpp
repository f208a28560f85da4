#include "levin/core/train/run_data.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <string>
#include <typeinfo>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/batch_loader.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/run/boundaries.h"
#include "levin/core/run/epoch_plan.h"
#include "levin/core/run/rank_agreement.h"
#include "levin/core/state/state_scope.h"

namespace levin {

namespace {

void prepare(const RunSetup& setup, BatchLoader& loader, Stage stage) {
  loader.set_shard(shard_of(setup, stage));
  loader.set_pin_memory(setup.strategy->accelerator().pins_memory());
}

/// For training data this becomes an error once ranks know how much all of them have.
void warn_of_empty(const RunSetup& setup, const BatchLoader& loader, Stage stage) {
  const auto share = loader.sample_share();
  if (share ? share->all != 0 : setup.world_size() > 1 || loader.size() != 0) return;
  rank_zero_warn(format("The {} loader is empty: it gives no batch. Look at what its dataset reads, and at its size().",
                        stage_name(stage)));
}

void check_given(const LoaderPtr& train) {
  if (train) return;
  throw MisuseError(
      "fit needs training data: pass a loader, or a data module (`data:` in a YAML file) whose train_dataloader() gives one, "
      "or let the module's own train_dataloader() do so.");
}

/// Replaces a loader when a limit leaves no batch of it: the user's code is then not asked for one.
class NoBatches final : public BatchLoader {
 public:
  std::optional<std::int64_t> size() const override { return 0; }
  void start_epoch(std::int64_t /*epoch*/) override {}
  std::optional<Batch> next() override { return std::nullopt; }
};

/// Progress::training_data: what differs where a loader gives other samples, or the same in another order.
std::string description_of(const BatchLoader& loader) {
  const auto share = loader.sample_share();
  const auto fingerprint = loader.data_fingerprint();
  if (!share && !fingerprint) return "";
  return format("{} {} {} {}", typeid(loader).name(), loader.shuffles(), share ? share->all : -1,
                fingerprint ? std::to_string(*fingerprint) : "-");
}

template <class Source>
LoaderList ask(Source& source, Stage stage) {
  if (stage == Stage::kTest) return source.test_dataloaders();
  return stage == Stage::kPredict ? source.predict_dataloaders() : source.val_dataloaders();
}

std::optional<std::int64_t> batches_of(const BatchLoader& loader, const TrainerOptions& options) {
  return limited_batches(loader.size(), options.limit_train_batches, "limit_train_batches");
}

/// Replaces -1 by a limit in batches, if there is one: an epoch has no more.
std::int64_t at_most(std::int64_t batches, const TrainerOptions& options) {
  return batch_cap(batches < 0 ? std::nullopt : std::optional(batches), options.limit_train_batches).value_or(-1);
}

/// The same before ranks have agreed; -1: unknown.
std::int64_t own_epoch_batches(TrainerState& run) {
  // The code that makes the loader must not ask for it.
  DataSource* const source = std::exchange(run.data_ahead, nullptr);
  const auto back = c10::make_scope_exit([&] { run.data_ahead = source; });
  return batches_of(source->train_ahead(run.module(), run.setup, run.hooks), run.options()).value_or(-1);
}

ReadingCounters counters_of(const Progress& progress) {
  return {progress.global_step, progress.total_batch_idx, progress.batch.batch_idx};
}

void show(const ReadingCounters& counters, Progress& progress) {
  progress.global_step = counters.global_step;
  progress.total_batch_idx = counters.total_batch_idx;
  progress.batch.batch_idx = counters.batch_idx;
}

}  // namespace

Shard shard_of(const RunSetup& setup, Stage stage) {
  const bool fits = stage == Stage::kTrain || stage == Stage::kValidate;
  const bool divides = setup.options.use_distributed_sampler;
  return {.rank = divides ? setup.strategy->rank() : 0,
          .world_size = divides ? setup.world_size() : 1,
          // Evaluation data is never padded: each sample counts once.
          .uneven = stage == Stage::kTrain ? setup.options.uneven : Uneven::kKeep,
          .force_sequential = fits && takes_batches(setup.options.overfit_batches),
          .default_seed = setup.data_seed};
}

Batch LoaderCursor::take_now() {
  std::optional<Batch> batch = loader_.next();
  if (!batch) {
    throw MisuseError(
        "A loader's has_next() said that there is a batch, but its next() gave none. Let has_next() return nullopt where the "
        "loader does not know.");
  }
  ++fetched_;
  return *std::move(batch);
}

bool LoaderCursor::has_more() {
  const RandomScope random;
  try {
    return loader_.next().has_value();
  } catch (const std::exception&) {
    return false;  // some loaders throw at their end
  }
}

void LoaderCursor::check_size(std::string_view name) {
  const std::optional<std::int64_t> size = loader_.size();
  if (next_ || !is_whole_ || !size) return;
  const auto batches = [](std::int64_t count) { return count == 1 ? "batch" : "batches"; };
  const auto warn = [&](const char* key, const std::string& what) {
    Console::instance().warn_once(
        format(
            "The {} loader {}. Let size() be the number of batches that next() gives in an epoch, or nothing (nullopt) where "
            "that is not known before.",
            name, what),
        format("{} loader: {}", name, key));
  };
  if (fetched_ < std::min(*size, limit_.value_or(*size))) {
    warn("fewer batches", format("gave {} {} and then no more, but its size() says {}: the epoch ended there", fetched_,
                                 batches(fetched_), *size));
  } else if (limit_ == size && !loader_.is_interactive() && !std::exchange(looked_for_more_, true) && has_more()) {
    warn("more batches",
         format("has more than the {} {} that its size() says: the rest is left out in each epoch", *size, batches(*size)));
  }
}

Hook dataloaders_hook(Stage stage) {
  if (stage == Stage::kTest) return Hook::kTestDataloaders;
  return stage == Stage::kPredict ? Hook::kPredictDataloaders : Hook::kValDataloaders;
}

LoaderPtr DataSource::ask_for_train(Module& module, const RunSetup& setup, HookRunner& hooks) const {
  const auto& limit = setup.options.limit_train_batches;
  if (limit && !takes_batches(*limit)) return std::make_shared<NoBatches>();
  const auto scope = hooks.enter(Hook::kTrainDataloader);
  LoaderPtr loader = train_ ? train_ : data_ != nullptr ? data_->train_dataloader() : module.train_dataloader();
  if (loader && setup.batch_size && !loader->set_batch_size(*setup.batch_size)) {
    throw MisuseError(format("The training loader cannot be given a batch size, of {} here: let it override set_batch_size().",
                             *setup.batch_size));
  }
  if (loader) prepare(setup, *loader, Stage::kTrain);
  return loader;
}

LoaderPtr DataSource::train(Module& module, const RunSetup& setup, HookRunner& hooks) {
  LoaderPtr loader = train_ahead_ ? std::exchange(train_ahead_, nullptr) : ask_for_train(module, setup, hooks);
  {
    const auto scope = hooks.enter(Hook::kTrainDataloader);
    check_same_data(setup.strategy->control_group(), setup.strategy->node_rank(), "training",
                    loader ? LoaderList{loader} : LoaderList{});
  }
  check_given(loader);
  return loader;
}

const BatchLoader& DataSource::train_ahead(Module& module, const RunSetup& setup, HookRunner& hooks) {
  if (!train_ahead_) train_ahead_ = ask_for_train(module, setup, hooks);
  check_given(train_ahead_);
  return *train_ahead_;
}

LoaderList DataSource::evaluation(Stage stage, Module& module, const RunSetup& setup, HookRunner& hooks) {
  const auto scope = hooks.enter(dataloaders_hook(stage));
  LoaderList loaders = !evaluation_.empty() ? evaluation_ : data_ != nullptr ? ask(*data_, stage) : ask(module, stage);
  for (const LoaderPtr& loader : loaders) {
    if (!loader) throw MisuseError(format("{} gave an empty loader among its loaders.", hook_name(dataloaders_hook(stage))));
    prepare(setup, *loader, stage);
    warn_of_empty(setup, *loader, stage);
  }
  check_same_data(setup.strategy->control_group(), setup.strategy->node_rank(), std::string(stage_name(stage)), loaders);
  return loaders;
}

const LoaderList& DataSource::for_preview(Module& module, const RunSetup& setup, HookRunner& hooks) {
  if (!previewed_.empty()) return previewed_;
  const LoaderPtr train = ask_for_train(module, setup, hooks);
  check_given(train);
  const auto& limit = setup.options.limit_val_batches;
  if (!limit || takes_batches(*limit)) previewed_ = evaluation(Stage::kValidate, module, setup, hooks);
  previewed_.insert(previewed_.begin(), train);
  return previewed_;
}

void require_training_data(const TrainerState& run) {
  if (!run.entry.is_session) return;
  throw MisuseError(
      "A Session has no training data to read: its caller gives each batch to step(). What reads the data itself, such as "
      "visit_training_data() or a callback that tries out batches before training, is for fit().");
}

std::int64_t estimated_epoch_batches(TrainerState& run) {
  return at_most(run.data_ahead != nullptr ? own_epoch_batches(run) : run.progress.num_training_batches, run.options());
}

std::int64_t agreed_epoch_batches(TrainerState& run) {
  const std::vector<std::int64_t> by_rank = run.rank_exchange().gather_values(
      own_epoch_batches(run), {"agreeing on the length of training", "all make the same scheduler, which asks for it"});
  const EpochPlan plan(by_rank, ends_with_first_rank(run.options(), run.module().automatic_optimization()));
  return at_most(plan.iterations(), run.options());
}

void TrainingData::set_up() {
  source_.forget_preview();
  loader_ = source_.train(run_.module(), run_.setup, run_.hooks);
  compared_ = false;
  batches_ = epoch_batches_ = batches_of(*loader_, run_.options());
  cursor_ = std::make_unique<LoaderCursor>(*loader_, batch_cap(batches_, run_.options().limit_train_batches));
  run_.progress.training_data = description_of(*loader_);
}

std::int64_t TrainingData::seek(const ResumePoint& resume) {
  const DataPosition& saved = resume.data;
  if (is_stepped()) return batches_before_ = resume.batches_done;
  if (!saved.description.empty() && saved.description != run_.progress.training_data) {
    rank_zero_warn(format(
        "ckpt_path: '{}' was saved within an epoch, and the training data of this run are others than its were, or in another "
        "order: some samples of the epoch are seen twice, and others not at all. Resume with the same files and options of the "
        "data (such as max_memory_mb and shuffle), or from the end of an epoch.",
        resume.file));
  }
  const std::int64_t world_size = run_.world_size();
  const std::int64_t batch_size = loader_->batch_size().value_or(0);
  const std::int64_t ranks_reading = run_.options().use_distributed_sampler ? world_size : 1;
  const bool same = saved.world_size == world_size && saved.batch_size == batch_size;
  const bool can_start = saved.samples && loader_->can_start_at(*saved.samples, same);
  if (!same && (!can_start || (batch_size == 0) != (saved.batch_size == 0))) {
    throw ConfigError(format(
        "ckpt_path: '{}' was saved within an epoch, on {} ranks with batches of {}; this run has {} with batches of {}, and "
        "its training loader cannot tell which samples are left. Resume with as many ranks and the same batch size, or from "
        "the end of an epoch, or let the loader override batch_size(), samples_before(), batches_from() and start_epoch_at().",
        resume.file, saved.world_size, saved.batch_size, world_size, batch_size));
  }
  batches_before_ = same ? resume.batches_done : *saved.samples / (std::max<std::int64_t>(batch_size, 1) * ranks_reading);
  if (!can_start) return batches_before_;
  samples_before_ = saved.samples;
  if (const auto left = loader_->batches_from(*saved.samples)) {
    epoch_batches_ = batches_before_ + *left;
    if (batches_ && run_.options().limit_train_batches) epoch_batches_ = std::min(*epoch_batches_, *batches_);
  }
  return batches_before_;
}

void TrainingData::start_epoch(std::int64_t epoch, const RandomStates& random, const std::optional<ReadingCounters>& counters) {
  const auto scope = run_.hooks.enter(Hook::kTrainDataloader);
  read_at_ = counters.value_or(counters_of(run_.progress));
  const auto as_now = c10::make_scope_exit([&, now = counters_of(run_.progress)] { show(now, run_.progress); });
  show(read_at_, run_.progress);
  LoaderProgress progress{.loader = loader_.get()};
  const bool drops = !samples_before_ && batches_before_ > 0 && !loader_->is_interactive();
  const auto restore = [&] {
    if (!random.empty()) set_random_states(random, run_.strategy().rank());
  };
  if (!drops) restore();
  if (!drops) {
    cursor_->start_epoch(epoch, batches_before_, samples_before_);
  } else {
    cursor_->start_epoch(epoch);
    for (; progress.batches < batches_before_ && cursor_->has_next(); ++progress.batches) {
      // Taking a batch reads the one after it.
      if (progress.batches + 1 == batches_before_) restore();
      cursor_->take();
    }
    progress.skipped = progress.batches;
  }
  run_.progress.batch.loaders = {progress};
  watch_.begin_epoch();
  origin_ = samples_before_ ? batches_before_ : 0;
  batches_before_ = 0;
  samples_before_.reset();
  epoch_batches_ = batches_;
}

Batch TrainingData::take() {
  const auto scope = run_.hooks.enter(Hook::kTrainDataloader);
  watch_.begin_reading();
  read_at_ = counters_of(run_.progress);
  Batch batch = cursor_->take();
  watch_.end_reading();
  if (watch_.is_bottleneck() && !loader_->is_interactive()) {
    const RankGroup& ranks = run_.strategy().ranks();
    Console::instance().warn_once(watch_.advice(loader_->num_workers(), ranks.cores_of_host(), ranks.ranks_of_host()),
                                  "loader is the bottleneck");
  }
  ++run_.progress.batch.loaders.front().batches;
  return batch;
}

void TrainingData::check_size() {
  const auto scope = run_.hooks.enter(Hook::kTrainDataloader);
  cursor_->check_size("training");
}

void TrainingData::visit(const PrecisionPolicy& precision, const BatchVisitor& visit) {
  require_training_data(run_);
  const Place place = run_.resume.position.place;
  const bool trains = place > Place::kEpochStart && place < Place::kEpochEnd && place != Place::kStopped;
  if (loader_ == nullptr || (trains && cursor_->has_next())) {
    throw MisuseError("visit_training_data() works from on_train_start on, and in an epoch after its last batch.");
  }
  const at::NoGradGuard no_grad;
  const StateScope scope(run_, SideComputation::kVisit);
  const bool was_evaluating = run_.weights.is_evaluating();
  const StageScope stage(run_.progress, Stage::kTrain);
  run_.metrics->begin_stage(Stage::kTrain);
  const auto back = c10::make_scope_exit([&] { run_.metrics->end_stage(); });
  run_.weights.evaluate();
  BatchProgress& progress = run_.progress.batch;
  progress.loaders = {{.loader = loader_.get()}};
  progress.in_work = true;
  LoaderCursor cursor(*loader_, batch_cap(batches_, run_.options().limit_train_batches));
  const auto reading = run_.hooks.enter(Hook::kTrainDataloader);
  cursor.start_epoch(run_.progress.epoch);
  for (progress.batch_idx = 0; cursor.has_next(); ++progress.batch_idx) {
    Batch batch = cursor.take();
    batch = transfer_batch(run_.hooks, *run_.metrics, run_.strategy().device(), precision, std::move(batch), 0, 1);
    ++progress.loaders.front().batches;
    progress.is_last = !cursor.has_next();
    const auto step = run_.hooks.enter(Hook::kTrainingStep);
    const PrecisionPolicy::Forward forward(precision);
    visit(batch, progress.batch_idx);
  }
  if (!was_evaluating) run_.weights.train();
}

std::optional<BeforeReading> TrainingData::before_reading() const {
  const std::optional<RandomSnapshot>& random = cursor_->before_reading();
  return random ? std::optional(BeforeReading{*random, read_at_}) : std::nullopt;
}

std::int64_t TrainingData::mark_of_next() {
  const auto share = loader_->sample_share();
  const bool divides_itself = share && share->ranks > 1;
  if (std::exchange(compared_, true) || divides_itself || run_.options().allow_same_batches || !cursor_->next_batch()) return 0;
  return first_batch_mark(*cursor_->next_batch(), loader_->epoch_samples(1));
}

void resume_here(TrainerState& run, TrainingData& data, const ResumePoint& resume) {
  RunSections& sections = *run.sections;
  sections.restore(run, Moment::kPlace);
  const ReadingSection& reading = sections.get<ReadingSection>();
  if (resume.is_in_epoch()) data.start_epoch(run.progress.epoch, reading.random(), reading.counters());
  sections.restore(run, Moment::kData);
  run.resume.arrive();
}

}  // namespace levin
