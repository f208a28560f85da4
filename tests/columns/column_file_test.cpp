#include "levin/core/files/column_file.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <set>

#include "columns/column_references.h"
#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::column_format_of;
using levin::ColumnFile;
using levin::ColumnKind;
using levin::Value;
using levin::test::column_references;
using levin::test::kColumnFiles;

namespace {

std::unique_ptr<ColumnFile> opened(const std::string& name) { return column_format_of(name)->open(kColumnFiles / name); }

/// All rows of a column of numbers.
at::Tensor numbers_of(ColumnFile& file, std::size_t column) {
  std::vector<at::Tensor> groups;
  std::int64_t missing_first = 0;
  for (std::int64_t group = 0; group < file.row_groups(); ++group) {
    const levin::ColumnData data = file.read(group, column, {});
    if (!data.shape) {  // missing lists alone
      CHECK(data.numbers.empty());
      missing_first += groups.empty() ? file.rows(group) : 0;
      continue;
    }
    std::vector<std::int64_t> shape = {file.rows(group)};
    shape.insert(shape.end(), data.shape->begin(), data.shape->end());
    groups.push_back(torch::tensor(data.numbers, torch::kDouble).reshape(shape));
    for (const std::int64_t place : data.missing) CHECK(std::isnan(data.numbers.at(static_cast<std::size_t>(place))));
  }
  if (groups.empty()) return torch::empty({0}, torch::kDouble);
  std::vector<std::int64_t> missing = groups.front().sizes().vec();
  missing.front() = missing_first;
  groups.insert(groups.begin(), torch::full(missing, std::nan(""), torch::kDouble));
  return torch::cat(groups);
}

/// All rows of a column of texts; null for a missing one.
Value texts_of(ColumnFile& file, std::size_t column) {
  Value all(Value::List{});
  for (std::int64_t group = 0; group < file.row_groups(); ++group) {
    const levin::ColumnData data = file.read(group, column, {.as_text = true});
    CHECK(std::set(data.texts.begin(), data.texts.end()).size() == data.texts.size());
    for (const double number : data.numbers)
      all.push_back(std::isnan(number) ? Value() : Value(data.texts.at(static_cast<std::size_t>(number))));
  }
  return all;
}

}  // namespace

TEST_CASE("columns of every type, compression and version are those that pyarrow reads") {
  std::size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kColumnFiles)) {
    const std::string name = entry.path().filename().string();
    if (column_format_of(entry.path()) == nullptr) continue;
    const auto file = opened(name);
    for (std::size_t column = 0; column < file->columns().size(); ++column) {
      const std::string key = c10::str(name, "/", column);
      INFO(key << " " << file->columns()[column].name);
      if (const Value* const texts = column_references().texts.find(key)) {
        CHECK(file->columns()[column].kind == ColumnKind::kText);
        CHECK(texts_of(*file, column) == *texts);
        ++compared;
      } else if (const auto expected = column_references().tensors.find(key); expected != column_references().tensors.end()) {
        if (expected->second.size(0) == 0) continue;
        CHECK(levin::test::same_values(numbers_of(*file, column), expected->second));
        ++compared;
      }
    }
  }
  std::size_t with_rows = column_references().texts.size();
  for (const auto& [key, values] : column_references().tensors)
    if (values.size(0) > 0 && column_format_of(key.substr(0, key.find('/'))) != nullptr) ++with_rows;
  CHECK(compared == with_rows);
}

TEST_CASE("a column says what it is") {
  const auto file = opened("types.parquet");
  for (const levin::ColumnInfo& column : file->columns()) {
    INFO(column.name);
    const bool is_unsupported = column.name == "struct" || column.name == "bytes" || column.name == "text_lists";
    CHECK((column.kind == ColumnKind::kUnsupported) == is_unsupported);
    const bool is_list = column.name == "fixed" || column.name == "lists" || column.name == "large_lists" ||
                         column.name.starts_with("nested") || column.name == "text_lists";
    CHECK(column.is_list == is_list);
  }
  CHECK(file->row_groups() == 3);
  CHECK(file->rows(2) == 1);
  const auto houses = opened("houses.feather");
  CHECK(houses->columns().back().is_index);
  CHECK_FALSE(houses->columns().front().is_index);
  CHECK(opened("empty_groups.parquet")->row_groups() >= 4);
}

