#pragma once

#include "levin/core/base/fwd.h"
#include "levin/core/data_module.h"

namespace levin {

/// From batch["label"] to the unit of the data: label * deviation + mean.
struct LabelScale {
  double mean = 0.0;
  double deviation = 1.0;
};

/// A second base for data modules whose batches have labels in another unit than the data, such as TableDataModule with
/// standardize_labels. Modules that use it give predictions and errors in the unit of the data.
class LEVIN_API ScalesLabels {
 public:
  virtual ~ScalesLabels() = default;
  /// The run's scale; the checkpoint's, if the run started from one. Called: from configure_optimizers() on.
  virtual LabelScale label_scale() const = 0;
};

/// The scale of a module's data, `data_module()`; {0, 1} for null and for data that does not scale labels.
///
///     Batch predict_step(const Batch& batch, std::int64_t) override {
///       const auto [mean, deviation] = levin::label_scale_of(data_module());
///       return {{"strength", net_(batch["features"]) * deviation + mean}};
///     }
inline LabelScale label_scale_of(const DataModule* data) {
  const auto* const scales = dynamic_cast<const ScalesLabels*>(data);
  return scales != nullptr ? scales->label_scale() : LabelScale();
}

}  // namespace levin
