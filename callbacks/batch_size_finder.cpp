#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <new>
#include <string>
#include <string_view>

#include "levin/callbacks/finders.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/batch.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/options/registry.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// LibTorch's allocator for the CPU has no type of its own for it.
bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  if (of_torch != nullptr && of_torch->msg().find("DefaultCPUAllocator: can't allocate memory") != std::string::npos)
    return true;
  try {
    std::rethrow_if_nested(error);  // a loader's error has that of its dataset in it
  } catch (const std::exception& inner) {
    return is_out_of_memory(inner);
  }
  return false;
}

/// From here on process_memory().peak is that of what comes.
void forget_peak() {
  clear_memory();
  std::ofstream("/proc/self/clear_refs") << 5;
}

/// In bytes.
double memory_of_machine() {
  std::string name;
  double kib = 0;
  std::ifstream("/proc/meminfo") >> name >> kib;
  return kib * 1024;
}

/// Measures how fast steps are.
class StepClock final : public Callback {
 public:
  void on_train_start(Trainer&, Module&) override { started_ = steady_seconds(); }
  void on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch& batch, std::int64_t) override {
    trainer.strategy().accelerator().synchronize(trainer.device());
    const double now = steady_seconds();
    const auto samples = static_cast<double>(batch.batch_size());
    if (batches_++ == 0) {
      first_ = samples / (now - started_);
      started_ = now;
      return;
    }
    samples_ += samples;
    later_ = samples_ / (now - started_);
  }
  double samples_per_second() const { return later_ > 0 ? later_ : first_; }

 private:
  double started_ = 0;
  std::int64_t batches_ = 0;
  double samples_ = 0;
  double first_ = 0;
  double later_ = 0;
};

}  // namespace

LEVIN_REGISTER_CALLBACK(BatchSizeFinder, "Begin the fit with the largest batch size for which memory suffices");

void BatchSizeFinderOptions::declare(OptionList<BatchSizeFinderOptions>& options) {
  using O = BatchSizeFinderOptions;
  options.add(&O::mode, "power: twice as large each time; binsearch: then sizes between the last two, too");
  options.add(&O::steps_per_trial, "Steps of the optimizer with each size").min(1);
  options.add(&O::init_val, "The first size").min(1);
  options.add(&O::max_trials, "The most sizes that are tried").min(1);
  options.add(&O::margin, "Share by which binsearch lowers what it finds, where memory was the limit").min(0).below(1);
  options.add(&O::max_val, "The largest size that is tried").min(1);
  options.add(&O::memory_limit, "Memory that the process may take: up to 1 a share of the machine's, above that bytes").min(0);
  options.add(&O::update, "Begin the fit with the size that was found");
}

bool BatchSizeFinder::try_size(Rehearsal& rehearsal, std::int64_t batch_size) {
  const auto clock = std::make_shared<StepClock>();
  bool fits = true;
  forget_peak();
  try {
    rehearsal.run({.steps = options_.steps_per_trial, .batch_size = batch_size, .observer = clock});
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    fits = false;
  }
  const std::int64_t peak = process_memory().peak;
  const double given = options_.memory_limit.value_or(0);
  const double limit = given <= 1 ? given * memory_of_machine() : given;
  if (options_.memory_limit && static_cast<double>(peak) > limit) fits = false;
  const double speed = fits ? clock->samples_per_second() : 0;
  found_["trials"].push_back(
      Value::Map{{"batch_size", batch_size}, {"fits", fits}, {"samples_per_second", speed}, {"peak_bytes", peak}});
  rank_zero_info(format("BatchSizeFinder: {} {}, at most {:.0f} MiB", batch_size,
                        fits ? format("fits: {:.0f} samples/s", speed) : "is too large",
                        static_cast<double>(peak) / (1 << 20)));
  return fits;
}

std::int64_t BatchSizeFinder::search(std::int64_t most, const std::function<bool(std::int64_t)>& fits) const {
  std::int64_t fitting = 0;
  std::int64_t too_large = 0;  // 0: none yet
  std::int64_t size = std::min(options_.init_val, most);
  for (std::int64_t trial = 0; trial < options_.max_trials; ++trial) {
    (fits(size) ? fitting : too_large) = size;
    if (too_large == 1) throw Error("BatchSizeFinder: memory does not suffice for a batch of one sample.");
    const bool is_done = too_large == 0 ? fitting == most : options_.mode == SizeMode::kPower ? fitting > 0 : false;
    if (is_done || too_large - fitting == 1) break;
    size = too_large == 0 ? std::min(2 * fitting, most) : (fitting + too_large) / 2;
  }
  if (fitting == 0)
    throw Error(format("BatchSizeFinder: memory does not suffice for batches of {}: lower init_val.", too_large));
  if (options_.mode == SizeMode::kPower || too_large == 0) return fitting;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(fitting) * (1 - options_.margin)));
}

void BatchSizeFinder::rehearse(Trainer& trainer, Rehearsal& rehearsal) {
  if (trainer.world_size() > 1) {
    throw ConfigError(
        "BatchSizeFinder runs out of memory on purpose, which ends a run of several ranks: find the size with devices: 1, such "
        "as by levin tune --batch_size, and set it.");
  }
  found_ = Value();
  const auto share = rehearsal.loader().sample_share();
  const auto own = rehearsal.loader().batch_size();
  const std::int64_t most = share ? std::min(options_.max_val, std::max<std::int64_t>(1, share->mine)) : options_.max_val;
  const std::int64_t batch_size = search(most, [&](std::int64_t size) { return try_size(rehearsal, size); });
  found_["batch_size"] = batch_size;
  rank_zero_info("BatchSizeFinder: ", batch_size, options_.update ? "; the fit begins with it" : "");
  rehearsal.set_batch_size(options_.update ? batch_size : own.value_or(batch_size));
}

}  // namespace levin
