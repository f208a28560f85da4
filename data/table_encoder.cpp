#include "levin/data/table_encoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/options.h"
#include "levin/core/console/console.h"

namespace levin::detail {
namespace {

/// Features that one column may become.
constexpr std::size_t kMostOneHot = 1000;
constexpr double kUnknown = -1.0;

std::vector<std::int64_t> whole_numbers(const at::Tensor& column) {
  const at::Tensor whole = column.to(at::kLong).contiguous();
  return {whole.const_data_ptr<std::int64_t>(), whole.const_data_ptr<std::int64_t>() + whole.numel()};
}

Value list_of(const at::Tensor& numbers) {
  const at::Tensor doubles = numbers.to(at::kDouble).contiguous();
  const auto* const first = doubles.const_data_ptr<double>();
  return OptionType<std::vector<double>>::write({first, first + doubles.numel()});
}

/// The numbers of a list, in this shape.
at::Tensor tensor_of(const Value& list, const std::vector<std::int64_t>& shape) {
  const auto numbers = OptionType<std::vector<double>>::read(list);
  const std::int64_t expected = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  if (std::ssize(numbers) != expected) {
    throw ConfigError(
        format("TableDataModule: the checkpoint is of data with {} features, this data has {}", numbers.size(), expected));
  }
  return at::tensor(numbers, at::kDouble).reshape(shape);
}

void check_number_of_features(const std::vector<std::int64_t>& there, const std::vector<std::int64_t>& here) {
  if (there == here) return;
  const auto features = [](const std::vector<std::int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  };
  throw ConfigError(
      format("TableDataModule: the checkpoint is of data with {} features, this data has {}", features(there), features(here)));
}

using Texts = OptionType<std::vector<std::string>>;
using Shape = OptionType<std::vector<std::int64_t>>;

std::vector<std::string> names_in(const Value& state) {
  const Value* const names = state.find("columns");
  return names == nullptr ? std::vector<std::string>() : Texts::read(*names);
}

}  // namespace

void TableEncoder::learn(const TableLearner& learnt) {
  knows_data_ = true;
  classes_ = learnt.classes();
  file_ = learnt.file();
  label_column_ = learnt.label_column();
  if (are_distinct_names(learnt.columns())) columns_ = learnt.columns();
  read_shape_ = learnt.shape();
  for (auto& [column, categories] : learnt.categories()) {
    if (categories.one_hot && categories.texts.size() > kMostOneHot) {
      throw ConfigError(
          format("one_hot_columns: column {} of {} has {} different texts, each of which would be a feature: put it into "
                 "code_columns, or into ignore_columns if it names the rows",
                 quoted_text(categories.column, 40), file_, categories.texts.size()));
    }
    category_columns_.push_back(column);
    categories_.push_back(categories);
  }
  find_shape();
  if (options_.standardize) {
    mean_ = spread(learnt.features().mean(), 0.0);
    deviation_ = spread(learnt.features().deviation(), 1.0);
  }
  if (options_.standardize_labels) label_scale_ = learnt.labels().scale();
}

/// Numbers of columns that are read as those of features; of categories this one.
at::Tensor TableEncoder::spread(const at::Tensor& of_columns, double of_categories) const {
  if (categories_.empty()) return of_columns;
  std::vector<at::Tensor> parts;
  for (std::int64_t column = 0; column < read_shape_[0]; ++column) {
    const TableCategories* const categories = categories_of(column);
    parts.push_back(categories == nullptr ? of_columns.narrow(0, column, 1)
                                          : at::full({width_of(categories)}, of_categories, of_columns.options()));
  }
  return at::cat(parts);
}

const TableCategories* TableEncoder::categories_of(std::int64_t column) const {
  const auto found = std::find(category_columns_.begin(), category_columns_.end(), column);
  return found == category_columns_.end() ? nullptr : &categories_[static_cast<std::size_t>(found - category_columns_.begin())];
}

std::int64_t TableEncoder::width_of(const TableCategories* categories) {
  return categories != nullptr && categories->one_hot ? std::ssize(categories->texts) : 1;
}

void TableEncoder::find_shape() {
  shape_ = read_shape_;
  for (const TableCategories& categories : categories_) shape_[0] += width_of(&categories) - 1;
}

Value TableEncoder::state_dict() const {
  Value state;
  if (!classes_.empty()) state["classes"] = Texts::write(classes_);
  if (!read_shape_.empty()) state["shape"] = Shape::write(read_shape_);
  if (!columns_.empty()) state["columns"] = Texts::write(columns_);
  for (std::size_t index = 0; index < categories_.size(); ++index) {
    const TableCategories& categories = categories_[index];
    Value saved;
    saved["column"] = categories.column;
    saved["one_hot"] = categories.one_hot;
    saved["texts"] = Texts::write(categories.texts);
    saved["place"] = category_columns_[index];
    state["categories"].push_back(std::move(saved));
  }
  if (options_.standardize && mean_.defined()) {
    state["mean"] = list_of(mean_);
    state["deviation"] = list_of(deviation_);
  }
  if (options_.standardize_labels && !read_shape_.empty()) {
    state["label_mean"] = label_scale_.mean;
    state["label_deviation"] = label_scale_.deviation;
  }
  return state;
}

void TableEncoder::load_state_dict(const Value& state) {
  if (const Value* texts = state.find("classes")) classes_ = Texts::read(*texts);
  if (knows_data_) {
    load_categories(state.find("categories"));
    if (const Value* shape = state.find("shape")) load_columns(names_in(state), Shape::read(*shape));
  } else {
    take_columns(state);
  }
  find_shape();
  if (const Value* mean = state.find("mean"); mean != nullptr && options_.standardize) {
    mean_ = tensor_of(*mean, shape_);
    deviation_ = tensor_of(state.at("deviation"), shape_);
  }
  if (const Value* mean = state.find("label_mean"); mean != nullptr && options_.standardize_labels)
    label_scale_ = {mean->as_double(), state.at("label_deviation").as_double()};
}

/// Of a checkpoint alone, without files.
void TableEncoder::take_columns(const Value& state) {
  const Value* const shape = state.find("shape");
  if (shape == nullptr) return;
  knows_data_ = true;
  read_shape_ = Shape::read(*shape);
  columns_ = names_in(state);
  const Value* const saved = state.find("categories");
  if (saved == nullptr) return;
  for (const Value& each : saved->as_list()) {
    const std::string& column = each.at("column").as_string();
    const Value* const place = each.find("place");
    const auto named = std::find(columns_.begin(), columns_.end(), column);
    if (place == nullptr && named == columns_.end()) {
      throw ConfigError(
          format("TableDataModule: the checkpoint does not say where its column {} is: an earlier levin wrote it. Train again, "
                 "or name the columns in the first line of the file.",
                 quoted_text(column, 40)));
    }
    const Value* const one_hot = each.find("one_hot");
    categories_.push_back(
        {.column = column, .texts = Texts::read(each.at("texts")), .one_hot = one_hot != nullptr && one_hot->as_bool()});
    category_columns_.push_back(place != nullptr ? place->as_int() : named - columns_.begin());
    if (category_columns_.back() < 0 || category_columns_.back() >= (read_shape_.empty() ? 0 : read_shape_[0])) {
      throw ConfigError(format("TableDataModule: the checkpoint says that its column {} is at {}, which no row has.",
                               quoted_text(column, 40), category_columns_.back()));
    }
  }
}

std::vector<std::string> TableEncoder::preparations() const {
  std::vector<std::string> all;
  if (options_.scale != 1.0) all.push_back(format("scale: features are multiplied by {}", options_.scale));
  std::vector<std::string> names;
  for (const TableCategories& categories : categories_) names.push_back(categories.column);
  if (!names.empty()) all.push_back(format("categories of {} become numbers", quoted_list(names)));
  if (options_.standardize) all.emplace_back("standardize: features have mean 0 and deviation 1");
  if (options_.standardize_labels) all.emplace_back("standardize_labels: labels have mean 0 and deviation 1");
  return all;
}

void TableEncoder::load_columns(const std::vector<std::string>& names, const std::vector<std::int64_t>& shape) {
  if (names == columns_ || names.empty() || columns_.empty()) return check_number_of_features(shape, read_shape_);
  const std::set<std::string> here(columns_.begin(), columns_.end()), there(names.begin(), names.end());
  std::vector<std::string> missing, others;
  std::set_difference(there.begin(), there.end(), here.begin(), here.end(), std::back_inserter(missing));
  std::set_difference(here.begin(), here.end(), there.begin(), there.end(), std::back_inserter(others));
  if (!missing.empty()) {
    throw ConfigError(format("{} lacks {} of the data that the checkpoint was trained on: {}{}", file_,
                             counted(missing.size(), "column"), shown_names(missing),
                             there.contains(label_column_)
                                 ? format(". {} is its label here: set label_column", quoted_text(label_column_, 40))
                                 : ""));
  }
  if (!others.empty()) {
    rank_zero_info(format("{}: left out, since the data of the checkpoint lacks them: {}", file_, shown_names(others)));
  }
  columns_ = names;
  read_shape_ = shape;
  for (std::size_t index = 0; index < categories_.size(); ++index)
    category_columns_[index] = std::find(names.begin(), names.end(), categories_[index].column) - names.begin();
}

void TableEncoder::load_categories(const Value* saved) {
  std::set<std::string> names, expected;
  for (const TableCategories& categories : categories_) expected.insert(categories.column);
  if (saved != nullptr)
    for (const Value& categories : saved->as_list()) names.insert(categories.at("column").as_string());
  if (names != expected) {
    const auto columns_text = [](const std::set<std::string>& columns) {
      return columns.empty() ? "none" : quoted_list({columns.begin(), columns.end()});
    };
    throw ConfigError(
        format("TableDataModule: the checkpoint has categories of the columns {}, and one_hot_columns and code_columns "
               "name {}",
               columns_text(names), columns_text(expected)));
  }
  if (saved == nullptr) return;
  // In the order of the training data's columns.
  const std::vector<TableCategories> here = std::exchange(categories_, {});
  const std::vector<std::int64_t> columns_here = std::exchange(category_columns_, {});
  for (const Value& categories : saved->as_list()) {
    const std::string column = categories.at("column").as_string();
    const auto same = std::find_if(here.begin(), here.end(), [&](const auto& other) { return other.column == column; });
    const Value* const one_hot = categories.find("one_hot");
    categories_.push_back({.column = column,
                           .texts = Texts::read(categories.at("texts")),
                           .one_hot = one_hot == nullptr ? same->one_hot : one_hot->as_bool()});
    category_columns_.push_back(columns_here[static_cast<std::size_t>(same - here.begin())]);
  }
}

/// The code of each text of a column, which may be another file's.
std::vector<double> TableEncoder::codes_of(const TextFeature& feature, const TableCategories& categories) const {
  std::vector<double> codes;
  for (const std::string& text : feature.texts) {
    const auto found = std::find(categories.texts.begin(), categories.texts.end(), text);
    codes.push_back(found == categories.texts.end() ? kUnknown : static_cast<double>(found - categories.texts.begin()));
  }
  return codes;
}

/// A column of texts as a feature or several, of the type that the others have.
at::Tensor TableEncoder::columns_of(const LabelledTable& table, std::int64_t column, const TableCategories& categories) const {
  const TextFeature& feature = table.texts.at(column);
  const std::vector<double> codes = codes_of(feature, categories);
  const std::vector<std::int64_t> texts = whole_numbers(table.features.select(1, column));
  std::vector<double> code_of_row;
  code_of_row.reserve(texts.size());
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const double code = codes[static_cast<std::size_t>(texts[row])];
    if (code == kUnknown && options_.unknown_categories == UnknownCategories::kError) {
      throw ConfigError(format(
          "{}: {} in column {} is not among the categories of the training data, {}: leave the row out, or set "
          "unknown_categories to other",
          table.place_of(static_cast<std::int64_t>(row)), quoted_text(feature.texts[static_cast<std::size_t>(texts[row])], 40),
          quoted_text(categories.column, 40), quoted_list(categories.texts)));
    }
    code_of_row.push_back(code);
  }
  const at::TensorOptions type = table.features.options();
  const at::Tensor code = at::tensor(code_of_row, type).unsqueeze(1);
  if (!categories.one_hot)
    return at::where(code.lt(0), at::full_like(code, static_cast<double>(categories.texts.size())), code);
  return code.eq(at::arange(std::ssize(categories.texts), type)).to(type.dtype());
}

