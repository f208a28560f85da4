// For tests that are not written in C++: runs a program many times, but loads it once (copied_program.h). Standard input
// holds a JSON list of commands, each the list of its arguments with the program's path first; standard output gets the list of
// their outcomes, {"status", "out", "err"}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "support/program.h"

int main() {
  nlohmann::json outcomes = nlohmann::json::array();
  for (const nlohmann::json& arguments : nlohmann::json::parse(std::cin)) {
    const levin::test::Outcome outcome = levin::test::run({.arguments = arguments, .copied = true});
    outcomes.push_back({{"status", outcome.status}, {"out", outcome.out}, {"err", outcome.err}});
  }
  std::cout << outcomes;
}
