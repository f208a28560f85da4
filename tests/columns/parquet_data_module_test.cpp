#include "levin/columns/parquet_data_module.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "columns/column_references.h"
#include "data/tables.h"
#include "levin/core/files/column_file.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::Batch;
using levin::MissingValues;
using levin::ParquetDataModule;
using levin::Stage;
using levin::TableDataOptions;
using levin::test::all;
using levin::test::column_references;
using levin::test::kColumnFiles;
using levin::test::Messages;
using levin::test::TemporaryFolder;

namespace {

struct ReadParquet : ParquetDataModule {
  explicit ReadParquet(const TableDataOptions& options) : ParquetDataModule(options) { setup(Stage::kTrain); }
};

/// All rows in the file's order, in one batch, of a regression of the last column.
TableDataOptions whole(const std::filesystem::path& path) {
  return {.path = path,
          .task = levin::TableTask::kRegression,
          .val_fraction = 0,
          .test_fraction = 0,
          .batch_size = 1000,
          .shuffle = false};
}

std::string error_of_parquet(const TableDataOptions& options) {
  try {
    ReadParquet data(options);
    all(data.train_dataloader());
  } catch (const levin::Error& error) {
    return error.what();
  }
  return "no error";
}

at::Tensor reference(const std::string& key) { return column_references().tensors.at(key); }

/// Writes a Parquet file.
std::filesystem::path write_columns(const TemporaryFolder& folder, const std::string& name,
                                    const std::vector<levin::ColumnToWrite>& columns) {
  const std::filesystem::path path = folder / name;
  std::ofstream(path, std::ios::binary) << levin::column_format_of(path)->parquet_of(columns);
  return path;
}

using Numbers = std::vector<double>;
using Texts = std::vector<std::optional<std::string>>;

}  // namespace

TEST_CASE("a pandas frame is features and a label: numbers, truth values, times, lists, and categories without a word") {
  TableDataOptions options = whole(kColumnFiles / GENERATE("houses.parquet", "houses.feather"));
  options.missing = -1.0;
  options.time_unit = levin::TableTimeUnit::kDays;
  const std::string file = options.path.front().filename().string();
  const Messages messages;
  ReadParquet data(options);
  const Batch batch = all(data.train_dataloader());
  CHECK_THAT(messages.text(), Contains("'__index_level_0__' is the index that pandas wrote"));
  const at::Tensor features = batch["features"];
  // area, rooms, garden, city (3 and missing), heating (2), sold, embedding (3)
  REQUIRE(features.sizes().vec() == std::vector<std::int64_t>{23, 1 + 1 + 1 + 4 + 2 + 1 + 3});
  const auto column = [&](std::int64_t number) { return features.select(1, number); };
  CHECK(column(0).equal(reference(file + "/0").to(at::kFloat)));
  CHECK(column(1).equal(reference(file + "/1").nan_to_num(-1).to(at::kFloat)));
  CHECK(column(2).equal(reference(file + "/2").to(at::kFloat)));
  CHECK(data.categories().at(0).column == "city");
  CHECK(data.categories().at(0).texts == std::vector<std::string>{"", "Bonn", "Oslo", "Rome"});
  CHECK(data.categories().at(0).one_hot);
  CHECK(column(3).nonzero().equal(torch::tensor({{9}})));
  CHECK(column(6)[0].item<float>() == 1);
  CHECK(data.categories().at(1).texts == std::vector<std::string>{"gas", "oil"});
  CHECK(column(9).equal((reference(file + "/5") / 86400).to(at::kFloat)));
  CHECK(features.narrow(1, 10, 3).equal(reference(file + "/6").to(at::kFloat)));
  CHECK(batch["label"].equal(reference(file + "/7").to(at::kFloat)));
}

