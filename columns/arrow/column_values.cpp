#include "levin/columns/arrow/column_values.h"

#include <arrow/array.h>
#include <arrow/chunked_array.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>
#include <arrow/util/float16.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>

#include "levin/core/base/format.h"

namespace levin::arrow_files {
namespace {

using arrow::Type;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_list_type(Type::type id) { return id == Type::LIST || id == Type::LARGE_LIST || id == Type::FIXED_SIZE_LIST; }

bool is_text(Type::type id) { return id == Type::STRING || id == Type::LARGE_STRING || id == Type::STRING_VIEW; }

/// What an extension type or a dictionary stands for.
const arrow::DataType& plain_type(const arrow::DataType& type) {
  if (type.id() == Type::EXTENSION) return plain_type(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  if (type.id() == Type::DICTIONARY) return plain_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
  return type;
}

bool is_number(Type::type id) {
  switch (id) {
    case Type::INTERVAL_MONTHS:
    case Type::INTERVAL_DAY_TIME:
    case Type::INTERVAL_MONTH_DAY_NANO:
      return false;
    default:
      return id == Type::NA || arrow::is_primitive(id) || arrow::is_decimal(id);
  }
}

/// Of a fraction of a second, how many are one.
long double per_second(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return 1.0L;
    case arrow::TimeUnit::MILLI:
      return 1e3L;
    case arrow::TimeUnit::MICRO:
      return 1e6L;
    case arrow::TimeUnit::NANO:
      return 1e9L;
  }
  return 1.0L;
}

/// Some values of a column, as ColumnData has them.
struct Values {
  std::vector<double> numbers = {};
  std::vector<std::int64_t> missing = {};
  std::optional<std::vector<std::int64_t>> shape = std::vector<std::int64_t>();

  void add(double number) { numbers.push_back(number); }
  void add_missing() {
    missing.push_back(static_cast<std::int64_t>(numbers.size()));
    numbers.push_back(kNaN);
  }
};

class Converter {
 public:
  Converter(const ColumnReading& reading, std::int64_t first_row, std::int64_t most_bytes)
      : reading_(reading), first_row_(first_row), most_bytes_(most_bytes) {}

  Values numbers_of(const arrow::Array& array) const {
    check_size(array.length());
    switch (array.type_id()) {
      case Type::EXTENSION:
        return numbers_of(*static_cast<const arrow::ExtensionArray&>(array).storage());
      case Type::DICTIONARY:
        return numbers_of_dictionary(static_cast<const arrow::DictionaryArray&>(array));
      case Type::LIST:
        return numbers_of_lists(static_cast<const arrow::ListArray&>(array));
      case Type::LARGE_LIST:
        return numbers_of_lists(static_cast<const arrow::LargeListArray&>(array));
      case Type::FIXED_SIZE_LIST:
        return numbers_of_lists(static_cast<const arrow::FixedSizeListArray&>(array));
      default:
        return plain_numbers_of(array);
    }
  }

  /// Called for each value, with nullptr for a missing one.
  using Add = std::function<void(const std::string*)>;
  void texts_of(const arrow::Array& array, const Add& add) const {
    switch (array.type_id()) {
      case Type::EXTENSION:
        return texts_of(*static_cast<const arrow::ExtensionArray&>(array).storage(), add);
      case Type::DICTIONARY:
        return texts_of_dictionary(static_cast<const arrow::DictionaryArray&>(array), add);
      case Type::STRING:
        return each<arrow::StringArray>(array, add);
      case Type::LARGE_STRING:
        return each<arrow::LargeStringArray>(array, add);
      case Type::STRING_VIEW:
        return each<arrow::StringViewArray>(array, add);
      case Type::INT64:
        return each<arrow::Int64Array>(array, add);
      case Type::UINT64:
        return each<arrow::UInt64Array>(array, add);
      case Type::BOOL:
        return each<arrow::BooleanArray>(array, add);
      default:
        return texts_of_numbers(plain_numbers_of(array), add);
    }
  }

 private:
  void check_size(std::int64_t numbers) const {
    if (numbers < 0 || numbers > most_bytes_ / static_cast<std::int64_t>(sizeof(double)))
      throw std::runtime_error(levin::format("its {} values take more memory than there is", numbers));
  }
  [[noreturn]] void fail(std::int64_t row, const std::string& what) const {
    throw std::invalid_argument(levin::format("row {} (from 0): {}", first_row_ + row, what));
  }

