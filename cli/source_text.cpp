#include "levin/cli/source_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/paths.h"
#include "levin/strategies/launch/rank_start.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kLargestFile = 16 << 20;
constexpr std::size_t kBlock = 256;  // bytes

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f;
}

std::string content_of(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found)
    throw ConfigError(format("there is no file '{}'{}", file, working_folder_of(file)));
  if (fs::is_directory(status)) throw ConfigError(format("'{}' is a folder; a YAML file is needed", file));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw ConfigError(format("cannot read '{}': {}", file, std::strerror(errno)));
  std::string text(kLargestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kLargestFile) throw ConfigError(format("'{}' is larger than 16 MiB; that is no configuration", file));
  return text;
}

}  // namespace

SourceText::SourceText(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with("\xef\xbb\xbf")) text_.erase(0, 3);
  line_starts_.push_back(0);
  std::size_t continuations = 0;
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (i % kBlock == 0) continuations_before_.push_back(continuations);
    continuations += is_utf8_continuation(text_[i]);
    if (text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n')))
      line_starts_.push_back(i + 1);
  }
  check();
}

void SourceText::check() const {
  for (std::size_t i = 0; i < text_.size();) {
    const std::size_t length = utf8_length(std::string_view(text_).substr(i));
    if (length == 0 || is_control(text_[i])) {
      const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), i) - line_starts_.begin() - 1;
      throw ConfigError(mark_at(static_cast<int>(line), static_cast<int>(i - line_starts_[line])),
                        length == 0 ? "not a text file: this is no UTF-8" : "not a text file: it has a control character here");
    }
    i += length;
  }
}

SourceText SourceText::from_file(const fs::path& file) {
  const std::string name = file.string();
  RunInputs& inputs = RunInputs::instance();
  if (auto text = inputs.take(name)) return SourceText(name, std::move(*text));
  std::string text = content_of(file);
  inputs.keep(name, text);
  return SourceText(name, std::move(text));
}

SourceText SourceText::as_read(const fs::path& file) {
  const auto text = RunInputs::instance().find(file.string());
  return text ? SourceText(file.string(), *text) : from_file(file);
}

std::string_view SourceText::line(int number) const {
  if (number < 1 || static_cast<std::size_t>(number) > line_starts_.size()) return {};
  const std::size_t begin = line_starts_[number - 1];
  const std::size_t end = static_cast<std::size_t>(number) < line_starts_.size() ? line_starts_[number] : text_.size();
  std::string_view line = std::string_view(text_).substr(begin, end - begin);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

std::size_t SourceText::continuations_before(std::size_t byte) const {
  const std::size_t block = std::min(byte / kBlock, continuations_before_.size() - 1);
  const auto begin = text_.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
  const auto end = text_.begin() + static_cast<std::ptrdiff_t>(byte);
  return continuations_before_[block] + static_cast<std::size_t>(std::count_if(begin, end, is_utf8_continuation));
}

Mark SourceText::mark_at(int line_index, int byte_in_line) const {
  const std::string_view before = line(line_index + 1).substr(0, byte_in_line);
  std::size_t characters = 0;
  if (!before.empty()) {
    const std::size_t begin = line_starts_[line_index];
    const std::size_t end = begin + before.size();
    characters = before.size() - (continuations_before(end) - continuations_before(begin));
  }
  // Past the end of a line, and after invalid bytes, bytes are all there is to count.
  const int beyond = std::max(0, byte_in_line - static_cast<int>(before.size()));
  return {name_, line_index + 1, static_cast<int>(characters) + beyond + 1};
}

}  // namespace levin::cli
