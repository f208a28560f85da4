#include "core/protocol/simulation/program.h"

#include <algorithm>
#include <array>
#include <limits>
#include <random>

namespace levin::testing {

namespace {

constexpr std::array kTrainHooks{Hook::kOnTrainBatchStart, Hook::kTrainingStep, Hook::kOnBeforeOptimizerStep,
                                 Hook::kOnTrainBatchEnd};
constexpr std::array kValHooks{Hook::kOnValidationBatchStart, Hook::kValidationStep, Hook::kOnValidationBatchEnd};
constexpr std::array kLogHooks{Hook::kOnTrainStart,         Hook::kOnTrainEpochStart,     Hook::kTrainingStep,
                               Hook::kTrainingStep,         Hook::kOnBeforeOptimizerStep, Hook::kOnTrainBatchEnd,
                               Hook::kOnTrainEpochEnd,      Hook::kOnValidationStart,     Hook::kOnValidationEpochStart,
                               Hook::kValidationStep,       Hook::kValidationStep,        Hook::kOnValidationBatchEnd,
                               Hook::kOnValidationEpochEnd, Hook::kOnValidationEpochEnd};
constexpr std::array kNames{"loss", "acc", "a", "b", "loss_step", "rank_0_a", "rank_1_a"};

// A good mix of a few numbers (splitmix64), so that values need no state.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  std::uint64_t hash = a;
  for (const std::uint64_t part : {b, c, d}) {
    hash = (hash ^ part) + 0x9e3779b97f4a7c15ull;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ull;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebull;
    hash ^= hash >> 31;
  }
  return hash;
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) { program_.seed = seed; }