  // Numbers.

  template <class ArrayType, class Number>
  Values convert(const arrow::Array& array, const Number& number) const {
    const auto& values = static_cast<const ArrayType&>(array);
    Values converted;
    converted.numbers.reserve(static_cast<std::size_t>(array.length()));
    for (std::int64_t row = 0; row < array.length(); ++row) {
      if (array.IsNull(row)) {
        converted.add_missing();
      } else {
        converted.add(number(values, row));
      }
    }
    return converted;
  }
  template <class ArrayType>
  Values convert(const arrow::Array& array) const {
    return convert<ArrayType>(array, [](const ArrayType& values, std::int64_t row) { return double(values.Value(row)); });
  }
  /// Integers of 64 bits, not all of which are floats.
  template <class ArrayType>
  Values convert_exactly(const arrow::Array& array) const {
    return convert<ArrayType>(array, [this](const ArrayType& values, std::int64_t row) {
      const auto whole = values.Value(row);
      const auto number = static_cast<double>(whole);
      if (static_cast<long double>(whole) != static_cast<long double>(number)) {
        fail(row, levin::format("{} is no 64-bit float, which holds whole numbers up to 9007199254740992: leave the column out "
                                "with ignore_columns, or read it as categories with code_columns",
                                whole));
      }
      return number;
    });
  }
  template <class ArrayType, class Decimal>
  Values convert_decimal(const arrow::Array& array) const {
    const int scale = static_cast<const arrow::DecimalType&>(*array.type()).scale();
    return convert<ArrayType>(
        array, [scale](const ArrayType& values, std::int64_t row) { return Decimal(values.GetValue(row)).ToDouble(scale); });
  }
  /// `per_second`: how many of its units a second has.
  template <class ArrayType>
  Values convert_time(const arrow::Array& array, long double per_second) const {
    const long double per_unit = per_second * (reading_.times_in_days ? 86400.0L : 1.0L);
    return convert<ArrayType>(array, [per_unit](const ArrayType& values, std::int64_t row) {
      return static_cast<double>(static_cast<long double>(values.Value(row)) / per_unit);
    });
  }
  template <class ArrayType, class TypeOfArray>
  Values convert_time_in_unit(const arrow::Array& array) const {
    return convert_time<ArrayType>(array, per_second(static_cast<const TypeOfArray&>(*array.type()).unit()));
  }

  Values plain_numbers_of(const arrow::Array& array) const {
    switch (array.type_id()) {
      case Type::NA:
        return convert<arrow::NullArray>(array, [](const arrow::NullArray&, std::int64_t) { return kNaN; });
      case Type::BOOL:
        return convert<arrow::BooleanArray>(array);
      case Type::INT8:
        return convert<arrow::Int8Array>(array);
      case Type::INT16:
        return convert<arrow::Int16Array>(array);
      case Type::INT32:
        return convert<arrow::Int32Array>(array);
      case Type::UINT8:
        return convert<arrow::UInt8Array>(array);
      case Type::UINT16:
        return convert<arrow::UInt16Array>(array);
      case Type::UINT32:
        return convert<arrow::UInt32Array>(array);
      case Type::INT64:
        return convert_exactly<arrow::Int64Array>(array);
      case Type::UINT64:
        return convert_exactly<arrow::UInt64Array>(array);
      case Type::HALF_FLOAT:
        return convert<arrow::HalfFloatArray>(array, [](const arrow::HalfFloatArray& values, std::int64_t row) {
          return arrow::util::Float16::FromBits(values.Value(row)).ToDouble();
        });
      case Type::FLOAT:
        return convert<arrow::FloatArray>(array);
      case Type::DOUBLE:
        return convert<arrow::DoubleArray>(array);
      case Type::DECIMAL32:
        return convert_decimal<arrow::Decimal32Array, arrow::Decimal32>(array);
      case Type::DECIMAL64:
        return convert_decimal<arrow::Decimal64Array, arrow::Decimal64>(array);
      case Type::DECIMAL128:
        return convert_decimal<arrow::Decimal128Array, arrow::Decimal128>(array);
      case Type::DECIMAL256:
        return convert_decimal<arrow::Decimal256Array, arrow::Decimal256>(array);
      default:
        return times_of(array);
    }
  }

