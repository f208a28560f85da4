// A user's program for the deadlock matrix. Arguments: scenario, number of ranks, folder for the ranks' reports, parameters.
#include "distributed/matrix/scenario.h"

int main(int argc, char** argv) {
  using namespace levin::test;
  become_copy(argc, argv);
  Scenarios scenarios;
  add_logging_scenarios(scenarios);
  add_data_scenarios(scenarios);
  add_stopping_scenarios(scenarios);
  add_reading_scenarios(scenarios);
  add_collective_scenarios(scenarios);
  add_setup_scenarios(scenarios);
  add_writing_scenarios(scenarios);
  run_program([&] {
    Scenario scenario(std::stoi(argv[2]), argv[3], {argv + 4, argv + argc});
    scenarios.at(argv[1])(scenario);
    const char* const rank = std::getenv("RANK");
    scenario.report(rank == nullptr ? 0 : std::stoi(rank));
  });
}
