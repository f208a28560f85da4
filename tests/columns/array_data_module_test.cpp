#include "levin/columns/array_data_module.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <numeric>
#include <string_view>

#include "columns/column_references.h"
#include "levin/columns/array_file.h"
#include "levin/core/base/error.h"
#include "levin/data/npz_file.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::ArrayDataModule;
using levin::ArrayDataOptions;
using levin::ArrayDataset;
using levin::Batch;
using levin::detail::open_array_file;
using levin::test::column_references;
using levin::test::kColumnFiles;
using levin::test::same_values;

namespace {

std::string error_of_arrays(const ArrayDataOptions& options) {
  try {
    ArrayDataModule data(options);
    data.setup(levin::Stage::kTrain);
  } catch (const levin::Error& error) {
    return error.what();
  }
  return "no error";
}

at::Tensor reference_array(const std::string& key) { return column_references().tensors.at(key).clone(); }

}  // namespace

TEST_CASE("arrays of every type are those that h5py and NumPy read, in any order of rows") {
  const std::vector<std::int64_t> rows = {10, 0, 3, 3, 4, 9, 1};
  std::size_t compared = 0;
  for (const std::string file : {"arrays.h5", "stored.npz", "compressed.npz", "folder", "arrays.safetensors"}) {
    const auto opened = open_array_file(kColumnFiles / file);
    for (std::size_t number = 0; number < opened->arrays().size(); ++number) {
      const auto& array = opened->arrays()[number];
      const std::string name = array.name.starts_with('/') ? array.name.substr(1) : array.name;
      INFO(file << "/" << name);
      const auto expected = column_references().tensors.find(c10::str(file, "/", name));
      if (expected == column_references().tensors.end()) continue;
      CHECK(array.shape == expected->second.sizes().vec());
      CHECK(same_values(opened->read(number, rows), expected->second.index_select(0, torch::tensor(rows))));
      ++compared;
    }
  }
  CHECK(compared == 11 + 11 + 11 + 4 + 2);
}

TEST_CASE("an HDF5 file has arrays under each name, groups that contain themselves once, and only numbers") {
  std::vector<std::string> names;
  const auto file = open_array_file(kColumnFiles / "arrays.h5");
  for (const auto& array : file->arrays()) names.push_back(array.name);
  CHECK(std::count(names.begin(), names.end(), "/number") == 1);
  CHECK(std::count(names.begin(), names.end(), "/again") == 1);
  CHECK(names.size() == 13);
}

TEST_CASE("a dataset has arrays by their names in batches, and several files one behind the other") {
  const auto h5 = kColumnFiles / "arrays.h5";
  const ArrayDataset dataset({h5, h5},
                             {.arrays = {{"features", "/run/x"}, {"label", "run/y"}, {"other", "/run/small"}}, .scale = 2});
  REQUIRE(dataset.size() == 22);
  const Batch batch = dataset.get_batch(std::vector<std::int64_t>{21, 0, 11});
  const at::Tensor expected = reference_array("arrays.h5/run/x").to(at::kFloat) * 2;
  CHECK(batch["features"].equal(torch::stack({expected[10], expected[0], expected[0]})));
  CHECK(batch["label"].equal(torch::tensor({2, 0, 0})));
  CHECK(batch["label"].scalar_type() == at::kLong);
  CHECK(batch["other"].scalar_type() == at::kHalf);
  CHECK(dataset.fingerprint() ==
        ArrayDataset({h5, h5}, {.arrays = {{"features", "/run/x"}, {"label", "run/y"}, {"other", "/run/small"}}, .scale = 2})
            .fingerprint());
}

TEST_CASE("a data module divides the rows, knows shape and classes, and predicts from files without labels") {
  const levin::test::TemporaryFolder folder;
  ArrayDataOptions options{.train_path = kColumnFiles / "stored.npz",
                           .predict_path = kColumnFiles / "arrays.safetensors",
                           .features = "x",
                           .label = "y",
                           .val_fraction = 0.3,
                           .test_fraction = 0.2,
                           .batch_size = 100};
  ArrayDataModule data(options);
  data.setup(levin::Stage::kTrain);
  CHECK(data.facts().features == std::vector<std::int64_t>{2, 3});
  CHECK(data.facts().classes == 4);
  std::int64_t rows = 0;
  for (const levin::LoaderPtr& loader :
       {data.train_dataloader(), data.val_dataloaders().at(0), data.test_dataloaders().at(0)}) {
    loader->start_epoch(0);
    rows += loader->next()->batch_size();
  }
  CHECK(rows == 11);
  const levin::LoaderPtr predicted = data.predict_dataloaders().at(0);
  predicted->start_epoch(0);
  const Batch batch = *predicted->next();
  CHECK_FALSE(batch.contains("label"));
  CHECK(batch["features"].equal(reference_array("stored.npz/x").to(at::kFloat)));
  ArrayDataModule loaded(options);
  loaded.load_state_dict(data.state_dict());
  CHECK(loaded.facts().classes == 4);
}