  Values times_of(const arrow::Array& array) const {
    switch (array.type_id()) {
      case Type::DATE32:
        return convert_time<arrow::Date32Array>(array, 1.0L / 86400.0L);
      case Type::DATE64:
        return convert_time<arrow::Date64Array>(array, 1e3L);
      case Type::TIMESTAMP:
        return convert_time_in_unit<arrow::TimestampArray, arrow::TimestampType>(array);
      case Type::TIME32:
        return convert_time_in_unit<arrow::Time32Array, arrow::Time32Type>(array);
      case Type::TIME64:
        return convert_time_in_unit<arrow::Time64Array, arrow::Time64Type>(array);
      case Type::DURATION:
        return convert_time_in_unit<arrow::DurationArray, arrow::DurationType>(array);
      default:
        throw std::invalid_argument(levin::format("its type {} has no numbers", array.type()->ToString()));
    }
  }

  Values numbers_of_dictionary(const arrow::DictionaryArray& array) const {
    const Values words = numbers_of(*array.dictionary());
    Values values;
    for (std::int64_t row = 0; row < array.length(); ++row) {
      const auto word = array.IsNull(row) ? -1 : array.GetValueIndex(row);
      if (word < 0 || array.dictionary()->IsNull(word)) {
        values.add_missing();
      } else {
        values.add(words.numbers[static_cast<std::size_t>(word)]);
      }
    }
    return values;
  }

  // Lists.

  /// Lists, or arrays of a fixed length, all of which have to be equally long.
  template <class Lists>
  Values numbers_of_lists(const Lists& lists) const {
    const std::int64_t rows = lists.length();
    const std::int64_t begin = lists.value_offset(0), end = lists.value_offset(rows);
    const Values elements = numbers_of(*lists.values()->Slice(begin, end - begin));
    Values values;
    const std::optional<std::int64_t> length = common_length(lists);
    if (!length || !elements.shape) {
      values.shape.reset();
      return values;
    }
    std::int64_t inner = 1;
    for (const std::int64_t size : *elements.shape) inner *= size;
    values.shape->assign(1, *length);
    values.shape->insert(values.shape->end(), elements.shape->begin(), elements.shape->end());
    std::int64_t numbers = 0;
    if (__builtin_mul_overflow(rows, *length * inner, &numbers)) numbers = -1;
    check_size(numbers);
    auto missing = elements.missing.begin();
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t first = (lists.value_offset(row) - begin) * inner;
      for (std::int64_t place = first; place < first + *length * inner; ++place) {
        missing = std::lower_bound(missing, elements.missing.end(), place);
        if (lists.IsNull(row) || (missing != elements.missing.end() && *missing == place)) {
          values.add_missing();
        } else {
          values.add(elements.numbers[static_cast<std::size_t>(place)]);
        }
      }
    }
    return values;
  }

  /// Unset where there is no list.
  template <class Lists>
  std::optional<std::int64_t> common_length(const Lists& lists) const {
    std::optional<std::int64_t> length;
    if (lists.type_id() == Type::FIXED_SIZE_LIST)
      length = static_cast<const arrow::FixedSizeListType&>(*lists.type()).list_size();
    for (std::int64_t row = 0; row < lists.length(); ++row) {
      if (lists.IsNull(row)) continue;
      const std::int64_t here = lists.value_length(row);
      if (length && *length != here) {
        fail(row, levin::format("a list of {} numbers, and the first has {}: lists of one length become features; leave the "
                                "column out with ignore_columns",
                                here, *length));
      }
      length = here;
    }
    return length;
  }

  // Texts.

  template <class ArrayType>
  void each(const arrow::Array& array, const Add& add) const {
    const auto& values = static_cast<const ArrayType&>(array);
    for (std::int64_t row = 0; row < array.length(); ++row) {
      if (array.IsNull(row)) {
        add(nullptr);
        continue;
      }
      if constexpr (std::is_same_v<ArrayType, arrow::BooleanArray>) {
        const std::string text = values.Value(row) ? "true" : "false";
        add(&text);
      } else if constexpr (std::is_base_of_v<arrow::NumericArray<typename ArrayType::TypeClass>, ArrayType>) {
        const std::string text = levin::format("{}", values.Value(row));
        add(&text);
      } else {
        const std::string text(values.GetView(row));
        add(&text);
      }
    }
  }

