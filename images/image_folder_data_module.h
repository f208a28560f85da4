#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"
#include "levin/data/data_loader.h"
#include "levin/images/image_dataset.h"
#include "levin/images/image_presets.h"
#include "levin/images/image_transform.h"

namespace levin {

/// Options of ImageFolderDataModule; in YAML the init_args of `data:`.
struct LEVIN_API ImageFolderOptions {
  std::filesystem::path path = {};
  std::optional<std::filesystem::path> val_path = {};
  std::optional<std::filesystem::path> test_path = {};
  std::optional<std::filesystem::path> predict_path = {};
  std::string path_column = "path";
  std::string label_column = "label";
  double val_fraction = 0.1;
  double test_fraction = 0.1;
  std::int64_t split_seed = 42;
  std::int64_t image_size = 224;
  ImagePreset preset = ImagePreset::kPlain;
  std::vector<Component<ImageTransform>> train_transforms = {};
  std::vector<Component<ImageTransform>> transforms = {};
  Component<BatchTransform> batch_transform = {};
  std::int64_t channels = 3;
  std::int64_t bits = 8;
  bool exif_orientation = true;
  std::int64_t max_pixels = ImageReading().max_pixels;
  BrokenImages on_error = BrokenImages::kRaise;
  std::int64_t batch_size = 32;
  bool shuffle = true;
  bool drop_last = false;
  int num_workers = 2;
  int prefetch_factor = 2;
  bool persistent_workers = true;
  std::optional<bool> pin_memory = std::nullopt;  ///< unset: when the run computes on a GPU
  Component<Sampler> sampler = {};                ///< order of the training samples, instead of `shuffle`

  static void declare(OptionList<ImageFolderOptions>& options);
};

/// Images in folders, which are their classes, without a line of code: `path` holds train/CLASS/*.jpg, val/CLASS/*.jpg and
/// test/CLASS/*.jpg, or other usual names of such folders; or CLASS/*.jpg, divided at random, the same way on every rank and in
/// every run; or it is a CSV file with the columns `path` and `label`. Batches hold "features", floats [N, channels, height,
/// width], and "label". The names of classes are in the checkpoint, and a run that starts from one uses those.
///
///     levin::ImageFolderDataModule data({.path = "flowers", .preset = levin::ImagePreset::kImagenet, .num_workers = 4});
class LEVIN_API ImageFolderDataModule : public DataModule {
 public:
  using Options = ImageFolderOptions;

  /// Throws ConfigError as checked() does.
  explicit ImageFolderDataModule(ImageFolderOptions options);

  /// Finds the images. Throws IoError and ConfigError where they are not as described.
  void setup(Stage stage) override;
  /// Warns of images that could not be read.
  void teardown(Stage stage) override;
  LoaderPtr train_dataloader() override;
  LoaderList val_dataloaders() override;
  LoaderList test_dataloaders() override;
  /// Of all images below predict_path, in the order of their paths, or of a list, and without labels; else the test data.
  LoaderList predict_dataloaders() override;
  /// Images of one size, classes and their names, once setup() has run.
  DataFacts facts() const override;
  Value state_dict() const override;
  /// Throws ConfigError when `path` holds a class that the checkpoint lacks.
  void load_state_dict(const Value& state) override;
  /// Applies the transforms of evaluation to "features", or a tensor alone: images [N, channels, height, width] of uint8.
  Batch prepare(Batch batch) const override;
  std::vector<std::string> preparations() const override;
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  FoundImages found_in(const std::filesystem::path& path) const;
  FoundImages listed_in(const std::filesystem::path& list) const;
  std::vector<LabelledImage> unlabelled_in(const std::filesystem::path& path) const;
  void divide(const FoundImages& found);
  void number_by(const std::vector<std::string>& classes);
  LoaderList evaluation_loader(const std::vector<LabelledImage>& images, bool has_labels) const;

  ImageFolderOptions options_;
  bool is_set_up_ = false;
  std::vector<LabelledImage> train_, val_, test_, predict_;
  std::vector<std::string> classes_;
  std::shared_ptr<BrokenImageList> broken_ = std::make_shared<BrokenImageList>();
};

}  // namespace levin
