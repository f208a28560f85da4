#include "levin/data/labelled_table.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <set>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::detail {
namespace {

at::Tensor label_tensor(const LabelledTable& table, const at::Tensor& labels, TableTask task) {
  if (task == TableTask::kRegression) return labels.to(at::kDouble);
  const at::Tensor whole = labels.to(at::kLong);
  const at::Tensor wrong = labels.ne(whole).nonzero();
  if (wrong.numel() == 0) return whole;
  const std::int64_t row = wrong[0][0].item<std::int64_t>();
  throw ConfigError(format("{}: the label {} is not a whole number: choose another label_column, or task: regression",
                           table.place_of(row), labels.select(0, row).flatten()[0].item<double>()));
}

/// Labels that are whole numbers, by their ranks among those that occur.
void map_labels(LabelledTable& table) {
  std::vector<std::int64_t> numbers(table.labels.const_data_ptr<std::int64_t>(),
                                    table.labels.const_data_ptr<std::int64_t>() + table.labels.numel());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (const std::int64_t number : numbers) table.classes.push_back(format("{}", number));
  table.are_classes_numbers = true;
  auto* const labels = table.labels.mutable_data_ptr<std::int64_t>();
  std::transform(labels, labels + table.labels.numel(), labels,
                 [&](std::int64_t label) { return std::lower_bound(numbers.begin(), numbers.end(), label) - numbers.begin(); });
}

}  // namespace

void take_labels(LabelledTable& table, const at::Tensor& labels, const TableDataOptions& options) {
  table.labels = label_tensor(table, labels.contiguous(), options.task);
  if (options.map_labels && table.classes.empty()) map_labels(table);
}

bool has_more_than_32_bits(const at::Tensor& values) {
  return values.scalar_type() == at::kDouble || values.scalar_type() == at::kLong || values.scalar_type() == at::kInt;
}

at::Tensor scaled(const LabelledTable& table, const TableDataOptions& options) {
  const at::Tensor& read = table.features;
  const bool keeps_bits = has_more_than_32_bits(read) && (options.standardize || !table.texts.empty());
  const at::Tensor features = read.to(keeps_bits ? at::kDouble : at::kFloat);
  if (options.scale == 1.0) return features;
  if (table.texts.empty()) return features * options.scale;
  at::Tensor scale = at::ones({features.size(1)}, features.options());
  for (std::int64_t column = 0; column < features.size(1); ++column)
    if (!table.texts.contains(column)) scale[column] = options.scale;
  return features * scale;
}

std::string place_in_file(const std::string& file, const CsvTable& table, std::int64_t row) {
  const auto next = std::ranges::upper_bound(table.file_starts, row, {}, [](const auto& start) { return start.first; });
  if (next != table.file_starts.begin())
    return format("{}, row {} (from 0)", std::prev(next)->second, row - std::prev(next)->first);
  const std::int64_t line = table.line_of(row);
  return line > 0 ? format("{}:{}", file, line) : format("{}, row {} (from 0)", file, row);
}

std::int64_t row_as_read(const at::Tensor& rows, std::int64_t row) {
  return rows.defined() ? rows[row].item<std::int64_t>() : row;
}

CsvTable LabelledTable::places() const {
  CsvTable places;
  places.line_starts = line_starts;
  places.file_starts = file_starts;
  places.rows = rows;
  return places;
}

std::string LabelledTable::place_of(std::int64_t row) const { return place_in_file(file, places(), row_as_read(rows, row)); }

LabelledTable rows_of(const LabelledTable& table, const at::Tensor& rows) {
  LabelledTable taken = table;
  taken.rows = table.rows.defined() ? table.rows.index_select(0, rows) : rows;
  taken.features = table.features.index_select(0, rows);
  taken.labels = table.labels.index_select(0, rows);
  return taken;
}

CsvTable selected(CsvTable table, const at::Tensor& rows) {
  table.rows = rows;
  table.values = table.values.index_select(0, rows);
  return table;
}

std::string shown_names(std::vector<std::string> names) {
  constexpr std::size_t kMostShown = 20;
  const std::size_t count = names.size();
  names.resize(std::min(count, kMostShown));
  return quoted_list(names) + (count > kMostShown ? format(" and {} more", count - kMostShown) : "");
}

bool are_distinct_names(const std::vector<std::string>& names) {
  const std::set<std::string> distinct(names.begin(), names.end());
  return !names.empty() && distinct.size() == names.size() && !distinct.contains("");
}

LabelledTable with_features(const LabelledTable& table, const std::vector<std::string>& names) {
  std::map<std::string, std::int64_t> place_of;
  for (const std::string& name : table.columns) place_of.emplace(name, std::ssize(place_of));
  LabelledTable taken = table;
  taken.columns = names;
  taken.texts.clear();
  std::vector<std::int64_t> places;
  for (const std::string& name : names) {
    const std::int64_t place = place_of.at(name);
    if (const auto texts = table.texts.find(place); texts != table.texts.end())
      taken.texts.emplace(std::ssize(places), texts->second);
    places.push_back(place);
  }
  taken.features = table.features.index_select(1, at::tensor(places, at::kLong));
  return taken;
}

}  // namespace levin::detail
