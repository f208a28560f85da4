#include "levin/images/mixing.h"

#include <ATen/ops/one_hot.h>
#include <ATen/ops/roll.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"

namespace levin::images {

LEVIN_REGISTER_BATCH_TRANSFORM(MixUp, "Mixtures of two samples, with labels that are probabilities");
LEVIN_REGISTER_BATCH_TRANSFORM(CutMix, "Samples with a rectangle of another, with labels that are probabilities");

namespace {

/// The first sample's share.
double share_at_random(double alpha, Random& random) {
  std::gamma_distribution<double> gamma(alpha, 1.0);
  const double one = gamma(random), other = gamma(random);
  return one + other > 0 ? one / (one + other) : 1.0;
}

at::Tensor as_probabilities(const at::Tensor& label, std::int64_t classes) {
  if (label.dim() == 2) return label;
  if (classes < 1 || label.is_floating_point()) {
    throw MisuseError("MixUp and CutMix need labels that are class numbers, of data whose number of classes is known");
  }
  return at::one_hot(label, classes).to(at::kFloat);
}

Batch with_labels(Batch batch, const at::Tensor& features, std::int64_t classes, double share) {
  const at::Tensor label = as_probabilities(batch["label"], classes);
  batch.set("features", features);
  batch.set("label", at::roll(label, 1, 0).mul_(1 - share).add_(label, share));
  return batch;
}

}  // namespace

void MixOptions::declare(OptionList<MixOptions>& options) {
  options.add("alpha", &MixOptions::alpha, "Of the beta distribution of shares: small numbers mix little").above(0);
  options.add("p", &MixOptions::p, "Share of the batches that are mixed").min(0).max(1);
}

Batch mix(const Batch& batch, std::int64_t classes, double share) {
  const at::Tensor& features = batch["features"];
  return with_labels(batch, at::roll(features, 1, 0).mul_(1 - share).add_(features, share), classes, share);
}

Batch cut_and_mix(const Batch& batch, std::int64_t classes, std::int64_t top, std::int64_t left, Size size) {
  const at::Tensor& features = batch["features"];
  const at::Tensor cut = features.clone();
  const auto rectangle = [&](const at::Tensor& of) { return crop(of, top, left, size); };
  rectangle(cut).copy_(rectangle(at::roll(features, 1, 0)));
  const double all = static_cast<double>(features.size(-2)) * static_cast<double>(features.size(-1));
  return with_labels(batch, cut, classes, 1.0 - static_cast<double>(size[0] * size[1]) / all);
}

MixUp::MixUp(const Options& options) : options_(checked("MixUp", options)) {}
Batch MixUp::apply(Batch batch, std::int64_t classes, Random& random) const {
  if (uniform(random, 0, 1) >= options_.p) return batch;
  return mix(batch, classes, share_at_random(options_.alpha, random));
}

CutMix::CutMix(const Options& options) : options_(checked("CutMix", options)) {}
Batch CutMix::apply(Batch batch, std::int64_t classes, Random& random) const {
  if (uniform(random, 0, 1) >= options_.p) return batch;
  const double side = std::sqrt(1 - share_at_random(options_.alpha, random)) / 2;
  const std::int64_t height = batch["features"].size(-2), width = batch["features"].size(-1);
  // A rectangle around a random pixel, as far as it is inside.
  const auto range = [&](std::int64_t length) {
    const std::int64_t middle = uniform_int(random, 0, length);
    const auto half = static_cast<std::int64_t>(side * static_cast<double>(length));
    return std::pair(std::max<std::int64_t>(middle - half, 0), std::min(middle + half, length));
  };
  const auto [top, bottom] = range(height);
  const auto [left, right] = range(width);
  return cut_and_mix(batch, classes, top, left, {bottom - top, right - left});
}

}  // namespace levin::images
