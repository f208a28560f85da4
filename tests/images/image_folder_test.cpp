// Folders of images, their classes and divisions, broken files, and what a checkpoint keeps.
#include <ATen/ops/equal.h>
#include <torch/types.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "images/image_references.h"
#include "levin/core/base/error.h"
#include "levin/core/config/value.h"
#include "levin/images/image_folder_data_module.h"
#include "levin/images/mixing.h"
#include "levin/images/transforms.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;

namespace fs = std::filesystem;

namespace levin::test {
namespace {

void put(const fs::path& file, const std::string& image = "color.png") {
  fs::create_directories(file.parent_path());
  fs::copy_file(kImageFiles / image, file);
}

/// Two classes with as many images each.
void put_classes(const fs::path& folder, int images) {
  for (const std::string name : {"rose", "tulip"}) {
    for (int index = 0; index < images; ++index)
      put(folder / name / (std::to_string(index) + ".png"), index % 2 == 0 ? "color.png" : "alpha.png");
  }
}

std::vector<Batch> batches_of(LoaderPtr loader, std::int64_t epoch = 0) {
  std::vector<Batch> batches;
  loader->start_epoch(epoch);
  while (auto batch = loader->next()) batches.push_back(*batch);
  return batches;
}

std::int64_t samples_of(const LoaderPtr& loader) {
  std::int64_t samples = 0;
  for (const Batch& batch : batches_of(loader)) samples += batch.batch_size();
  return samples;
}

ImageFolderDataModule set_up(ImageFolderOptions options) {
  options.image_size = 8;
  ImageFolderDataModule data(std::move(options));
  data.setup(Stage::kTrain);
  return data;
}

Component<ImageTransform> component(const std::string& name, const std::map<std::string, Value>& arguments) {
  Value init_args(Value::Map{});
  for (const auto& [key, value] : arguments) init_args[key] = value;
  return Component<ImageTransform>::completed(Value(name), init_args);
}

}  // namespace

TEST_CASE("train, val and test folders are what they say") {
  const TemporaryFolder folder;
  put_classes(folder / "train", 6);
  put_classes(folder / "valid", 2);
  put(folder / "test/tulip/a.JPG", "color_444.jpg");
  put(folder / "train/rose/more/deep.jpeg", "grey.jpg");
  put(folder / "train/.hidden/x.png");
  std::ofstream(folder / "train/rose/notes.txt") << "no image";
  ImageFolderDataModule data = set_up({.path = folder.path(), .batch_size = 4, .num_workers = 0});
  CHECK(data.classes() == std::vector<std::string>{"rose", "tulip"});
  CHECK(samples_of(data.train_dataloader()) == 13);
  CHECK(samples_of(data.val_dataloaders()[0]) == 4);
  const Batch test = batches_of(data.test_dataloaders()[0]).at(0);
  CHECK(test["features"].sizes() == torch::IntArrayRef{1, 3, 8, 8});
  CHECK(test["features"].scalar_type() == torch::kFloat);
  CHECK(test["label"].item<std::int64_t>() == 1);
  CHECK(data.facts().features == std::vector<std::int64_t>{3, 8, 8});
  CHECK(data.facts().classes == 2);
  CHECK(data.facts().class_names == data.classes());
}

TEST_CASE("folders of the usual names are found, in capital letters too") {
  const TemporaryFolder folder;
  put_classes(folder / "Training", 3);
  put_classes(folder / "Val", 2);
  put_classes(folder / "TESTING", 1);
  ImageFolderDataModule data = set_up({.path = folder.path(), .num_workers = 0});
  CHECK(data.classes() == std::vector<std::string>{"rose", "tulip"});
  CHECK(samples_of(data.train_dataloader()) == 6);
  CHECK(samples_of(data.val_dataloaders()[0]) == 4);
  CHECK(samples_of(data.test_dataloaders()[0]) == 2);
}

TEST_CASE("what to predict is a folder, an image, or a list, and samples are named by their files") {
  const TemporaryFolder folder;
  put_classes(folder / "train", 2);
  put(folder / "new/b.png");
  put(folder / "new/a.jpg", "color_420.jpg");
  std::ofstream(folder / "new.csv") << "id,path\n2,new/b.png\n1,new/a.jpg\n3,new/b.png\n";
  std::ofstream(folder / "other.csv") << "id,file\n2,new/b.png\n";
  const auto names_in = [&](const std::string& predict_path) {
    ImageFolderDataModule data =
        set_up({.path = folder / "train", .predict_path = folder / predict_path, .batch_size = 2, .num_workers = 0});
    const LoaderPtr loader = data.predict_dataloaders()[0];
    std::string names;
    for (std::int64_t sample = 0; sample < samples_of(loader); ++sample) {
      names += fs::path(loader->sample_name(sample)).lexically_relative(folder.path()).string() + " ";
    }
    return names;
  };
  CHECK(names_in("new") == "new/a.jpg new/b.png ");
  CHECK(names_in("new/b.png") == "new/b.png ");
  CHECK(names_in("new.csv") == "new/b.png new/a.jpg new/b.png ");
  CHECK_THROWS_WITH(names_in("other.csv"), Contains("path_column: '") && Contains("has no column 'path'"));
}

TEST_CASE("one folder is divided, the same way each time") {
  const TemporaryFolder folder;
  put_classes(folder.path(), 10);
  const ImageFolderOptions options{
      .path = folder.path(), .val_fraction = 0.2, .test_fraction = 0.3, .shuffle = false, .num_workers = 0};
  ImageFolderDataModule data = set_up(options), again = set_up(options);
  CHECK(samples_of(data.train_dataloader()) == 10);
  CHECK(samples_of(data.val_dataloaders()[0]) == 4);
  CHECK(samples_of(data.test_dataloaders()[0]) == 6);
  CHECK(at::equal(batches_of(data.train_dataloader())[0]["features"], batches_of(again.train_dataloader())[0]["features"]));
}

TEST_CASE("a list names paths and labels") {
  const TemporaryFolder folder;
  put(folder / "images/1.png");
  put(folder / "images/2.jpg", "color_420.jpg");
  put(folder / "images/3.png");
  std::ofstream(folder / "train.csv") << "split,file,kind\na,images/1.png,tulip\nb,images/2.jpg,rose\nc,images/3.png,tulip\n";
  const ImageFolderOptions options{.path = folder / "train.csv",
                                   .path_column = "file",
                                   .label_column = "kind",
                                   .val_fraction = 0,
                                   .test_fraction = 0,
                                   .shuffle = false,
                                   .num_workers = 0};
  ImageFolderDataModule data = set_up(options);
  CHECK(data.classes() == std::vector<std::string>{"rose", "tulip"});
  const Batch batch = batches_of(data.train_dataloader()).at(0);
  CHECK(at::equal(batch["label"], torch::tensor({1, 0, 1}, torch::kLong)));
  CHECK(at::equal(batch["features"][0], batch["features"][2]));
  const auto listing = [&](const std::string& text) {
    std::ofstream(folder / "other.csv") << "file,kind\n" << text;
    ImageFolderOptions other = options;
    other.path = folder / "other.csv";
    return other;
  };
  CHECK_THROWS_WITH(set_up(listing("images/1.png,rose\nimages/2.jpg,\n")), Contains("other.csv': row 2 has no 'kind'"));
  CHECK_THROWS_WITH(set_up(listing(",rose\n")), Contains("other.csv': row 1 has no 'file'"));
  CHECK_THROWS_WITH(set_up(listing("")), Contains("other.csv' has a header, and lists no images"));
  // An address stays one, and is not looked for in the folder of the list.
  CHECK_THROWS_WITH(batches_of(set_up(listing("s3:///1.png,rose\n")).train_dataloader()), Contains("names no bucket"));
  ImageFolderOptions wrong = options;
  wrong.label_column = "class";
  CHECK_THROWS_WITH(set_up(wrong), Contains("label_column: '") && Contains("train.csv' has no column 'class'"));
}

TEST_CASE("folders with numbers for names are classes in their order") {
  const TemporaryFolder folder;
  for (const std::string name : {"10", "2", "1"}) put(folder / name / "a.png");
  CHECK(find_images(folder.path()).classes == std::vector<std::string>{"1", "2", "10"});
}

TEST_CASE("a run that starts from a checkpoint has its classes") {
  const TemporaryFolder folder;
  put_classes(folder / "old", 2);
  put(folder / "old/aster/a.png");
  put_classes(folder / "new", 3);
  ImageFolderDataModule old = set_up({.path = folder / "old", .val_fraction = 0, .test_fraction = 0, .num_workers = 0});
  ImageFolderDataModule data =
      set_up({.path = folder / "new", .val_fraction = 0, .test_fraction = 0, .shuffle = false, .num_workers = 0});
  data.load_state_dict(old.state_dict());
  CHECK(data.classes() == std::vector<std::string>{"aster", "rose", "tulip"});
  CHECK(at::equal(batches_of(data.train_dataloader())[0]["label"], torch::tensor({1, 1, 1, 2, 2, 2}, torch::kLong)));
  put(folder / "new/lily/a.png");
  ImageFolderDataModule more = set_up({.path = folder / "new", .num_workers = 0});
  CHECK_THROWS_WITH(more.load_state_dict(old.state_dict()), Contains("has the class 'lily', which the checkpoint lacks"));
}

TEST_CASE("a broken file ends the run, or is skipped and named") {
  const TemporaryFolder folder;
  put_classes(folder / "train", 3);
  put_classes(folder / "val", 3);
  for (const std::string part : {"train", "val"}) std::ofstream(folder / part / "rose/1.png") << "not a picture";
  const ImageFolderOptions options{.path = folder.path(), .shuffle = false, .num_workers = 2};
  ImageFolderDataModule raising = set_up(options);
  CHECK_THROWS_WITH(batches_of(raising.train_dataloader()), Contains("rose/1.png' is no JPEG, PNG, WebP or BMP file"));
  ImageFolderOptions skip = options;
  skip.on_error = BrokenImages::kSkip;
  ImageFolderDataModule skipping = set_up(skip);
  const Batch train = batches_of(skipping.train_dataloader()).at(0);
  CHECK(train.batch_size() == 6);  // the next image stands in its place
  CHECK(at::equal(train["features"][1], train["features"][2]));
  CHECK(batches_of(skipping.val_dataloaders()[0]).at(0).batch_size() == 5);
}

TEST_CASE("a sample's transforms depend on seed, epoch and index, not on workers, ranks or the place where an epoch begins") {
  const TemporaryFolder folder;
  put_classes(folder.path(), 12);
  ImageFolderOptions options{
      .path = folder.path(), .val_fraction = 0, .test_fraction = 0, .preset = ImagePreset::kImagenet, .batch_size = 4};
  const auto samples_by_index = [&](int workers, int ranks, std::int64_t epoch) {
    std::map<std::int64_t, at::Tensor> samples;
    for (int rank = 0; rank < ranks; ++rank) {
      options.num_workers = workers;
      ImageFolderDataModule data = set_up(options);
      const LoaderPtr loader = data.train_dataloader();
      loader->set_shard({.rank = rank, .world_size = ranks, .uneven = Uneven::kKeep, .default_seed = 3});
      const std::vector<Batch> batches = batches_of(loader, epoch);
      const auto indices = loader->epoch_samples(std::ssize(batches)).value();
      std::size_t place = 0;
      for (const Batch& batch : batches) {
        for (const at::Tensor& row : batch["features"].unbind(0)) samples[indices.at(place++)] = row;
      }
    }
    return samples;
  };
  const auto reference = samples_by_index(0, 1, 2);
  REQUIRE(reference.size() == 24);
  const auto is_equal = [&](const std::map<std::int64_t, at::Tensor>& others) {
    return std::all_of(reference.begin(), reference.end(),
                       [&](const auto& each) { return at::equal(each.second, others.at(each.first)); });
  };
  CHECK(is_equal(samples_by_index(3, 1, 2)));
  CHECK(is_equal(samples_by_index(2, 3, 2)));
  CHECK(!is_equal(samples_by_index(0, 1, 3)));
}

TEST_CASE("transforms that YAML names are applied, and images of different sizes are told") {
  const TemporaryFolder folder;
  put_classes(folder.path(), 2);
  ImageFolderOptions options{.path = folder.path(), .val_fraction = 0, .test_fraction = 0, .shuffle = false, .num_workers = 0};
  options.train_transforms = {component("CenterCrop", {{"size", Value(std::int64_t{6})}}), component("Grayscale", {})};
  ImageFolderDataModule data = set_up(options);
  const at::Tensor features = batches_of(data.train_dataloader()).at(0)["features"];
  const at::Tensor expected = images::grayscale(images::center_crop(read_image(kImageFiles / "color.png"), {6, 6}));
  CHECK(at::equal(features[0], images::to_float(expected)));
  options.train_transforms = {component("RandomHorizontalFlip", {})};
  put(folder / "rose/other.jpg", "large_420.jpg");
  CHECK_THROWS_WITH(batches_of(set_up(options).train_dataloader()), Contains("Images of different sizes need a transform"));
  CHECK_THROWS_WITH(component("Resize", {}), Contains("size"));
  CHECK_THROWS_WITH(component("Resize", {{"size", Value(std::int64_t{0})}}), Contains("size is a number of pixels"));
}

TEST_CASE("mixed batches have probabilities of classes for labels") {
  const TemporaryFolder folder;
  put_classes(folder.path(), 4);
  ImageFolderOptions options{.path = folder.path(), .val_fraction = 0, .test_fraction = 0, .shuffle = false, .num_workers = 0};
  ImageFolderDataModule plain = set_up(options);
  const Batch batch = batches_of(plain.train_dataloader()).at(0);
  for (const std::string name : {"MixUp", "CutMix"}) {
    options.batch_transform = Component<BatchTransform>::completed(Value(name), Value(Value::Map{}));
    const Batch mixed = batches_of(set_up(options).train_dataloader()).at(0);
    REQUIRE(mixed["label"].sizes() == torch::IntArrayRef{8, 2});
    CHECK(at::allclose(mixed["label"].sum(1), torch::ones({8})));
    CHECK(!at::equal(mixed["features"], batch["features"]));
    CHECK(at::equal(mixed["features"], batches_of(set_up(options).train_dataloader()).at(0)["features"]));
  }
}

TEST_CASE("a Predictor's images get the transforms of evaluation") {
  const TemporaryFolder folder;
  put_classes(folder / "train", 2);
  put(folder / "test/rose/a.png");
  ImageFolderDataModule data = set_up({.path = folder.path(), .preset = ImagePreset::kImagenet, .num_workers = 0});
  const Batch prepared = data.prepare({{"features", read_image(kImageFiles / "color.png").unsqueeze(0)}});
  CHECK(at::equal(prepared["features"], batches_of(data.test_dataloaders()[0]).at(0)["features"]));
}

TEST_CASE("folders that are not as described are told") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "empty");
  fs::create_directories(folder / "classes/rose");
  put(folder / "flat/a.png");
  const auto error_of_folder = [&](const std::string& name) -> std::string {
    try {
      set_up({.path = folder / name});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(error_of_folder("empty"), Contains("has no folders: images of a class stand in the folder of its name"));
  CHECK_THAT(error_of_folder("flat"), Contains("has no folders"));
  CHECK_THAT(error_of_folder("classes"), Contains("rose' holds no images"));
}

}  // namespace levin::test
