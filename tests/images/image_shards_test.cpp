// Images in shards: the same images in a folder and in tar files give the same batches.
#include "levin/images/image_shards_data_module.h"

#include <torch/types.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "images/image_references.h"
#include "levin/core/base/error.h"
#include "levin/data/shard_writer.h"
#include "levin/images/image_folder_data_module.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::Batch;
using levin::ImageShardsDataModule;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(levin::test::kImageFiles / name, std::ios::binary).rdbuf();
  return text.str();
}

const std::vector<std::string> kFiles = {"color_444.jpg", "grey.jpg", "turned_8.jpg", "large_420.jpg", "color_444.jpg"};

/// The files as classes 0 and 1 in turn, in folders and in shards of two samples.
void write_both(const fs::path& folder, const std::vector<std::string>& broken = {}) {
  levin::ShardWriter writer(folder / "shards", "train", {.max_samples = 2});
  for (const int number : {0, 2, 4, 1, 3}) {
    const std::string bytes = bytes_of(kFiles[static_cast<std::size_t>(number)]);
    const std::string label = std::to_string(number % 2);
    fs::create_directories(folder / "images" / ("c" + label));
    std::ofstream(folder / "images" / ("c" + label) / (std::to_string(number) + ".jpg"), std::ios::binary) << bytes;
    writer.add({"c" + label + "/" + std::to_string(number), {{"jpg", bytes}, {"cls", label + "\n"}}});
  }
  for (const std::string& key : broken) writer.add({key, {{"jpg", "no image"}, {"cls", "0"}}});
  writer.finish();
  std::ofstream(folder / "shards/train-classes.txt") << "c0\nc1\n";
}

std::vector<Batch> all_of(const levin::LoaderPtr& loader) {
  std::vector<Batch> batches;
  loader->start_epoch(0);
  while (auto batch = loader->next()) batches.push_back(*batch);
  return batches;
}

ImageShardsDataModule set_up(levin::ImageShardsOptions options) {
  options.image_size = 8;
  options.batch_size = 2;
  ImageShardsDataModule data(std::move(options));
  data.setup(levin::Stage::kTrain);
  return data;
}

}  // namespace

TEST_CASE("images in shards give the batches that they give in folders") {
  const levin::test::TemporaryFolder folder;
  write_both(folder.path());
  const std::string pattern = (folder / "shards/train-*.tar").string();
  const auto preset = GENERATE(levin::ImagePreset::kPlain, levin::ImagePreset::kImagenet);
  levin::ImageFolderDataModule in_folders({.path = folder / "images",
                                           .val_path = folder / "images",
                                           .image_size = 8,
                                           .preset = preset,
                                           .batch_size = 2,
                                           .num_workers = 0});
  in_folders.setup(levin::Stage::kTrain);
  ImageShardsDataModule data = set_up({.path = {pattern}, .val_path = {pattern}, .preset = preset, .num_workers = 1});
  const auto expected = all_of(in_folders.val_dataloaders()[0]), given = all_of(data.val_dataloaders()[0]);
  REQUIRE(given.size() == 3);
  REQUIRE(expected.size() == 3);
  for (std::size_t batch = 0; batch < 3; ++batch) {
    CHECK(torch::equal(given[batch]["features"], expected[batch]["features"]));
    CHECK(torch::equal(given[batch]["label"], expected[batch]["label"]));
  }
  CHECK(data.facts().class_names == std::vector<std::string>{"c0", "c1"});
  CHECK(data.facts().classes == 2);
  CHECK(data.facts().features == std::vector<std::int64_t>{3, 8, 8});

  const auto training = all_of(data.train_dataloader());
  std::int64_t samples = 0, ones = 0;
  for (const Batch& batch : training) {
    samples += batch.batch_size();
    ones += batch["label"].sum().item<std::int64_t>();
  }
  CHECK(samples == 5);
  CHECK(ones == 2);
  CHECK(all_of(data.predict_dataloaders().empty() ? data.train_dataloader() : data.predict_dataloaders()[0]).size() == 3);
}

