// A ParquetDataModule whose rows are read as a stream: the rows, and what is learnt from them, are those of a table in memory.
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "columns/column_references.h"
#include "data/tables.h"
#include "levin/columns/parquet_data_module.h"
#include "levin/core/base/format.h"
#include "levin/core/config/options.h"
#include "levin/core/files/column_file.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::Batch;
using levin::ParquetDataModule;
using levin::TableDataOptions;
using levin::test::all;
using levin::test::kColumnFiles;
using levin::test::Messages;
using levin::test::TemporaryFolder;

namespace {

struct ReadStream : ParquetDataModule {
  explicit ReadStream(const TableDataOptions& options) : ParquetDataModule(options) { setup(levin::Stage::kTrain); }
};

TableDataOptions houses() {
  TableDataOptions options{.path = kColumnFiles / "houses_in_groups.parquet", .label_column = "price"};
  options.task = levin::TableTask::kRegression;
  options.code_columns = {"city"};
  options.missing = levin::MissingValues({{"rooms", {.number = 0.0}}, {"city", {.drop = true}}});
  options.standardize = options.standardize_labels = true;
  options.val_fraction = 0.2;
  options.test_fraction = 0.1;
  options.batch_size = 3;
  return options;
}

/// The same, but for memory that holds no two rows.
TableDataOptions streamed(TableDataOptions options) {
  options.max_memory_mb = 1e-5;
  return options;
}

std::multiset<std::vector<float>> rows_of_batch(const Batch& batch) {
  std::multiset<std::vector<float>> rows;
  const at::Tensor features = batch["features"].flatten(1), labels = batch["label"].to(at::kFloat);
  for (std::int64_t row = 0; row < features.size(0); ++row) {
    std::vector<float> values(features[row].const_data_ptr<float>(), features[row].const_data_ptr<float>() + features.size(1));
    values.push_back(labels[row].item<float>());
    for (float& value : values) value = std::round(value * 1e5F) / 1e5F;
    rows.insert(std::move(values));
  }
  return rows;
}

/// A file of one group.
std::filesystem::path write_group(const TemporaryFolder& folder, const std::string& name,
                                  const std::vector<levin::ColumnToWrite>& columns) {
  std::ofstream(folder / name, std::ios::binary) << levin::column_format_of(name)->parquet_of(columns);
  return folder / name;
}

using StreamNumbers = std::vector<double>;
using StreamTexts = std::vector<std::optional<std::string>>;

}  // namespace

TEST_CASE("a stream has the rows of each part, the means, deviations and categories of the table in memory") {
  ReadStream memory(houses());
  const Messages messages;
  ReadStream stream(streamed(houses()));
  CHECK_THAT(messages.text(), Contains("houses_in_groups.parquet: 23 rows in 6 groups") && Contains("are read as a stream"));
  CHECK_THAT(messages.text(), Contains("missing: drop: 1 row of 23 left out"));
  CHECK(stream.train_dataloader()->shuffles());
  CHECK(stream.train_dataloader()->size() == memory.train_dataloader()->size());
  CHECK(rows_of_batch(all(stream.train_dataloader())) == rows_of_batch(all(memory.train_dataloader())));
  CHECK(rows_of_batch(all(stream.val_dataloaders().at(0))) == rows_of_batch(all(memory.val_dataloaders().at(0))));
  CHECK(rows_of_batch(all(stream.test_dataloaders().at(0))) == rows_of_batch(all(memory.test_dataloaders().at(0))));
  CHECK(stream.label_scale().mean == Approx(memory.label_scale().mean).epsilon(1e-12));
  CHECK(stream.label_scale().deviation == Approx(memory.label_scale().deviation).epsilon(1e-12));
  for (const char* name : {"mean", "deviation"}) {
    const auto own = levin::OptionType<std::vector<double>>::read(stream.state_dict().at(name));
    const auto theirs = levin::OptionType<std::vector<double>>::read(memory.state_dict().at(name));
    REQUIRE(own.size() == theirs.size());
    for (std::size_t place = 0; place < own.size(); ++place) CHECK(own[place] == Approx(theirs[place]).epsilon(1e-12));
  }
  REQUIRE(stream.categories().size() == memory.categories().size());
  for (std::size_t place = 0; place < stream.categories().size(); ++place)
    CHECK(stream.categories()[place].texts == memory.categories()[place].texts);
}

