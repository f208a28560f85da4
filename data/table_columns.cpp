#include "levin/data/table_columns.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"

namespace levin::detail {
namespace {

/// "0 to 3, 'a', 'b', 'c', 'd'"
std::string known_columns(const CsvTable& table) {
  constexpr std::size_t kMostShown = 20;
  const std::vector<std::string>& names = table.columns_of_file;
  if (table.width_of_file == 0) return "no columns";
  std::string known = format("0 to {}", table.width_of_file - 1);
  for (std::size_t i = 0; i < std::min(names.size(), kMostShown); ++i) known += ", " + quoted_text(names[i], 40);
  if (names.size() > kMostShown) known += format(" and {} more", names.size() - kMostShown);
  return known;
}

}  // namespace

std::int64_t find_in_file(const char* option, const CsvTable& table, const std::string& wanted, const std::string& file) {
  const std::vector<std::string>& names = table.columns_of_file;
  if (std::count(names.begin(), names.end(), wanted) > 1) {
    throw ConfigError(
        format("{}: {} has several columns {}: say which by its number, from 0", option, file, quoted_text(wanted)));
  }
  if (const auto column = find_column(names, table.width_of_file, wanted)) return *column;
  throw ConfigError(format("{}: {} has no column {}; it has {}", option, file, quoted_text(wanted), known_columns(table)));
}

void TrainingColumns::remember(const CsvTable& table, const TableColumns& columns, const std::string& file) {
  file_ = file;
  names_ = table.columns_of_file;
  width_ = table.width_of_file;
  std::map<std::int64_t, const char*> options;
  const auto remember = [&](const char* option, const std::string& wanted) {
    const std::int64_t column = find_in_file(option, table, wanted, file);
    const auto [other, is_new] = options.emplace(column, option);
    if (!is_new)
      throw ConfigError(format("{}: column {} of {} is in {} too", option, quoted_text(wanted), file, other->second));
    return column;
  };
  for (const std::string& name : columns.ignored) ignored_.insert(remember("ignore_columns", name));
  for (const std::string& name : columns.one_hot) one_hot_.insert(remember("one_hot_columns", name));
  for (const std::string& name : columns.coded) coded_.insert(remember("code_columns", name));
  if (!columns.label.empty()) label_ = remember("label_column", columns.label);
}

namespace {

std::vector<std::string> texts_of(const std::set<std::int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const std::int64_t number : numbers) texts.push_back(format("{}", number));
  return texts;
}

}  // namespace

TableColumns TrainingColumns::by_number() const {
  TableColumns columns{.ignored = texts_of(ignored_), .one_hot = texts_of(one_hot_), .coded = texts_of(coded_)};
  if (label_) columns.label = format("{}", *label_);
  return columns;
}

TableColumns TrainingColumns::by_number_and_name() const {
  TableColumns columns = by_number();
  for (const auto& [numbers, names] :
       {std::pair(&one_hot_, &columns.one_hot), std::pair(&coded_, &columns.coded), std::pair(&ignored_, &columns.ignored)})
    for (const std::int64_t column : *numbers) names->push_back(name_of(column));
  return columns;
}

TableColumns TrainingColumns::in_file(const char* option, const std::string& file, const CsvTable& head,
                                      bool is_predicted) const {
  const std::vector<std::string>& names = head.columns_of_file;
  if (!names.empty() && are_distinct_names(features_)) return by_name(option, file, head, is_predicted);
  // Without names, only the same number of columns as the training data's says that the label is one.
  const bool lacks_label = is_predicted && label_ && (names.empty() || names_.empty()) && head.width_of_file != width_;
  const auto in_file = [&](std::int64_t column) {
    const std::string name = name_of(column);
    const bool has_name = !name.empty() && std::find(names.begin(), names.end(), name) != names.end();
    if (has_name) return name;
    // In a file of another width only names say it.
    if (!names.empty() && !names_.empty() && head.width_of_file != width_) return name;
    return format("{}", lacks_label && column > *label_ ? column - 1 : column);
  };
  const auto translated = [&](const std::set<std::int64_t>& numbers_of_training) {
    std::vector<std::string> texts;
    for (const std::int64_t column : numbers_of_training) texts.push_back(in_file(column));
    return texts;
  };
  TableColumns columns{.ignored = translated(ignored_), .one_hot = translated(one_hot_), .coded = translated(coded_)};
  if (label_ && !lacks_label) columns.label = in_file(*label_);
  return columns;
}

