#include "levin/images/image_folder_data_module.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/remote_file.h"
#include "levin/data/csv_file.h"
#include "levin/data/reading_options.h"
#include "levin/images/class_folders.h"

namespace levin {

LEVIN_REGISTER_DATA_MODULE(ImageFolderDataModule, "Images in folders of their classes, or in a list of paths and labels");

namespace fs = std::filesystem;

void ImageFolderOptions::declare(OptionList<ImageFolderOptions>& options) {
  using I = ImageFolderOptions;
  options
      .add("path", &I::path,
           "Folder with train/CLASS/*.jpg and val/, test/ beside it, or with CLASS/*.jpg; or a CSV file of paths and labels")
      .input_file()
      .required()
      .not_empty();
  options.add("val_path", &I::val_path, "Folder with CLASS/*.jpg, or list, of validation data").input_file();
  options.add("test_path", &I::test_path, "Folder with CLASS/*.jpg, or list, of test data").input_file();
  options
      .add("predict_path", &I::predict_path, "Folder, of which all images are predicted; or an image, or a CSV file of paths")
      .input_file();
  options.add("path_column", &I::path_column, "List: column of paths, from its folder on");
  options.add("label_column", &I::label_column, "List: column of labels");
  options.add("val_fraction", &I::val_fraction, "Part that is validation data, where it has no folder or list of its own")
      .min(0)
      .max(1);
  options.add("test_fraction", &I::test_fraction, "Part that is test data, where it has no folder or list of its own")
      .min(0)
      .max(1);
  options.add("split_seed", &I::split_seed, "Seed of the division into training, validation and test data");
  declare_images(options);
  declare_loaders(options);
  options.rule({"val_fraction", "test_fraction"}, [](const I& given) {
    return given.val_fraction + given.test_fraction >= 1.0 ? "val_fraction and test_fraction leave nothing to train on" : "";
  });
}

ImageFolderDataModule::ImageFolderDataModule(ImageFolderOptions options)
    : options_(checked("ImageFolderDataModule", std::move(options))) {
  set_hparams(write_options(options_));
}

namespace {

/// The first of these folders that is there, in small letters or capital ones.
std::optional<fs::path> folder_in(const fs::path& path, std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const char* name : names) {
    if (fs::is_directory(path / name)) return path / name;
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
      if (entry.is_directory(ignored) && lowercase(entry.path().filename().string()) == name) return entry.path();
    }
  }
  return std::nullopt;
}

/// A column of a list.
struct ListColumn {
  std::vector<std::string> rows;
  std::vector<std::string> different;  ///< each once, sorted, as numbers where all are
};

/// Columns of a CSV file, each given as the option that names it, and its name.
std::vector<ListColumn> read_list(const fs::path& list, const std::vector<std::pair<std::string, std::string>>& wanted) {
  const std::vector<std::string> columns = read_csv(list, {.header = true, .most_rows = 0}).columns_of_file;
  std::vector<std::string> complete;
  for (const auto& [option, column] : wanted) {
    complete.push_back(column);
    if (std::ranges::find(columns, column) != columns.end()) continue;
    throw ConfigError(format("{}: '{}' has no column {}{}", option, list.string(), quoted_text(column),
                             did_you_mean(column, columns, "columns")));
  }
  const CsvTable table =
      read_csv(list, {.header = true, .missing = 0.0, .complete_columns = complete, .text_columns = columns});
  if (table.values.size(0) == 0) throw ConfigError(format("'{}' has a header, and lists no images", list.string()));
  std::vector<ListColumn> found;
  for (const std::string& column : complete) {
    const std::int64_t place = find_column(table.columns, table.values.size(1), column).value();
    ListColumn& texts = found.emplace_back(ListColumn{.rows = {}, .different = table.texts.at(place)});
    const at::Tensor codes = table.values.select(1, place).to(at::kLong).contiguous();
    for (const std::int64_t code : std::span(codes.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(codes.numel()))) {
      texts.rows.push_back(texts.different[static_cast<std::size_t>(code)]);
      if (!texts.rows.back().empty()) continue;
      throw ConfigError(format("'{}': row {} has no {}", list.string(), texts.rows.size(), quoted_text(column)));
    }
  }
  return found;
}

