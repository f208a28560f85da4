#include "levin/data/column_layout.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::detail {
namespace {

namespace fs = std::filesystem;

/// Columns that lists may become.
constexpr std::int64_t kMostOfList = 1 << 20;

class LayoutReader {
 public:
  LayoutReader(ColumnFile& file, const fs::path& path, const ColumnTableOptions& options)
      : file_(file), options_(options), path_(path) {}

  ColumnLayout read() {
    find_parts();
    name_parts();
    check_kinds();
    table_.width_of_file = std::ssize(table_.columns_of_file);
    for (ColumnPart& part : parts_) add_places(part);
    if (table_.places.size() == table_.columns_of_file.size()) table_.places.clear();
    ColumnLayout layout{.file = path_,
                        .times_in_days = options_.times_in_days,
                        .parts = std::move(parts_),
                        .complete = std::move(complete_),
                        .missing = std::move(missing_),
                        .head = std::move(table_),
                        .reads_groups_alone = file_.reads_groups_alone()};
    for (std::int64_t group = 0; group < file_.row_groups(); ++group) layout.rows_of_groups.push_back(file_.rows(group));
    return layout;
  }

 private:
  bool is_named_by_options(const std::string& name) const {
    const auto has = [&](const std::vector<std::string>& names) { return std::ranges::find(names, name) != names.end(); };
    return options_.class_column == name || has(options_.complete_columns) || has(options_.text_columns);
  }

  /// Leaves out pandas' index, and finds out how long lists are.
  void find_parts() {
    std::vector<std::string> indices;
    for (std::size_t column = 0; column < file_.columns().size(); ++column) {
      const ColumnInfo& info = file_.columns()[column];
      if (info.is_index && !is_named_by_options(info.name)) {
        indices.push_back(info.name);
        continue;
      }
      const bool is_ignored = std::ranges::find(options_.ignore_columns, info.name) != options_.ignore_columns.end();
      ColumnPart part{.info = info, .column = column, .begin = std::ssize(table_.columns_of_file)};
      if (!info.is_list || info.kind == ColumnKind::kUnsupported || is_ignored) {
        table_.columns_of_file.push_back(info.name);
      } else {
        part.width = width_of_lists(column);
        if (part.width == 0 && !options_.only_head) {
          table_.notes.push_back(
              format("{}: column {} has no list with a number in it, and is left out", path_, quoted_text(info.name, 40)));
        }
        for (std::int64_t number = 0; number < part.width; ++number)
          table_.columns_of_file.push_back(format("{}[{}]", info.name, number));
      }
      part.is_taken.assign(static_cast<std::size_t>(part.width), !is_ignored);
      parts_.push_back(std::move(part));
    }
    if (indices.empty()) return;
    table_.notes.push_back(
        format("{}: {} {} the index that pandas wrote, and left out; name it with reset_index() if it is data", path_,
               quoted_list(indices), indices.size() == 1 ? "is" : "are"));
  }

  std::int64_t width_of_lists(std::size_t column) {
    for (std::int64_t group = 0; group < file_.row_groups(); ++group) {
      if (file_.rows(group) == 0) continue;
      const ColumnData data = file_.read(group, column, {});
      if (!data.shape) continue;
      std::int64_t width = 1;
      for (const std::int64_t size : *data.shape) width *= size;
      if (width > kMostOfList) {
        throw ConfigError(format("{}: a list in column {} has {} numbers: leave it out with ignore_columns", path_,
                                 quoted_text(file_.columns()[column].name, 40), width));
      }
      return width;
    }
    return 0;
  }

