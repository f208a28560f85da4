#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/config/value.h"

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
  /// The place of a byte of a line, both counted from 0. Its column counts characters, as editors do.
  Mark mark_at(int line_index, int byte_in_line) const;

 private:
  struct Place {
    int line = 0;
    std::size_t byte = 0;
    std::size_t characters = 0;  ///< of the line, before it
  };

  void check() const;
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
  mutable Place last_;  ///< places are asked for nearly in their order: a long line is counted from here
};

/// What a configuration grows to, counted where values are added to it: by reading, by aliases and `${…}`, and by the key of an
/// override. It is more than any run needs, and little enough that whatever goes through it ends soon.
class ConfigSize {
 public:
  /// A file's text, and all that references put into others.
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
  static constexpr std::size_t kMostValues = 200'000;
  static constexpr std::size_t kMostLevels = 100;

  /// Counts a value with all in it, within `level` lists and maps. Throws ConfigError with `mark` when that is too much.
  void add(const Value& value, std::size_t level, const Mark& mark);

 private:
  std::size_t values_ = 0;
  std::size_t bytes_ = 0;
};

/// A configuration error as a person reads it, a text for each single error, in the order of the files: what() and, below it,
/// the line of the file with a caret under the offending text. After twenty the rest is counted only.
std::vector<std::string> diagnostics(const ConfigError& error);

/// Reads a YAML document into a Value whose nodes know their file, line and column. Anchors, aliases and merge keys (`<<`) are
/// resolved. Throws ConfigError with the place on a syntax error, a key written twice, a key that is no plain text, a tag of
/// the user's own, more than ConfigSize permits, or a second document. A text without content gives null.
Value read_yaml(const SourceText& source);

/// The same for a file.
Value read_yaml_file(const std::filesystem::path& file);

/// Reads a value given on the command line; each of its nodes is marked with `name`. Text that is no YAML and does not begin as
/// a list, map or quoted string (*.csv, @home) is taken as a string.
Value read_yaml_argument(const std::string& name, const std::string& text);

}  // namespace levin::cli