fs::path listed_file(const fs::path& list, const std::string& path) {
  return is_remote(path) ? fs::path(path) : list.parent_path() / path;
}

}  // namespace

/// A CSV file's rows. The same class has the same number as in the checkpoint, if there is one.
FoundImages ImageFolderDataModule::listed_in(const fs::path& list) const {
  const auto columns = read_list(list, {{"path_column", options_.path_column}, {"label_column", options_.label_column}});
  const ListColumn &paths = columns[0], &labels = columns[1];
  FoundImages found{.images = {}, .classes = classes_.empty() ? labels.different : classes_};
  for (std::size_t row = 0; row < paths.rows.size(); ++row) {
    const auto known = std::ranges::find(found.classes, labels.rows[row]);
    if (known == found.classes.end()) {
      throw ConfigError(format("'{}' has the label {}, which is no class of the training data: {}", list.string(),
                               quoted_text(labels.rows[row]), quoted_list(found.classes)));
    }
    found.images.push_back({listed_file(list, paths.rows[row]), known - found.classes.begin()});
  }
  return found;
}

/// Of predict_path: a folder, an image, or a list.
std::vector<LabelledImage> ImageFolderDataModule::unlabelled_in(const fs::path& path) const {
  if (fs::is_directory(path)) {
    std::vector<LabelledImage> images = find_unlabelled_images(path);
    if (images.empty()) {
      throw ConfigError(format("predict_path: '{}' holds no images (.jpg, .jpeg, .png, .webp, .bmp)", path.string()));
    }
    return images;
  }
  if (is_image(path)) return {{path, 0}};
  const std::vector<ListColumn> columns = read_list(path, {{"path_column", options_.path_column}});
  std::vector<LabelledImage> images;
  for (const std::string& file : columns[0].rows) {
    images.push_back({listed_file(path, file), 0});
  }
  return images;
}

FoundImages ImageFolderDataModule::found_in(const fs::path& path) const {
  return fs::is_directory(path) ? find_images(path, classes_) : listed_in(path);
}

void ImageFolderDataModule::divide(const FoundImages& found) {
  std::vector<double> fractions{0.0, val_.empty() ? options_.val_fraction : 0.0, test_.empty() ? options_.test_fraction : 0.0};
  fractions[0] = 1.0 - fractions[1] - fractions[2];
  if (fractions[0] == 1.0) {
    train_ = found.images;
    return;
  }
  const auto whole = std::make_shared<ImageDataset>(found.images);
  const auto parts = random_split(whole, fractions, options_.split_seed);
  const auto images_of = [&](const Subset& part) {
    std::vector<LabelledImage> images;
    for (const std::int64_t index : part.indices()) images.push_back(found.images[static_cast<std::size_t>(index)]);
    return images;
  };
  train_ = images_of(*parts[0]);
  if (val_.empty()) val_ = images_of(*parts[1]);
  if (test_.empty()) test_ = images_of(*parts[2]);
}

void ImageFolderDataModule::setup(Stage) {
  if (is_set_up_) return;
  const auto train_folder = folder_in(options_.path, {"train", "training"});
  const FoundImages found = found_in(train_folder.value_or(options_.path));
  if (found.images.empty()) throw ConfigError(format("path: '{}' holds no images", options_.path.string()));
  classes_ = found.classes;
  const auto other = [&](const std::optional<fs::path>& given, std::initializer_list<const char*> names) {
    const auto path = given ? given : train_folder ? folder_in(options_.path, names) : std::nullopt;
    return path ? found_in(*path).images : std::vector<LabelledImage>();
  };
  val_ = other(options_.val_path, {"val", "valid", "validation"});
  test_ = other(options_.test_path, {"test", "testing"});
  divide(found);
  predict_ = options_.predict_path ? unlabelled_in(*options_.predict_path) : test_;
  is_set_up_ = true;
  rank_zero_info(format("{}: {} of {} {}; {} to train, {} to validate, {} to test", options_.path.string(),
                        counted(train_.size() + val_.size() + test_.size(), "image"), classes_.size(),
                        classes_.size() == 1 ? "class" : "classes", train_.size(), val_.size(), test_.size()));
}

