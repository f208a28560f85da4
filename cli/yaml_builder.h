#pragma once

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/mark.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "levin/cli/source_text.h"
#include "levin/core/options/value.h"

namespace levin::cli {

/// Builds a Value from the events of yaml-cpp's parser. Working on events instead of YAML::Node keeps each node's place, sees
/// keys that are written twice, and stops a document that is too deep before it is built.
class YamlBuilder final : public YAML::EventHandler {
 public:
  explicit YamlBuilder(const SourceText& source) : source_(source) {}
  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
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
    std::optional<Key> key;      // read, its value is not there yet
    std::set<std::string> keys;  // of a map, for a quick look-up
    std::vector<Value> merges;   // values of `<<`
  };

  Mark mark_of(const YAML::Mark& mark) const { return source_.mark_at(mark.line, mark.column); }
  bool expects_key() const { return !open_.empty() && open_.back().container.is_map() && !open_.back().key; }
  void open(Value container, const YAML::Mark& mark, YAML::anchor_t anchor);
  void close();
  void take_key(Key key);
  /// Puts a finished node where it belongs.
  void place(Value value);
  /// Keeps a node for the aliases that may follow.
  void remember(YAML::anchor_t anchor, const Value& value);
  /// Adds what a `<<` brings to the map: keys that are not there yet, earlier maps first.
  static void merge(Open& map, const Value& merged);
  /// Counts a node and those within it, which stand so deep. Throws ConfigError where there are too many, or they are too deep.
  void count(const Value& value, std::size_t depth, const Mark& mark);

  const SourceText& source_;
  Value root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Value> anchors_;
  std::size_t nodes_ = 0;  // so far, aliases unfolded and what is under anchors twice: anchors within anchors keep a copy each
};

}  // namespace levin::cli