TEST_CASE("missing values are errors with their place, become a number, or leave their rows out, by column if need be") {
  TableDataOptions options = whole(kColumnFiles / "houses.parquet");
  CHECK_THAT(error_of_parquet(options),
             Contains("houses.parquet: a value is missing in column 'rooms', the first in row 4 (from 0)"));
  options.missing = MissingValues({{"rooms", {.number = 0.0}}});
  CHECK_THAT(error_of_parquet(options), Contains("column 'city', the first in row 9"));
  options.missing = MissingValues({{"rooms", {.number = 7.0}}, {"city", {.drop = true}}});
  const Batch partly = all(ReadParquet(options).train_dataloader());
  CHECK(partly.batch_size() == 22);
  CHECK(partly["features"][4][1].item<float>() == 7);
  options.missing = MissingValues::dropped();
  const Batch dropped = all(ReadParquet(options).train_dataloader());
  CHECK(dropped.batch_size() == 21);
  const at::Tensor kept = torch::tensor({0, 1, 2, 3, 5, 6, 7, 8, 10});
  CHECK(dropped["label"].narrow(0, 0, 9).equal(reference("houses.parquet/7").index_select(0, kept).to(at::kFloat)));
  options.predict_path = options.path.front();
  CHECK_THAT(error_of_parquet(options), Contains("predict_path") && Contains("a prediction is made of each row"));
}

TEST_CASE("labels of texts are classes, and a missing one is an error but for rows that are left out") {
  const TemporaryFolder folder;
  TableDataOptions options =
      whole(write_columns(folder, "t.parquet", {{"x", Numbers{1, 2, 3}}, {"y", Texts{"b", std::nullopt, "a"}}}));
  options.task = levin::TableTask::kClassification;
  options.missing = 0.0;
  CHECK_THAT(error_of_parquet(options), Contains("column 'y', the first in row 1") && Contains("missing: drop"));
  TableDataOptions numbers = whole(write_columns(folder, "n.parquet", {{"x", Numbers{1, 2}}, {"y", Numbers{0, std::nan("")}}}));
  numbers.task = GENERATE(levin::TableTask::kClassification, levin::TableTask::kRegression);
  numbers.missing = 0.0;
  CHECK_THAT(error_of_parquet(numbers), Contains("column 'y', the first in row 1"));
  options.missing = MissingValues::dropped();
  ReadParquet data(options);
  CHECK(data.classes() == std::vector<std::string>{"a", "b"});
  CHECK(all(data.train_dataloader())["label"].equal(torch::tensor({1, 0})));
  options.task = levin::TableTask::kRegression;
  CHECK_THAT(error_of_parquet(options), Contains("column 'y', the label has texts where numbers are needed"));
}

TEST_CASE("other files have the columns in any order, and the categories of the training data") {
  const TemporaryFolder folder;
  TableDataOptions options = whole(
      write_columns(folder, "a.parquet", {{"c", Texts{"u", "v", "u"}}, {"x", Numbers{1, 2, 3}}, {"y", Numbers{0, 1, 0}}}));
  options.val_path = {write_columns(
      folder, "b.parquet", {{"y", Numbers{1, 0}}, {"extra", Texts{"q", "q"}}, {"x", Numbers{5, 6}}, {"c", Texts{"v", "v"}}})};
  options.predict_path = write_columns(folder, "p.feather.parquet", {{"x", Numbers{8}}, {"c", Texts{"u"}}});
  ReadParquet data(options);
  const Batch val = all(data.val_dataloaders().at(0));
  CHECK(val["features"].equal(torch::tensor({{0.F, 1.F, 5.F}, {0.F, 1.F, 6.F}})));
  CHECK(val["label"].equal(torch::tensor({1.F, 0.F})));
  CHECK(levin::test::predicted(data)["features"].equal(torch::tensor({{1.F, 0.F, 8.F}})));
  // A checkpoint's categories count in another run.
  TableDataOptions others = whole(options.val_path.front());
  others.label_column = "y";
  others.ignore_columns = {"extra"};
  ReadParquet loaded(others);
  loaded.load_state_dict(data.state_dict());
  CHECK(all(loaded.train_dataloader())["features"].equal(val["features"]));
  options.val_path = {write_columns(folder, "w.parquet", {{"c", Texts{"w"}}, {"x", Numbers{5}}, {"y", Numbers{1}}})};
  try {
    ReadParquet unknown(options);
    unknown.val_dataloaders();
    FAIL("no error");
  } catch (const levin::ConfigError& error) {
    CHECK_THAT(error.what(), Contains("w.parquet, row 0 (from 0): 'w' in column 'c' is not among the categories"));
  }
}

