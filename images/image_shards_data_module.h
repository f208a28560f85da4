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
#include "levin/data/shards.h"
#include "levin/data/table_data_module.h"
#include "levin/images/image_dataset.h"
#include "levin/images/image_presets.h"

namespace levin {

/// Options of ImageShardsDataModule; in YAML the init_args of `data:`.
struct LEVIN_API ImageShardsOptions {
  Paths path = {};  ///< patterns of tar files, or addresses
  Paths val_path = {};
  Paths test_path = {};
  Paths predict_path = {};
  std::vector<std::string> image_names = {"jpg", "jpeg", "png", "webp", "bmp"};
  std::string label_name = "cls";
  std::optional<std::filesystem::path> classes_path = {};
  bool shuffle = true;
  std::int64_t shuffle_window = 1000;
  std::int64_t shards_at_once = 4;
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
  bool drop_last = false;
  int num_workers = 2;
  int prefetch_factor = 2;
  std::optional<bool> pin_memory = std::nullopt;  ///< unset: when the run computes on a GPU

  static void declare(OptionList<ImageShardsOptions>& options);
};

/// Images in shards: tar files in WebDataset's layout, local or on a server, that are read one after another. Batches hold
/// "features", floats [N, channels, height, width], and "label". How many there are is known only when they have been read.
///
///     levin::ImageShardsDataModule data({.path = "shards/train-*.tar", .val_path = "shards/val-*.tar"});
class LEVIN_API ImageShardsDataModule : public DataModule {
 public:
  using Options = ImageShardsOptions;

  /// Throws ConfigError as checked() does.
  explicit ImageShardsDataModule(ImageShardsOptions options);

  /// Finds the shards. Throws ConfigError where there are none.
  void setup(Stage stage) override;
  /// Warns of images that could not be read.
  void teardown(Stage stage) override;
  LoaderPtr train_dataloader() override;
  LoaderList val_dataloaders() override { return evaluation_loader(options_.val_path, true); }
  LoaderList test_dataloaders() override { return evaluation_loader(options_.test_path, true); }
  /// Of predict_path, whose samples need no labels; else the test data.
  LoaderList predict_dataloaders() override;
  /// Images of one size, and the names of classes where they are known, once setup() has run.
  DataFacts facts() const override { return facts_; }
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  Batch prepare(Batch batch) const override;
  std::vector<std::string> preparations() const override;

 private:
  LoaderList evaluation_loader(const Paths& patterns, bool has_labels) const;
  /// Samples in batches; one that cannot be read is left out of its batch with on_error: skip.
  Pipeline<Batch> batches(const Pipeline<ShardSample>& samples, const ImageTransforms& transforms, bool has_labels,
                          bool drop_last) const;
  void read_classes();

  ImageShardsOptions options_;
  DataFacts facts_;
  std::shared_ptr<BrokenImageList> broken_ = std::make_shared<BrokenImageList>();
};

}  // namespace levin
