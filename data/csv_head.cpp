#include "levin/data/csv_head.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/data/csv_text.h"

namespace levin::detail {
namespace {

class HeadReader {
 public:
  HeadReader(const CsvRows& first, const CsvOptions& options) : first_(first), fields_(first.fields()), options_(options) {}

  CsvHead read() {
    check_separator();
    CsvHead head;
    head.has_names = is_header(head.notes);
    if (head.has_names)
      for (const CsvField& field : fields_) head.names.push_back(unescape_field(field.text));
    head.roles = roles_of_options(head.names);
    if (head.has_names) find_index(head);
    head.complete.resize(fields_.size());
    for (const std::string& wanted : options_.complete_columns)
      if (const auto column = find(head.names, wanted)) head.complete[*column] = true;
    return head;
  }

 private:
  std::optional<std::size_t> find(const std::vector<std::string>& names, const std::string& wanted) const {
    const auto found = find_column(names, static_cast<std::int64_t>(fields_.size()), wanted);
    return found ? std::optional(static_cast<std::size_t>(*found)) : std::nullopt;
  }

  /// The roles that the options give to columns.
  std::vector<CsvRole> roles_of_options(const std::vector<std::string>& names) const {
    std::vector<CsvRole> roles(fields_.size());
    for (const std::string& wanted : options_.text_columns)
      if (const auto column = find(names, wanted)) roles[*column] = CsvRole::kText;
    if (const auto column = find(names, options_.class_column)) roles[*column] = CsvRole::kClass;
    for (const std::string& wanted : options_.ignore_columns)
      if (const auto column = find(names, wanted)) roles[*column] = CsvRole::kIgnored;
    return roles;
  }

  /// A line that another separator divides may still look like one of a table, of wrong columns.
  void check_separator() const {
    if (first_.delimiter() == ' ') return;
    const std::string& text = first_.text();
    if (text.starts_with("sep="))
      first_.fail(1, "the line tells spreadsheets which separator divides fields: delete it, and set `delimiter`");
    std::map<char, std::size_t> counts;
    bool is_quoted = false;
    for (const char letter : text) {
      if (letter == '"') is_quoted = !is_quoted;
      if (!is_quoted) ++counts[letter];
    }
    const char delimiter = first_.delimiter();
    for (const char separator : {';', '\t', '|'}) {
      if (separator == delimiter || fields_.size() == 1 || counts[separator] <= counts[delimiter]) continue;
      const std::string name = separator == '\t' ? "tabs" : format("'{}'", separator);
      first_.fail(1, format("the line has more of {} than of the delimiter '{}'{}", name, delimiter,
                            separator_hint(std::string_view(&separator, 1), delimiter)));
    }
  }

  /// Whether the line has the name of a column that the options have, which is not a number.
  bool has_name_of_options() const {
    const auto is_field = [this](const std::string& name) {
      return !name.empty() && !parse_csv_number(name, options_.decimal) &&
             std::any_of(fields_.begin(), fields_.end(),
                         [&](const CsvField& field) { return unescape_field(field.text) == name; });
    };
    return is_field(options_.class_column) ||
           std::any_of(options_.text_columns.begin(), options_.text_columns.end(), is_field) ||
           std::any_of(options_.ignore_columns.begin(), options_.ignore_columns.end(), is_field);
  }

  /// How many of the fields number the columns, as pandas does where these have no names: from 0, behind an empty field or at
  /// once. 0 where others are among them, but for columns that may hold texts and have one.
  std::size_t fields_that_count(const std::vector<CsvRole>& roles) const {
    const std::size_t start = fields_[0].text.empty() ? 1 : 0;
    std::size_t count = 0;
    for (std::size_t column = start; column < fields_.size(); ++column) {
      if (fields_[column].text == format("{}", column - start)) {
        ++count;
      } else if (roles[column] == CsvRole::kNumber || parse_csv_value(fields_[column].text, options_.decimal)) {
        return 0;
      }
    }
    return count;
  }

  bool is_header(std::vector<std::string>& notes) const {
    if (options_.header) return *options_.header;
    if (has_name_of_options()) return true;
    std::vector<CsvRole> roles = roles_of_options({});
    const std::size_t numbered = fields_that_count(roles);
    if (numbered > 2 || (numbered > 0 && fields_[0].text.empty())) {
      notes.push_back(
          format("{}:{}: the line numbers the columns (0, 1, …), as pandas writes it where they have no names: it is taken for "
                 "their names; set `header` to false if it is a sample",
                 first_.name(), first_.line()));
      return true;
    }
    if (numbered == 2) {
      first_.fail(fields_[0].column,
                  "the line numbers the columns (0, 1), as pandas writes it where they have no names, or is a sample: set "
                  "`header` to true or false");
    }
    // A label may be a text in a line of numbers; a line with a text alone names it.
    if (fields_.size() == 1) roles[0] = {};
    const auto is_number_column = [&](const CsvField& field) {
      return roles[static_cast<std::size_t>(&field - fields_.data())] == CsvRole::kNumber;
    };
    const auto is_name = [&](const CsvField& field) {
      return is_number_column(field) && !parse_csv_value(field.text, options_.decimal) && !is_missing_value(field.text);
    };
    const auto is_number = [&](const CsvField& field) { return parse_csv_value(field.text, options_.decimal).has_value(); };
    const auto name = std::find_if(fields_.begin(), fields_.end(), is_name);
    if (name == fields_.end()) {
      if (!options_.text_columns.empty() && std::none_of(fields_.begin(), fields_.end(), is_number_column) &&
          std::none_of(fields_.begin(), fields_.end(), is_number)) {
        first_.fail(fields_[0].column, "the line may name the columns, or be a sample of texts: set `header` to true or false");
      }
      return false;
    }
    if (std::any_of(fields_.begin(), fields_.end(), is_number)) {
      first_.fail(name->column,
                  format("{} is not a number, and other fields of the first line are: set `header` to true when "
                         "the line names the columns; when it is a sample, correct the field, or name its column in "
                         "one_hot_columns, code_columns or ignore_columns{}",
                         quoted_text(name->text, 40), separator_hint(name->text, first_.delimiter())));
    }
    return true;
  }

  /// Columns without a name at the beginning are what pandas and R write of a table's index.
  void find_index(CsvHead& head) const {
    const auto is_unnamed = [&](std::size_t column) {
      return head.roles[column] == CsvRole::kNumber &&
             (head.names[column].empty() || head.names[column].starts_with("Unnamed: "));
    };
    std::size_t unnamed = 0;
    while (unnamed < head.names.size() && is_unnamed(unnamed)) ++unnamed;
    if (unnamed == 0 || head.names.size() == 1) return;
    if (unnamed > 1) {
      std::vector<std::string> numbers;
      for (std::size_t number = 0; number < unnamed; ++number) numbers.push_back(format("{}", number));
      first_.fail(1, format("the first {} columns have no name, as an index that pandas writes: leave them out with "
                            "ignore_columns: [{}], or name them",
                            unnamed, join(numbers)));
    }
    head.roles[0] = CsvRole::kIndex;
  }

  const CsvRows& first_;
  const std::vector<CsvField>& fields_;
  const CsvOptions& options_;
};

}  // namespace

CsvHead read_head(const CsvRows& first, const CsvOptions& options) { return HeadReader(first, options).read(); }

}  // namespace levin::detail
