#include "levin/images/image_dataset.h"

#include <ATen/Parallel.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/images/class_folders.h"

namespace levin {

namespace fs = std::filesystem;

void BrokenImageList::add(const fs::path& file, const std::string& problem) {
  const std::lock_guard lock(mutex_);
  problems_.emplace(file, problem);
}

std::size_t BrokenImageList::size() const {
  const std::lock_guard lock(mutex_);
  return problems_.size();
}

std::string BrokenImageList::report(std::optional<std::size_t> images) const {
  const std::lock_guard lock(mutex_);
  if (problems_.empty()) return "";
  constexpr std::size_t kMostShown = 10;
  std::vector<std::string> shown;
  for (const auto& [file, problem] : problems_) {
    if (shown.size() == kMostShown) break;
    shown.push_back(problem);
  }
  const std::size_t more = problems_.size() - shown.size();
  return format("{} could not be read: {}{}",
                images ? format("{} of {}", problems_.size(), counted(*images, "image")) : counted(problems_.size(), "image"),
                join(shown, "; "), more > 0 ? format("; and {} more", more) : "");
}

ImageDataset::ImageDataset(std::vector<LabelledImage> images, ImageDatasetOptions options)
    : images_(std::move(images)), options_(std::move(options)) {}

at::Tensor transformed_image(at::Tensor image, std::span<const std::shared_ptr<const ImageTransform>> transforms,
                             Random& random) {
  for (const auto& transform : transforms) image = transform->apply(image, random);
  return images::to_float(image);
}

at::Tensor transformed_image(const ImageFile& file, std::span<const std::shared_ptr<const ImageTransform>> transforms,
                             Random& random) {
  const auto* const first = transforms.empty() ? nullptr : dynamic_cast<const ImageViewTransform*>(transforms.front().get());
  if (first == nullptr) return transformed_image(file.read(), transforms, random);
  return transformed_image(file.read(first->view(file.size(), random)), transforms.subspan(1), random);
}

Batch prepared_images(Batch batch, std::span<const std::shared_ptr<const ImageTransform>> transforms) {
  const at::Tensor images = batch.contains("features") ? batch["features"] : batch[0];
  if (images.dim() != 4)
    throw MisuseError(format("images are [N, channels, height, width], and these are of {} dimensions", images.dim()));
  std::vector<at::Tensor> prepared;
  for (const at::Tensor& image : images.unbind(0)) {
    Random random(0);
    prepared.push_back(transformed_image(image, transforms, random));
  }
  if (batch.size() == 1) batch = {};
  batch.set("features", at::stack(prepared));
  return batch;
}

at::Tensor ImageDataset::sample(std::int64_t index) const {
  const ImageFile file(images_[static_cast<std::size_t>(index)].file, options_.reading);
  Random random(sample_generator(index));
  return transformed_image(file, options_.transforms, random);
}

std::pair<at::Tensor, std::int64_t> ImageDataset::sample_or_next(std::int64_t index) const {
  for (std::int64_t tried = 0; tried < size(); ++tried) {
    const std::int64_t next = (index + tried) % size();
    const LabelledImage& image = images_[static_cast<std::size_t>(next)];
    try {
      return {sample(next), image.label};
    } catch (const IoError& error) {
      if (options_.on_error == BrokenImages::kRaise) throw;
      if (options_.broken) options_.broken->add(image.file, error.what());
    }
  }
  throw IoError(format("none of {} can be read", counted(images_.size(), "image")));
}

Batch ImageDataset::get_batch(std::span<const std::int64_t> indices) const {
  std::vector<Batch> samples;
  samples.reserve(indices.size());
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= size()) throw MisuseError(format("ImageDataset: there is no sample {} among {}", index, size()));
    auto [features, label] = sample_or_next(index);
    Batch& made = samples.emplace_back(Batch{{"features", std::move(features)}});
    if (options_.has_labels) made.set("label", at::scalar_tensor(label, at::kLong));
  }
  Batch batch;
  try {
    batch = stack_samples(samples);
  } catch (const MisuseError& error) {
    throw MisuseError(format(
        "{}. Images of different sizes need a transform such as Resize or RandomResizedCrop with two sides", error.what()));
  }
  if (!options_.batch_transform) return batch;
  Random random(sample_generator(size() + indices.front()));  // not the first sample's numbers
  return options_.batch_transform->apply(std::move(batch), options_.classes, random);
}

