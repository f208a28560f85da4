#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/data/dataset.h"
#include "levin/images/image_file.h"
#include "levin/images/image_transform.h"

namespace levin {

/// What becomes of an image file that cannot be read.
enum class BrokenImages : std::uint8_t { kRaise, kSkip };
template <>
inline constexpr std::array kChoices<BrokenImages> = {Choice{BrokenImages::kRaise, "raise"},
                                                      Choice{BrokenImages::kSkip, "skip"}};

/// An image and its class.
struct LEVIN_API LabelledImage {
  std::filesystem::path file;
  std::int64_t label = 0;
};

/// Files that could not be read, each once. Threading: any.
class LEVIN_API BrokenImageList {
 public:
  void add(const std::filesystem::path& file, const std::string& problem);
  std::size_t size() const;
  /// "3 of 1000 images could not be read: 'a.jpg' is a damaged JPEG file: …; 'b.png' …"; "" without any. `images`: how many
  /// there are; unset: not known.
  std::string report(std::optional<std::size_t> images) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::filesystem::path, std::string> problems_;
};

struct LEVIN_API ImageDatasetOptions {
  std::vector<std::shared_ptr<const ImageTransform>> transforms = {};  ///< one after another, of each image
  std::shared_ptr<const BatchTransform> batch_transform = nullptr;
  std::int64_t classes = 0;  ///< for the batch transform
  ImageReading reading = {};
  /// kSkip: in the place of a file that cannot be read stands the next that can, so that batches stay as large.
  BrokenImages on_error = BrokenImages::kRaise;
  bool has_labels = true;
  std::shared_ptr<BrokenImageList> broken = nullptr;  ///< gets those that are skipped
};

/// Images from files. Batches have "features", floats [N, channels, height, width], and "label" [N]; images of uint8 after the
/// last transform are divided by 255. Transforms make all images of one size.
///
///     levin::ImageDataset(levin::find_images("photos").images, {.transforms = {std::make_shared<levin::images::Resize>(…)}})
class LEVIN_API ImageDataset final : public Dataset {
 public:
  explicit ImageDataset(std::vector<LabelledImage> images, ImageDatasetOptions options = {});
  std::int64_t size() const override { return std::ssize(images_); }
  /// Throws IoError for a file that cannot be read, and MisuseError for images of different sizes.
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  /// Of names and labels.
  std::optional<std::uint64_t> fingerprint() const override;
  /// The path of its file.
  std::string sample_name(std::int64_t index) const override {
    return images_.at(static_cast<std::size_t>(index)).file.string();
  }
  const std::vector<LabelledImage>& images() const { return images_; }

 private:
  at::Tensor sample(std::int64_t index) const;
  /// The sample, or that of the next file which can be read, and its label.
  std::pair<at::Tensor, std::int64_t> sample_or_next(std::int64_t index) const;

  std::vector<LabelledImage> images_;
  ImageDatasetOptions options_;
};

/// Those that can be read. Decodes each, on all threads.
LEVIN_API std::vector<LabelledImage> readable_images(const std::vector<LabelledImage>& images, const ImageReading& reading,
                                                     BrokenImageList& broken);

/// Applies transforms to an image that is in memory; floats.
LEVIN_API at::Tensor transformed_image(at::Tensor image, std::span<const std::shared_ptr<const ImageTransform>> transforms,
                                       Random& random);

/// The same of a file, of which only the part that a first ImageViewTransform takes is decoded.
LEVIN_API at::Tensor transformed_image(const ImageFile& file, std::span<const std::shared_ptr<const ImageTransform>> transforms,
                                       Random& random);
/// Applies transforms of evaluation to "features", or a tensor alone: images [N, channels, height, width]. Throws MisuseError
/// for other shapes.
LEVIN_API Batch prepared_images(Batch batch, std::span<const std::shared_ptr<const ImageTransform>> transforms);

/// The images below a folder, in the order of their paths, and the names of their classes.
struct LEVIN_API FoundImages {
  std::vector<LabelledImage> images;
  std::vector<std::string> classes;
};

/// Each folder in it is a class, in the order of sort_classes(); images may be in folders of theirs. Throws IoError
/// for a folder that cannot be read, and ConfigError where there is no class in it or a class without an image. `classes`:
/// those that are known, empty: any; throws ConfigError for another.
LEVIN_API FoundImages find_images(const std::filesystem::path& folder, const std::vector<std::string>& classes = {});
/// All images in a folder and the folders in it, each of class 0.
LEVIN_API std::vector<LabelledImage> find_unlabelled_images(const std::filesystem::path& folder);

}  // namespace levin
