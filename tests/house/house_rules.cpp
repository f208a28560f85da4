#include "house/house_rules.h"

#include <algorithm>
#include <array>
#include <regex>
#include <sstream>
#include <string_view>

#include "support/file_text.h"
#include "support/rooms.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

constexpr std::ptrdiff_t kMaxLines = 800;
const std::vector<std::string> kUsers = {"examples", "tests", "benchmarks"};

bool is_in_any(std::string_view name, const std::vector<std::string>& folders) {
  return std::find(folders.begin(), folders.end(), name.substr(0, name.find('/'))) != folders.end() &&
         name.find('/') != std::string_view::npos;
}

/// What stands in one place: how it looks elsewhere in a room, and who may write it all the same, by the beginnings of files'
/// names.
struct Rule {
  /// Where its first group matches, nothing is wrong.
  std::regex pattern;
  std::vector<std::string_view> free;
  std::string_view finding;
};

std::regex lines_like(const std::string& pattern) {
  return std::regex(pattern, std::regex::ECMAScript | std::regex::multiline);
}
std::regex include_of(const std::string& header) { return lines_like(R"(^\s*#\s*include\s*["<])" + header); }

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = {
      {include_of("torch/torch\\.h"), {}, "includes <torch/torch.h>, which takes 10 s to compile; include what is used"},
      {include_of("levin/levin\\.h"), {}, "includes the umbrella header, which is for users; include what is used"},
      {include_of("yaml-cpp/"), {"core/config/", "cli/"}, "includes yaml-cpp; only core/config and cli know YAML"},
      {include_of("CLI/"), {"cli/"}, "includes CLI11; only cli knows the command line"},
      {include_of("[^\">]*c10d/"), {"strategies/"}, "includes c10d; only strategies know process groups"},
      {lines_like("^using namespace"),
       {},
       "has `using namespace` at file scope, which holds for the sources compiled with it too"},
      // Of an object or as a free function: `group->allreduce(`, `exchange(`. What is called otherwise, as RankExchange's
      // methods are, is no such call. Users' collectives are declared in core, and handed on to the strategy.
      {std::regex(
           R"((std::)?\b(?:all_?reduce|all_?gather|all_?gather_text|_allgather_base|reduce_scatter|all_?to_?all|broadcast|gather|barrier|exchange)(?:<[^<>]*>)?\s*\()"),
       {"strategies/", "core/protocol/", "core/module.", "core/rank_group.h", "core/strategy.h",
        "core/step/gathered_gradients."},
       "communicates between ranks; only strategies and core/protocol may: use RankExchange"},
      {std::regex(R"(\+\s*std::to_string\(|std::to_string\((?:[^()]|\([^()]*\))*\)\s*\+)"),
       {"core/base/"},
       "puts a number into a text with +: use format() of core/base/format.h"},
      {std::regex(R"(#\s*include\s*<fmt/|\bsnprintf\(|\bstd::setprecision\()"),
       // What a user writes into a checkpoint's name is fmt's language.
       {"core/base/", "callbacks/checkpoint_name.cpp"},
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

/// What is wrong with an include of a room's file, or of anybody's.
std::string include_finding(const std::string& name, const std::string& included) {
  if (included.find("../") != std::string::npos) return "includes upwards; write \"levin/<room>/<file>\"";
  if (!is_in_any(name, rooms())) return "";
  if (is_in_any(included, rooms()) || is_in_any(included, kUsers)) {
    return "includes " + included + "; headers of ours are included as \"levin/<room>/<file>\"";
  }
  if (!included.starts_with("levin/") || included == "levin/levin.h") return "";
  const std::string room = name.substr(0, name.find('/'));
  const std::string other = included.substr(6, included.find('/', 6) - 6);
  // The header of other languages is c's. A built-in module brings its optimizer along.
  if (room == "c" && included == "levin/levin_c.h") return "";
  if (other == room || other == "core" || room == "cli" || (room == "models" && other == "optim") ||
      ((room == "images" || room == "columns" || room == "text") && other == "data"))
    return "";
  return "includes " + included + ": " + room + " must not depend on " + other;
}

/// The content with comments made blanks, so that lines stay where they are.
std::string without_comments(std::string content) {
  for (std::size_t at = content.find("//"); at != std::string::npos; at = content.find("//", at)) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    content.replace(at, end - at, end - at, ' ');
  }
  return content;
}

/// Finds meetings at boundaries that do not say why every rank comes to them. Call it for every line of a file, in order.
class MeetingReasons {
 public:
  /// True when the line is such a meeting.
  bool lacks_reason(const std::string& line) {
    static const std::regex kMeeting(R"((->|\.)meet\()");
    static const std::regex kComment(R"(^\s*//)");
    if (std::regex_search(line, kComment)) {
      has_reason_ |= line.find("// Every rank reaches this because") != std::string::npos;
      return false;
    }
    const std::string code = line.substr(0, line.find("//"));
    const bool lacks = std::regex_search(code, kMeeting) && !has_reason_;
    // A statement may begin some lines above the call.
    if (code.find_first_of(";{}") != std::string::npos) has_reason_ = false;
    return lacks;
  }

 private:
  bool has_reason_ = false;  ///< of the statement that follows
};

}  // namespace

