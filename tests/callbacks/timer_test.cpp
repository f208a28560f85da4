#include "levin/callbacks/timer.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"

using namespace levin;
using namespace levin::test;

// What runs show of it is in acceptance/cases/callbacks.txt.
TEST_CASE("a timer that resumes counts the time before") {
  const auto resumed = std::make_shared<Timer>(TimerOptions{.duration = std::chrono::minutes(10)});
  Value state(Value::Map{});
  state["time_elapsed"]["train"] = 500.0;
  resumed->load_state_dict(state);
  CHECK(resumed->time_elapsed() == 500.0);
  CHECK(*resumed->time_remaining() == 100.0);
  CHECK(resumed->state_dict().at("time_elapsed").at("train") == Value(500.0));
  ScriptedModule module({1});
  CHECK(ScriptedRun(2, {resumed}).fit(module, 2, {FixedLoader::of_rows(1, 1)})->current_epoch() == 2);
  CHECK(resumed->time_elapsed() > 500.0);
  CHECK(resumed->time_elapsed(Stage::kValidate) > 0.0);
}
