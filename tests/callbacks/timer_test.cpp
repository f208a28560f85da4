#include "levin/callbacks/timer.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("the timer ends training when its time is up") {
  const auto timer = std::make_shared<Timer>(TimerOptions{.duration = std::chrono::seconds(0), .verbose = false});
  CHECK(epochs_of_fit(timer, {1}, 5) == 0);
  CHECK(*timer->time_remaining() <= 0);

  const auto resumed = std::make_shared<Timer>(TimerOptions{.duration = std::chrono::minutes(10)});
  Value state(Value::Map{});
  state["time_elapsed"]["train"] = 500.0;
  resumed->load_state_dict(state);
  CHECK(resumed->time_elapsed() == 500.0);
  CHECK(*resumed->time_remaining() == 100.0);
  CHECK(resumed->state_dict().at("time_elapsed").at("train") == Value(500.0));
  CHECK(epochs_of_fit(resumed, {1}, 2) == 2);
  CHECK(resumed->time_elapsed() > 500.0);
  CHECK(resumed->time_elapsed(Stage::kValidate) > 0.0);
}
