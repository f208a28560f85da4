#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "levin/callbacks/builtin_callbacks.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/module.h"
#include "levin/core/options/registry.h"
#include "levin/core/options/value_json.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// What a rank says of its batch.
struct Seen {
  enum Kind : std::uint8_t { kNothing, kLoss, kNotFinite, kSpike };
  double loss = 0;
  std::int64_t kind = kNothing;
};

/// NaN, which the first batches of a run may have, does not count; NaN when there is nothing else.
double mean_of(const std::deque<double>& losses) {
  double sum = 0;
  int count = 0;
  for (const double loss : losses) {
    if (std::isnan(loss)) continue;
    sum += loss;
    ++count;
  }
  return sum / count;
}

}  // namespace

LEVIN_REGISTER_CALLBACK(SpikeDetection, "End a run whose loss leaps away, and list the batches that it saw then");

TrainingSpikeError::~TrainingSpikeError() = default;

void SpikeDetectionOptions::declare(OptionList<SpikeDetectionOptions>& options) {
  using O = SpikeDetectionOptions;
  options.add(&O::mode, "Which losses are better");
  options.add(&O::window, "Batches whose mean a loss is compared with").min(1);
  options.add(&O::warmup, "Batches of an epoch before the first one that is looked at").min(0);
  options.add(&O::atol, "A spike is at least this far from the mean; null: however near");
  options.add(&O::rtol, "A spike is at least this many times the mean away from it; null: however near");
  options.add(&O::exclude_batches_path, "Folder of skip_batches.json, or the file; empty: default_root_dir");
  options.add(&O::finite_only, "A loss that is NaN or infinite is a spike, too");
}

SpikeDetection::SpikeDetection(Options options) : WithOptions("SpikeDetection", std::move(options)) {}

Value SpikeDetection::state_dict() const {
  return Value::Map{{"last_val", last_},
                    {"running", Value::List(running_.begin(), running_.end())},
                    {"bad_batches", Value::List(bad_batches_.begin(), bad_batches_.end())}};
}

void SpikeDetection::load_state_dict(const Value& state) {
  last_ = state.at("last_val").as_double();
  running_.clear();
  bad_batches_.clear();
  for (const Value& loss : state.at("running").as_list()) running_.push_back(loss.as_double());
  for (const Value& batch : state.at("bad_batches").as_list()) bad_batches_.push_back(batch.as_int());
}

bool SpikeDetection::is_spike(double loss, double mean) const {
  if (options_.finite_only && !std::isfinite(loss)) return true;
  const bool is_better = options_.mode == MonitorMode::kMin ? loss <= last_ : loss >= last_;
  if (is_better) return false;
  const double distance = std::abs(loss - mean);
  // A distance that is NaN, as before the first loss, is none.
  return (!options_.atol || distance >= std::abs(*options_.atol)) &&
         (!options_.rtol || distance >= std::abs(*options_.rtol * mean));
}

std::filesystem::path SpikeDetection::write_bad_batches(const Trainer& trainer) const {
  std::filesystem::path file = options_.exclude_batches_path;
  if (file.empty()) file = trainer.default_root_dir();
  if (file.extension() != ".json") file /= "skip_batches.json";
  if (trainer.is_global_zero()) {
    AtomicFile output(file);
    output.write(to_json(Value(Value::List(bad_batches_.begin(), bad_batches_.end()))) + "\n");
    output.commit();
  }
  return file;
}

void SpikeDetection::on_train_batch_end(Trainer& trainer, Module&, const StepOutput& output, const Batch&,
                                        std::int64_t batch_idx) {
  Seen mine;
  const double mean = mean_of(running_);
  if (output.loss.defined()) {
    mine.loss = output.loss.item<double>();
    mine.kind = batch_idx >= options_.warmup && is_spike(mine.loss, mean) ? Seen::kSpike
                : std::isfinite(mine.loss)                                ? Seen::kLoss
                                                                          : Seen::kNotFinite;
  }
  const std::vector<Seen> all =
      RankExchange(trainer.strategy().control_group()).gather_values(mine, {"SpikeDetection", "all ranks have this callback"});
  const auto has = [&](std::int64_t kind) {
    return std::find_if(all.begin(), all.end(), [&](const Seen& seen) { return seen.kind == kind; });
  };
  if (const auto spike = has(Seen::kSpike); spike != all.end()) {
    bad_batches_.insert(bad_batches_.end(), {batch_idx - 1, batch_idx});
    const std::filesystem::path file = write_bad_batches(trainer);
    throw TrainingSpikeError(
        format(
            "SpikeDetection: the loss leapt to {} in batch {} of epoch {} (step {}) on rank {}. Batches {} and {} are listed "
            "in {}: leave them out, or lower the learning rate.",
            float_text(spike->loss), batch_idx, trainer.current_epoch(), trainer.global_step(), spike - all.begin(),
            batch_idx - 1, batch_idx, file),
        batch_idx);
  }
  if (mine.kind == Seen::kNothing || (!options_.finite_only && has(Seen::kNotFinite) != all.end())) return;
  last_ = mine.loss;
  running_.push_back(mine.loss);
  if (static_cast<std::int64_t>(running_.size()) > options_.window) running_.pop_front();
}

}  // namespace levin
