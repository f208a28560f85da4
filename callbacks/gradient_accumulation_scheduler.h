#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

namespace levin {

/// {epoch: batches}: from that epoch on, gradients of so many batches make one step. In YAML, a map with epochs as keys.
using AccumulationSchedule = std::map<std::int64_t, std::int64_t>;

template <>
struct LEVIN_API OptionType<AccumulationSchedule> {
  static AccumulationSchedule read(const Value& value);
  static Value write(const AccumulationSchedule& schedule);
  static std::string name() { return "map of epoch to int"; }
  static Value schema();
};

struct LEVIN_API GradientAccumulationSchedulerOptions {
  AccumulationSchedule scheduling;  ///< required

  static void declare(OptionList<GradientAccumulationSchedulerOptions>& options);
};

/// Changes accumulate_grad_batches at given epochs. Epochs count from 0; before the first one given, every batch is a step.
class LEVIN_API GradientAccumulationScheduler final : public WithOptions<Callback, GradientAccumulationSchedulerOptions> {
 public:
  /// Throws ConfigError when the schedule is empty, an epoch is below 0 or a number of batches below 1.
  explicit GradientAccumulationScheduler(Options options);

  std::int64_t accumulate_grad_batches(std::int64_t epoch) const;

  /// What depends on the length of training counts with the first epoch's batches per step.
  void setup(Trainer& trainer, Module& module, Stage stage) override;
  /// Throws MisuseError when the module optimizes manually, or the Trainer has an accumulate_grad_batches, too.
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
};

}  // namespace levin
