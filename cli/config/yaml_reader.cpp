#include "levin/cli/config/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/cli/config/config_size.h"
#include "levin/cli/config/yaml_scalar.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

/// Builds a Value from the events of yaml-cpp's parser. Working on events instead of YAML::Node gives each node's position,
/// sees keys that are written twice, and stops a document that is too deep before it is built.
class YamlBuilder final : public YAML::EventHandler {
 public:
  explicit YamlBuilder(const SourceText& source) : source_(source) {}
  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {
    root_ = Value();
    anchors_.clear();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Value value = Value().with_mark(mark_of(mark));
    if (expects_key()) throw ConfigError(value.mark(), "a key is empty or null; put it in quotes if it is meant as text");
    add(std::move(value), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto anchored = anchors_.find(anchor);
    if (anchored == anchors_.end()) throw ConfigError(mark_of(mark), "this alias is inside the node that it names");
    if (expects_key()) throw ConfigError(mark_of(mark), "an alias cannot be a key");
    size_.add(anchored->second, open_.size(), mark_of(mark));
    place(anchored->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) override {
    const Mark place_of_scalar = mark_of(mark);
    if (expects_key()) {
      take_key({key_text(place_of_scalar, tag, text), place_of_scalar, text == "<<" && tag == "?"});
      return;
    }
    add(read_scalar(place_of_scalar, tag, text).with_mark(place_of_scalar), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Value(Value::List{}), mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Value(Value::Map{}), mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Key {
    std::string name;
    Mark mark;
    bool is_merge = false;
  };
  struct Open {
    Value container;
    YAML::anchor_t anchor = 0;
    std::optional<Key> key;      // read, and still without its value
    std::set<std::string> keys;  // of a map, for a quick look-up
    std::vector<Value> merges;   // values of `<<`
  };

  Mark mark_of(const YAML::Mark& mark) const { return source_.mark_at(mark.line, mark.column); }
  bool expects_key() const { return !open_.empty() && open_.back().container.is_map() && !open_.back().key; }

  void open(Value container, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    container.set_mark(mark_of(mark));
    const bool is_usual = tag.empty() || tag == "?" || tag == "!";
    if (!is_usual && tag != format("tag:yaml.org,2002:{}", container.is_list() ? "seq" : "map"))
      throw_unknown_tag(container.mark(), tag);
    if (expects_key()) {
      // yaml-cpp also takes a list or map that is never closed for one.
      const char* bracket = container.is_list() ? "']'" : "'}'";
      throw ConfigError(container.mark(), format("a {} cannot be a key; is its {} missing?", container.type_name(), bracket));
    }
    size_.add(container, open_.size(), container.mark());
    Open opened;
    opened.container = std::move(container);
    opened.anchor = anchor;
    open_.push_back(std::move(opened));
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    for (const Value& merged : done.merges) merge(done, merged);
    remember(done.anchor, done.container);
    place(std::move(done.container));
  }

  void take_key(Key key) {
    Open& map = open_.back();
    if (!key.is_merge && !map.keys.insert(key.name).second) {
      const int first_line = map.container.at(key.name).key_mark().line;
      throw ConfigError(key.mark,
                        format("the key {} is given twice; it is first in line {}", quoted_text(key.name), first_line));
    }
    map.key = std::move(key);
  }

  void add(Value value, YAML::anchor_t anchor) {
    size_.add(value, open_.size(), value.mark());
    remember(anchor, value);
    place(std::move(value));
  }

  /// Puts a finished node where it belongs.
  void place(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.container.is_list()) {
      parent.container.push_back(std::move(value));
      return;
    }
    const Key key = *std::exchange(parent.key, std::nullopt);
    value.set_key_position(key.mark.line, key.mark.column);
    if (key.is_merge)
      parent.merges.push_back(std::move(value));
    else
      parent.container.as_map().emplace_back(key.name, std::move(value));
  }

  /// Keeps a node for the aliases that may follow.
  void remember(YAML::anchor_t anchor, const Value& value) {
    if (anchor == 0) return;
    size_.add(value, open_.size(), value.mark());
    anchors_.insert_or_assign(anchor, value);
  }

  /// Adds the keys of a `<<` that the map lacks, earlier maps first.
  static void merge(Open& map, const Value& merged) {
    if (merged.is_list()) {
      for (const Value& each : merged.as_list()) {
        if (!each.is_map()) throw ConfigError(each.mark(), "'<<' takes maps only, got " + describe(each));
        merge(map, each);
      }
      return;
    }
    if (!merged.is_map()) throw ConfigError(merged.mark(), "'<<' takes a map or a list of maps, got " + describe(merged));
    for (const auto& [key, value] : merged.as_map()) {
      if (map.keys.insert(key).second) map.container.as_map().emplace_back(key, value);
    }
  }

  const SourceText& source_;
  Value root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Value> anchors_;
  ConfigSize size_;  // so far, aliases unfolded and what is under anchors twice: anchors within anchors keep a copy each
};

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
    // "a:1" is a text, which no key on the next line fits.
    const std::string text = is_indented_by_itself
                                 ? "the indentation of this line matches no line above, or the line above lacks "
                                   "the space after its ':'"
                             : error.msg == YAML::ErrorMsg::MAP_VALUE
                                 ? "no key can be here: does a line above lack the space after its ':', or a closing quote?"
                                 : error.msg;
    throw ConfigError(source.mark_at(error.mark.line, error.mark.column), "YAML syntax: " + text);
  }
  return first.take();
}

Value read_yaml_file(const std::filesystem::path& file) { return read_yaml(SourceText::from_file(file)); }

Value read_yaml_argument(const std::string& name, const std::string& text) {
  // YAML begins a block with them, which an argument does not do, and takes a blank for nothing: they are delimiters.
  for (const char* const delimiter : {"|", ">", " ", "\t"})
    if (text == delimiter) return Value(text).with_mark(Mark{name});
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