at::Tensor TableEncoder::encoded(const LabelledTable& read) const {
  const bool is_in_order = columns_.empty() || read.columns.empty() || read.columns == columns_;
  const LabelledTable table = is_in_order ? read : with_features(read, columns_);
  if (categories_.empty()) return table.features;
  std::vector<at::Tensor> columns;
  std::int64_t begin = 0;
  const auto take_numbers = [&](std::int64_t end) {
    if (end > begin) columns.push_back(table.features.narrow(1, begin, end - begin));
    begin = end + 1;
  };
  for (std::size_t index = 0; index < categories_.size(); ++index) {
    const std::int64_t column = category_columns_[index];
    take_numbers(column);
    columns.push_back(columns_of(table, column, categories_[index]));
  }
  take_numbers(read_shape_[0]);
  return at::cat(columns, 1);
}

at::Tensor TableEncoder::finished(const at::Tensor& encoded) const {
  at::Tensor features = standardized(encoded);
  if (options_.shape.empty()) return features;
  std::vector<std::int64_t> shape{features.size(0)};
  shape.insert(shape.end(), options_.shape.begin(), options_.shape.end());
  return features.reshape(shape);
}

at::Tensor TableEncoder::standardized(const at::Tensor& encoded) const {
  if (!options_.standardize) return encoded.to(at::kFloat);
  const at::Tensor mean = mean_.to(encoded.scalar_type()), deviation = deviation_.to(encoded.scalar_type());
  return ((encoded - mean) / at::where(deviation > 0, deviation, at::ones_like(deviation))).to(at::kFloat);
}

at::Tensor TableEncoder::labels(const LabelledTable& table) const {
  if (options_.task == TableTask::kRegression)
    return ((table.labels - label_scale_.mean) / label_scale_.deviation).to(at::kFloat);
  if (classes_ == table.classes) return table.labels;
  if (classes_.empty() || table.classes.empty()) {
    throw ConfigError(format("{}: its labels are {}, those of the training data are not", table.file,
                             classes_.empty() ? "texts" : "numbers"));
  }
  std::vector<std::int64_t> index_of;
  for (const std::string& text : table.classes) {
    const auto found = std::find(classes_.begin(), classes_.end(), text);
    if (found == classes_.end()) {
      throw ConfigError(format("{}: the label {} is not among the classes of the training data: {}", table.file,
                               quoted_text(text, 40), quoted_list(classes_)));
    }
    index_of.push_back(found - classes_.begin());
  }
  return at::tensor(index_of, at::kLong).index_select(0, table.labels);
}

}  // namespace levin::detail