TEST_CASE("what is wrong with arrays is told") {
  const auto with = [](const std::string& file, const std::string& features, const std::string& label) {
    return error_of_arrays({.train_path = kColumnFiles / file, .features = features, .label = label});
  };
  CHECK_THAT(with("arrays.h5", "/x", ""), Contains("there is no array '/x' in it") && Contains("'/run/x' [11, 2, 3] Double"));
  CHECK_THAT(with("arrays.h5", "/number", ""), Contains("'/number' is a single number"));
  CHECK_THAT(with("arrays.h5", "/records", ""), Contains("'/records' holds records of several fields, and arrays of numbers"));
  CHECK_THAT(with("unreadable.h5", "texts", ""), Contains("'/texts' holds texts") && Contains("it has '/lzf' [50, 4] Double"));
  CHECK_THAT(with("unreadable.h5", "/complex", ""), Contains("'/complex' holds complex numbers"));
  CHECK_THAT(with("unreadable.h5", "/lists", ""), Contains("'/lists' holds lists of different lengths"));
  CHECK_THAT(with("types.parquet", "x", ""), Contains("the name does not say what the file holds"));
  CHECK_THAT(error_of_arrays({.train_path = {kColumnFiles / "arrays.h5", kColumnFiles / "stored.npz"}, .features = "run/x"}),
             Contains("stored.npz: there is no array 'run/x'"));
  const auto file = open_array_file(kColumnFiles / "too_large.h5");
  CHECK_THROWS_WITH(file->read(0, std::vector<std::int64_t>{0}),
                    Contains("too_large.h5") && Contains("'/x' has integers of 2^63"));
  const auto lzf = open_array_file(kColumnFiles / "unreadable.h5");
  CHECK_THROWS_WITH(lzf->read(0, std::vector<std::int64_t>{0}),
                    Contains("'/lzf' was written with the filter 'lzf' (32000)") && Contains("hdf5-plugin-lzf"));
}

TEST_CASE("features of the first rows that are not finite are told") {
  const levin::test::TemporaryFolder folder;
  std::vector<double> values(16);
  values[7] = 1e39;
  values[10] = std::numeric_limits<double>::quiet_NaN();
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (8, 2), }";
  header.resize(117, ' ');
  std::ofstream(folder / "a.npy", std::ios::binary)
      << std::string("\x93NUMPY\x01\0\x76\0", 10) << header << '\n'
      << std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  ArrayDataOptions options{.train_path = folder / "a.npy", .batch_size = 5};
  const auto warned = [&] { return levin::test::warned_by([&] { ArrayDataModule(options).setup(levin::Stage::kTrain); }); };
  CHECK_THAT(warned(), Contains("a.npy: 1 of the first 5 rows have features that are NaN or infinite") &&
                           Contains("the first of them row 3"));
  options.batch_size = 3;
  CHECK(warned().empty());
  options.batch_size = 100;
  CHECK_THAT(warned(), Contains("2 of the first 8 rows"));
}

TEST_CASE("damaged files of arrays are errors with their names") {
  const levin::test::TemporaryFolder folder;
  for (const std::string name : {"arrays.h5", "stored.npz", "compressed.npz"}) {
    const std::string whole = levin::test::read_text(kColumnFiles / name);
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 30) {
      std::ofstream(folder / name, std::ios::binary) << whole.substr(0, size);
      INFO(name << " " << size);
      CHECK_THROWS_WITH(open_array_file(folder / name), Contains(name));
    }
  }
  std::string changed = levin::test::read_text(kColumnFiles / "compressed.npz");
  for (std::size_t place = 100; place < 140; ++place) changed[place] = static_cast<char>(changed[place] ^ 0x55);
  const levin::NpzFile file(changed, "changed.npz");
  CHECK_THROWS_AS(file.read("x"), levin::IoError);
}

TEST_CASE("an array that expands too much is refused") {
  const levin::NpzFile file(kColumnFiles / "zeros.npz");
  CHECK_THROWS_WITH(file.read("x"), Contains("zeros.npz") && Contains("max_expansion"));
  CHECK(levin::NpzFile(kColumnFiles / "zeros.npz", 2000).read("x").numel() == 9000000);
}
