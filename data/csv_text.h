#pragma once

// The text of one field of a CSV file. A number is one of C's, decimal, with a sign or none, or inf or nan in any letter case;
// its decimal mark may be a comma. True and False, in three ways of writing, are 1 and 0. What stands for a missing value is
// empty, or NA, N/A, null, None, ? and the like. Anything else is a text.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace levin::detail {

/// Without blanks and tabs around it.
std::string_view trim_field(std::string_view text);
/// Of a quoted field: two quotes stand for one.
std::string unescape_field(std::string_view text);

std::optional<double> parse_csv_number(std::string_view text, char decimal = '.');
/// A number, or 1 and 0 for True and False.
std::optional<double> parse_csv_value(std::string_view text, char decimal = '.');

/// Where texts are expected, which may be called "None".
bool is_missing_text(std::string_view text);
bool is_missing_value(std::string_view text);
/// In a column of categories.
bool is_missing_category(std::string_view text);

/// What a file is that is not text in UTF-8, and what to do with it.
struct ContentKind {
  std::string_view name = {};  ///< "a Parquet file"; "" where it is unknown
  std::string_view cure = "write it as a CSV file, in pandas with df.to_csv(\"table.csv\", index=False)";
};
/// Of one that begins with this.
ContentKind kind_of_content(std::string_view begin);

/// What an error says of a text.
bool is_digit(char letter);
bool is_date(std::string_view text);
/// "1,5", or "1,234.5".
bool has_comma_in_number(std::string_view text);
/// What to do about a text that another separator than `delimiter` would divide; "" where none does. `or_blanks`: these, too,
/// where it is one of numbers.
std::string separator_hint(std::string_view text, char delimiter, bool or_blanks = false);

}  // namespace levin::detail
