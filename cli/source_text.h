#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"

namespace levin::cli {

/// The text of a YAML file, checked to be text, with its lines.
class SourceText {
 public:
  /// Throws ConfigError at the first byte that no YAML text may hold: not UTF-8, or a control character.
  SourceText(std::string name, std::string text);
  /// Reads a file, or a pipe; in a rank that our launcher started, what the launcher read there. Throws ConfigError when it is
  /// missing, a folder, unreadable, too large or not text.
  static SourceText from_file(const std::filesystem::path& file);
  /// The same text again, as this process read it last, where it has.
  static SourceText as_read(const std::filesystem::path& file);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  /// A line, counted from 1, without its end; empty past the last one.
  std::string_view line(int number) const;
  /// The place of a byte of a line, both counted from 0. Its column counts characters, as editors do.
  Mark mark_at(int line_index, int byte_in_line) const;

 private:
  void check() const;
  /// Bytes before this one that continue a UTF-8 character. `byte`: at most the size of a text that is not empty.
  std::size_t continuations_before(std::size_t byte) const;
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
  std::vector<std::size_t> continuations_before_;  // at each 256th byte, so that a place in a long line is found at once
};

}  // namespace levin::cli
