#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "distributed/rank_program.h"
#include "levin/core/trainer.h"

namespace levin::test {

/// One scenario on one rank: what it was asked for, and what it found. The ranks check for themselves; what is wrong, and how
/// much was checked, goes into a file of the rank that matrix_test reads.
class Scenario {
 public:
  Scenario(int ranks, std::filesystem::path folder, std::vector<std::string> parameters)
      : ranks_(ranks), folder_(std::move(folder)), parameters_(std::move(parameters)) {}

  int ranks() const { return ranks_; }
  const std::filesystem::path& folder() const { return folder_; }
  const std::string& text(std::size_t index) const { return parameters_.at(index); }
  int number(std::size_t index) const { return std::stoi(text(index)); }
  bool flag(std::size_t index) const { return text(index) == "true"; }

  /// ddp, over the control group that LEVIN_MATRIX_CONTROL_GROUP names.
  static Component<Strategy> strategy(bool find_unused_parameters = false) {
    const char* control_group = std::getenv("LEVIN_MATRIX_CONTROL_GROUP");
    Value arguments(Value::Map{});
    arguments["control_group"] = control_group == nullptr ? "auto" : control_group;
    arguments["find_unused_parameters"] = find_unused_parameters;
    return Component<Strategy>(Value("ddp"), arguments);
  }

  /// Options of a quiet run of one epoch on these ranks that logs every step.
  TrainerOptions options(const std::string& strategy_name = "ddp") const {
    TrainerOptions options = rank_options(ranks_, folder_);
    options.strategy = strategy_name == "ddp" ? strategy() : Component<Strategy>(strategy_name);
    return options;
  }

  template <class Actual, class Expected>
  void expect(const std::string& what, const Actual& actual, const Expected& expected) {
    ++checks_;
    if (same(actual, expected)) return;
    std::ostringstream text;
    text.precision(17);
    text << what << " is " << actual << ", not " << expected;
    wrong_.push_back(text.str());
  }
  void expect_metric(const Trainer& trainer, const std::string& name, double expected) {
    const auto found = trainer.callback_metrics().find(name);
    if (found == trainer.callback_metrics().end()) {
      ++checks_;
      wrong_.push_back("metric " + name + " is missing");
    } else {
      expect("metric " + name, found->second, expected);
    }
  }
  void expect_no_metric(const Trainer& trainer, const std::string& name) {
    expect("number of metrics called " + name, trainer.callback_metrics().count(name), std::size_t{0});
  }

  /// Called: on each rank that reached the end of the scenario.
  void report(int rank) const {
    std::ofstream file(folder_ / ("rank_" + std::to_string(rank)));
    for (const std::string& text : wrong_) file << "wrong: rank " << rank << ": " << text << "\n";
    file << "checks " << checks_ << std::endl;
  }

 private:
  static bool same(double left, double right) {
    return left == right || (std::isnan(left) && std::isnan(right)) || std::abs(left - right) < 1e-6 * std::abs(right);
  }
  template <class Left, class Right>
  static bool same(const Left& left, const Right& right) {
    if constexpr (std::is_arithmetic_v<Left> && std::is_arithmetic_v<Right>) {
      return same(static_cast<double>(left), static_cast<double>(right));
    } else {
      return left == right;
    }
  }

  int ranks_;
  std::filesystem::path folder_;
  std::vector<std::string> parameters_;
  int checks_ = 0;
  std::vector<std::string> wrong_;
};

using Scenarios = std::map<std::string, void (*)(Scenario&)>;

void add_logging_scenarios(Scenarios& scenarios);
void add_data_scenarios(Scenarios& scenarios);
void add_stopping_scenarios(Scenarios& scenarios);
void add_reading_scenarios(Scenarios& scenarios);
void add_collective_scenarios(Scenarios& scenarios);
void add_setup_scenarios(Scenarios& scenarios);
void add_writing_scenarios(Scenarios& scenarios);

}  // namespace levin::test