/// The name of one of the training data's columns that no other has; else "".
std::string TrainingColumns::name_of(std::int64_t column) const {
  if (names_.empty()) return "";
  const std::string& name = names_[static_cast<std::size_t>(column)];
  return std::count(names_.begin(), names_.end(), name) == 1 ? name : "";
}

/// Of a file with names, whose columns may be others, and in another order.
TableColumns TrainingColumns::by_name(const char* option, const std::string& file, const CsvTable& head,
                                      bool is_predicted) const {
  const std::vector<std::string>& names = head.columns_of_file;
  std::map<std::string, std::vector<std::int64_t>> places;
  for (std::int64_t place = 0; place < head.width_of_file; ++place)
    places[names[static_cast<std::size_t>(place)]].push_back(place);
  const auto reference_to = [&](std::int64_t place) {
    const std::string& name = names[static_cast<std::size_t>(place)];
    return name.empty() || places.at(name).size() > 1 ? format("{}", place) : name;
  };
  std::set<std::int64_t> used;
  std::vector<std::string> missing;
  for (const std::string& name : features_) {
    const auto found = places.find(name);
    if (found == places.end()) {
      missing.push_back(name);
    } else {
      used.insert(find_in_file(option, head, name, file));
    }
  }
  if (!missing.empty()) {
    throw ConfigError(format("{}: {} lacks {} of the training data, {}: {}; it has {}", option, file,
                             counted(missing.size(), "column"), file_, shown_names(missing), known_columns(head)));
  }
  TableColumns columns;
  for (const std::int64_t column : one_hot_) columns.one_hot.push_back(name_of(column));
  for (const std::int64_t column : coded_) columns.coded.push_back(name_of(column));
  if (label_) {
    const std::string name = name_of(*label_);
    const bool has_name = !name.empty() && places.contains(name);
    const bool is_at_its_place = head.width_of_file == width_ && !used.contains(*label_);
    if (has_name) {
      columns.label = name;
    } else if (is_at_its_place) {
      columns.label = reference_to(*label_);
    } else if (!is_predicted) {
      columns.label = name.empty() ? format("{}", *label_) : name;
    }
  }
  const auto label = find_column(names, head.width_of_file, columns.label);
  const std::set<std::string> known(names_.begin(), names_.end());
  std::vector<std::string> others;
  for (std::int64_t place = 0; place < head.width_of_file; ++place) {
    if (used.contains(place) || place == label) continue;
    columns.ignored.push_back(reference_to(place));
    const std::string& name = names[static_cast<std::size_t>(place)];
    if (!name.empty() && !known.contains(name)) others.push_back(name);
  }
  if (!others.empty())
    rank_zero_info(format("{}: left out, since the training data lacks them: {}", file, shown_names(others)));
  return columns;
}

void TrainingColumns::check_same_features(const char* option, const LabelledTable& table) const {
  if (table.features.sizes().slice(1) != at::IntArrayRef(shape_)) {
    std::int64_t expected = 1;
    for (const std::int64_t size : shape_) expected *= size;
    throw ConfigError(format("{}: a row of {} has {} features, one of {} has {}", option, table.file, table.features[0].numel(),
                             file_, expected));
  }
  for (std::size_t column = 0; column < std::min(table.columns.size(), features_.size()); ++column) {
    if (table.columns[column] == features_[column]) continue;
    throw ConfigError(format("{}: feature {} of {} is called {}, that of {} {}", option, column, table.file,
                             quoted_text(table.columns[column], 40), file_, quoted_text(features_[column], 40)));
  }
}

void TrainingColumns::remember_features(const LabelledTable& table) {
  features_ = table.columns;
  shape_ = table.features.sizes().slice(1).vec();
}

LabelledTable TrainingColumns::in_order(const char* option, LabelledTable table) const {
  const bool is_by_name = !table.columns.empty() && are_distinct_names(features_);
  if (is_by_name && table.columns != features_) table = with_features(table, features_);
  check_same_features(option, table);
  return table;
}

std::vector<std::int64_t> TrainingColumns::features_in_array(std::int64_t width) const {
  std::set<std::int64_t> left_out = ignored_;
  if (label_ && width == width_) left_out.insert(*label_);
  std::vector<std::int64_t> remaining;
  for (std::int64_t column = 0; column < width; ++column) {
    const std::int64_t in_training = label_ && width < width_ && column >= *label_ ? column + 1 : column;
    if (!left_out.contains(in_training)) remaining.push_back(column);
  }
  return remaining;
}

}  // namespace levin::detail
