// Runs the cases of a text file, cases/*.txt, whose form CONTRIBUTING.md describes: run_cases FILE [PART_OF_A_NAME]
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/file_text.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// A line that begins with a word of the form: "says run.yaml:2". `text` of a file has the indented lines below too.
struct Line {
  int number = 0;
  std::string word;
  std::string text;
};

struct Case {
  std::string name;
  std::vector<Line> lines;
  std::vector<Line> rows;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// The cases of a file. What stands before the first is a part of each.
std::vector<Case> read_cases(const fs::path& file) {
  std::istringstream stream(read_text(file));
  std::vector<Case> cases(1);
  std::vector<Line>* lines = &cases.back().lines;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty() || line.starts_with("#")) continue;
    if (line.starts_with("  ")) {
      if (lines->empty() || lines->back().word != "file") throw std::runtime_error("an indented line belongs to no file");
      lines->back().text += line.substr(2) + "\n";
      continue;
    }
    const std::size_t blank = std::min(line.find(' '), line.size());
    Line parsed{number, line.substr(0, blank), line.substr(std::min(blank + 1, line.size()))};
    if (parsed.word == "says") parsed.text = replaced(parsed.text, "\\n", "\n");
    if (parsed.word == "==") {
      cases.push_back({parsed.text, cases.front().lines, {}});
      lines = &cases.back().lines;
    } else if (parsed.word == "row") {
      cases.back().rows.push_back(std::move(parsed));
    } else {
      if (parsed.word == "file") parsed.text += "\n";
      lines->push_back(std::move(parsed));
    }
  }
  cases.erase(cases.begin());
  return cases;
}

/// As a shell splits words, with both kinds of quotes.
Words words_of(const std::string& text) {
  Words words;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == ' ') {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (letter == '\'' || letter == '"') {
      const std::size_t end = std::min(text.find(letter, at + 1), text.size());
      words.back() += text.substr(at + 1, end - at - 1);
      at = end;
    } else {
      words.back() += letter;
    }
  }
  return words;
}

/// What a command of bash has at hand: `column FILE NAME` prints the values of a CSV file's column, `alike FILE FILE NAME
/// BOUND` compares those of two files, by their quotients, `holds "A < B"` compares numbers, `lines N REGEX [FILE]` counts the
/// lines of `out` or a file that match, and `silent COMMAND` fails where the command writes to standard error.
constexpr const char* kPrelude = "PATH=" LEVIN_BINARY_DIR R"(/bin:$PATH
column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == name) at = i; next } at && $at != "" { print $at }' "$1"; }
alike() { paste <(column "$1" "$3") <(column "$2" "$3") | awk -v most="$4" 'NF != 2 || ($1 / $2 - 1) ^ 2 > most ^ 2 { bad = 1 } END { exit bad || NR == 0 }'; }
holds() { awk "BEGIN { exit !($1) }"; }
lines() { local found=$(grep -cE -- "$2" "${3:-out}"); test $found = $1 || { echo "$found lines, not $1: $2"; return 1; }; }
silent() { "$@" 2>err; local status=$?; cat err >&2; test ! -s err && return $status; }
)";

/// Whether a command is more than the words of a start of levin.
bool is_for_shell(const std::string& text) {
  static const std::regex kQuoted("'[^']*'");
  return !text.starts_with("levin ") || std::regex_replace(text, kQuoted, "").find_first_of("|&;<>$`(") != std::string::npos;
}

