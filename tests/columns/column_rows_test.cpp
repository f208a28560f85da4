// Rows of Parquet files as a stream: the values of whole columns, by groups that are read when they are needed.
#include "levin/data/column_rows.h"

#include <torch/types.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "columns/column_references.h"
#include "levin/core/base/error.h"
#include "levin/core/files/column_file.h"
#include "levin/data/stream.h"

using Catch::Matchers::Contains;
using levin::ColumnRow;
using levin::test::kColumnFiles;

namespace {

std::string path_of(const std::string& name) { return (kColumnFiles / name).string(); }

template <class T>
std::vector<T> all_of(const levin::Pipeline<T>& pipeline, const levin::StreamEpoch& epoch = {}) {
  std::vector<T> all;
  auto reader = pipeline.read(epoch);
  while (auto element = reader.next()) all.push_back(std::move(*element));
  return all;
}

}  // namespace

TEST_CASE("rows hold the values of their columns, whatever groups the file has") {
  // Three groups of 3, 3 and 1 rows.
  const auto rows = all_of(levin::from_rows(path_of("types.parquet")));
  REQUIRE(rows.size() == 7);
  const auto file = levin::column_format_of("types.parquet")->open(kColumnFiles / "types.parquet");
  std::size_t compared = 0;
  for (std::size_t column = 0; column < file->columns().size(); ++column) {
    const levin::ColumnInfo& info = file->columns()[column];
    if (info.kind == levin::ColumnKind::kUnsupported) continue;
    std::int64_t before = 0;
    for (std::int64_t group = 0; group < file->row_groups(); ++group) {
      const levin::ColumnData data = file->read(group, column, {.as_text = info.kind == levin::ColumnKind::kText});
      for (std::int64_t row = 0; row < file->rows(group); ++row) {
        const ColumnRow& own = rows[static_cast<std::size_t>(before + row)];
        if (!data.shape) continue;
        std::int64_t count = 1;
        for (const std::int64_t side : *data.shape) count *= side;
        const double value = count == 0 ? 0.0 : data.numbers[static_cast<std::size_t>(row * count)];
        INFO(info.name << " " << before + row);
        if (info.kind == levin::ColumnKind::kText) {
          CHECK(own.is_missing(info.name) == std::isnan(value));
          CHECK(own.text(info.name) == (std::isnan(value) ? "" : data.texts[static_cast<std::size_t>(value)]));
        } else if (data.shape->empty()) {
          CHECK((own.number(info.name) == value || (std::isnan(value) && std::isnan(own.number(info.name)))));
          CHECK(own.is_missing(info.name) == (std::ranges::find(data.missing, row) != data.missing.end()));
        } else {
          CHECK(own.tensor(info.name).sizes() == torch::IntArrayRef(*data.shape));
          if (!std::isnan(value)) CHECK(own.tensor(info.name).flatten()[0].item<double>() == Approx(value));
        }
        ++compared;
      }
      before += file->rows(group);
    }
  }
  CHECK(compared > 150);
}

TEST_CASE("rows are shuffled by groups and a window, divided over ranks, and passed over") {
  const auto groups = levin::from_row_groups(path_of("types.parquet"), {.columns = {"int64", "text"}});
  const auto rows = groups.shuffle().flat_map(levin::rows_of, {.at_once = 2}).shuffle(3);
  const auto number = [](const ColumnRow& row) { return row.is_missing("int64") ? -1.0 : row.number("int64"); };
  auto shuffled = all_of(rows.map(number), {.epoch = 1});
  auto in_order = all_of(groups.flat_map(levin::rows_of).map(number));
  CHECK(shuffled != in_order);
  CHECK(all_of(rows.map(number), {.epoch = 1}) == shuffled);
  auto reader = groups.flat_map(levin::rows_of).map(number).read();
  CHECK(reader.skip(5) == 5);
  CHECK(reader.next() == in_order[5]);
  std::ranges::sort(shuffled);
  std::ranges::sort(in_order);
  CHECK(shuffled == in_order);

  const auto sample = [&](const ColumnRow& row) -> levin::Batch { return {{"number", torch::tensor(number(row))}}; };
  levin::Stream stream = levin::stream(rows.map(sample).batch(2), {.num_workers = 2});
  stream.set_shard({.rank = 1, .world_size = 2});
  stream.start_epoch(0);
  CHECK(stream.next()->batch_size() == 2);
  CHECK(stream.next()->batch_size() == 1);
  CHECK_FALSE(stream.next());
}

TEST_CASE("what a row or a file lacks is told") {
  const auto rows = all_of(levin::from_rows(path_of("houses.parquet"), {.text_columns = {"rooms"}}));
  REQUIRE(rows.size() == 23);
  CHECK(rows[1].text("city") == "Bonn");
  CHECK(rows[2].text("rooms") == "2");
  CHECK(torch::equal(rows[1].tensor("embedding"), torch::tensor({1.0F, 0.5F, -1.0F})));
  CHECK(rows[1].tensor("price").item<float>() == 43942);
  CHECK_THROWS_WITH(rows[0].number("city"), Contains("'city' holds texts: ask for text()"));
  CHECK_THROWS_WITH(rows[0].number("embedding"), Contains("holds lists: ask for tensor()"));
  CHECK_THROWS_WITH(rows[0].text("price"), Contains("holds numbers"));
  CHECK_THROWS_WITH(rows[0].number("prize"), Contains("no column 'prize'"));
  CHECK_THROWS_WITH(all_of(levin::from_rows(path_of("houses.parquet"), {.columns = {"prize"}})),
                    Contains("did you mean 'price'"));
  CHECK_THROWS_WITH(all_of(levin::from_rows(path_of("stored.npz"))), Contains("names of such files end in .parquet"));
}