  /// What the options say of each.
  void name_parts() {
    const auto part_of = [&](const std::string& wanted) -> std::pair<ColumnPart*, std::int64_t> {
      const auto column = find_column(table_.columns_of_file, std::ssize(table_.columns_of_file), wanted);
      if (!column) return {nullptr, 0};
      const auto next = std::ranges::upper_bound(parts_, *column, {}, &ColumnPart::begin);
      return {&*std::prev(next), *column - std::prev(next)->begin};
    };
    for (const std::string& name : options_.text_columns)
      if (ColumnPart* const part = part_of(name).first) part->is_text = true;
    if (ColumnPart* const part = part_of(options_.class_column).first) part->is_class = true;
    for (const std::string& name : options_.complete_columns) {
      const auto [part, offset] = part_of(name);
      if (part == nullptr) continue;
      const std::int64_t column = part->begin + offset;
      // The last column may be one by chance.
      if (part->info.is_list && part->info.kind == ColumnKind::kNumber &&
          name != table_.columns_of_file[static_cast<std::size_t>(column)]) {
        throw ConfigError(
            format("label_column: column {} of {} holds lists: name a column of single values, or one number of a list",
                   part->shown_name(), path_));
      }
      complete_.insert(column);
    }
    for (const std::string& name : options_.ignore_columns)
      if (const auto [part, offset] = part_of(name); part != nullptr) part->is_taken[static_cast<std::size_t>(offset)] = false;
    missing_.assign(table_.columns_of_file.size(), options_.missing);
    for (const auto& [name, number] : options_.missing_in) {
      for (const ColumnPart& part : parts_) {
        for (std::int64_t offset = 0; offset < part.width; ++offset) {
          const auto column = static_cast<std::size_t>(part.begin + offset);
          if (name == part.info.name || name == table_.columns_of_file[column]) missing_[column] = number;
        }
      }
    }
  }

  /// Names all columns at once that cannot be read.
  void check_kinds() const {
    if (options_.only_head) return;
    std::vector<std::string> unsupported, texts;
    for (const ColumnPart& part : parts_) {
      if (!part.has_taken()) continue;
      const ColumnInfo& column = part.info;
      if (column.kind == ColumnKind::kUnsupported || (column.is_list && part.is_text))
        unsupported.push_back(format("{} ({})", part.shown_name(), column.type));
      if (column.kind == ColumnKind::kText && !part.is_text && !part.is_class)
        texts.push_back(format("{}{}", part.shown_name(), complete_.contains(part.begin) ? ", the label" : ""));
    }
    if (!unsupported.empty()) {
      throw ConfigError(format(
          "{}: {} neither numbers nor texts: leave {} out with ignore_columns", path_,
          unsupported.size() == 1 ? format("column {} has", unsupported[0]) : format("columns {} have", join(unsupported)),
          unsupported.size() == 1 ? "it" : "them"));
    }
    if (!texts.empty()) {
      throw ConfigError(
          format("{}: {} texts where numbers are needed: name {} in one_hot_columns or code_columns, or leave {} out "
                 "with ignore_columns",
                 path_, texts.size() == 1 ? format("column {} has", texts[0]) : format("columns {} have", join(texts)),
                 texts.size() == 1 ? "it" : "them", texts.size() == 1 ? "it" : "them"));
    }
  }

  void add_places(ColumnPart& part) {
    part.place = std::ssize(table_.columns);
    const bool holds_texts = part.info.kind == ColumnKind::kText;
    for (std::int64_t offset = 0; offset < part.width; ++offset) {
      if (!part.is_taken[static_cast<std::size_t>(offset)]) continue;
      if (holds_texts) table_.texts[std::ssize(table_.places)];
      table_.places.push_back(part.begin + offset);
      table_.columns.push_back(table_.columns_of_file[static_cast<std::size_t>(part.begin + offset)]);
    }
  }

  ColumnFile& file_;
  const ColumnTableOptions& options_;
  fs::path path_;
  CsvTable table_;
  std::vector<ColumnPart> parts_;
  std::set<std::int64_t> complete_;
  std::vector<std::optional<double>> missing_;
};

}  // namespace

bool ColumnPart::has_taken() const {
  return std::ranges::any_of(is_taken, [](bool is_taken) { return is_taken; });
}

std::string ColumnPart::shown_name() const { return quoted_text(info.name, 40); }

ColumnLayout layout_of(ColumnFile& file, const fs::path& path, const ColumnTableOptions& options) {
  return LayoutReader(file, path, options).read();
}

}  // namespace levin::detail
