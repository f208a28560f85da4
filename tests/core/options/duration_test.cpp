#include "levin/core/options/option_type.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

using levin::Duration;
using levin::OptionType;
using levin::parse_duration;
using levin::Value;

TEST_CASE("durations are days, hours, minutes and seconds") {
  CHECK(parse_duration("00:00:00:30") == std::chrono::seconds(30));
  CHECK(parse_duration(" 2:01:02:03 ") == std::chrono::hours(49) + std::chrono::seconds(123));
  CHECK(parse_duration("00:25:99:00") == std::chrono::minutes(25 * 60 + 99));
  CHECK(parse_duration("00:00:00:01.5") == std::chrono::milliseconds(1500));
  for (const char* text : {"", "30", "00:00:30", "1:2:3:4", "00:00:00:30s", "-1:00:00:00", "00:00:00:01."}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_duration(text), Catch::Contains("which is no duration"));
  }
}

TEST_CASE("a long text is no duration, and takes no stack") {
  CHECK_THROWS_WITH(parse_duration(std::string(1'000'000, ' ') + "x"), Catch::Contains("which is no duration"));
}

TEST_CASE("a duration is written as it is read") {
  CHECK(OptionType<Duration>::write(std::chrono::hours(12)) == Value("00:12:00:00"));
  CHECK(OptionType<Duration>::write(std::chrono::hours(49) + std::chrono::seconds(123)) == Value("02:01:02:03"));
  CHECK(OptionType<Duration>::write(std::chrono::milliseconds(500)) == Value("00:00:00:00.5"));
  CHECK(OptionType<Duration>::write(std::chrono::seconds(10)) == Value("00:00:00:10"));
  CHECK(rc::check([] {
    const Duration duration = std::chrono::milliseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000));
    RC_ASSERT(std::abs((OptionType<Duration>::read(OptionType<Duration>::write(duration)) - duration).count()) < 1e-6);
  }));
  for (const double seconds : {-1.0, 1e15, std::nan("")}) {
    CAPTURE(seconds);
    CHECK_THROWS_AS(OptionType<Duration>::read(OptionType<Duration>::write(Duration(seconds))), levin::ConfigError);
  }
}