TEST_CASE("a pattern, a folder and a list of files are one table, in the order of their names") {
  const TemporaryFolder folder;
  write_columns(folder, "part-0.parquet", {{"x", Numbers{}}, {"c", Texts{}}, {"y", Numbers{}}});
  write_columns(folder, "part-1.parquet", {{"x", Numbers{1, 2}}, {"c", Texts{"v", "u"}}, {"y", Numbers{10, 20}}});
  write_columns(folder, "part-2.parquet", {{"y", Numbers{30}}, {"c", Texts{"t"}}, {"x", Numbers{3}}});
  std::ofstream(folder / "_SUCCESS") << "";
  const at::Tensor expected = torch::tensor({{1.F, 0.F, 0.F, 1.F}, {2.F, 0.F, 1.F, 0.F}, {3.F, 1.F, 0.F, 0.F}});
  TableDataOptions options = whole(folder / "part-*.parquet");
  SECTION("a pattern") {}
  SECTION("a folder") { options.path = folder.path(); }
  SECTION("a list") { options.path = {folder / "part-1.parquet", folder / "part-2.parquet"}; }
  const Batch batch = all(ReadParquet(options).train_dataloader());
  CHECK(batch["features"].equal(expected));
  CHECK(batch["label"].equal(torch::tensor({10.F, 20.F, 30.F})));
  write_columns(folder, "part-3.parquet", {{"y", Numbers{30}}, {"x", Numbers{std::nan("")}}, {"d", Texts{"t"}}});
  options.path = folder / "part-*.parquet";
  CHECK_THAT(error_of_parquet(options), Contains("part-3.parquet"));
}

TEST_CASE("folders are columns of the files in them, numbers where all are, as Hive, Spark and pandas write them") {
  const TemporaryFolder folder;
  const auto put = [&](const std::string& part, double x) {
    std::filesystem::create_directories(folder / part);
    write_columns(folder, part + "/a.parquet", {{"x", Numbers{x, x + 1}}, {"y", Numbers{5, 7}}});
  };
  put("t/year=2020/city=Ulm", 1);
  put("t/year=2021/city=Bad%20Urach", 3);
  std::filesystem::create_directories(folder / "t/_temporary");
  TableDataOptions options = whole(folder / "t");
  options.shuffle = false;
  SECTION("of a folder") {}
  SECTION("of a pattern") { options.path = folder / "t/*/*/*.parquet"; }
  if (GENERATE(false, true)) options.max_memory_mb = 1e-5;
  ReadParquet data(options);
  // The columns of the folders are the first: year, city=Bad Urach, city=Ulm, x.
  CHECK(all(data.train_dataloader())["features"].equal(
      torch::tensor({{2020.F, 0.F, 1.F, 1.F}, {2020.F, 0.F, 1.F, 2.F}, {2021.F, 1.F, 0.F, 3.F}, {2021.F, 1.F, 0.F, 4.F}})));
}

