#include "levin/core/state/random_section.h"

#include <string>

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

constexpr std::string_view kRandom = "rng.";

/// "rng.1.cpu", "rng.1.cuda", "rng.1.own"; "rng.shared" and "rng.seed", which ranks share.
std::string random_key(const Strategy& strategy, std::string_view name) {
  if (name == "shared" || name == "seed") return format("{}{}", kRandom, name);
  return format("{}{}.{}", kRandom, strategy.rank(), name == "device" ? strategy.accelerator().name() : name);
}

/// "rng.1.read", "rng.1.read.own".
std::string reading_key(int rank, std::string_view name) {
  return name == "cpu" ? format("{}{}.read", kRandom, rank) : format("{}{}.read.{}", kRandom, rank, name);
}

template <class KeyOf>
RandomStates saved_states(const Checkpoint& checkpoint, const KeyOf& key_of) {
  RandomStates states;
  for (const char* name : {"cpu", "device", "own", "shared", "seed"}) {
    const auto found = checkpoint.tensors.find(key_of(name));
    if (found != checkpoint.tensors.end()) states[name] = found->second;
  }
  return states;
}

RandomStates saved_random(const Strategy& strategy, const Checkpoint& checkpoint) {
  return saved_states(checkpoint, [&](const char* name) { return random_key(strategy, name); });
}

}  // namespace

std::shared_ptr<void> RandomSection::hold(TrainerState&) {
  return held([random = RandomSnapshot::take()] { random.restore(); });
}

void RandomSection::begin(TrainerState&, Place) { start_ = RandomSnapshot::take(); }

void RandomSection::save(TrainerState&, Checkpoint& checkpoint) {
  checkpoint.tensors[format("{}seed", kRandom)] = seed_state();
}

void RandomSection::save_own(TrainerState& run, RankState& state) {
  const RandomSnapshot& random = start_ ? *start_ : RandomSnapshot::take();
  for (const auto& [name, bytes] : random.states(run.strategy().rank()))
    state.tensors[random_key(run.strategy(), name)] = bytes;
}

void RandomSection::load(TrainerState& run, const Checkpoint& checkpoint) {
  loaded_ = saved_random(run.strategy(), checkpoint);
  is_before_training_ = is_at(checkpoint, Place::kTrainStart);
  if (!is_of_levin(checkpoint)) {
    rank_zero_info("Random numbers continue from the seed: the checkpoint has none of levin's.");
  } else if (!loaded_.contains("cpu")) {
    Console::instance().warn(format(
        "The checkpoint has no random state for rank {}, as its run was on fewer ranks; random numbers continue from the seed.",
        run.strategy().rank()));
  } else if (!loaded_.contains("device") && device_rng_state().defined()) {
    Console::instance().warn("The checkpoint has no random state of " + run.strategy().accelerator().name() +
                             ", since it was written on another kind of device; random numbers there continue from the seed.");
  }
}

void RandomSection::restore(TrainerState& run, Moment moment) {
  if (moment != Moment::kData || is_before_training_) return;
  set_random_states(loaded_, run.strategy().rank());
}

void RandomSection::restore_at_once(const Strategy& strategy, const Checkpoint& checkpoint) {
  set_random_states(saved_random(strategy, checkpoint), strategy.rank());
}

void ReadingSection::begin(TrainerState& run, Place) { start_ = run.resume.position.before_reading; }

void ReadingSection::save(TrainerState&, Checkpoint& checkpoint) {
  Value& reading = checkpoint.manifest["loops"]["reading"];
  if (!start_) return;
  const ReadingCounters& counters = start_->counters;
  reading = Value::Map{{"global_step", counters.global_step},
                       {"total_batches_done", counters.total_batch_idx},
                       {"batch_idx", counters.batch_idx}};
}

void ReadingSection::save_own(TrainerState& run, RankState& state) {
  if (!start_) return;
  const int rank = run.strategy().rank();
  for (const auto& [name, bytes] : start_->random.states(rank)) state.tensors[reading_key(rank, name)] = bytes;
}

void ReadingSection::load(TrainerState& run, const Checkpoint& checkpoint) {
  random_ = saved_states(checkpoint, [&](const char* name) { return reading_key(run.strategy().rank(), name); });
  const Value& reading = checkpoint.manifest.at("loops").at("reading");
  if (reading.is_null()) return counters_.reset();
  counters_ = {saved_count(reading, "global_step"), saved_count(reading, "total_batches_done"),
               reading.at("batch_idx").as_int()};
}

void ReadingSection::forget() {
  random_.clear();
  counters_.reset();
}

}  // namespace levin