TEST_CASE("shards name what is wrong with a sample, or go on without it") {
  const levin::test::TemporaryFolder folder;
  write_both(folder.path(), {"broken/1", "broken/2"});
  const std::string pattern = (folder / "shards/train-*.tar").string();
  ImageShardsDataModule raising = set_up({.path = {pattern}, .val_path = {pattern}, .num_workers = 0});
  CHECK_THROWS_WITH(all_of(raising.val_dataloaders()[0]), Contains("train-000002.tar") && Contains("broken/1.jpg"));
  ImageShardsDataModule skipping =
      set_up({.path = {pattern}, .val_path = {pattern}, .on_error = levin::BrokenImages::kSkip, .num_workers = 0});
  const auto loader = skipping.val_dataloaders()[0];
  loader->start_epoch(0);
  for (int batch = 0; batch < 2; ++batch) CHECK(loader->next()->batch_size() == 2);
  CHECK(loader->next()->batch_size() == 1);
  CHECK_THROWS_WITH(loader->next(), Contains("none of the batch's images can be read"));
  CHECK_THROWS_WITH(set_up({.path = {(folder / "none-*.tar").string()}}), Contains("no file matches"));
  CHECK_THROWS_WITH(set_up({.path = {pattern}, .image_names = {"png"}}), Contains("has no image (png): it has 'jpg', 'cls'"));
  ImageShardsDataModule unlabelled = set_up({.path = {pattern}, .val_path = {pattern}, .label_name = "json", .num_workers = 0});
  CHECK_THROWS_WITH(all_of(unlabelled.val_dataloaders()[0]), Contains("has no file 'json'"));
}

TEST_CASE("samples that are left out leave the places of the others as they are, on any number of ranks") {
  const levin::test::TemporaryFolder folder;
  levin::ShardWriter writer(folder.path(), "train");
  for (int number = 0; number < 12; ++number) {
    const bool is_broken = number == 4 || number == 7;
    writer.add(
        {std::to_string(number), {{"jpg", is_broken ? "no image" : bytes_of("grey.jpg")}, {"cls", std::to_string(number)}}});
  }
  writer.finish();
  const std::string file = (folder / "train-000000.tar").string();
  std::map<std::int64_t, std::int64_t> labels;
  const int ranks = GENERATE(1, 2, 3);
  for (int rank = 0; rank < ranks; ++rank) {
    ImageShardsDataModule data =
        set_up({.path = {file}, .val_path = {file}, .on_error = levin::BrokenImages::kSkip, .num_workers = 1});
    const auto loader = data.val_dataloaders()[0];
    loader->set_shard({.rank = rank, .world_size = ranks, .uneven = levin::Uneven::kKeep});
    const auto batches = all_of(loader);
    const auto places = loader->epoch_samples(std::ssize(batches)).value();
    std::size_t row = 0;
    for (const Batch& batch : batches) {
      for (const torch::Tensor& label : batch["label"].unbind(0)) labels[places.at(row++)] = label.item<std::int64_t>();
    }
    CHECK(row == places.size());
  }
  std::vector<std::int64_t> in_order;
  for (const auto& [place, label] : labels) in_order.push_back(label);
  CHECK(in_order == std::vector<std::int64_t>{0, 1, 2, 3, 5, 6, 8, 9, 10, 11});
}

TEST_CASE("shards without samples are told before they are predicted") {
  const levin::test::TemporaryFolder folder;
  write_both(folder.path());
  std::ofstream(folder / "empty.tar") << std::string(10240, '\0');
  const auto path = (folder / "shards/train-*.tar").string(), empty = (folder / "empty.tar").string();
  ImageShardsDataModule data({.path = {path}, .predict_path = {empty}});
  data.setup(levin::Stage::kTrain);
  CHECK_THROWS_WITH(data.setup(levin::Stage::kPredict), Contains("predict_path: '") && Contains("empty.tar' hold no samples"));
}

TEST_CASE("class names of shards are in the checkpoint") {
  const levin::test::TemporaryFolder folder;
  write_both(folder.path());
  const std::string pattern = (folder / "shards/train-*.tar").string();
  ImageShardsDataModule data = set_up({.path = {pattern}});
  const levin::Value state = data.state_dict();
  fs::remove(folder / "shards/train-classes.txt");
  ImageShardsDataModule later = set_up({.path = {pattern}});
  CHECK(later.facts().class_names.empty());
  later.load_state_dict(state);
  CHECK(later.facts().class_names == std::vector<std::string>{"c0", "c1"});
}
