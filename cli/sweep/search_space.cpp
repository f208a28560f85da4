#include "levin/cli/sweep/search_space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <string_view>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/config/value_json.h"

namespace levin::cli {
namespace {

/// The parts between commas that stand in no brackets or quotes.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = '\0';
  for (const char letter : text) {
    if (quote != '\0') {
      if (letter == quote) quote = '\0';
    } else if (letter == '"' || letter == '\'') {
      quote = letter;
    } else if (letter == '[' || letter == '{') {
      ++depth;
    } else if (letter == ']' || letter == '}') {
      --depth;
    } else if (letter == ',' && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += letter;
  }
  return parts;
}

Choice choice_of(std::vector<std::string> texts, const Mark& mark) {
  if (std::find(texts.begin(), texts.end(), "") != texts.end())
    throw ConfigError(mark, "a value is empty: null is written null, and an empty text ''");
  return {std::move(texts)};
}

/// A distribution over [low, high], as its name says. Throws ConfigError.
Distribution range_of(const std::string& kind, const Value& low, const Value& high, const Mark& mark) {
  if (!low.is_number() || !high.is_number())
    throw ConfigError(mark, format("{} is from a number to a number, not from {} to {}", kind, describe(low), describe(high)));
  const double begin = low.as_double(), end = high.as_double();
  if (!std::isfinite(begin) || !std::isfinite(end) || begin > end)
    throw ConfigError(mark, format("{} is from a number to one that is not below it, not from {} to {}", kind, begin, end));
  if (kind == "uniform") return Uniform{begin, end};
  if (kind == "int") {
    if (!low.is_int() || !high.is_int())
      throw ConfigError(mark, format("int is from an int to an int, not {} to {}", begin, end));
    return UniformInt{low.as_int(), high.as_int()};
  }
  if (begin <= 0) throw ConfigError(mark, format("log is from a number above 0 on, not from {}", begin));
  return LogUniform{begin, end};
}

const std::vector<std::string> kRanges = {"log", "uniform", "int"};

/// "log:1e-5..1e-1", "choice:a,b"
Distribution parse_distribution(const std::string& text, const Mark& mark) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string kind = text.substr(0, colon), rest = text.substr(std::min(colon + 1, text.size()));
  if (kind == "choice") return choice_of(split_values(rest), mark);
  if (!is_among(kRanges, kind))
    throw ConfigError(mark, format("there is no kind of values {}{}", quoted_text(kind),
                                   did_you_mean(kind, {"log", "uniform", "int", "choice"}, "kinds")));
  const std::vector<std::string> ends = split(rest, "..");
  if (ends.size() != 2) throw ConfigError(mark, format("{} needs two numbers: {}:LOW..HIGH", kind, kind));
  return range_of(kind, read_yaml_argument(mark.file, ends[0]), read_yaml_argument(mark.file, ends[1]), mark);
}

/// A value as it stands behind `--key=`.
std::string argument_text(const Value& value) {
  if (value.is_list() || value.is_map()) return to_json(value);
  return value.written().empty() ? scalar_text(value) : std::string(value.written());
}

Choice choice_of(const Value& values) {
  std::vector<std::string> texts;
  for (const Value& value : values.as_list()) texts.push_back(argument_text(value));
  if (texts.empty()) throw ConfigError(values.mark(), "at least one value is needed");
  return {std::move(texts)};
}

/// KEY and what stands behind its '='.
std::pair<std::string, std::string> parse_key(const std::string& option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw ConfigError(Mark{"command line: " + option}, format("{} is not KEY=VALUES", quoted_text(text)));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

/// Draws that are the same with every standard library, whose own distributions differ.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}

  std::string draw(const Distribution& distribution) {
    return std::visit([&](const auto& from) { return text_from(from); }, distribution);
  }

 private:
  /// From 0 on, below 1.
  double next() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }
  std::uint64_t next_below(std::uint64_t count) {
    return std::min(static_cast<std::uint64_t>(next() * static_cast<double>(count)), count - 1);
  }
  /// Six digits, which are easy to type again.
  static std::string number_text(double number, double low, double high) {
    return float_text(std::clamp(parse_float(format("{:.6g}", number)).value_or(number), low, high));
  }

  std::string text_from(const Choice& choice) { return choice.texts[next_below(choice.texts.size())]; }
  std::string text_from(const Uniform& range) {
    return number_text(range.low + (range.high - range.low) * next(), range.low, range.high);
  }
  std::string text_from(const LogUniform& range) {
    return number_text(range.low * std::pow(range.high / range.low, next()), range.low, range.high);
  }
  std::string text_from(const UniformInt& range) {
    const std::uint64_t between = static_cast<std::uint64_t>(range.high) - static_cast<std::uint64_t>(range.low);
    return std::to_string(range.low + static_cast<std::int64_t>(next_below(between + 1)));
  }

