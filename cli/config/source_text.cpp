#include "levin/cli/config/source_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "levin/cli/config/config_size.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/files/file_meant.h"
#include "levin/core/files/paths.h"
#include "levin/strategies/launch/run_inputs.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found)
    throw ConfigError(format("there is no file '{}'{}{}", file, working_folder_of(file), file_meant(file)));
  if (fs::is_directory(status)) throw ConfigError(format("'{}' is a folder; a YAML file is needed", file));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw ConfigError(format("cannot read '{}': {}", file, std::strerror(errno)));
  std::string text(ConfigSize::kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > ConfigSize::kMostBytes)
    throw ConfigError(format("'{}' is larger than 16 MiB, too large for a configuration", file));
  return text;
}

}  // namespace

SourceText::SourceText(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with("\xef\xbb\xbf")) text_.erase(0, 3);
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n')))
      line_starts_.push_back(i + 1);
  }
  check();
}

void SourceText::check() const {
  const auto is_control = [](unsigned char byte) {
    return (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7f;
  };
  for (std::size_t i = 0; i < text_.size();) {
    const std::size_t length = utf8_length(std::string_view(text_).substr(i));
    if (length == 0 || is_control(text_[i])) {
      const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), i) - line_starts_.begin() - 1;
      throw ConfigError(
          mark_at(static_cast<int>(line), static_cast<int>(i - line_starts_[line])),
          length == 0 ? "not a text file: this is not UTF-8" : "not a text file: it has a control character here");
    }
    i += length;
  }
}

SourceText SourceText::from_file(const fs::path& file) {
  const std::string name = file.string();
  RunInputs& inputs = RunInputs::instance();
  if (auto text = inputs.take(name)) return SourceText(name, std::move(*text));
  std::string text = content_of(file);
  // In other processes nobody reads it again, and a program may read any number of files.
  if (OwnProcess::is_one() || LaunchPermit::current() != nullptr) inputs.keep(name, text);
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

Mark SourceText::mark_at(int line_index, int byte_in_line) const {
  const std::string_view text = line(line_index + 1);
  const auto byte = static_cast<std::size_t>(byte_in_line);
  const std::size_t end = std::min(byte, text.size());
  if (last_.line != line_index) last_ = {line_index, 0, 0};
  for (; last_.byte < end; ++last_.byte) last_.characters += is_utf8_continuation(text[last_.byte]) ? 0 : 1;
  for (; last_.byte > end; --last_.byte) last_.characters -= is_utf8_continuation(text[last_.byte - 1]) ? 0 : 1;
  // Past the end of a line, bytes are all there is to count.
  return {name_, line_index + 1, static_cast<int>(last_.characters + byte - end) + 1};
}

}  // namespace levin::cli
