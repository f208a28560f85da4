#include "levin/cli/report/settings_table.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"

namespace levin::cli {
namespace {

/// The rows by key, in their order.
class Rows {
 public:
  explicit Rows(std::size_t runs) : runs_(runs) {}

  /// Adds what stands below a node, each value under its whole key.
  void add(std::size_t run, const std::string& key, const Value& value) {
    const auto below = [&](const std::string& name) { return key.empty() ? name : format("{}.{}", key, name); };
    if (value.is_map() && value.size() > 0) {
      for (const auto& [name, part] : value.as_map()) add(run, below(name), part);
    } else if (value.is_list() && has_maps(value)) {
      for (std::size_t index = 0; index < value.size(); ++index) add(run, below(std::to_string(index)), value.as_list()[index]);
    } else {
      set(run, key, text_of(value));
    }
  }

  Value take(bool only_differing) && {
    Value::List rows;
    for (Row& row : rows_) {
      const auto is_other = [&](const Value& value) { return !(value == row.values.front()); };
      const bool differs = std::any_of(row.values.begin(), row.values.end(), is_other);
      if (only_differing && !differs) continue;
      rows.push_back(Value::Map{{"key", row.key}, {"differs", differs}, {"values", std::move(row.values)}});
    }
    return rows;
  }

 private:
  struct Row {
    std::string key;
    Value::List values;
  };

  static bool has_maps(const Value& list) {
    const Value::List& parts = list.as_list();
    return std::any_of(parts.begin(), parts.end(), [](const Value& part) { return part.is_map() || part.is_list(); });
  }

  static std::string text_of(const Value& value) {
    if (value.is_map()) return "{}";
    if (value.is_list()) return format("[{}]", join(value.as_list(), ", ", scalar_text));
    return value.is_string() ? value.as_string() : scalar_text(value);
  }

  void set(std::size_t run, const std::string& key, std::string text) {
    const auto [place, is_new] = place_of_.emplace(key, rows_.size());
    if (is_new) rows_.push_back({key, Value::List(runs_)});
    rows_[place->second].values[run] = std::move(text);
  }

  std::size_t runs_;
  std::vector<Row> rows_;
  std::map<std::string, std::size_t> place_of_;
};

}  // namespace

Value settings_table(const std::vector<const Value*>& settings, bool only_differing) {
  Rows rows(settings.size());
  for (std::size_t run = 0; run < settings.size(); ++run) {
    if (settings[run]->is_map()) rows.add(run, "", *settings[run]);
  }
  return std::move(rows).take(only_differing);
}

}  // namespace levin::cli
