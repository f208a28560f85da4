#include "levin/callbacks/checkpoint_name.h"

#include <catch2/catch.hpp>
#include <limits>

#include "levin/core/base/error.h"

using levin::checkpoint_name;

// The expected names were made with Lightning's ModelCheckpoint.format_checkpoint_name over the same metrics.
TEST_CASE("checkpoint names are Lightning's") {
  const levin::MetricMap metrics{{"val_loss", 0.5},
                                 {"big", 1234567.0},
                                 {"one", 1.0},
                                 {"neg", -0.125},
                                 {"acc", 1.12},
                                 {"val/loss", 0.25},
                                 {"nan", std::numeric_limits<double>::quiet_NaN()}};
  struct Row {
    const char* pattern;
    const char* with_names;
    const char* without;
  };
  const Row rows[] = {{"{epoch}-{step}", "epoch=3-step=120", "3-120"},
                      {"{epoch:03d}", "epoch=003", "003"},
                      {"{val_loss:.2f}", "val_loss=0.50", "0.50"},
                      {"{val_loss}", "val_loss=0.5", "0.5"},
                      {"{one}", "one=1.0", "1.0"},
                      {"{big}", "big=1234567.0", "1234567.0"},
                      {"{big:.3e}", "big=1.235e+06", "1.235e+06"},
                      {"{neg:+.1f}", "neg=-0.1", "-0.1"},
                      {"{acc:02.0f}", "acc=01", "01"},
                      {"{missing:d}", "missing=0", "0"},
                      {"{missing:.2f}", "missing=0.00", "0.00"},
                      {"{missing}", "missing=0", "0"},
                      {"{epoch:.1f}", "epoch=3.0", "3.0"},
                      {"a-{epoch}-{epoch}", "a-epoch=3-epoch=3", "a-3-3"},
                      {"{step:>6}", "step=   120", "   120"},
                      {"{nan:.2f}", "nan=nan", "nan"},
                      {"{val/loss:.3f}", "val/loss=0.250", "0.250"},
                      {"plain", "plain", "plain"}};
  for (const Row& row : rows) {
    CAPTURE(row.pattern);
    CHECK(checkpoint_name(row.pattern, true, 3, 120, metrics) == row.with_names);
    CHECK(checkpoint_name(row.pattern, false, 3, 120, metrics) == row.without);
  }
}

TEST_CASE("epoch and step from metrics, names that begin alike, integers, braces and values that are no numbers") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(checkpoint_name("{epoch}-{step:05d}", true, 3, 120, {{"epoch", 7.0}, {"step", 9.0}}) == "epoch=7-step=00009");
  CHECK(checkpoint_name("{epoch_test:.1f}-{epoch}", true, 1, 2, {{"epoch_test", 0.5}}) == "epoch_test=0.5-epoch=1");
  CHECK(checkpoint_name("{acc:d}", false, 0, 0, {{"acc", 2.0}}) == "2");
  CHECK(checkpoint_name("{acc:d}", false, 0, 0, {{"acc", -infinity}}) == "-inf");
  CHECK(checkpoint_name("{acc:d}", false, 0, 0, {{"acc", 1e300}}) == "1e+300");
  CHECK(checkpoint_name("{epoch:255}", false, 7, 0, {}).size() == 255);
  CHECK(checkpoint_name("{{{acc:.1f}}}", false, 0, 0, {{"acc", 2.0}}) == "{2.0}");
}

TEST_CASE("a malformed checkpoint name is refused with its text") {
  for (const char* pattern : {"{epoch", "epoch}", "{}", "{:d}", "{val_loss:.2q}", "{val_loss:{}}", "{epoch:2000000000}",
                              "{val_loss:.256f}", "{epoch:c}"}) {
    CAPTURE(pattern);
    CHECK_THROWS_AS(checkpoint_name(pattern, true, 0, 0, {}), levin::ConfigError);
  }
  CHECK_THROWS_WITH(checkpoint_name("a{epoch", true, 0, 0, {}), Catch::Contains("'a{epoch'") && Catch::Contains("no '}'"));
}
