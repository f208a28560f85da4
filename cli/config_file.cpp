#include "levin/cli/config_file.h"

#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "levin/cli/help_text.h"
#include "levin/cli/references.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/version.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

// yaml-cpp's Emitter writes comments at the left margin only, so the block structure is written here; keys and scalars are
// to_yaml's.
class Writer {
 public:
  explicit Writer(const CommentOf& comment_of) : comment_of_(comment_of) {}

  void document(const Value& value) {
    if (value.size() == 0)
      text_ += scalar_text(value) + "\n";
    else
      children(value, 0, false);
  }
  std::string take() { return std::move(text_); }

 private:
  /// `inline_first`: the first child continues the line that a "- " has begun.
  void children(const Value& value, int indent, bool inline_first) {
    const std::size_t count = value.size();
    for (std::size_t i = 0; i < count; ++i) {
      const bool in_map = value.is_map();
      path_.push_back(in_map ? value.as_map()[i].first : std::to_string(i));
      const Value& child = in_map ? value.as_map()[i].second : value.as_list()[i];
      const bool continues_line = inline_first && i == 0;
      if (!continues_line) comment(indent);
      if (!continues_line) text_ += std::string(indent, ' ');
      if (in_map)
        entry(path_.back(), child, indent);
      else
        element(child, indent);
      path_.pop_back();
    }
  }

  void entry(const std::string& key, const Value& value, int indent) {
    const bool is_long = key.size() > kLongestSimpleKey;
    text_ += (is_long ? "? " : "") + scalar_text(Value(key)) + (is_long ? format("\n{}:", std::string(indent, ' ')) : ":");
    if (value.size() == 0) {
      text_ += format(" {}\n", scalar_text(value));
      return;
    }
    text_ += '\n';
    children(value, indent + 2, false);
  }

  void element(const Value& value, int indent) {
    text_ += "- ";
    if (value.size() == 0)
      text_ += scalar_text(value) + "\n";
    else
      children(value, indent + 2, true);
  }

  void comment(int indent) {
    std::string line;
    for (const char c : comment_of_(path_) + "\n") {
      if (c != '\n') {
        line += c;
      } else {
        if (!line.empty()) text_ += format("{}# {}\n", std::string(indent, ' '), line);
        line.clear();
      }
    }
  }

  const CommentOf& comment_of_;
  YamlPath path_;
  std::string text_;
};

std::string present_content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

[[noreturn]] void throw_not_written(const fs::path& file, const std::string& reason) {
  throw IoError(format("cannot write '{}': {}", file, reason));
}

/// Keeps the configuration of an earlier run as config_1.yaml, config_2.yaml, …, the highest number the latest.
void set_aside(const fs::path& file) {
  for (int number = 1;; ++number) {
    const fs::path aside = file.parent_path() / format("config_{}.yaml", number);
    if (fs::exists(fs::symlink_status(aside))) continue;
    std::error_code error;
    fs::rename(file, aside, error);
    if (error) throw_not_written(aside, error.message());
    return;
  }
}

}  // namespace

std::string scalar_text(const Value& value) {
  std::string text = to_yaml(value);
  text.pop_back();
  return text;
}

std::string annotated_yaml(const Value& value, const CommentOf& comment_of) {
  Writer writer(comment_of);
  writer.document(value);
  return writer.take();
}

std::string printed_config(const Value& config) { return annotated_yaml(escaped(config), config_comments(config)); }

fs::path save_config(const Value& config, const fs::path& folder) {
  const std::string text = format("# levin {}\n{}", kVersion, to_yaml(escaped(config)));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_not_written(folder, error.message());
  const fs::path file = folder / "config.yaml";
  if (fs::exists(file, error)) {
    if (present_content(file) == text) return file;
    set_aside(file);
  }
  AtomicFile output(file);
  output.write(text);
  output.commit();
  return file;
}

}  // namespace levin::cli
