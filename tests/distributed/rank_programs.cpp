// Programs of users, started on several ranks. Arguments: the program's name, and its settings as name=value.
#include <functional>

#include "distributed/rank_program.h"

namespace levin::test {

namespace {

std::map<std::string, std::function<void(const Settings&)>>& programs() {
  static std::map<std::string, std::function<void(const Settings&)>> all;
  return all;
}

}  // namespace

RankProgram::RankProgram(const char* name, Run run) { programs().emplace(name, run); }

RankProgram::RankProgram(const char* name, const std::map<std::string, Run>& scenarios) {
  programs().emplace(name, [scenarios](const Settings& settings) { scenarios.at(settings.text("scenario"))(settings); });
}

}  // namespace levin::test

int main(int argc, char** argv) {
  using namespace levin::test;
  become_copy(argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  run_program([&] {
    if (arguments.empty() || !programs().contains(arguments[0])) {
      std::string names;
      for (const auto& [name, program] : programs()) names += " " + name;
      throw levin::ConfigError("the first argument names a program:" + names);
    }
    programs().at(arguments[0])(Settings({arguments.begin() + 1, arguments.end()}));
  });
}
