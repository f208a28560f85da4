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
#include "levin/data/csv_text.h"

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

/// A column of a record, for messages.
struct RecordField {
  const Value& value;
  const std::string& column;
  std::size_t record;

  [[noreturn]] void fail(std::string_view why) const {
    throw MisuseError(format("record {}: {} is {}{}", record, quoted_text(column, 40), describe(value), why));
  }
};

/// As a file has it: an empty field, NA, NaN.
bool stands_for_missing(const Value& value) {
  if (value.is_string()) return is_missing_category(trim_field(value.as_string()));
  return value.is_null() || (value.is_number() && std::isnan(value.as_double()));
}

/// Whether a file's text is this number or truth value: 1.0 is 1, and True is true.
bool is_text_of(const std::string& text, const Value& value, char decimal) {
  const auto number = value.is_bool() ? parse_csv_value(text, decimal) : parse_csv_number(text, decimal);
  return number && *number == (value.is_bool() ? static_cast<double>(value.as_bool()) : value.as_double());
}

/// The number of a category among texts, as a file with the record's row would give it.
std::int64_t category_of(std::vector<std::string>& texts, const RecordField& field, const TableDataOptions& options) {
  const Value& value = field.value;
  if (stands_for_missing(value)) {
    if (options.missing.of(field.column).number) return number_of(texts, "");
    field.fail(", which is a missing value: set data.missing, and it is one more category");
  }
  if (value.is_string()) {
    const std::string& text = value.as_string();
    const bool is_known = std::find(texts.begin(), texts.end(), text) != texts.end();
    return number_of(texts, is_known ? text : std::string(trim_field(text)));
  }
  if (!value.is_number() && !value.is_bool()) field.fail(", and the column has categories: a text, a number or a truth value");
  const auto found = std::find_if(texts.begin(), texts.end(),
                                  [&](const auto& text) { return is_text_of(text, value, options.decimal.front()); });
  if (found != texts.end()) return found - texts.begin();
  return number_of(texts, value.is_bool() ? std::string(value.as_bool() ? "true" : "false") : text_of(value.as_double()));
}

double number_of(const RecordField& field, const TableDataOptions& options) {
  const Value& value = field.value;
  const auto& missing = options.missing.of(field.column).number;
  if (value.is_number()) return std::isnan(value.as_double()) && missing ? *missing : value.as_double();
  if (value.is_bool()) return value.as_bool() ? 1.0 : 0.0;
  if (value.is_null() && missing) return *missing;
  field.fail(format(", and the column has numbers{}",
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
      const RecordField field{*value, names[column], record};
      *number = feature == table.texts.end() ? number_of(field, options)
                                             : static_cast<double>(category_of(feature->second.texts, field, options));
    }
  }
  table.features = scaled(table, options);
  return table;
}

}  // namespace levin::detail
