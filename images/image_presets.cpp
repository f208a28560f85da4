#include "levin/images/image_presets.h"

#include "levin/images/transforms.h"

namespace levin {
namespace {

using images::CenterCrop, images::Normalize, images::RandomCrop, images::RandomHorizontalFlip, images::RandomResizedCrop,
    images::Resize;

template <class Transform>
std::shared_ptr<const ImageTransform> made(const typename Transform::Options& options) {
  return std::make_shared<Transform>(options);
}

std::shared_ptr<const ImageTransform> normalization_of(ImagePreset preset) {
  return preset == ImagePreset::kImagenet
             ? made<Normalize>({.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}})
             : made<Normalize>({.mean = {0.4914, 0.4822, 0.4465}, .std = {0.2470, 0.2435, 0.2616}});
}

ImageTransforms objects_of(const std::vector<Component<ImageTransform>>& components) {
  ImageTransforms objects;
  for (const auto& component : components) objects.push_back(component.get());
  return objects;
}

}  // namespace

ImageTransforms evaluation_transforms(const ImagePreparation& preparation) {
  if (!preparation.transforms.empty()) return objects_of(preparation.transforms);
  const auto size = static_cast<int>(preparation.image_size);
  ImageTransforms transforms;
  if (preparation.preset == ImagePreset::kImagenet) {
    // As for 224: the shorter side becomes 256.
    transforms.push_back(made<Resize>({.size = static_cast<int>(preparation.image_size * 256 / 224)}));
    transforms.push_back(made<CenterCrop>({.size = size}));
  } else if (preparation.preset == ImagePreset::kPlain) {
    transforms.push_back(made<Resize>({.size = size}));
    transforms.push_back(made<CenterCrop>({.size = size}));
  }
  const bool is_color = preparation.channels == 3;
  if (preparation.preset != ImagePreset::kPlain && is_color) transforms.push_back(normalization_of(preparation.preset));
  return transforms;
}

ImageTransforms training_transforms(const ImagePreparation& preparation) {
  if (!preparation.train_transforms.empty()) return objects_of(preparation.train_transforms);
  if (preparation.preset == ImagePreset::kPlain) return evaluation_transforms(preparation);
  const auto size = static_cast<int>(preparation.image_size);
  ImageTransforms transforms;
  transforms.push_back(preparation.preset == ImagePreset::kImagenet ? made<RandomResizedCrop>({.size = size})
                                                                    : made<RandomCrop>({.size = size, .padding = 4}));
  transforms.push_back(made<RandomHorizontalFlip>({}));
  if (preparation.channels == 3) transforms.push_back(normalization_of(preparation.preset));
  return transforms;
}

}  // namespace levin
