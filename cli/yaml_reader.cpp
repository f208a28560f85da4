#include "levin/cli/yaml_reader.h"

#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>

#include "levin/cli/yaml_builder.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

void set_marks(Value& value, const Mark& mark) {
  value.set_mark(mark);
  value.set_key_position(0, 0);
  if (value.is_list()) {
    for (Value& element : value.as_list()) set_marks(element, mark);
  }
  if (value.is_map()) {
    for (auto& [key, element] : value.as_map()) set_marks(element, mark);
  }
}

/// Where a line has a tab before its content, which YAML refuses in many words; -1 without.
int tab_before_content(std::string_view line) {
  const std::size_t tab = line.substr(0, line.find_first_not_of(" \t-?")).find('\t');
  return tab == std::string_view::npos ? -1 : static_cast<int>(tab);
}

}  // namespace

Value read_yaml(const SourceText& source) {
  std::istringstream stream(source.text());
  YamlBuilder first(source), second(source);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(first)) return Value();
    if (parser.HandleNextDocument(second)) throw ConfigError(Mark{source.name()}, "has more than one YAML document");
  } catch (const YAML::Exception& error) {
    if (const int tab = tab_before_content(source.line(error.mark.line + 1)); tab >= 0) {
      throw ConfigError(source.mark_at(error.mark.line, tab), "YAML syntax: a tab, where lines are indented with spaces only");
    }
    const bool is_indented_by_itself = error.msg == YAML::ErrorMsg::END_OF_MAP || error.msg == YAML::ErrorMsg::END_OF_SEQ;
    throw ConfigError(
        source.mark_at(error.mark.line, error.mark.column),
        "YAML syntax: " + (is_indented_by_itself ? "the indentation of this line fits that of none above it" : error.msg));
  }
  return first.take();
}

Value read_yaml_file(const std::filesystem::path& file) { return read_yaml(SourceText::from_file(file)); }

Value read_yaml_argument(const std::string& name, const std::string& text) {
  Value value;
  try {
    value = read_yaml(SourceText(name, text));
  } catch (const ConfigError& error) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    const bool is_structured = begin != std::string::npos && std::string("[{\"'&").find(text[begin]) != std::string::npos;
    if (is_structured) throw ConfigError(Mark{name}, format("{}, in {}", error.message(), quoted_text(text)));
    value = Value(text);
  }
  set_marks(value, Mark{name});
  return value;
}

}  // namespace levin::cli
