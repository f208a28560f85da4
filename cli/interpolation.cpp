#include "levin/cli/interpolation.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/cli/config_value.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {
namespace {

constexpr std::size_t kMostValues = 200'000;
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
constexpr std::size_t kDeepest = 100;

/// A scalar in a text: as YAML writes it, a text without its quotes.
std::string text_of(const Value& value, const Mark& mark, const std::string& reference) {
  if (value.is_string()) return value.as_string();
  if (value.is_list() || value.is_map())
    throw ConfigError(mark, format("{} is {}, which cannot be put into a text", quoted_text(reference), describe(value)));
  std::string text = to_yaml(value);
  text.pop_back();  // the line's end
  return text;
}

class Interpolation {
 public:
  explicit Interpolation(const Value& config) : config_(config) {}

  Value resolve(const Value& value) {
    check_values(++values_, depth_, value.mark());
    deepest_ = std::max(deepest_, depth_);
    ++depth_;
    Value resolved = value;
    if (value.is_string()) {
      resolved = resolve_text(value);
    } else if (value.is_list()) {
      for (Value& element : resolved.as_list()) element = resolve(element);
    } else if (value.is_map()) {
      for (auto& entry : resolved.as_map()) entry.second = resolve(entry.second);
    }
    --depth_;
    return resolved;
  }

 private:
  Value resolve_text(const Value& value) {
    const std::string& text = value.as_string();
    if (text.find("${") == std::string::npos) return value;
    std::string result;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t begin = text.find("${", at);
      if (begin != std::string::npos && begin > at && text[begin - 1] == '\\') {
        result.append(text, at, begin - 1 - at).append("${");
        at = begin + 2;
        continue;
      }
      result.append(text, at, begin == std::string::npos ? begin : begin - at);
      if (begin == std::string::npos) break;
      const std::size_t end = text.find('}', begin);
      if (end == std::string::npos) throw ConfigError(value.mark(), "'${' has no '}' in " + quoted_text(text));
      const std::string reference = text.substr(begin + 2, end - begin - 2);
      const Value found = marked_as(value, look_up(reference, value.mark()));
      if (begin == 0 && end + 1 == text.size()) return found;
      result += text_of(found, value.mark(), reference);
      at = end + 1;
    }
    check_bytes(bytes_ += result.size(), value.mark());
    return marked_as(value, Value(std::move(result)));
  }

  Value look_up(const std::string& reference, const Mark& mark) {
    if (reference.find("${") != std::string::npos)
      throw ConfigError(mark, format("one '${{' within another, in {}", quoted_text(reference)));
    for (const std::string_view prefix : {"env:", "oc.env:"}) {
      if (reference.starts_with(prefix)) return variable(reference.substr(prefix.size()), mark);
    }
    if (std::find(open_.begin(), open_.end(), reference) != open_.end())
      throw ConfigError(mark, format("refers to itself: {}, {}", join(open_), reference));
    const auto known = found_.find(reference);
    if (known != found_.end()) return again(known->second, mark);
    open_.push_back(reference);
    const std::size_t values = values_;
    const std::size_t bytes = bytes_;
    const std::size_t deepest = std::exchange(deepest_, depth_);
    Value value = resolve(value_at(config_, reference, mark));
    found_[reference] = {value, values_ - values, bytes_ - bytes, deepest_ - depth_};
    deepest_ = std::max(deepest, deepest_);
    open_.pop_back();
    return value;
  }

  /// What a reference stands for, and how large that is.
  struct Found {
    Value value;
    std::size_t values;
    std::size_t bytes;
    std::size_t levels;
  };

  /// The same as unfolding it once more.
  Value again(const Found& found, const Mark& mark) {
    check_values(values_ += found.values, depth_ + found.levels, mark);
    check_bytes(bytes_ += found.bytes, mark);
    deepest_ = std::max(deepest_, depth_ + found.levels);
    return found.value;
  }

  static void check_values(std::size_t values, std::size_t depth, const Mark& mark) {
    if (values > kMostValues || depth > kDeepest)
      throw ConfigError(mark, format("unfolds to more than {} values, or {} levels", kMostValues, kDeepest));
  }
  static void check_bytes(std::size_t bytes, const Mark& mark) {
    if (bytes > kMostBytes) throw ConfigError(mark, format("texts unfold to more than {} bytes", kMostBytes));
  }

  static Value variable(const std::string& reference, const Mark& mark) {
    const std::size_t comma = reference.find(',');
    const std::string name = reference.substr(0, comma);
    const char* text = std::getenv(name.c_str());
    if (text != nullptr) return read_yaml_argument("environment: " + name, text);
    if (comma == std::string::npos)
      throw ConfigError(mark, format("the environment variable {} is not set; ${{env:{},DEFAULT}} gives it a default",
                                     quoted_text(name), name));
    return read_yaml_argument("environment: " + name, reference.substr(comma + 1));
  }

  /// Errors about it are told where it was referred to.
  static Value marked_as(const Value& place, Value value) {
    value.set_mark(place.mark());
    value.set_key_position(place.key_mark().line, place.key_mark().column);
    return value;
  }

  const Value& config_;
  std::vector<std::string> open_;
  std::size_t values_ = 0;
  std::size_t bytes_ = 0;
  std::size_t depth_ = 0;
  std::size_t deepest_ = 0;  ///< that depth_ has been since the reference that is unfolded began
  std::map<std::string, Found> found_;
};

}  // namespace

Value interpolated(const Value& value, const Value& config) { return Interpolation(config).resolve(value); }

Value escaped(Value value) {
  if (value.is_string()) {
    std::string text = value.as_string();
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 3)) text.insert(at, 1, '\\');
    return text;
  }
  if (value.is_list()) {
    for (Value& element : value.as_list()) element = escaped(std::move(element));
  } else if (value.is_map()) {
    for (auto& entry : value.as_map()) entry.second = escaped(std::move(entry.second));
  }
  return value;
}

}  // namespace levin::cli
