#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace levin {

/// CSV rows to append to a file, laid out so that the file ends with a whole row at every instant, whoever reads it meanwhile
/// and whenever the process is killed.
///
/// Linux copies what is written page by page, and between two pages a reader sees the part that is there, and a killed process
/// leaves it. So no row may lie across two pages: the rows before the end of a page are stretched to end with it, by zeros at
/// the end of their decimal fractions (0.25 and 0.25000 are one number to every reader).
class PagedText {
 public:
  /// Of every page size that there is, a divisor.
  static constexpr std::size_t kPage = 4096;

  /// The text will stand at this offset of the file. Its start is the start of a row.
  explicit PagedText(std::int64_t offset) : offset_(static_cast<std::size_t>(offset)) {}

  /// Adds a row, with its line end. False, and the text is of no use any more: the row does not fit into a page, or into what
  /// is left of the page that the file ends in.
  bool add(std::string_view row);
  /// Ends the text so that a row of `next` bytes can follow it later; leaves it as it is where that cannot be.
  void finish(std::size_t next);

  const std::string& text() const { return text_; }

 private:
  std::size_t left_in_page() const { return (kPage - (offset_ + text_.size()) % kPage) % kPage; }
  bool stretch(std::size_t bytes);

  std::size_t offset_;
  std::size_t page_begin_ = 0;  ///< where, in text_, the first row of the last page begins
  std::string text_;
};

/// Makes the CSV rows in text[from, end) longer by so many bytes without changing a value, if there is a decimal fraction among
/// its cells; false otherwise.
bool stretch_csv(std::string& text, std::size_t from, std::size_t bytes);

/// Takes off a number what stretch_csv() has added to it.
void shrink_csv_number(std::string& cell);

}  // namespace levin
