#include "house/house_rules.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <regex>
#include <sstream>
#include <string_view>

namespace levin::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLines = 500;

bool is_in(std::string_view name, std::string_view folder) {
  return name.starts_with(folder) && name.size() > folder.size() && name[folder.size()] == '/';
}

template <std::size_t N>
bool is_in_any(std::string_view name, const std::array<std::string_view, N>& folders) {
  return std::any_of(folders.begin(), folders.end(), [&](std::string_view folder) { return is_in(name, folder); });
}

constexpr std::array<std::string_view, 7> kRooms = {"core", "data", "optim", "callbacks", "loggers", "strategies", "cli"};
constexpr std::array<std::string_view, 3> kUsers = {"examples", "tests", "benchmarks"};

std::string room_of(std::string_view name) { return std::string(name.substr(0, name.find('/'))); }

bool may_include(const std::string& room, const std::string& other) {
  if (room == other || other == "core") return true;
  return room == "cli";
}

/// The text of an include directive without its quotes or brackets; empty for any other line.
std::string included_by(const std::string& line) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*["<]([^">]+)[">])re");
  std::smatch match;
  return std::regex_search(line, match, kInclude) ? match[1].str() : std::string();
}

std::string include_finding(const std::string& name, const std::string& included) {
  const bool is_user = is_in_any(name, kUsers);
  if (included.find("../") != std::string::npos) return "includes upwards; write \"levin/<room>/<file>\"";
  if (is_user) return "";
  if (included == "torch/torch.h") return "includes <torch/torch.h>, which takes 10 s to compile; include what is used";
  if (included == "levin/levin.h") return "includes the umbrella header, which is for users; include what is used";
  if (is_in(included, "levin")) {
    const std::string other = room_of(std::string_view(included).substr(6));
    const std::string room = room_of(name);
    if (!may_include(room, other)) return "includes " + included + ": " + room + " must not depend on " + other;
  } else if (is_in_any(included, kRooms) || is_in_any(included, kUsers)) {
    return "includes " + included + "; headers of ours are included as \"levin/<room>/<file>\"";
  }
  if (is_in(included, "yaml-cpp") && !is_in(name, "core/yaml") && !is_in(name, "cli")) {
    return "includes yaml-cpp; only core/yaml and cli know YAML";
  }
  if (is_in(included, "CLI") && !is_in(name, "cli")) return "includes CLI11; only cli knows the command line";
  if (included.find("c10d/") != std::string::npos && !is_in(name, "strategies")) {
    return "includes c10d; only strategies know process groups";
  }
  return "";
}

/// The line without its comment.
std::string code_of(const std::string& line) { return line.substr(0, line.find("//")); }

/// A call of something that communicates between ranks, of an object or as a free function: `group->allreduce(`, `exchange(`.
/// What is called otherwise, as RankExchange's methods are, is no such call.
bool communicates(const std::string& code) {
  static const std::regex kCall(
      R"((std::)?\b(all_?reduce|all_?gather|all_?gather_text|_allgather_base|reduce_scatter|all_?to_?all|broadcast|gather|barrier|exchange)(<[^<>]*>)?\s*\()");
  return std::any_of(std::sregex_iterator(code.begin(), code.end(), kCall), std::sregex_iterator(),
                     [](const std::smatch& call) { return !call[1].matched; });
}

/// Where users' collectives are declared and handed on to the strategy.
constexpr std::array<std::string_view, 4> kOfferCollectives = {"core/module.cpp", "core/module.h", "core/rank_group.h",
                                                               "core/strategy.h"};

bool may_communicate(std::string_view name) {
  return is_in(name, "strategies") || is_in(name, "core/protocol") || is_in_any(name, kUsers) ||
         std::find(kOfferCollectives.begin(), kOfferCollectives.end(), name) != kOfferCollectives.end();
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
    const std::string code = code_of(line);
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
  for (const std::string_view folder :
       {"core", "data", "optim", "callbacks", "loggers", "strategies", "cli", "include", "examples", "tests", "benchmarks"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (!entry.is_regular_file() || (extension != ".h" && extension != ".cpp" && extension != ".cu")) continue;
      std::ostringstream content;
      content << std::ifstream(entry.path()).rdbuf();
      files.push_back({entry.path().lexically_relative(root).generic_string(), content.str()});
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& left, const auto& right) { return left.name < right.name; });
  return files;
}

std::vector<std::string> findings(const SourceFile& file) {
  std::vector<std::string> found;
  const bool is_free = may_communicate(file.name);
  MeetingReasons reasons;
  const auto report = [&](std::size_t line, const std::string& what) {
    found.push_back(file.name + ":" + std::to_string(line) + ": " + what);
  };

  std::istringstream lines(file.content);
  std::string line;
  std::size_t number = 0;
  while (std::getline(lines, line)) {
    ++number;
    if (const std::string included = included_by(line); !included.empty()) {
      if (const std::string what = include_finding(file.name, included); !what.empty()) report(number, what);
    }
    if (line.starts_with("using namespace") && is_in_any(file.name, kRooms)) {
      report(number, "has `using namespace` at file scope, which holds for the sources compiled with it too");
    }
    if (is_free) continue;
    if (communicates(code_of(line))) {
      report(number, "communicates between ranks; only strategies and core/protocol may: use RankExchange");
    }
    if (reasons.lacks_reason(line)) {
      report(number, "meets other ranks without a comment above it: \"Every rank reaches this because …\"");
    }
  }
  if (number > kMaxLines) report(number, "is longer than " + std::to_string(kMaxLines) + " lines; split it");
  if (file.name.ends_with(".h") && !file.content.starts_with("#pragma once\n")) report(1, "does not begin with #pragma once");
  return found;
}

}  // namespace levin::test