/// The names of what a folder holds, in order.
std::string names_in(const fs::path& folder) {
  std::set<std::string> names;
  if (fs::exists(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

/// The cells of a CSV file's column that are not empty. No cell of a run's numbers is in quotes.
std::string column(const std::string& csv, const std::string& name) {
  std::istringstream lines(csv);
  std::string line, text;
  std::size_t wanted = 0;
  for (bool is_header = true; std::getline(lines, line); is_header = false) {
    std::istringstream cells(line);
    std::size_t index = 0;
    for (std::string cell; std::getline(cells, cell, ','); ++index) {
      if (is_header && cell == name) wanted = index;
      if (is_header || index != wanted || cell.find_first_not_of(' ') == std::string::npos) continue;
      text += (text.empty() ? "" : " ") + cell;
    }
    if (is_header && wanted == 0 && !line.starts_with(name + ",")) return "no column " + name;
  }
  return text;
}

/// Whether texts are the same words, numbers to six digits.
bool are_alike(const std::string& text, const std::string& expected) {
  const Words words = words_of(text), others = words_of(expected);
  return std::equal(words.begin(), words.end(), others.begin(), others.end(),
                    [](const std::string& one, const std::string& other) {
                      if (one == other) return true;
                      char* end = nullptr;
                      const double number = std::strtod(one.c_str(), &end), wanted = std::strtod(other.c_str(), nullptr);
                      return end != one.c_str() && std::abs(number - wanted) <= 1e-6 * std::abs(wanted);
                    });
}

/// One run of a case: with one of its rows, or without.
class Run {
 public:
  Run(const fs::path& file, const Case& given, const std::string& row) : file_(file), case_(given), row_(row) {}

  /// Whether it did all that it should.
  bool passes(const std::string& facts) {
    for (std::size_t begin = 0; begin < facts.size();) {
      const std::size_t end = std::min(facts.find(" | ", begin), facts.size());
      facts_.push_back(facts.substr(begin, end - begin));
      begin = end + 3;
    }
    for (const Line& line : case_.lines) take(line);
    for (std::size_t index = 0; index < facts_.size(); ++index) {
      const std::string& fact = facts_[index];
      if (is_used_in_lines(index)) continue;
      take(fact.starts_with("status ") ? Line{number_, "status", fact.substr(7)} : Line{number_, "says", fact});
    }
    finish_command();
    return passes_;
  }

 private:
  static constexpr std::size_t kMostFacts = 9;
  static std::string marked(std::size_t index) { return "@" + std::to_string(index + 1) + "@"; }
  bool is_used_in_lines(std::size_t index) const {
    return std::any_of(case_.lines.begin(), case_.lines.end(),
                       [&](const Line& line) { return line.text.find(marked(index)) != std::string::npos; });
  }

  void take(Line line) {
    line.text = filled(line.text);
    if (line.word == "file") {
      const std::size_t end = line.text.find('\n');
      const fs::path path = folder_ / line.text.substr(0, end);
      fs::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << line.text.substr(end + 1);
    } else if (line.word == "set") {
      const std::size_t equals = line.text.find('=');
      environment_.emplace_back(line.text.substr(0, equals), line.text.substr(equals + 1));
    } else if (line.word == "$") {
      finish_command();
      start(line);
    } else if (line.word == "status") {
      status_ = std::stoi(line.text);
    } else {
      check(line);
    }
  }

  void start(const Line& line) {
    number_ = line.number;
    status_ = 0;
    ran_before_ = fs::exists(folder_ / "logs/version_0");
    Command command{.arguments = words_of(line.text), .folder = folder_.path(), .environment = environment_};
    command.copied = !is_for_shell(line.text);
    if (command.copied) {
      command.arguments.front() = LEVIN_BINARY_DIR "/bin/loaded_levin";
    } else {
      command.arguments = {"bash", "-c", kPrelude + line.text};
    }
    outcome_ = run(command);
  }

  /// What holds for every command.
  void finish_command() {
    if (number_ == 0) return;
    expect(number_, outcome_.status == status_ && !outcome_.timed_out, "status " + std::to_string(status_));
    const std::string text = outcome_.out + outcome_.err;
    for (const char* unwanted : {"terminate called", "Exception raised from", "what():", "c10::Error"})
      expect(number_, text.find(unwanted) == std::string::npos, std::string("not ") + unwanted);
    const auto is_control = [](unsigned char letter) {
      return (letter < 0x20 && letter != '\n' && letter != '\t') || letter == 0x7f;
    };
    expect(number_, std::none_of(text.begin(), text.end(), is_control), "no character that controls a terminal");
    expect(number_, outcome_.err.size() < 30'000, "less than 30,000 characters of errors");
    if (status_ == 2 && !ran_before_) expect(number_, !fs::exists(folder_ / "logs/version_0"), "none logs/version_0");
  }

  void check(const Line& line) {
    const std::string text = outcome_.out + outcome_.err;
    if (line.word == "says") {
      expect(line.number, text.find(line.text) != std::string::npos, "says " + line.text);
    } else if (line.word == "once") {
      expect(line.number, count(text, line.text) == 1, "once " + line.text);
    } else if (line.word == "not") {
      expect(line.number, text.find(line.text) == std::string::npos, "not " + line.text);
    } else if (line.word == "none") {
      expect(line.number, !fs::exists(folder_ / line.text), "none " + line.text);
    } else if (line.word == "has") {
      const std::size_t blank = std::min(line.text.find(' '), line.text.size());
      const fs::path path = folder_ / line.text.substr(0, blank);
      const std::string content = fs::exists(path) ? read_text(path) : "";
      expect(line.number,
             fs::exists(path) && (blank == line.text.size() || content.find(line.text.substr(blank + 1)) != std::string::npos),
             "has " + line.text + (content.size() < 400 ? "\n  has: " + content : ""));
    } else if (line.word == "files") {
      const std::size_t arrow = line.text.find(" => ");
      const std::string names = names_in(folder_ / line.text.substr(0, arrow));
      expect(line.number, names == line.text.substr(arrow + 4), "files " + line.text + ", has " + names);
    } else if (line.word == "csv") {
      const std::size_t arrow = line.text.find(" => ");
      const Words file_and_column = words_of(line.text.substr(0, arrow));
      const std::string values = column(read_text(folder_ / file_and_column.at(0)), file_and_column.at(1));
      expect(line.number, are_alike(values, line.text.substr(arrow + 4)), "csv " + line.text + ", has " + values);
    } else {
      throw std::runtime_error(std::to_string(line.number) + ": unknown word '" + line.word + "'");
    }
  }

  void expect(int number, bool holds, const std::string& what) {
    if (holds) return;
    if (std::exchange(passes_, false))
      std::cout << file_.string() << ":" << number << ": " << case_.name << (row_.empty() ? "" : ": ") << row_ << "\n"
                << outcome_.text().substr(0, 4000) << "\n";
    std::cout << "  line " << number << " expected: " << what << "\n";
  }

  std::string filled(std::string text) const {
    text = replaced(std::move(text), "@row@", row_);
    for (std::size_t index = 0; index < kMostFacts; ++index)
      text = replaced(std::move(text), marked(index), index < facts_.size() ? facts_[index] : "");
    text = replaced(std::move(text), "@folder@", folder_.path().string());
    text = replaced(std::move(text), "@digits@", "--config @source@/examples/digits/config.yaml");
    text = replaced(std::move(text), "@source@", LEVIN_SOURCE_DIR);
    return replaced(std::move(text), "@build@", LEVIN_BINARY_DIR);
  }

  const fs::path& file_;
  const Case& case_;
  const std::string row_;
  Words facts_;  ///< of the row
  const TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::string>> environment_ = {{"OMP_NUM_THREADS", "1"}};
  int number_ = 0;  ///< the line of the command that ran last
  int status_ = 0;  ///< with which it should end
  bool ran_before_ = false;
  Outcome outcome_;
  bool passes_ = true;
};

int run_file(const fs::path& file, const std::string& part_of_name) {
  int runs = 0;
  int failed = 0;
  for (const Case& each : read_cases(file)) {
    if (each.name.find(part_of_name) == std::string::npos) continue;
    std::vector<Line> rows = each.rows;
    if (rows.empty()) rows.emplace_back();
    for (const Line& row : rows) {
      const std::size_t arrow = row.text.rfind(" => ");
      const std::string text = replaced(row.text.substr(0, arrow), "\\n", "\n");
      const std::string facts = arrow == std::string::npos ? "" : row.text.substr(arrow + 4);
      ++runs;
      failed += Run(file, each, text).passes(facts) ? 0 : 1;
    }
  }
  std::cout << runs << " runs, " << failed << " failed\n";
  return runs == 0 || failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace levin::test

int main(int argc, char** argv) {
  try {
    return levin::test::run_file(argv[1], argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::cerr << argv[1] << ": " << error.what() << "\n";
    return 1;
  }
}
