// A Parquet, Arrow or Feather file: its columns as numbers and as texts.
#include <cmath>
#include <span>
#include <stdexcept>

#include "fuzz/fuzz.h"
#include "levin/columns/arrow/arrow_files.h"

namespace {

void check_column(levin::ColumnFile& file, std::int64_t group, std::size_t column, const levin::ColumnReading& reading) {
  levin::ColumnData data;
  try {
    data = file.read(group, column, reading);
  } catch (const std::runtime_error&) {
    return;  // other columns may be whole
  } catch (const std::invalid_argument&) {
    return;
  }
  std::size_t expected = data.shape ? static_cast<std::size_t>(file.rows(group)) : 0;
  for (const std::int64_t size : data.shape.value_or(std::vector<std::int64_t>())) expected *= static_cast<std::size_t>(size);
  FUZZ_CHECK(data.numbers.size() == expected, std::to_string(data.numbers.size()));
  std::int64_t last = -1;
  for (const std::int64_t place : data.missing) {
    FUZZ_CHECK(place > last && std::isnan(data.numbers.at(static_cast<std::size_t>(place))), std::to_string(place));
    last = place;
  }
  if (!reading.as_text) return;
  for (const double number : data.numbers)
    FUZZ_CHECK(std::isnan(number) || number < static_cast<double>(data.texts.size()), std::to_string(number));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<std::runtime_error>(data, size, [](std::string_view input) {
    constexpr std::int64_t kMostBytes = 1 << 28, kMostGroups = 8;
    const auto file = levin_arrow_files()->open_memory(std::as_bytes(std::span(input)), kMostBytes);
    for (std::int64_t group = 0; group < std::min(file->row_groups(), kMostGroups); ++group) {
      for (std::size_t column = 0; column < file->columns().size(); ++column) {
        const levin::ColumnInfo& info = file->columns()[column];
        if (info.kind == levin::ColumnKind::kUnsupported) continue;
        if (info.kind == levin::ColumnKind::kNumber) check_column(*file, group, column, {.times_in_days = group % 2 == 1});
        if (!info.is_list) check_column(*file, group, column, {.as_text = true});
      }
    }
  });
}