std::vector<SourceFile> read_sources(const fs::path& root) {
  std::vector<SourceFile> files;
  std::vector<std::string> folders = rooms();
  folders.insert(folders.end(), kUsers.begin(), kUsers.end());
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (!entry.is_regular_file() || (extension != ".h" && extension != ".cpp" && extension != ".cu")) continue;
      files.push_back({entry.path().lexically_relative(root).generic_string(), read_text(entry.path())});
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& left, const auto& right) { return left.name < right.name; });
  return files;
}

std::vector<std::string> findings(const SourceFile& file) {
  std::vector<std::string> found;
  const std::string code = without_comments(file.content);
  const auto report = [&](std::ptrdiff_t end, std::string_view what) {
    const auto line = 1 + std::count(code.begin(), code.begin() + end, '\n');
    found.push_back(file.name + ":" + std::to_string(line) + ": " + std::string(what));
  };
  static const std::regex kInclude = include_of("([^\">]+)[\">]");
  for (auto match = std::sregex_iterator(code.begin(), code.end(), kInclude); match != std::sregex_iterator(); ++match) {
    const std::string what = include_finding(file.name, (*match)[1]);
    if (!what.empty()) report(match->position(1), what);
  }
  const std::ptrdiff_t lines = std::count(code.begin(), code.end(), '\n');
  if (lines > kMaxLines) report(std::ssize(code), "is longer than " + std::to_string(kMaxLines) + " lines; split it");
  if (file.name.ends_with(".h") && !file.content.starts_with("#pragma once\n")) report(0, "does not begin with #pragma once");
  if (!is_in_any(file.name, rooms())) return found;

  for (const Rule& rule : rules()) {
    const auto is_beginning = [&](std::string_view beginning) { return file.name.starts_with(beginning); };
    if (std::any_of(rule.free.begin(), rule.free.end(), is_beginning)) continue;
    for (auto match = std::sregex_iterator(code.begin(), code.end(), rule.pattern); match != std::sregex_iterator(); ++match) {
      if (!(*match)[1].matched) report(match->position() + match->length(), rule.finding);
    }
  }
  if (file.name.starts_with("strategies/") || file.name.starts_with("core/protocol/")) return found;
  MeetingReasons reasons;
  std::ptrdiff_t end = 0;
  for (const std::string& line : lines_of(file.content)) {
    end += std::ssize(line);
    if (reasons.lacks_reason(line))
      report(end, "meets other ranks without a comment above it: \"Every rank reaches this because …\"");
    end = std::min(end + 1, std::ssize(code));
  }
  return found;
}

}  // namespace levin::test