TEST_CASE("numbers as texts are those that pandas prints") {
  const auto file = opened("types.parquet");
  const auto text_of = [&](const std::string& name) {
    for (std::size_t column = 0; column < file->columns().size(); ++column) {
      if (file->columns()[column].name != name) continue;
      const Value texts = texts_of(*file, column);
      return texts.as_list();
    }
    return Value::List();
  };
  CHECK(text_of("int64")[2] == Value("1152921504606846976"));
  CHECK(text_of("bool")[0] == Value("true"));
  CHECK(text_of("int8")[3] == Value());
  CHECK(text_of("int8")[4] == Value("4"));
  CHECK(text_of("double")[0] == Value("0.1"));
  CHECK(text_of("numbers_dictionary")[2] == Value("5"));
}

TEST_CASE("days are asked for, and are those of seconds") {
  const auto file = opened("types.parquet");
  for (std::size_t column = 0; column < file->columns().size(); ++column) {
    if (file->columns()[column].name != "date32") continue;
    const levin::ColumnData days = file->read(0, column, {.times_in_days = true});
    CHECK(days.numbers[0] == -1);
    CHECK(days.numbers[2] == 19782);
  }
}

TEST_CASE("what does not fit is told with its row") {
  CHECK_THROWS_WITH(opened("too_large.parquet")->read(0, 0, {}),
                    Contains("too_large.parquet: column 'id', row 1 (from 0): 9007199254740993 is no 64-bit float"));
  CHECK_THROWS_WITH(opened("ragged.parquet")->read(0, 0, {}),
                    Contains("row 1 (from 0): a list of 1 numbers, and the first has 2"));
  CHECK_THROWS_AS(opened("ragged.parquet")->read(0, 0, {}), levin::ConfigError);
}

TEST_CASE("damaged files are errors with their names, wherever they end") {
  const levin::test::TemporaryFolder folder;
  for (const std::string name : {"types.parquet", "types.arrow", "stream.arrow"}) {
    const std::string whole = levin::test::read_text(kColumnFiles / name);
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 40) {
      const std::filesystem::path path = folder / name;
      std::ofstream(path, std::ios::binary) << whole.substr(0, size);
      INFO(name << " " << size);
      // A stream may end behind any of its batches.
      try {
        const auto file = column_format_of(path)->open(path);
        CHECK(name == "stream.arrow");
      } catch (const levin::IoError& error) {
        CHECK_THAT(error.what(), Contains(path.string()));
      }
    }
  }
  CHECK_THROWS_WITH(opened("nothing.parquet"), Contains("nothing.parquet"));
}

TEST_CASE("a file may be closed while Arrow's threads end their work on it") {
  for (int time = 0; time < 300; ++time) CHECK(opened("houses.feather")->rows(0) == 23);
}

TEST_CASE("a Parquet file that is written has the columns") {
  const levin::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "written.parquet";
  using Texts = std::vector<std::optional<std::string>>;
  const std::string bytes = column_format_of(path)->parquet_of({{"a", std::vector<double>{0.1, -1e300}},
                                                                {"b", std::vector<float>{0.5F, 2.F}},
                                                                {"c", std::vector<std::int64_t>{1LL << 53, -1}},
                                                                {"d", Texts{"x", std::nullopt}}});
  std::ofstream(path, std::ios::binary) << bytes;
  const auto file = column_format_of(path)->open(path);
  CHECK(file->columns()[1].type == "float");
  CHECK(numbers_of(*file, 0).equal(torch::tensor({0.1, -1e300}, torch::kDouble)));
  CHECK(numbers_of(*file, 2).equal(torch::tensor({9007199254740992.0, -1.0}, torch::kDouble)));
  CHECK(texts_of(*file, 3) == Value(Value::List{Value("x"), Value()}));
}
