#pragma once

#include <cstddef>
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
  /// Reads a file, or a pipe; in a rank that our launcher started, what the launcher read. Throws ConfigError when it cannot.
  static SourceText from_file(const std::filesystem::path& file);
  /// The same text again, as this process read it last, where it has.
  static SourceText as_read(const std::filesystem::path& file);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  /// A line, counted from 1, without its end; empty past the last one.
  std::string_view line(int number) const;
  /// The position of a byte of a line, both counted from 0. Its column counts characters, as editors do.
  Mark mark_at(int line_index, int byte_in_line) const;

 private:
  struct Position {
    int line = 0;
    std::size_t byte = 0;
    std::size_t characters = 0;  ///< of the line, before it
  };

  void check() const;
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
  mutable Position last_;  ///< positions are asked for nearly in order: a long line is counted from here
};

}  // namespace levin::cli
