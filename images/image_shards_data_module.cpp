#include "levin/images/image_shards_data_module.h"

#include <ATen/ops/scalar_tensor.h>

#include <fstream>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/remote_file.h"
#include "levin/data/reading_options.h"
#include "levin/data/stream.h"

namespace levin {

LEVIN_REGISTER_DATA_MODULE(ImageShardsDataModule, "Images in tar files, in WebDataset's layout");

namespace fs = std::filesystem;

void ImageShardsOptions::declare(OptionList<ImageShardsOptions>& options) {
  using I = ImageShardsOptions;
  options
      .add("path", &I::path, "Tar files of training data: patterns such as shards/train-*.tar, or addresses (https://, s3://)")
      .input_file()
      .required();
  options.add("val_path", &I::val_path, "Tar files of validation data").input_file();
  options.add("test_path", &I::test_path, "Tar files of test data").input_file();
  options.add("predict_path", &I::predict_path, "Tar files of images without labels, to be predicted").input_file();
  options.add("image_names", &I::image_names, "What a sample's image may be called: the first that it has is read");
  options.add("label_name", &I::label_name, "What the number of its class is called");
  options
      .add("classes_path", &I::classes_path,
           "Text file with the name of a class in each line; null: train-classes.txt beside train-000000.tar, if it is there")
      .input_file();
  options.add("shuffle", &I::shuffle, "Training data in a new order in each epoch");
  options.add("shuffle_window", &I::shuffle_window, "How many samples the next one is drawn from").min(1);
  options
      .add("shards_at_once", &I::shards_at_once, "How many training shards are read at the same time, a sample of each in turn")
      .min(1);
  declare_images(options);
  options.add("batch_size", &I::batch_size, "Samples in a batch of one rank").min(1);
  options.add("drop_last", &I::drop_last, "Leave out a last training batch that is not full");
  declare_workers(options);
  options.rule({"path"}, [](const I& given) { return given.path.empty() ? "name at least one tar file" : ""; });
}

ImageShardsDataModule::ImageShardsDataModule(ImageShardsOptions options)
    : options_(checked("ImageShardsDataModule", std::move(options))) {
  set_hparams(write_options(options_));
}

namespace {

std::vector<std::string> texts_of(const Paths& patterns) { return {patterns.begin(), patterns.end()}; }

/// The sample's image, as a file.
ImageFile image_of(const ShardSample& sample, const std::vector<std::string>& names, const ImageReading& reading) {
  for (const std::string& name : names) {
    if (sample.contains(name)) return ImageFile(sample[name], format("{}.{}", sample.key, name), reading);
  }
  std::vector<std::string> own;
  for (const auto& [name, bytes] : sample.files) own.push_back(name);
  throw IoError(
      format("the sample '{}' has no image ({}): it has {}; set image_names", sample.key, join(names), quoted_list(own)));
}

/// "shards/train-classes.txt" for "shards/train-000017.tar".
std::optional<fs::path> classes_beside(const std::string& shard) {
  const std::size_t dash = shard.rfind('-');
  if (is_remote(shard) || dash == std::string::npos) return std::nullopt;
  const fs::path file = shard.substr(0, dash) + "-classes.txt";
  return fs::exists(file) ? std::optional(file) : std::nullopt;
}

}  // namespace

void ImageShardsDataModule::read_classes() {
  const auto first = from_files(texts_of(options_.path)).read().next();
  const std::optional<fs::path> file = options_.classes_path ? options_.classes_path : classes_beside(first->string());
  if (!file) return;
  std::vector<std::string> names;
  auto lines = lines_of(*file).read();
  while (const auto line = lines.next()) names.push_back(*line);
  if (names.empty()) throw ConfigError(format("classes_path: '{}' names no classes", file->string()));
  facts_.class_names = names;
  facts_.classes = std::ssize(names);
}

void ImageShardsDataModule::setup(Stage stage) {
  const Paths& own = stage == Stage::kPredict ? options_.predict_path : stage == Stage::kTest ? options_.test_path : Paths();
  const char* const option = stage == Stage::kPredict ? "predict_path" : "test_path";
  if (!own.empty() && !from_shards(texts_of(own)).read().next())
    throw ConfigError(format("{}: {} hold no samples", option, quoted_list(texts_of(own))));
  if (!facts_.features.empty()) return;
  for (const auto* patterns : {&options_.path, &options_.val_path, &options_.test_path, &options_.predict_path}) {
    if (!patterns->empty()) from_files(texts_of(*patterns));  // throws where there are none
  }
  if (facts_.class_names.empty()) read_classes();
  const auto sample = from_shards(texts_of(options_.path)).read().next();
  if (!sample) throw ConfigError(format("path: {} hold no samples", quoted_list(texts_of(options_.path))));
  Random random(0);
  const ImageFile image = image_of(*sample, options_.image_names, reading_of(options_));
  facts_.features = transformed_image(image, evaluation_transforms(preparation_of(options_)), random).sizes().vec();
}

void ImageShardsDataModule::teardown(Stage) {
  if (broken_->size() > 0) rank_warn(broken_->report(std::nullopt));
  broken_ = std::make_shared<BrokenImageList>();
}

Pipeline<Batch> ImageShardsDataModule::batches(const Pipeline<ShardSample>& samples, const ImageTransforms& transforms,
                                               bool has_labels, bool drop_last) const {
  const auto decode = [options = options_, transforms, has_labels, broken = broken_, classes = facts_.classes.value_or(0)](
                          const ShardSample& sample, Random& random) -> std::optional<Batch> {
    try {
      const ImageFile file = image_of(sample, options.image_names, reading_of(options));
      Batch made{{"features", transformed_image(file, transforms, random)}};
      if (!has_labels) return made;
      const std::int64_t label = sample.number(options.label_name);
      if (label < 0 || (classes > 0 && label >= classes)) {
        throw IoError(format("the sample '{}' is of class {}, and there are {}", sample.key, label, classes));
      }
      made.set("label", at::scalar_tensor(label, at::kLong));
      return made;
    } catch (const IoError& error) {
      if (options.on_error == BrokenImages::kRaise) throw;
      broken->add(sample.key, error.what());
      return std::nullopt;
    }
  };
  const auto collate = [](const std::vector<std::optional<Batch>>& decoded) {
    std::vector<Batch> readable;
    for (const std::optional<Batch>& sample : decoded) {
      if (sample) readable.push_back(*sample);
    }
    if (readable.empty()) throw IoError("none of the batch's images can be read");
    return stack_samples(readable);
  };
  return samples.map(decode).batch(options_.batch_size, collate, {.drop_last = drop_last});
}

LoaderPtr ImageShardsDataModule::train_dataloader() {
  const Pipeline<fs::path> files = from_files(texts_of(options_.path));
  const auto samples =
      options_.shuffle
          ? files.shuffle().flat_map(samples_of, {.at_once = options_.shards_at_once}).shuffle(options_.shuffle_window)
          : from_shards(texts_of(options_.path));
  Pipeline<Batch> made = batches(samples, training_transforms(preparation_of(options_)), true, options_.drop_last);
  if (const auto transform = options_.batch_transform.get()) {
    made = made.map([transform, classes = facts_.classes.value_or(0)](Batch batch, Random& random) {
      return transform->apply(std::move(batch), classes, random);
    });
  }
  return stream(
      std::move(made),
      {.num_workers = options_.num_workers, .prefetch_factor = options_.prefetch_factor, .pin_memory = options_.pin_memory});
}

LoaderList ImageShardsDataModule::evaluation_loader(const Paths& patterns, bool has_labels) const {
  if (patterns.empty()) return {};
  const ImageTransforms transforms = evaluation_transforms(preparation_of(options_));
  return stream(
      batches(from_shards(texts_of(patterns)), transforms, has_labels, /*drop_last=*/false),
      {.num_workers = options_.num_workers, .prefetch_factor = options_.prefetch_factor, .pin_memory = options_.pin_memory});
}

LoaderList ImageShardsDataModule::predict_dataloaders() {
  return options_.predict_path.empty() ? test_dataloaders() : evaluation_loader(options_.predict_path, false);
}

Value ImageShardsDataModule::state_dict() const {
  Value state(Value::Map{});
  state["classes"] = OptionType<std::vector<std::string>>::write(facts_.class_names);
  return state;
}

void ImageShardsDataModule::load_state_dict(const Value& state) {
  const Value* const saved = state.find("classes");
  if (saved == nullptr) return;
  facts_.class_names = OptionType<std::vector<std::string>>::read(*saved);
  if (!facts_.class_names.empty()) facts_.classes = std::ssize(facts_.class_names);
}

Batch ImageShardsDataModule::prepare(Batch batch) const {
  return prepared_images(std::move(batch), evaluation_transforms(preparation_of(options_)));
}

std::vector<std::string> ImageShardsDataModule::preparations() const {
  return {"transforms: images are resized and become floats, as for evaluation"};
}

}  // namespace levin