  std::mt19937_64 engine_;
};

/// Each of these with each value of the key.
std::vector<Assignment> combined(const std::vector<Assignment>& trials, const std::string& key, const Choice& choice) {
  std::vector<Assignment> more;
  for (const Assignment& trial : trials) {
    for (const std::string& text : choice.texts) {
      more.push_back(trial);
      more.back().emplace_back(key, text);
    }
  }
  return more;
}

}  // namespace

void SearchSpace::check_new(const std::string& key, const Mark& mark) const {
  const auto is_same = [&](const auto& entry) { return entry.first == key; };
  if (std::any_of(grid.begin(), grid.end(), is_same) || std::any_of(random.begin(), random.end(), is_same))
    throw ConfigError(mark, format("{} is given twice", quoted_text(key)));
}

void SearchSpace::check_count(std::int64_t samples) const {
  double count = random.empty() ? 1 : static_cast<double>(samples);
  std::vector<std::string> factors;
  if (!random.empty()) factors.push_back(std::to_string(samples));
  for (const auto& [key, choice] : grid) {
    count *= static_cast<double>(choice.texts.size());
    factors.push_back(std::to_string(choice.texts.size()));
  }
  if (count <= static_cast<double>(kMostTrials)) return;
  throw ConfigError(Mark{format("command line: {}", grid.empty() ? "--random" : "--grid")},
                    format("these are {}{:.6g} trials, and a sweep has at most {}: give fewer values, or draw some of them "
                           "with --random and --space",
                           factors.size() > 1 ? join(factors, " x ") + " = " : "", count, kMostTrials));
}

void SearchSpace::add_grid(const std::string& text) {
  const auto [key, values] = parse_key("--grid", text);
  const Mark mark{"command line: --grid " + key};
  check_new(key, mark);
  grid.emplace_back(key, choice_of(split_values(values), mark));
}

void SearchSpace::add_distribution(const std::string& text) {
  const auto [key, values] = parse_key("--space", text);
  const Mark mark{"command line: --space " + key};
  check_new(key, mark);
  random.emplace_back(key, parse_distribution(values, mark));
}

void SearchSpace::add_file(const std::filesystem::path& file) {
  const Value document = read_yaml_file(file);
  for (const auto& [key, entry] : document.at("sweep").as_map()) {
    check_new(key, entry.key_mark());
    const Value::Map& kinds = entry.as_map();
    if (kinds.size() != 1) throw ConfigError(entry.key_mark(), "one of grid, choice, log, uniform and int is needed");
    const auto& [kind, values] = kinds.front();
    if (kind == "grid") {
      grid.emplace_back(key, choice_of(values));
    } else if (kind == "choice") {
      random.emplace_back(key, choice_of(values));
    } else if (is_among(kRanges, kind) && values.is_list() && values.size() == 2) {
      random.emplace_back(key, range_of(kind, values.as_list()[0], values.as_list()[1], values.mark()));
    } else if (is_among(kRanges, kind)) {
      throw ConfigError(values.mark(), format("{} needs two numbers: [LOW, HIGH]", kind));
    } else {
      throw ConfigError(values.key_mark(), format("there is no kind of values {}{}", quoted_text(kind),
                                                  did_you_mean(kind, {"grid", "choice", "log", "uniform", "int"}, "kinds")));
    }
  }
}

Value SearchSpace::written() const {
  Value all(Value::Map{});
  const auto texts = [](const Choice& choice) { return Value::List(choice.texts.begin(), choice.texts.end()); };
  for (const auto& [key, choice] : grid) all[key] = Value::List{"grid", texts(choice)};
  for (const auto& [key, distribution] : random) {
    if (const auto* const choice = std::get_if<Choice>(&distribution)) all[key] = Value::List{"choice", texts(*choice)};
    if (const auto* const range = std::get_if<Uniform>(&distribution))
      all[key] = Value::List{"uniform", Value::List{range->low, range->high}};
    if (const auto* const range = std::get_if<LogUniform>(&distribution))
      all[key] = Value::List{"log", Value::List{range->low, range->high}};
    if (const auto* const range = std::get_if<UniformInt>(&distribution))
      all[key] = Value::List{"int", Value::List{range->low, range->high}};
  }
  return all;
}

std::vector<Assignment> SearchSpace::trials(std::int64_t samples, std::uint64_t seed) const {
  check_count(samples);
  Draws draws(seed);
  std::vector<Assignment> trials(random.empty() ? 1 : static_cast<std::size_t>(samples));
  for (Assignment& trial : trials) {
    for (const auto& [key, distribution] : random) trial.emplace_back(key, draws.draw(distribution));
  }
  for (const auto& [key, choice] : grid) trials = combined(trials, key, choice);
  return trials;
}

}  // namespace levin::cli