TEST_CASE("texts, numbers and labels of several files are sorted over all groups, and columns found by their names") {
  const TemporaryFolder folder;
  write_group(folder, "a.parquet", {{"x", StreamNumbers{}}, {"c", StreamNumbers{}}, {"y", StreamTexts{}}});
  write_group(folder, "b.parquet",
              {{"x", StreamNumbers{1, 2, 3}}, {"c", StreamNumbers{10, 9, 10}}, {"y", StreamTexts{"v", "u", "v"}}});
  write_group(folder, "c.parquet", {{"y", StreamTexts{"t", "v"}}, {"c", StreamNumbers{100, 9}}, {"x", StreamNumbers{4, 5}}});
  TableDataOptions options{.path = folder / "*.parquet", .label_column = "y"};
  options.one_hot_columns = {"c"};
  options.val_fraction = options.test_fraction = 0;
  options.shuffle = false;
  options.batch_size = 2;
  ReadStream memory(options);
  options.max_memory_mb = 1e-5;
  options.num_workers = GENERATE(0, 2);
  ReadStream stream(options);
  CHECK(stream.classes() == std::vector<std::string>{"t", "u", "v"});
  CHECK(stream.categories().at(0).texts == std::vector<std::string>{"9", "10", "100"});
  CHECK(stream.facts().classes == 3);
  const Batch own = all(stream.train_dataloader()), theirs = all(memory.train_dataloader());
  CHECK(own["features"].equal(theirs["features"]));
  CHECK(own["label"].equal(theirs["label"]));
  options.label_column = "x";
  options.map_labels = true;
  options.ignore_columns = {"y"};
  ReadStream mapped(options);
  CHECK(mapped.classes() == std::vector<std::string>{"1", "2", "3", "4", "5"});
  CHECK(all(mapped.train_dataloader())["label"].equal(torch::arange(5)));
}

TEST_CASE("files of their own for validation and prediction are streams too, and may lack what predictions do not need") {
  const TemporaryFolder folder;
  const auto train = write_group(
      folder, "t.parquet", {{"c", StreamTexts{"u", "v", "u"}}, {"x", StreamNumbers{1, 2, 3}}, {"y", StreamNumbers{0, 1, 0}}});
  TableDataOptions options{
      .path = train,
      .val_path = {train},
      .predict_path = write_group(folder, "p.parquet", {{"x", StreamNumbers{8, 9}}, {"c", StreamTexts{"u", "v"}}})};
  options.task = levin::TableTask::kRegression;
  options.test_fraction = 0;
  options.max_memory_mb = 1e-5;
  ReadStream data(options);
  CHECK(
      all(data.val_dataloaders().at(0))["features"].equal(torch::tensor({{1.F, 0.F, 1.F}, {0.F, 1.F, 2.F}, {1.F, 0.F, 3.F}})));
  CHECK(levin::test::predicted(data)["features"].equal(torch::tensor({{1.F, 0.F, 8.F}, {0.F, 1.F, 9.F}})));
  options.val_path = {
      write_group(folder, "w.parquet", {{"x", StreamNumbers{5}}, {"c", StreamTexts{"w"}}, {"y", StreamNumbers{1}}})};
  ReadStream unknown(options);
  CHECK_THROWS_WITH(all(unknown.val_dataloaders().at(0)), Contains("w.parquet, row 0 (from 0): 'w' in column 'c'"));
}

