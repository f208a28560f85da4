#include "levin/data/table_warnings.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/column_file.h"

namespace levin::detail {
namespace {

/// Whether 32-bit floats distinguish the values of a column. Columns without a deviation have nothing to distinguish.
bool is_coarse_in_32_bits(const at::Tensor& column) {
  constexpr double kHalfStep = 1.0 / (1 << 24);  // of a 32-bit float, relative to it
  constexpr double kMostOfDeviation = 0.01;
  const double deviation = column.std(/*unbiased=*/false).item<double>();
  return deviation > 0 && column.abs().max().item<double>() * kHalfStep > kMostOfDeviation * deviation;
}

bool are_different_whole_numbers(const at::Tensor& column) {
  const at::Tensor values = std::get<0>(column.to(at::kDouble).sort());
  const std::int64_t rows = values.size(0);
  return values.floor().equal(values) && values.narrow(0, 1, rows - 1).gt(values.narrow(0, 0, rows - 1)).all().item<bool>();
}

/// "id", "PassengerId", "customer_id", "rownames"
bool is_name_of_row_numbers(const std::string& name) {
  const std::string lower = lowercase(name);
  for (const char* known : {"id", "index", "idx", "row", "rownames", "row_names", "rowid", "row_number", "unnamed: 0"})
    if (lower == known) return true;
  for (const char* end : {"_id", " id", ".id", "-id"})
    if (lower.ends_with(end)) return true;
  const std::size_t before = name.size() - 3;  // "aId", "aID"
  return name.size() > 2 && lower.ends_with("id") && name[before + 1] == 'I' &&
         std::islower(static_cast<unsigned char>(name[before])) != 0;
}

}  // namespace

void WrongValues::add(const CsvTable& table, const std::string& file) {
  if (!table.values.is_floating_point()) return;
  const auto count = [&](Kind& kind, const at::Tensor& found) {
    if (!found.any().item<bool>()) return;
    if (kind.values == 0) {
      const at::Tensor first = found.nonzero()[0];
      kind.first = place_in_file(file, table, row_as_read(table.rows, first[0].item<std::int64_t>()));
      if (first.numel() == 2) {
        const auto place = static_cast<std::size_t>(first[1].item<std::int64_t>());
        kind.first += table.columns.empty()
                          ? format(", column {}", table.places.empty() ? static_cast<std::int64_t>(place) : table.places[place])
                          : format(", column {}", quoted_text(table.columns[place], 40));
      }
    }
    kind.values += static_cast<std::size_t>(found.sum().item<std::int64_t>());
  };
  count(nan_, at::isnan(table.values));
  const at::Tensor in_batches = at::isinf(table.values.to(at::kFloat));
  if (!in_batches.any().item<bool>()) return;
  const at::Tensor as_read = at::isinf(table.values);
  count(infinite_, as_read);
  count(too_large_, in_batches.logical_and(as_read.logical_not()));
}

void WrongValues::report(const std::string& file) const {
  const auto warn = [&](const Kind& kind, const char* what, const char* cure) {
    if (kind.values == 0) return;
    rank_zero_warn(format("{}: {} {} {}, the first in {}. {}", file, counted(kind.values, "value"),
                          kind.values == 1 ? "is" : "are", what, kind.first, cure));
  };
  warn(nan_, "NaN", "A loss of them is NaN: set `missing` to the number that stands for them, or leave them out.");
  warn(infinite_, "infinite", "No loss can be computed of them: leave them out, or correct them.");
  warn(too_large_, "too large for 32-bit floats",
       "In batches they are infinite unless standardize makes them smaller: leave them out, or correct them.");
}

void warn_of_lost_bits(const LabelledTable& table, const TableDataOptions& options) {
  const auto warn = [&](const std::string& what, const char* option) {
    rank_zero_warn(
        format("{}: {}: their differences are as small as the steps of 32-bit floats at that size, in which batches have "
               "them. {}: true takes their mean off in 64 bits before",
               table.file, what, option));
  };
  if (options.task == TableTask::kRegression && !options.standardize_labels && is_coarse_in_32_bits(table.labels))
    warn("its labels are large", "standardize_labels");
  if (options.standardize || !has_more_than_32_bits(table.features) || table.features.dim() != 2) return;
  const at::Tensor values = table.features.to(at::kDouble);
  for (std::int64_t column = 0; column < values.size(1); ++column) {
    if (table.texts.contains(column) || !is_coarse_in_32_bits(values.select(1, column))) continue;
    const auto place = static_cast<std::size_t>(column);
    warn(format("the values of feature {} are large",
                table.columns.empty() ? format("{}", column) : quoted_text(table.columns[place], 40)),
         "standardize");
    return;
  }
}

void warn_of_row_numbers(const LabelledTable& table, bool has_first_column) {
  constexpr std::int64_t kFewest = 10;
  const std::int64_t rows = table.features.size(0);
  if (table.is_array || rows < kFewest) return;
  std::vector<std::string> names;
  for (std::int64_t column = 0; column < table.features.size(1); ++column) {
    const std::string name = table.columns.empty() ? "" : table.columns[static_cast<std::size_t>(column)];
    const bool has_name = is_name_of_row_numbers(name);
    const bool is_first = column == 0 && has_first_column && name.empty();
    if (table.texts.contains(column) || (!has_name && !is_first)) continue;
    const at::Tensor values = table.features.select(1, column);
    const at::Tensor from_0 = values - values[0];
    const bool counts = values[0].item<double>() <= 1 && from_0.equal(at::arange(rows, values.options()));
    if (has_name ? are_different_whole_numbers(values) : counts) names.push_back(name.empty() ? "0" : quoted_text(name, 40));
  }
  if (names.empty()) return;
  rank_zero_warn(format(
      "{}: {} another whole number in each row, as one that counts the rows or names them, and is taken for a feature: "
      "leave it out with ignore_columns: [{}] unless it is data",
      table.file, names.size() == 1 ? format("column {} has", names[0]) : format("columns {} have", join(names)), join(names)));
}

void warn_of_leaks(const LabelledTable& table, TableTask task) {
  constexpr std::int64_t kFewest = 10;
  const std::int64_t rows = table.labels.numel();
  if (table.is_array || rows < kFewest || table.features.dim() != 2) return;
  const at::Tensor labels = table.labels.to(at::kDouble).contiguous();
  const std::span<const double> label(labels.const_data_ptr<double>(), static_cast<std::size_t>(rows));
  const auto determines_label = [&](const at::Tensor& column) {
    const at::Tensor values = column.to(at::kDouble).contiguous();
    std::map<double, double> label_of, value_of;
    for (std::size_t row = 0; row < label.size(); ++row) {
      const double value = values.const_data_ptr<double>()[row];
      if (task == TableTask::kRegression && value != label[row]) return false;
      if (label_of.emplace(value, label[row]).first->second != label[row]) return false;
      if (value_of.emplace(label[row], value).first->second != value) return false;
    }
    return label_of.size() > 1 && (task == TableTask::kRegression || 2 * std::ssize(label_of) <= rows);
  };
  std::vector<std::string> names;
  for (std::int64_t column = 0; column < table.features.size(1); ++column) {
    if (!determines_label(table.features.select(1, column))) continue;
    names.push_back(table.columns.empty() ? format("feature {}", column)
                                          : quoted_text(table.columns[static_cast<std::size_t>(column)], 40));
  }
  if (names.empty()) return;
  rank_zero_warn(
      format("{}: {} the label of every row: leave {} out with ignore_columns unless it is known where predictions are made",
             table.file, names.size() == 1 ? format("{} determines", names[0]) : format("{} determine", join(names)),
             names.size() == 1 ? "it" : "them"));
}

void warn_of_rare_classes(const LabelledTable& table, TableTask task) {
  constexpr std::int64_t kFewest = 20;
  const std::int64_t rows = table.labels.numel();
  if (task != TableTask::kClassification || rows < kFewest) return;
  const auto* const first = table.labels.const_data_ptr<std::int64_t>();
  const std::set<std::int64_t> different(first, first + rows);
  if (2 * std::ssize(different) <= rows) return;
  rank_zero_warn(format("{}: its {} rows have {} different labels{}: set label_column to the column to predict{}", table.file,
                        rows, different.size(),
                        table.label_column.empty() ? "" : format(" in column {}", quoted_text(table.label_column, 40)),
                        table.classes.empty() ? ", or task: regression" : ""));
}

}  // namespace levin::detail
