#include "levin/core/base/wildcards.h"

#include <glob.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

constexpr std::size_t kMost = 1'000'000;

std::optional<std::int64_t> whole_number(const std::string& digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_one = error == std::errc() && end == digits.data() + digits.size() && number >= 0;
  return is_one ? std::optional(number) : std::nullopt;
}

/// What stands between braces, one by one; empty: it is nothing of the kind.
std::vector<std::string> choices_of(const std::string& inside) {
  if (inside.find(',') != std::string::npos) return split(inside, ",");
  const std::size_t dots = inside.find("..");
  if (dots == std::string::npos) return {};
  const std::string first = inside.substr(0, dots);
  const auto from = whole_number(first), to = whole_number(inside.substr(dots + 2));
  if (!from || !to || *to < *from) return {};
  if (static_cast<std::size_t>(*to - *from) >= kMost)
    throw ConfigError(format("{{{}}} stands for more than {} files", inside, kMost));
  std::vector<std::string> choices;
  for (std::int64_t number = *from; number <= *to; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    choices.push_back(std::move(digits));
  }
  return choices;
}

/// With the braces from this place on written out.
void expand(const std::string& text, std::size_t from, std::vector<std::string>& all) {
  const std::size_t begin = text.find('{', from);
  const std::size_t end = begin == std::string::npos ? begin : text.find('}', begin);
  if (end == std::string::npos) {
    if (all.size() == kMost) throw ConfigError(format("'{}' stands for more than {} files", text, kMost));
    all.push_back(text);
    return;
  }
  const std::vector<std::string> choices = choices_of(text.substr(begin + 1, end - begin - 1));
  if (choices.empty()) return expand(text, begin + 1, all);
  for (const std::string& choice : choices) {
    expand(text.substr(0, begin) + choice + text.substr(end + 1), begin + choice.size(), all);
  }
}

void add_matches(const std::string& pattern, std::vector<std::filesystem::path>& files) {
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> freed(&found, &globfree);
  const int status = glob(pattern.c_str(), 0, nullptr, &found);
  if (status != 0 && status != GLOB_NOMATCH) throw IoError(format("{}: a folder of it cannot be read", pattern));
  files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
}

}  // namespace

bool has_wildcards(const std::filesystem::path& path) {
  const std::string& text = path.native();
  if (text.find_first_of("*?[") != std::string::npos) return true;
  const std::size_t begin = text.find('{');
  if (begin == std::string::npos) return false;
  const std::vector<std::string> all = brace_expansions(text);
  return all.size() > 1 || all.front() != text;
}

std::vector<std::filesystem::path> matching_files(const std::filesystem::path& pattern) {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> missing;
  for (const std::string& single : brace_expansions(pattern.native())) {
    const std::size_t before = files.size();
    add_matches(single, files);
    const bool is_name = single.find_first_of("*?[") == std::string::npos;
    if (is_name && files.size() == before) missing.push_back(single);
  }
  if (files.empty() || missing.empty()) return files;
  throw ConfigError(format("{} of {} is not there{}", quoted_text(missing.front()), quoted_text(pattern.native()),
                           missing.size() > 1 ? format(", nor are {} more", missing.size() - 1) : ""));
}

std::vector<std::string> brace_expansions(const std::string& text) {
  std::vector<std::string> all;
  expand(text, 0, all);
  return all;
}

}  // namespace levin
