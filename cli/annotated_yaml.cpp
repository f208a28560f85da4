#include "levin/cli/annotated_yaml.h"

#include "levin/core/base/format.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {
namespace {

std::string scalar_text(const Value& value) {
  std::string text = to_yaml(value);
  text.pop_back();
  return text;
}

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

}  // namespace

std::string annotated_yaml(const Value& value, const CommentOf& comment_of) {
  Writer writer(comment_of);
  writer.document(value);
  return writer.take();
}

}  // namespace levin::cli