  Program make() {
    // Few ranks most of the time: they are quicker, and find most.
    program_.ranks = chance(4) ? below(15) + 2 : below(4) + 1;
    // Now and then more metrics than a frame has slots at first, and nothing in them that ends the run early.
    crowded_ = chance(50);
    program_.strict = !crowded_ && chance(6);
    program_.reorder = chance(2);
    program_.dataloaders = chance(4) ? 2 : 1;
    program_.train_batches = lengths(4);
    program_.val_batches = lengths(2);
    if (chance(2)) add_objects();
    const int statements = crowded_ ? below(60) + 30 : below(8) + 1;
    for (int index = 0; index < statements; ++index) add_statement(index);
    lay_out_phases();
    add_stop_and_fault();
    return std::move(program_);
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint64_t>(limit)); }
  bool chance(int one_in) { return below(one_in) == 0; }
  std::size_t place_below(std::size_t limit) { return static_cast<std::size_t>(below(static_cast<int>(limit))); }

  std::vector<int> lengths(int most) {
    const int common = below(most) + 1;
    const bool uneven = chance(3);
    std::vector<int> result;
    for (int rank = 0; rank < program_.ranks; ++rank) result.push_back(uneven ? below(most + 1) : common);
    return result;
  }

  void add_objects() {
    for (int index = 0, count = below(4) + 1; index < count; ++index) {
      ObjectPlan& object = program_.objects.emplace_back();
      object.name = "object_" + std::to_string(index);
      object.group = chance(3) ? detail::MetricGroup::kValidate : detail::MetricGroup::kTrain;
      object.row_lists = below(3);
      object.has_numbers = object.row_lists == 0 || chance(2);
    }
  }

  /// Makes a statement one of a metric object. It is logged in the step as users do, or in any hook of its stage.
  void use_object(LogStatement& statement) {
    statement.object = below(static_cast<int>(program_.objects.size()));
    const ObjectPlan& object = program_.objects[static_cast<std::size_t>(statement.object)];
    const bool trains = object.group == detail::MetricGroup::kTrain;
    statement.hook = trains ? Hook::kTrainingStep : Hook::kValidationStep;
    while (chance(2) || detail::group_of(statement.hook) != object.group)
      statement.hook = kLogHooks[place_below(kLogHooks.size())];
    statement.name = chance(6) ? kNames[place_below(kNames.size())] : object.name + (chance(3) ? "_again" : "");
    statement.options = chance(3) ? LogOptions{} : options(hook_policy(statement.hook));
    statement.options.reduce = Reduce::kMean;
    statement.options.batch_size.reset();
    statement.resets = chance(12);
    statement.updates = chance(6) ? below(3) : 1;
    statement.logs = !chance(6);
  }

  void add_statement(int index) {
    LogStatement statement;
    // A copy of an earlier statement, with other options or not, for other ranks: the hard cases.
    const bool copy = !crowded_ && index > 0 && chance(4);
    if (copy) {
      statement = program_.statements[place_below(program_.statements.size())];
      if (chance(3)) statement.options.prog_bar = !statement.options.prog_bar;
    } else if (!program_.objects.empty() && !chance(3)) {
      use_object(statement);
    } else {
      statement.hook = kLogHooks[place_below(kLogHooks.size())];
      statement.name = crowded_ ? "key_" + std::to_string(index) : kNames[place_below(kNames.size())];
      statement.options = options(hook_policy(statement.hook));
    }
    statement.line = static_cast<std::uint32_t>(index + 1);
    const std::uint32_t all = (1u << program_.ranks) - 1;
    switch (below(6)) {
      case 0:
        statement.ranks = 1;
        break;
      case 1:
        statement.ranks = static_cast<std::uint32_t>(random_()) & all;
        break;
      case 2:
        statement.ranks = 1u << below(program_.ranks);
        break;
      default:
        statement.ranks = all;
    }
    statement.period = chance(4) ? below(3) + 1 : 1;
    statement.deferred = chance(5);
    statement.wild = chance(10);
    program_.statements.push_back(statement);
  }

  LogOptions options(const HookPolicy& policy) {
    LogOptions options;
    if (!policy.epoch_only) {
      if (chance(3)) options.on_step = true;
      if (chance(3)) options.on_epoch = true;
    }
    if (!crowded_ && chance(60)) options.on_step = options.on_epoch = false;  // never legal
    options.prog_bar = chance(3);
    options.logger = !chance(6);
    options.reduce = chance(2) ? Reduce::kMean : static_cast<Reduce>(below(4));
    if (chance(3)) options.sync_dist = chance(2);
    options.rank_zero_only = chance(8);
    options.per_rank = chance(6);
    if (chance(4)) options.batch_size = below(4);
    options.add_dataloader_idx = !chance(5);
    return options;
  }

  void add(const Phase& phase) { program_.phases.push_back(phase); }
  void add_hook(Hook hook, int batch = -1, int dataloader = 0, bool training = true) {
    add({.type = Phase::kHook, .hook = hook, .boundary = {}, .batch = batch, .dataloader = dataloader, .training = training});
  }
  void add_boundary(BoundaryKind kind, Stage stage) {
    add({.type = Phase::kBoundary, .boundary = {kind, stage, epoch_, step_}});
  }
  void add_stage(Phase::Type type, Stage stage) { add({.type = type, .boundary = {BoundaryKind::kSetup, stage, 0, 0}}); }
  template <class Hooks>
  void add_batch(const Hooks& hooks, int batch, int dataloader, bool training) {
    const Phase begin{
        .type = Phase::kBeginBatch, .boundary = {}, .batch = batch, .dataloader = dataloader, .training = training};
    Phase end = begin;
    end.type = Phase::kEndBatch;
    add(begin);
    for (const Hook hook : hooks) add_hook(hook, batch, dataloader, training);
    add(end);
  }

  void lay_out_validation(Stage stage) {
    add_stage(Phase::kBeginStage, stage);
    add_hook(Hook::kOnValidationStart);
    add_hook(Hook::kOnValidationEpochStart);
    const int most = *std::max_element(program_.val_batches.begin(), program_.val_batches.end());
    for (int loader = 0; loader < program_.dataloaders; ++loader) {
      for (int batch = 0; batch < most; ++batch) add_batch(kValHooks, batch, loader, false);
    }
    add_boundary(BoundaryKind::kEpochReached, stage);
    add_hook(Hook::kOnValidationEpochEnd);
    add_boundary(BoundaryKind::kEpochEnd, stage);
    add_stage(Phase::kEndStage, stage);
    add_boundary(BoundaryKind::kEvaluationEnd, stage);
  }

  /// A run resumes from it here.
  void add_checkpoint() {
    add_boundary(BoundaryKind::kCheckpoint, Stage::kTrain);
    if (resumes_) add({.type = Phase::kResume, .boundary = {}});
  }

  /// In every third program a Session drives the ranks.
  void add_session_call() {
    if (program_.seed % 3 == 0) add_boundary(BoundaryKind::kSessionCall, Stage::kTrain);
  }

  void lay_out_phases() {
    resumes_ = chance(2);
    const int log_every = below(3) + 1;
    const int epochs = below(2) + 1;
    const bool validates = !chance(4);
    add_boundary(BoundaryKind::kSetup, Stage::kTrain);
    add_stage(Phase::kBeginStage, Stage::kTrain);
    if (validates && chance(3)) lay_out_validation(Stage::kSanityCheck);
    add_hook(Hook::kOnTrainStart);
    const int most = *std::max_element(program_.train_batches.begin(), program_.train_batches.end());
    for (; epoch_ < epochs; ++epoch_) {
      add_boundary(BoundaryKind::kEpochStart, Stage::kTrain);
      add_hook(Hook::kOnTrainEpochStart);
      for (int batch = 0; batch < most; ++batch) {
        add_session_call();
        add_batch(kTrainHooks, batch, 0, true);
        if (++step_ % log_every == 0) add_boundary(BoundaryKind::kTrainStep, Stage::kTrain);
        if (chance(8)) add_checkpoint();
        if (chance(4)) add_boundary(BoundaryKind::kDecision, Stage::kTrain);
        if (validates && batch + 1 == most) lay_out_validation(Stage::kValidate);
        if (chance(12)) add_checkpoint();
      }
      add_session_call();
      add_boundary(BoundaryKind::kEpochReached, Stage::kTrain);
      if (chance(12)) add_checkpoint();
      add_hook(Hook::kOnTrainEpochEnd);
      if (chance(12)) add_checkpoint();
      add_boundary(BoundaryKind::kEpochEnd, Stage::kTrain);
      add({.type = Phase::kResetEpoch, .boundary = {}});
    }
    program_.end_phase = program_.phases.size();
    add_stage(Phase::kEndStage, Stage::kTrain);
    add_boundary(BoundaryKind::kEnd, Stage::kTrain);
  }

  void add_stop_and_fault() {
    std::vector<std::size_t> steps;
    std::vector<std::size_t> boundaries;
    for (std::size_t index = 0; index < program_.phases.size(); ++index) {
      const Phase& phase = program_.phases[index];
      if (phase.type != Phase::kBoundary) continue;
      boundaries.push_back(index);
      if (phase.boundary.kind == BoundaryKind::kTrainStep) steps.push_back(index);
    }
    if (!steps.empty() && chance(4)) {
      program_.stop_rank = below(program_.ranks);
      program_.stop_phase = steps[place_below(steps.size())];
    }
    if (!chance(5)) return;
    program_.fault = {static_cast<Fault::Type>(below(4) + 1), below(program_.ranks),
                      boundaries[place_below(boundaries.size())]};
    if (program_.fault.type == Fault::kThrows) program_.fault.phase = place_below(program_.phases.size());
    // One rank is always in the right place.
    if (program_.fault.type == Fault::kWrongBoundary && program_.ranks == 1) program_.fault.type = Fault::kNone;
    if (program_.fault.type != Fault::kObjectFails) return;
    // Where a value of the object is asked for.
    if (steps.empty())
      program_.fault.type = Fault::kNone;
    else
      program_.fault.phase = steps[place_below(steps.size())];
  }

  Program program_;
  std::mt19937_64 random_;
  bool crowded_ = false;
  bool resumes_ = false;
  std::int64_t epoch_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace

bool Program::has(const Phase& phase, int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return phase.batch < (phase.training ? train_batches[index] : val_batches[index]);
}

std::vector<std::size_t> Program::statements_at(std::size_t phase, int rank) const {
  std::vector<std::size_t> found;
  for (std::size_t index = 0; index < statements.size(); ++index) {
    const LogStatement& statement = statements[index];
    if (statement.hook != phases[phase].hook || (statement.ranks >> rank & 1) == 0) continue;
    if (statement.period > 1 && mixed(seed, index, phase, 1) % static_cast<std::uint64_t>(statement.period) != 0) continue;
    found.push_back(index);
  }
  if (reorder && rank % 2 == 1) std::reverse(found.begin(), found.end());
  return found;
}

double Program::value(std::size_t statement, std::size_t phase, int rank, int update) const {
  const auto whose = static_cast<std::uint64_t>(rank + 100 + 1000 * update);
  const std::uint64_t random = mixed(seed, statement, phase, whose);
  if (statements[statement].wild) {
    if (random % 7 == 0) return std::numeric_limits<double>::quiet_NaN();
    if (random % 7 == 1) return std::numeric_limits<double>::infinity();
  }
  // Sums of such values are exact in double, whatever their order, but not in float.
  return static_cast<double>(random >> 8 & ((std::uint64_t{1} << 34) - 1)) / (1 << 27) - 64;
}

Sample Program::sample(std::size_t statement, std::size_t phase, int rank, int update) const {
  const auto whose = static_cast<std::uint64_t>(rank + 100 + 1000 * update);
  return {value(statement, phase, rank, update), static_cast<std::int16_t>(mixed(seed, phase, statement, whose) % 7 + 1)};
}

std::int64_t Program::batch_size(std::size_t phase, int rank) const {
  const Phase& at = phases[phase];
  const auto place = static_cast<std::uint64_t>(at.batch) * 8 + static_cast<std::uint64_t>(at.dataloader);
  return static_cast<std::int64_t>(mixed(seed, place, at.training, static_cast<std::uint64_t>(rank)) % 5) + 1;
}

bool Program::reads_metrics(std::size_t phase, int rank) const {
  return mixed(seed, phase, static_cast<std::uint64_t>(rank), 11) % 4 == 0;
}

Votes Program::votes(std::size_t phase, int rank) const {
  const std::uint64_t random = mixed(seed, phase, static_cast<std::uint64_t>(rank), 7);
  return {.stop = rank == stop_rank && phase == stop_phase,
          .end_epoch = random % 11 == 0,
          .has_next = random % 5 > 1,
          .signal = random % 13 == 0 ? static_cast<std::int32_t>(random >> 16 & 63) : 0,
          .parameters_changed = random % 17 == 0,
          .loss_is_bad = random % 19 == 0,
          .gradient_weight = static_cast<std::int32_t>(random >> 24 & 3)};
}

BoundaryPayload Program::payload(std::size_t phase, int rank) const {
  return {static_cast<std::int64_t>(mixed(seed, phase, static_cast<std::uint64_t>(rank), 9)), rank, -1,
          std::numeric_limits<std::int64_t>::min() + static_cast<std::int64_t>(phase)};
}

Program generate(std::uint64_t seed) { return Generator(seed).make(); }

}  // namespace levin::testing
