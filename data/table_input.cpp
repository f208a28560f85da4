#include "levin/data/table_input.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::detail {

namespace {

LabelledTable empty_table(const TableEncoder& encoder) {
  if (!encoder.knows_data()) {
    throw MisuseError("TableDataModule knows nothing of its data yet: call setup(), or load_state_dict() of a checkpoint.");
  }
  return {.file = "the batch", .columns = encoder.columns()};
}

/// The number of a text among these, to which it is added where it is new.
std::int64_t number_of(std::vector<std::string>& texts, const std::string& text) {
  const auto found = std::find(texts.begin(), texts.end(), text);
  if (found != texts.end()) return found - texts.begin();
  texts.push_back(text);
  return std::ssize(texts) - 1;
}

std::string text_of(double number) {
  const bool is_whole = std::trunc(number) == number && std::abs(number) < 1e15;
  return is_whole ? format("{}", static_cast<std::int64_t>(number)) : format("{}", number);
}

std::string text_of(const Value& value) {
  if (value.is_string()) return value.as_string();
  return value.is_bool() ? std::string(value.as_bool() ? "true" : "false") : text_of(value.as_double());
}

double number_of(const Value& value, const TableDataOptions& options, const std::string& column, std::size_t record) {
  if (value.is_number()) return value.as_double();
  if (value.is_bool()) return value.as_bool() ? 1.0 : 0.0;
  if (value.is_null() && options.missing.of(column).number) return *options.missing.of(column).number;
  throw MisuseError(format("record {}: {} is {}, and column {} has numbers{}.", record, quoted_text(column, 40),
                           describe(value), quoted_text(column, 40),
                           value.is_null() ? ": set data.missing to the number that stands for a missing one" : ""));
}

/// Puts what stands for missing values for NaN.
void replace_missing(LabelledTable& table, const MissingValues& missing) {
  if (!table.features.is_floating_point()) return;
  const auto replaced = [](const at::Tensor& values, double number) {
    return at::where(at::isnan(values), at::scalar_tensor(number, values.options()), values);
  };
  if (missing.number) table.features = replaced(table.features, *missing.number);
  if (missing.columns.empty()) return;
  table.features = table.features.clone();
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    at::Tensor values = table.features.select(1, static_cast<std::int64_t>(column));
    if (const auto& number = missing.of(table.columns[column]).number) values.copy_(replaced(values, *number));
  }
}

}  // namespace

LabelledTable table_of(const TableEncoder& encoder, const TableDataOptions& options, const at::Tensor& features) {
  LabelledTable table = empty_table(encoder);
  std::vector<std::int64_t> sizes = {features.dim() == 0 ? 0 : features.size(0)};
  sizes.insert(sizes.end(), encoder.read_shape().begin(), encoder.read_shape().end());
  if (features.dim() == 0 || features.numel() != c10::multiply_integers(sizes)) {
    throw MisuseError(format("\"features\" has the shape {}, and a row of the data has {} numbers{}.",
                             c10::str(features.sizes()), c10::multiply_integers(encoder.read_shape()),
                             table.columns.empty() ? "" : ": " + shown_names(table.columns)));
  }
  table.features = features.reshape(sizes);
  replace_missing(table, options.missing);
  for (std::size_t index = 0; index < encoder.categories().size(); ++index) {
    const TableCategories& categories = encoder.categories()[index];
    TextFeature feature{.column = categories.column, .texts = categories.texts, .is_one_hot = categories.one_hot};
    const std::int64_t column = encoder.category_columns()[index];
    if (index == 0) table.features = table.features.clone();
    at::Tensor numbers = table.features.select(1, column);
    for (std::int64_t row = 0; row < numbers.size(0); ++row) {
      const double number = numbers[row].item<double>();
      const bool is_known =
          number >= 0 && number < static_cast<double>(categories.texts.size()) && std::trunc(number) == number;
      // A text that no category has, so that it counts as unknown.
      if (!is_known) numbers[row] = number_of(feature.texts, "number " + text_of(number));
    }
    table.texts.emplace(column, std::move(feature));
  }
  table.features = scaled(table, options);
  return table;
}

LabelledTable table_of(const TableEncoder& encoder, const TableDataOptions& options, const std::vector<Value>& records) {
  LabelledTable table = empty_table(encoder);
  const std::vector<std::string>& names = encoder.columns();
  if (names.empty()) {
    throw MisuseError(
        "The data's columns have no names, or some the same, by which records would be read: pass a batch of \"features\".");
  }
  for (std::size_t index = 0; index < encoder.categories().size(); ++index) {
    const TableCategories& categories = encoder.categories()[index];
    table.texts.emplace(encoder.category_columns()[index],
                        TextFeature{.column = categories.column, .texts = categories.texts, .is_one_hot = categories.one_hot});
  }
  table.features = at::empty({std::ssize(records), std::ssize(names)}, at::kDouble);
  auto* number = table.features.mutable_data_ptr<double>();
  for (std::size_t record = 0; record < records.size(); ++record) {
    for (std::size_t column = 0; column < names.size(); ++column, ++number) {
      const Value* const value = records[record].find(names[column]);
      if (value == nullptr) {
        throw MisuseError(format("record {} has no {}; the columns of the data are {}.", record, quoted_text(names[column], 40),
                                 quoted_list(names)));
      }
      const auto feature = table.texts.find(static_cast<std::int64_t>(column));
      *number = feature == table.texts.end() ? number_of(*value, options, names[column], record)
                                             : static_cast<double>(number_of(feature->second.texts, text_of(*value)));
    }
  }
  table.features = scaled(table, options);
  return table;
}

}  // namespace levin::detail