TEST_CASE("a stream leaves values that are not finite out of means and deviations, and tells them") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();
  const TemporaryFolder folder;
  write_group(folder, "a.parquet", {{"x", StreamNumbers{kNan, kNan}}, {"z", StreamNumbers{2, 4}}, {"y", StreamNumbers{0, 1}}});
  write_group(folder, "b.parquet",
              {{"x", StreamNumbers{1, kInfinite, 3}}, {"z", StreamNumbers{1, 2, kNan}}, {"y", StreamNumbers{0, 1, 0}}});
  write_group(folder, "c.parquet", {{"x", StreamNumbers{5, kNan}}, {"z", StreamNumbers{9, 7}}, {"y", StreamNumbers{1e39, 1}}});
  write_group(folder, "p0.parquet", {{"x", StreamNumbers{1, 1}}, {"z", StreamNumbers{1, 1}}});
  write_group(folder, "p1.parquet", {{"x", StreamNumbers{1, -1e39}}, {"z", StreamNumbers{1, 1}}});
  write_group(folder, "p2.parquet", {{"x", StreamNumbers{1, 1e39}}, {"z", StreamNumbers{1, 1}}});
  TableDataOptions options{.path = folder / "?.parquet", .predict_path = folder / "p*.parquet"};
  options.task = levin::TableTask::kRegression;
  options.val_fraction = options.test_fraction = 0;
  options.standardize = true;
  options.shuffle = false;
  const ReadStream memory(options);
  options.max_memory_mb = 1e-5;
  std::optional<ReadStream> stream;
  const std::string warned = levin::test::warned_by([&] { stream.emplace(options); });
  CHECK_THAT(warned, Contains("4 values are NaN, the first in") && Contains("a.parquet, row 0 (from 0), column 'x'"));
  CHECK_THAT(warned, Contains("1 value is infinite, the first in") && Contains("b.parquet, row 1 (from 0), column 'x'"));
  CHECK_THAT(warned, Contains("1 value is too large for 32-bit floats") && Contains("c.parquet, row 0 (from 0), column 'y'"));
  using List = levin::OptionType<std::vector<double>>;
  for (const auto& [name, x, z] : {std::tuple("mean", 3.0, 25.0 / 6), std::tuple("deviation", std::sqrt(8.0 / 3), 2.9107081)}) {
    for (const auto& state : {stream->state_dict(), memory.state_dict()}) {
      CHECK(List::read(state.at(name)).at(0) == Approx(x).epsilon(1e-7));
      CHECK(List::read(state.at(name)).at(1) == Approx(z).epsilon(1e-7));
    }
  }
  // Files to predict are read while they are predicted, and told once.
  const std::vector<std::string> predicted = levin::test::warnings_of([&] {
    const levin::LoaderPtr loader = stream->predict_dataloaders().at(0);
    loader->start_epoch(0);
    while (loader->next()) continue;
  });
  REQUIRE(predicted.size() == 1);
  CHECK_THAT(predicted[0], Contains("rows 2 to 3: 1 value is too large for 32-bit floats") && Contains("p1.parquet, row 1"));
}

TEST_CASE("a group of rows that needs more than max_memory_mb is told once") {
  TableDataOptions options = houses();
  const auto warned_with = [&](double most_mb) {
    options.max_memory_mb = most_mb;
    return levin::test::warned_by([&] { ReadStream data(options); });
  };
  const std::string expected = "its largest group of rows needs ";
  const std::string warned = warned_with(1e-5);
  CHECK_THAT(warned, Contains(expected) && Contains("max_memory_mb, which is 1e-05") && Contains("row_group_size"));
  CHECK(warned.find(expected) == warned.rfind(expected));
  CHECK_THAT(warned_with(5e-4), !Contains(expected));
}

TEST_CASE("what `missing` names has to be a column of a stream too") {
  TableDataOptions options = houses();
  if (GENERATE(false, true)) options = streamed(options);
  options.missing.columns["roms"].number = 0.0;
  CHECK_THROWS_WITH(ReadStream(options), Contains("missing: ") && Contains("has no column 'roms'; it has 0 to"));
}

TEST_CASE("what cannot be a stream is an error that says what to do") {
  const auto error = [](TableDataOptions options) -> std::string {
    try {
      levin::TableDataModule data(options);
      data.setup(levin::Stage::kTrain);
      data.train_dataloader();
    } catch (const levin::ConfigError& failed) {
      return failed.what();
    }
    return "no error";
  };
  TableDataOptions options = streamed(houses());
  options.sampler = {"RandomSampler"};
  CHECK_THAT(error(options), Contains("sampler: ") && Contains("use shuffle"));
  options = streamed(houses());
  options.path = kColumnFiles / "houses.feather";
  CHECK_THAT(error(options), Contains("only Parquet files are read as a stream"));
  const TemporaryFolder folder;
  options.path = levin::test::write(folder, "t.csv", "x,price\n1,2\n3,4\n");
  CHECK_THAT(error(options), Contains("pyarrow.dataset") && Contains("t', format='parquet'"));
  options.max_memory_mb = 1;
  options.missing = {};
  options.code_columns = {};
  CHECK(error(options) == "no error");
}
