#include "levin/core/base/text.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <locale>
#include <memory>
#include <numeric>
#include <sstream>
#include <utility>

#include "levin/core/base/format.h"

namespace levin {

std::string float_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  std::string text;
  append_float(text, value);
  return text;
}

void append_float(std::string& text, double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  const std::string_view number(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  text += number;
  if (number.find_first_of(".einf") == std::string_view::npos) text += ".0";
}

std::optional<double> parse_float(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc()) return value;
  // Out of range; from_chars does not report on which side.
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  stream >> value;
  const double infinity = std::numeric_limits<double>::infinity();
  if (stream.fail()) return text[0] == '-' ? -infinity : infinity;
  return value;
}

std::string printable(std::string_view text) {
  const auto is_control = [](char32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); };
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const bool is_break = text[0] == '\n' || text[0] == '\t';
    if (is_break || (length > 0 && !is_control(utf8_code_point(text, length)))) {
      shown += text.substr(0, length);
    } else {
      for (const char byte : text.substr(0, length > 0 ? length : 1))
        shown += format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return shown;
}

std::string quoted_text(std::string_view text, std::size_t longest) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = utf8_length(text.substr(end));
    const std::size_t next = end + (length > 0 ? length : 1);
    if (next > longest) break;
    end = next;
  }
  std::string shown = "'";
  for (const char c : printable(text.substr(0, end))) shown += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  return shown + (end < text.size() ? "…'" : "'");
}

std::string percent_decoded(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned int byte = 0;
    const char* const digits = text.data() + at + 1;
    const bool is_code =
        text[at] == '%' && at + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    result += is_code ? static_cast<char>(byte) : text[at];
    if (is_code) at += 2;
  }
  return result;
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator, begin)) {
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t index = 1; index < length; ++index) {
    if (!is_utf8_continuation(text[index])) return 0;
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool surrogate_or_beyond = (lead == 0xed && byte(1) > 0x9f) || (lead == 0xf4 && byte(1) > 0x8f);
  return overlong || surrogate_or_beyond ? 0 : length;
}

char32_t utf8_code_point(std::string_view text, std::size_t length) {
  constexpr unsigned kLeadBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t point = static_cast<unsigned char>(text[0]) & kLeadBits[length];
  for (std::size_t index = 1; index < length; ++index) point = point << 6 | (static_cast<unsigned char>(text[index]) & 0x3f);
  return point;
}

std::size_t edit_distance(std::string_view left, std::string_view right) {
  const auto fold = [](char c) {
    if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
    return c == '-' ? '_' : c;
  };
  // Optimal string alignment, over three rows of the usual table.
  std::vector<std::size_t> before_last(right.size() + 1), last(right.size() + 1), row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= left.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const bool equal = fold(left[i - 1]) == fold(right[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (equal ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && fold(left[i - 1]) == fold(right[j - 2]) && fold(left[i - 2]) == fold(right[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[right.size()];
}

namespace {

/// Letters that follow one another, and digits that do: "val_loss2" is "val", "loss", "2".
std::vector<std::string> words_of(std::string_view name) {
  enum class Kind { kNone, kLetter, kDigit };
  std::vector<std::string> words;
  Kind before = Kind::kNone;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const Kind kind = std::isdigit(byte) != 0 ? Kind::kDigit : std::isalpha(byte) != 0 ? Kind::kLetter : Kind::kNone;
    if (kind != Kind::kNone && kind != before) words.emplace_back();
    if (kind != Kind::kNone) words.back() += static_cast<char>(std::tolower(byte));
    before = kind;
  }
  return words;
}

/// A user who writes one does not mean the other.
bool are_opposites(const std::string& left, const std::string& right) {
  constexpr std::pair<std::string_view, std::string_view> kOpposites[] = {
      {"min", "max"},      {"train", "val"},   {"train", "test"},      {"val", "test"},     {"enable", "disable"},
      {"start", "end"},    {"first", "last"},  {"step", "epoch"},      {"steps", "epochs"}, {"up", "down"},
      {"before", "after"}, {"true", "false"},  {"include", "exclude"}, {"upper", "lower"},  {"high", "low"},
      {"fp", "bf"},        {"float", "bfloat"}};
  const bool are_numbers =
      std::isdigit(static_cast<unsigned char>(left[0])) != 0 && std::isdigit(static_cast<unsigned char>(right[0])) != 0;
  if (are_numbers) return left != right;
  return std::ranges::any_of(kOpposites, [&](const auto& pair) {
    return (pair.first == left && pair.second == right) || (pair.first == right && pair.second == left);
  });
}

/// They differ in a number, or say the contrary.
bool contradict(std::string_view left, std::string_view right) {
  const std::vector<std::string> some = words_of(left);
  const std::vector<std::string> others = words_of(right);
  if (some.size() != others.size()) return false;
  for (std::size_t index = 0; index < some.size(); ++index) {
    if (are_opposites(some[index], others[index])) return true;
  }
  return false;
}

}  // namespace

std::string nearest_name(std::string_view wrong, const std::vector<std::string>& known) {
  // A typo changes a small part of a name. The limit of the length bounds the work on garbage.
  constexpr std::size_t kLongestName = 100;
  if (wrong.size() > kLongestName) return {};
  std::string nearest;
  std::size_t nearest_distance = std::max<std::size_t>(wrong.size() > 4 ? 2 : 1, wrong.size() * 3 / 10) + 1;
  for (const std::string& name : known) {
    if (name.size() > kLongestName) continue;
    const std::size_t distance = edit_distance(wrong, name);
    // A distance of the whole name means no similarity.
    if (distance < nearest_distance && distance < std::max(name.size(), wrong.size()) && !contradict(wrong, name)) {
      nearest = name;
      nearest_distance = distance;
    }
  }
  return nearest;
}

std::string quoted_list(const std::vector<std::string>& names) {
  return names.empty() ? "" : format("'{}'", join(names, "', '"));
}

std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& known, std::string_view what) {
  if (known.empty()) return format("; there are no {}", what);
  const std::string nearest = nearest_name(wrong, known);
  if (!nearest.empty()) return format("; did you mean '{}'?", nearest);
  return format("; the {} are {}", what, quoted_list(known));
}

std::string full_class_name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 ? demangled.get() : type.name();
}

std::string class_name_of(const std::type_info& type) {
  const std::string full = full_class_name_of(type);
  // From the end: a template's arguments in brackets are not a namespace of the class.
  int open = 0;
  for (std::size_t end = full.size(); end > 1; --end) {
    const char letter = full[end - 1];
    if (letter == '>' || letter == ')') ++open;
    if (letter == '<' || letter == '(') --open;
    if (open == 0 && letter == ':' && full[end - 2] == ':') return full.substr(end);
  }
  return full;
}

}  // namespace levin
