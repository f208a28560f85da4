#pragma once

#include <cstdint>

#include "levin/core/base/fwd.h"
#include "levin/images/image_transform.h"

namespace levin::images {

/// The options of MixUp and CutMix.
struct LEVIN_API MixOptions {
  double alpha = 1.0;  ///< of the beta distribution that gives the first sample's share
  double p = 1.0;      ///< of the batches
  static void declare(OptionList<MixOptions>& options);
};

/// Each sample becomes a mixture of itself and the sample before it in the batch, and labels become the probabilities of
/// classes (Zhang et al., mixup: Beyond Empirical Risk Minimization, 2018). As torchvision's.
class LEVIN_API MixUp final : public BatchTransform {
 public:
  using Options = MixOptions;
  explicit MixUp(const Options& options = {});
  Batch apply(Batch batch, std::int64_t classes, Random& random) const override;

 private:
  Options options_;
};

/// A rectangle of each sample is that of the sample before it, and labels are mixed by its area (Yun et al., CutMix, 2019). As
/// torchvision's.
class LEVIN_API CutMix final : public BatchTransform {
 public:
  using Options = MixOptions;
  explicit CutMix(const Options& options = {});
  Batch apply(Batch batch, std::int64_t classes, Random& random) const override;

 private:
  Options options_;
};

/// What MixUp does when the first sample's share is `share`: batch["features"], batch["label"].
LEVIN_API Batch mix(const Batch& batch, std::int64_t classes, double share);
/// What CutMix does when the first sample keeps all but this rectangle.
LEVIN_API Batch cut_and_mix(const Batch& batch, std::int64_t classes, std::int64_t top, std::int64_t left, Size size);

}  // namespace levin::images