std::vector<LabelledImage> readable_images(const std::vector<LabelledImage>& images, const ImageReading& reading,
                                           BrokenImageList& broken) {
  std::vector<char> is_readable(images.size());
  at::parallel_for(0, std::ssize(images), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto index = static_cast<std::size_t>(begin); index < static_cast<std::size_t>(end); ++index) {
      try {
        read_image(images[index].file, reading);
        is_readable[index] = 1;
      } catch (const IoError& error) {
        broken.add(images[index].file, error.what());
      }
    }
  });
  std::vector<LabelledImage> readable;
  for (std::size_t index = 0; index < images.size(); ++index) {
    if (is_readable[index] != 0) readable.push_back(images[index]);
  }
  return readable;
}

std::optional<std::uint64_t> ImageDataset::fingerprint() const {
  DataFingerprint fingerprint;
  fingerprint.add(size());
  constexpr std::int64_t kMost = 1000;
  const std::int64_t step = std::max<std::int64_t>(size() / kMost, 1);
  for (std::int64_t index = 0; index < size(); index += step) {
    const LabelledImage& image = images_[static_cast<std::size_t>(index)];
    // Hosts may have the folder in different places.
    fingerprint.add((image.file.parent_path().filename() / image.file.filename()).string()).add(image.label);
  }
  return fingerprint.value();
}

namespace {

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

/// Without those whose names begin with a dot.
std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> found;
  try {
    for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink);
         entry != fs::recursive_directory_iterator(); ++entry) {
      if (is_hidden(entry->path())) {
        entry.disable_recursion_pending();
      } else if (is_image(entry->path()) && entry->is_regular_file()) {
        found.push_back(entry->path());
      }
      constexpr int kDeepest = 32;  // symbolic links may lead around in circles
      if (entry.depth() >= kDeepest) entry.disable_recursion_pending();
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(format("'{}' cannot be read: {}", folder.string(), error.code().message()));
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_directory() && !is_hidden(entry.path())) names.push_back(entry.path().filename().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(format("'{}' cannot be read: {}", folder.string(), error.code().message()));
  }
  sort_classes(names);
  return names;
}

}  // namespace

FoundImages find_images(const fs::path& folder, const std::vector<std::string>& classes) {
  FoundImages found;
  const std::vector<std::string> names = folders_in(folder);
  found.classes = classes.empty() ? names : classes;
  if (names.empty()) {
    throw ConfigError(format("'{}' has no folders: images of a class stand in the folder of its name, {}/CLASS/a.jpg",
                             folder.string(), folder.string()));
  }
  for (const std::string& name : names) {
    const auto known = std::ranges::find(found.classes, name);
    if (known == found.classes.end()) {
      throw ConfigError(format("'{}' has the folder {}, which is no class of the training data: {}", folder.string(),
                               quoted_text(name), quoted_list(classes)));
    }
    const std::int64_t label = known - found.classes.begin();
    const std::vector<fs::path> files = images_below(folder / name);
    if (files.empty() && classes.empty()) {
      throw ConfigError(format(
          "'{}' holds no images (.jpg, .jpeg, .png, .webp, .bmp): remove the folder, or name one whose folders are classes",
          (folder / name).string()));
    }
    for (const fs::path& file : files) found.images.push_back({file, label});
  }
  return found;
}

std::vector<LabelledImage> find_unlabelled_images(const fs::path& folder) {
  std::vector<LabelledImage> images;
  for (const fs::path& file : images_below(folder)) images.push_back({file, 0});
  return images;
}

}  // namespace levin