void ImageFolderDataModule::teardown(Stage) {
  const std::string report = broken_->report(train_.size() + val_.size() + test_.size() + predict_.size());
  if (!report.empty()) rank_warn(report);
  broken_ = std::make_shared<BrokenImageList>();
}

LoaderPtr ImageFolderDataModule::train_dataloader() {
  return DataLoader(ImageDataset(train_, {.transforms = training_transforms(preparation_of(options_)),
                                          .batch_transform = options_.batch_transform.get(),
                                          .classes = std::ssize(classes_),
                                          .reading = reading_of(options_),
                                          .on_error = options_.on_error,
                                          .broken = broken_}),
                    training_options(options_));
}

LoaderList ImageFolderDataModule::evaluation_loader(const std::vector<LabelledImage>& images, bool has_labels) const {
  // Every sample counts once, and predictions belong to files: what cannot be read is left out before.
  const bool skips = options_.on_error == BrokenImages::kSkip;
  const auto evaluated = skips ? readable_images(images, reading_of(options_), *broken_) : images;
  if (evaluated.empty()) return {};
  return DataLoader(ImageDataset(evaluated, {.transforms = evaluation_transforms(preparation_of(options_)),
                                             .reading = reading_of(options_),
                                             .has_labels = has_labels}),
                    reading_options(options_));
}

LoaderList ImageFolderDataModule::val_dataloaders() { return evaluation_loader(val_, true); }
LoaderList ImageFolderDataModule::test_dataloaders() { return evaluation_loader(test_, true); }
LoaderList ImageFolderDataModule::predict_dataloaders() { return evaluation_loader(predict_, !options_.predict_path); }

DataFacts ImageFolderDataModule::facts() const {
  DataFacts facts;
  facts.class_names = classes_;
  if (!classes_.empty()) facts.classes = std::ssize(classes_);
  if (is_set_up_ && !train_.empty()) {
    // Transforms of the user's own may give any size: the first image shows it.
    const ImageDataset images(train_, {.transforms = evaluation_transforms(preparation_of(options_)),
                                       .reading = reading_of(options_),
                                       .on_error = options_.on_error});
    facts.features = images.get_batch(std::vector<std::int64_t>{0})["features"].sizes().slice(1).vec();
  }
  return facts;
}

Value ImageFolderDataModule::state_dict() const {
  Value state(Value::Map{});
  state["classes"] = OptionType<std::vector<std::string>>::write(classes_);
  return state;
}

/// The classes of found images are numbered as in the checkpoint.
void ImageFolderDataModule::number_by(const std::vector<std::string>& classes) {
  std::vector<std::int64_t> numbers;
  for (const std::string& name : classes_) {
    const auto known = std::ranges::find(classes, name);
    if (known == classes.end()) {
      throw ConfigError(format("path: '{}' has the class {}, which the checkpoint lacks: {}", options_.path.string(),
                               quoted_text(name), quoted_list(classes)));
    }
    numbers.push_back(known - classes.begin());
  }
  for (auto* const images : {&train_, &val_, &test_}) {
    for (LabelledImage& image : *images) image.label = numbers[static_cast<std::size_t>(image.label)];
  }
  if (!options_.predict_path) predict_ = test_;
}

void ImageFolderDataModule::load_state_dict(const Value& state) {
  const Value* const saved = state.find("classes");
  if (saved == nullptr) return;
  const auto classes = OptionType<std::vector<std::string>>::read(*saved);
  if (is_set_up_ && classes != classes_) number_by(classes);
  classes_ = classes;
}

Batch ImageFolderDataModule::prepare(Batch batch) const {
  return prepared_images(std::move(batch), evaluation_transforms(preparation_of(options_)));
}

std::vector<std::string> ImageFolderDataModule::preparations() const {
  return {"transforms: images are resized and become floats, as for evaluation"};
}

}  // namespace levin
