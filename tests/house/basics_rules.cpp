#include "house/basics_rules.h"

#include <algorithm>
#include <regex>
#include <string_view>

namespace levin::test {
namespace {

/// What stands in one place, how it looks elsewhere, and who may write it all the same: beginnings of files' names.
struct Rule {
  std::regex pattern;
  std::vector<std::string_view> free;
  std::string_view finding;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = {
      {std::regex(R"(\+\s*std::to_string\(|std::to_string\((?:[^()]|\([^()]*\))*\)\s*\+)"),
       {"core/base/"},
       "puts a number into a text with +: use format() of core/base/format.h"},
      {std::regex(R"(#\s*include\s*<fmt/|\bsnprintf\(|\bstd::setprecision\()"),
       // What a user writes into a checkpoint's name is fmt's language; a path of /proc is made without memory.
       {"core/base/", "callbacks/checkpoint_name.cpp", "strategies/failure/process_state.cpp"},
       "formats by itself: use format() of core/base/format.h"},
      {std::regex(R"(empty\(\) \? "[^"]{0,2}" : "(?:, |; |\\n|\|| and ))"),
       {"core/base/"},
       "joins words by itself: use join() of core/base/text.h"},
      {std::regex(R"(& 0xc0\b)"), {"core/base/"}, "decodes UTF-8 by itself: use core/base/text.h"},
      {std::regex(R"(\bSCM_RIGHTS\b)"),
       {"strategies/host/shared_file.cpp"},
       "passes descriptors by itself: use strategies/host/shared_file.h"},
  };
  return kRules;
}

bool is_of_a_room(std::string_view name) {
  constexpr std::string_view kOthers[] = {"benchmarks/", "examples/", "include/", "tests/"};
  return std::none_of(std::begin(kOthers), std::end(kOthers), [&](std::string_view other) { return name.starts_with(other); });
}

/// The content with comments made blanks, so that lines stay where they are.
std::string without_comments(std::string content) {
  for (std::size_t at = content.find("//"); at != std::string::npos; at = content.find("//", at)) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    std::fill(content.begin() + static_cast<std::ptrdiff_t>(at), content.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  }
  return content;
}

}  // namespace

std::vector<std::string> basics_findings(const SourceFile& file) {
  std::vector<std::string> found;
  if (!is_of_a_room(file.name)) return found;
  const std::string code = without_comments(file.content);
  for (const Rule& rule : rules()) {
    const auto is_free = [&](std::string_view beginning) { return file.name.starts_with(beginning); };
    if (std::any_of(rule.free.begin(), rule.free.end(), is_free)) continue;
    for (auto match = std::sregex_iterator(code.begin(), code.end(), rule.pattern); match != std::sregex_iterator(); ++match) {
      const auto line = 1 + std::count(code.begin(), code.begin() + match->position(), '\n');
      found.push_back(file.name + ":" + std::to_string(line) + ": " + std::string(rule.finding));
    }
  }
  return found;
}

}  // namespace levin::test