TEST_CASE("other files have the columns of folders in their paths, or in themselves") {
  const TemporaryFolder folder;
  for (const char* part : {"t/year=2020", "t/year=__HIVE_DEFAULT_PARTITION__", "new/year=2022", "new/year=x", "loose"}) {
    std::filesystem::create_directories(folder / part);
    write_columns(folder, c10::str(part, "/a.parquet"), {{"x", Numbers{1}}, {"y", Numbers{5}}});
  }
  write_columns(folder, "loose/own.parquet", {{"x", Numbers{1}}, {"year", Numbers{1999}}, {"y", Numbers{5}}});
  TableDataOptions options = whole(folder / "t");
  CHECK_THAT(error_of_parquet(options), Contains("a value is missing in column 'year'"));
  options.missing = -1.0;
  const auto predicted_from = [&](const std::string& path) {
    options.predict_path = folder / path;
    ReadParquet data(options);
    return levin::test::predicted(data)["features"];
  };
  CHECK(predicted_from("t/year=__HIVE_DEFAULT_PARTITION__").equal(torch::tensor({{-1.F, 1.F}})));
  CHECK(predicted_from("new/year=2022").equal(torch::tensor({{2022.F, 1.F}})));
  CHECK(predicted_from("loose/own.parquet").equal(torch::tensor({{1999.F, 1.F}})));
  options.predict_path = folder / "new/year=x";
  CHECK_THAT(error_of_parquet(options), Contains("'year=x' is no number, and those of the training data are"));
  options.predict_path = folder / "loose/a.parquet";
  CHECK_THAT(error_of_parquet(options), Contains("stands in no folder named 'year=…'"));
  std::filesystem::create_directories(folder / "t/month=1");
  write_columns(folder, "t/month=1/a.parquet", {{"x", Numbers{1}}, {"y", Numbers{5}}});
  CHECK_THAT(error_of_parquet(options), Contains("files that are read as one have the same"));
}

TEST_CASE("missing values are counted as far as groups of rows are read") {
  TableDataOptions options = whole(kColumnFiles / "houses_in_groups.parquet");
  CHECK_THAT(error_of_parquet(options), Contains("at least "));
  const TemporaryFolder folder;
  options = whole(write_columns(folder, "t.parquet", {{"x", Numbers{1, 2}}, {"c", Texts{std::nullopt, "a"}}}));
  options.label_column = "x";
  CHECK_THAT(error_of_parquet(options), Contains(": a value is missing in column 'c', the first in row 0"));
}

TEST_CASE("what is wrong with a file of columns is told") {
  const auto error = [](
                         const std::string& file,
                         const std::function<void(TableDataOptions&)>& change = [](TableDataOptions&) {}) {
    TableDataOptions options = whole(kColumnFiles / file);
    change(options);
    return error_of_parquet(options);
  };
  CHECK_THAT(error("no_rows.parquet", [](auto& options) { options.label_column = "int32"; }),
             Contains("there is no data in it"));
  CHECK_THAT(error("types.parquet"),
             Contains("columns 'struct' (struct<a: int64, b: int64>), 'bytes' (binary), 'text_lists' (list<") &&
                 Contains("ignore_columns"));
  CHECK_THAT(error("too_large.parquet"), Contains("'id', row 1 (from 0): 9007199254740993"));
  CHECK_THAT(error("ragged.parquet"), Contains("column 'x', row 1 (from 0): a list of 1"));
  CHECK_THAT(error("houses.parquet", [](auto& options) { options.label_column = "prize"; }),
             Contains("label_column") && Contains("'price'"));
  CHECK_THAT(error("same_names.parquet", [](auto& options) { options.label_column = "x"; }), Contains("several columns 'x'"));
  CHECK_THAT(error("same_names.parquet"), Contains("no error"));
  CHECK_THAT(error("empty_groups.parquet"), Contains("label_column: column 'lists'") && Contains("holds lists"));
  CHECK_THAT(error("../column_references.h"), Contains("ends in none of .parquet"));
}

TEST_CASE("a list is left out as a whole or in part, and groups without rows are nothing") {
  TableDataOptions options = whole(kColumnFiles / "empty_groups.parquet");
  options.label_column = "int32";
  options.missing = 0.5;
  options.ignore_columns = {"lists[0]", "text"};
  options.label_column = "int32";
  TableDataOptions others = options;
  others.missing = MissingValues::dropped();
  const Batch batch = all(ReadParquet(others).train_dataloader());
  CHECK(batch["features"].equal(torch::tensor({{2.5F}, {4.5F}, {8.F}})));
  CHECK(batch["label"].equal(torch::tensor({1.F, 2.F, 4.F})));
  options.ignore_columns = {"lists"};
  options.missing = MissingValues({{"int32", {.drop = true}}, {"text", {.drop = true}}});
  CHECK(all(ReadParquet(options).train_dataloader())["features"].size(0) == 3);
}