  void texts_of_dictionary(const arrow::DictionaryArray& array, const Add& add) const {
    std::vector<std::optional<std::string>> words;
    texts_of(*array.dictionary(),
             [&](const std::string* text) { words.push_back(text == nullptr ? std::nullopt : std::optional(*text)); });
    for (std::int64_t row = 0; row < array.length(); ++row) {
      const auto* const word = array.IsNull(row) ? nullptr : &words[static_cast<std::size_t>(array.GetValueIndex(row))];
      add(word == nullptr || !word->has_value() ? nullptr : &**word);
    }
  }

  static void texts_of_numbers(const Values& values, const Add& add) {
    auto missing = values.missing.begin();
    for (std::size_t place = 0; place < values.numbers.size(); ++place) {
      if (missing != values.missing.end() && *missing == static_cast<std::int64_t>(place)) {
        ++missing;
        add(nullptr);
        continue;
      }
      const double number = values.numbers[place];
      constexpr double kMostWritten = 1e15;  // without an exponent
      std::array<char, 32> buffer;
      const bool is_whole = std::trunc(number) == number && std::abs(number) < kMostWritten;
      const auto end = is_whole ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<std::int64_t>(number))
                                : std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
      const std::string text(buffer.data(), end.ptr);
      add(&text);
    }
  }

  const ColumnReading& reading_;
  std::int64_t first_row_;
  std::int64_t most_bytes_;
};

void append_missing_lists(ColumnData& all, std::int64_t rows) {
  std::int64_t numbers = rows;
  for (const std::int64_t size : *all.shape) numbers *= size;
  for (; numbers > 0; --numbers) {
    all.missing.push_back(static_cast<std::int64_t>(all.numbers.size()));
    all.numbers.push_back(kNaN);
  }
}

/// Takes the numbers of a chunk. One of missing lists alone waits until another says how long they are.
void append(ColumnData& all, std::int64_t& waiting, const Values& chunk, std::int64_t rows) {
  if (!chunk.shape) {
    all.shape ? append_missing_lists(all, rows) : void(waiting += rows);
    return;
  }
  if (all.shape && *all.shape != *chunk.shape)
    throw std::invalid_argument("its lists differ in length: leave the column out with ignore_columns");
  all.shape = chunk.shape;
  append_missing_lists(all, std::exchange(waiting, 0));
  const auto begin = static_cast<std::int64_t>(all.numbers.size());
  for (const std::int64_t place : chunk.missing) all.missing.push_back(begin + place);
  all.numbers.insert(all.numbers.end(), chunk.numbers.begin(), chunk.numbers.end());
}

}  // namespace

ColumnInfo info_of(const arrow::DataType& type) {
  ColumnInfo info{.type = type.ToString()};
  const arrow::DataType* element = &plain_type(type);
  while (is_list_type(element->id())) {
    info.is_list = true;
    element = &plain_type(*static_cast<const arrow::BaseListType&>(*element).value_type());
  }
  if (is_number(element->id())) return info;
  info.kind = is_text(element->id()) && !info.is_list ? ColumnKind::kText : ColumnKind::kUnsupported;
  return info;
}

ColumnData values_of(const arrow::ChunkedArray& column, const ColumnReading& reading, std::int64_t first_row,
                     std::int64_t most_bytes) {
  ColumnData all;
  if (info_of(*column.type()).is_list) all.shape.reset();
  std::int64_t waiting = 0;
  std::unordered_map<std::string, double> index_of;
  for (const auto& chunk : column.chunks()) {
    check(chunk->ValidateFull());
    const Converter converter(reading, first_row, most_bytes);
    if (reading.as_text) {
      converter.texts_of(*chunk, [&](const std::string* text) {
        if (text == nullptr) {
          all.missing.push_back(static_cast<std::int64_t>(all.numbers.size()));
          all.numbers.push_back(kNaN);
          return;
        }
        const auto [place, is_new] = index_of.emplace(*text, static_cast<double>(all.texts.size()));
        if (is_new) all.texts.push_back(*text);
        all.numbers.push_back(place->second);
      });
    } else {
      append(all, waiting, converter.numbers_of(*chunk), chunk->length());
    }
    first_row += chunk->length();
  }
  return all;
}

}  // namespace levin::arrow_files
