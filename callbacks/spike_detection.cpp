#include "levin/callbacks/spike_detection.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

#include "levin/callbacks/monitoring.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/module.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

/// What a rank says of its batch.
struct BatchReport {
  enum Kind : std::uint8_t { kNothing, kLoss, kNotFinite, kSpike };
  double loss = 0;
  std::int64_t kind = kNothing;
};

/// NaN, which the first batches of a run may have, does not count; NaN when there is nothing else.
double mean_of(const std::vector<double>& losses) {
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

LEVIN_REGISTER_CALLBACK(SpikeDetection, "End a run whose loss spikes, and list the batches of that step");

void SpikeDetectionOptions::declare(OptionList<SpikeDetectionOptions>& options) {
  using O = SpikeDetectionOptions;
  options.add(&O::mode, "Which losses are better");
  options.add(&O::window, "Batches whose mean a loss is compared with").min(1);
  options.add(&O::warmup, "Batches of an epoch before the first one that is checked").min(0);
  options.add(&O::atol, "A spike is at least this far from the mean; null: however near");
  options.add(&O::rtol, "A spike is at least this many times the mean away from it; null: however near");
  options.add(&O::exclude_batches_path, "Folder of skip_batches.json, or the file; empty: default_root_dir");
  options.add(&O::finite_only, "A loss that is NaN or infinite is a spike, too");
}

Value SpikeDetection::state_dict() const { return write_options(state_); }

void SpikeDetection::load_state_dict(const Value& state) { detail::read_state(state, state_); }

void SpikeDetection::on_train_batch_end(Trainer& trainer, Module&, const StepOutput& output, const Batch&,
                                        std::int64_t batch_idx) {
  BatchReport mine;
  const double mean = mean_of(state_.running);
  if (output.loss.defined()) {
    mine.loss = output.loss.item<double>();
    mine.kind = batch_idx >= options_.warmup && is_spike(mine.loss, mean) ? BatchReport::kSpike
                : std::isfinite(mine.loss)                                ? BatchReport::kLoss
                                                                          : BatchReport::kNotFinite;
  }
  const std::vector<BatchReport> all =
      RankExchange(trainer.strategy().control_group()).gather_values(mine, {"SpikeDetection", "all ranks have this callback"});
  const auto has = [&](std::int64_t kind) {
    return std::find_if(all.begin(), all.end(), [&](const BatchReport& report) { return report.kind == kind; });
  };
  if (const auto spike = has(BatchReport::kSpike); spike != all.end()) {
    state_.bad_batches.insert(state_.bad_batches.end(), {batch_idx - 1, batch_idx});
    const std::filesystem::path file = write_bad_batches(trainer);
    throw of_all_ranks(TrainingSpikeError(
        format(
            "SpikeDetection: the loss leapt to {} in batch {} of epoch {} (step {}) on rank {}. Batches {} and {} are listed "
            "in {}: leave them out, or lower the learning rate.",
            float_text(spike->loss), batch_idx, trainer.current_epoch(), trainer.global_step(), spike - all.begin(),
            batch_idx - 1, batch_idx, file),
        batch_idx));
  }
  if (mine.kind == BatchReport::kNothing || (!options_.finite_only && has(BatchReport::kNotFinite) != all.end())) return;
  state_.last_val = mine.loss;
  state_.running.push_back(mine.loss);
  if (std::ssize(state_.running) > options_.window) state_.running.erase(state_.running.begin());
}

bool SpikeDetection::is_spike(double loss, double mean) const {
  if (options_.finite_only && !std::isfinite(loss)) return true;
  const bool is_better = options_.mode == MonitorMode::kMin ? loss <= state_.last_val : loss >= state_.last_val;
  if (is_better) return false;
  const double distance = std::abs(loss - mean);
  // A distance that is NaN, as before the first loss, is not a spike.
  return (!options_.atol || distance >= std::abs(*options_.atol)) &&
         (!options_.rtol || distance >= std::abs(*options_.rtol * mean));
}

std::filesystem::path SpikeDetection::write_bad_batches(const Trainer& trainer) const {
  std::filesystem::path file = options_.exclude_batches_path;
  if (file.empty()) file = trainer.default_root_dir();
  if (file.extension() != ".json") file /= "skip_batches.json";
  if (trainer.is_global_zero()) {
    AtomicFile output(file);
    output.write(to_json(Value(Value::List(state_.bad_batches.begin(), state_.bad_batches.end()))) + "\n");
    output.commit();
  }
  return file;
}

TrainingSpikeError::~TrainingSpikeError() = default;

}  // namespace levin
