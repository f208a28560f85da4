#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace levin::test {

/// The numbers in a text, separated by commas.
inline std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) numbers.push_back(std::stod(part));
  return numbers;
}

/// As many numbers, and each the expected one, as near as `how` says.
inline void check_numbers(const std::vector<double>& found, const std::vector<double>& expected,
                          const Approx& how = Approx::custom()) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t index = 0; index < found.size(); ++index) {
    INFO("number " << index);
    CHECK(found[index] == how(expected[index]));
  }
}

/// A scenario of a program of rank_programs, or of another such executable, on so many ranks, and what each rank reported
/// (Report), in its order. While this lives, failed checks show the program's output.
class RankRun {
 public:
  RankRun(const std::string& program, const std::string& scenario, int ranks, const std::vector<std::string>& settings = {},
          const std::string& executable = "rank_programs")
      : executable_(executable) {
    start(program, scenario, ranks, settings);
  }
  /// Runs another scenario in the same folder.
  void start(const std::string& program, const std::string& scenario, int ranks, const std::vector<std::string>& settings) {
    Command command;
    command.arguments = {LEVIN_BINARY_DIR "/bin/" + executable_, program, "scenario=" + scenario,
                         "ranks=" + std::to_string(ranks), "folder=" + folder.path().string()};
    command.arguments.insert(command.arguments.end(), settings.begin(), settings.end());
    command.limit = std::chrono::seconds(60);
    command.copied = true;
    outcome = run(command);
    std::string how = scenario + " on " + std::to_string(ranks) + " ranks";
    for (const std::string& setting : settings) how += ", " + setting;
    said_.emplace(Catch::MessageBuilder("INFO", CATCH_INTERNAL_LINEINFO, Catch::ResultWas::Info) << how << "\n"
                                                                                                 << outcome.text());
    by_rank.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream file(folder.path() / ("rank_" + std::to_string(rank)));
      auto& facts = by_rank.emplace_back();
      for (std::string name, value; file >> name >> value;) facts[name].push_back(value);
    }
  }

  bool has(std::size_t rank, const std::string& name) const { return by_rank.at(rank).contains(name); }
  /// Its last report under this name.
  const std::string& text(std::size_t rank, const std::string& name) const { return by_rank.at(rank).at(name).back(); }
  double number(std::size_t rank, const std::string& name) const { return std::stod(text(rank, name)); }
  /// That of all ranks, which must be the same to the bit.
  std::vector<double> common_numbers(const std::string& name) const {
    check_alike(name);
    return numbers_in(text(0, name));
  }

  /// Checks that all ranks have reported the same.
  void check_alike(const std::string& name) const {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      INFO(name << " on rank " << rank);
      REQUIRE(has(rank, name));
      CHECK(by_rank[rank].at(name) == by_rank[0].at(name));
    }
  }
  /// Checks that the fact has this value on all ranks.
  void check_everywhere(const std::string& name, double expected) const {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      INFO(name << " on rank " << rank);
      REQUIRE(has(rank, name));
      CHECK(number(rank, name) == Approx(expected));
    }
  }

  TemporaryFolder folder;
  Outcome outcome;
  std::vector<std::map<std::string, std::vector<std::string>>> by_rank;

 private:
  std::string executable_;
  std::optional<Catch::ScopedMessage> said_;
};

/// The same of a run that must end well.
struct GoodRun : RankRun {
  GoodRun(const std::string& program, const std::string& scenario, int ranks, const std::vector<std::string>& settings = {},
          const std::string& executable = "rank_programs")
      : RankRun(program, scenario, ranks, settings, executable) {
    REQUIRE(outcome.ok());
  }
  void start(const std::string& program, const std::string& scenario, int ranks, const std::vector<std::string>& settings) {
    RankRun::start(program, scenario, ranks, settings);
    REQUIRE(outcome.ok());
  }
};

}  // namespace levin::test
