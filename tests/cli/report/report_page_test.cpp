// What the page of a run has is in acceptance/cases/report_data.txt.
#include "levin/cli/report/report_page.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "levin/cli/report/curves_json.h"
#include "levin/cli/report/profile_tables.h"
#include "levin/cli/report/settings_table.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

using levin::Value;
using levin::write_file;
using levin::cli::curves_json;
using levin::cli::RunMetrics;
using levin::cli::settings_table;
using levin::test::TemporaryFolder;

namespace {

/// "key: value | value" of each row, "-" for none.
std::vector<std::string> rows_of(const Value& table) {
  std::vector<std::string> rows;
  for (const Value& row : table.as_list()) {
    std::string text = row.at("key").as_string() + ":" + (row.at("differs").as_bool() ? "!" : "");
    for (const Value& value : row.at("values").as_list()) text += " " + (value.is_null() ? "-" : value.as_string());
    rows.push_back(text);
  }
  return rows;
}

}  // namespace

TEST_CASE("curves are written compactly, with differences of steps and five digits") {
  std::vector<RunMetrics> runs(2);
  runs[0].by_name["loss"].curve.add(10, 0.123456789);
  runs[0].by_name["loss"].curve.add(30, std::numeric_limits<double>::quiet_NaN());
  runs[0].by_name["loss"].curve.add(35, 1234567.0);
  runs[1].by_name["acc"].ranks.add(5, 1);
  runs[1].by_name["acc"].ranks.add(5, 4);
  runs[1].epochs.add(5, 3);
  CHECK(levin::cli::metric_names(runs) == std::vector<std::string>{"acc", "loss"});
  CHECK(curves_json(runs) == R"([{"m":1,"r":0,"x":[10,20,5],"y":[0.12346,null,1.2346e+06]},)"
                             "\n"
                             R"({"m":-1,"r":1,"x":[5],"y":[3]},)"
                             "\n"
                             R"({"m":0,"r":1,"rx":[5],"ry":[2.5],"rl":[1],"rh":[4]}])");
  CHECK(curves_json({}) == "[]");
}

TEST_CASE("a point of several values has least and largest, unless ranks' band stands there") {
  std::vector<RunMetrics> runs(1);
  levin::cli::RunMetric& loss = runs[0].by_name["loss"];
  for (const double value : {3.0, 1.0, 2.0}) loss.curve.add(0, value);
  CHECK(curves_json(runs) == R"([{"m":0,"r":0,"x":[0],"y":[2],"l":[1],"h":[3]}])");
  loss.ranks.add(0, 7);
  CHECK(curves_json(runs) == R"([{"m":0,"r":0,"x":[0],"y":[2],"rx":[0],"rl":[7],"rh":[7]}])");
}

TEST_CASE("curves of many runs are thinned until they fit") {
  std::vector<RunMetrics> runs(20);
  for (RunMetrics& run : runs) {
    for (const char* name : {"a", "b", "c"}) {
      for (int step = 0; step < 600; ++step) run.by_name[name].curve.add(step, 0.12345 * step);
    }
  }
  downsample_to(runs, 10'000'000);
  CHECK(runs[7].by_name["b"].curve.size() == 600);
  downsample_to(runs, 200'000);
  CHECK(curves_json(runs).size() < 200'000);
  CHECK(runs[7].by_name["b"].curve.size() > 50);
}

TEST_CASE("settings of runs stand side by side") {
  const Value first(Value::Map{{"trainer", Value::Map{{"max_epochs", 5}, {"callbacks", Value::List{Value::Map{{"a", 1}}}}}},
                               {"plugins", Value::List{"x.so", "y.so"}},
                               {"none", Value::Map{}}});
  const Value second(Value::Map{{"trainer", Value::Map{{"max_epochs", 7}, {"callbacks", Value::List{}}}},
                                {"plugins", Value::List{"x.so", "y.so"}},
                                {"lr", 0.5}});
  const Value missing;
  CHECK(rows_of(settings_table({&first, &second}, false)) ==
        std::vector<std::string>{"trainer.max_epochs:! 5 7", "trainer.callbacks.0.a:! 1 -",
                                 "plugins: [x.so, y.so] [x.so, y.so]", "none:! {} -", "trainer.callbacks:! - []",
                                 "lr:! - 0.5"});
  CHECK(rows_of(settings_table({&first, &first}, true)).empty());
  CHECK(rows_of(settings_table({&second, &missing}, true)).size() == 4);
  CHECK(rows_of(settings_table({&second}, true)).empty());
}

TEST_CASE("the profiler's tables are read from its file") {
  const std::string text =
      "action      | calls |   total\n"
      "-----------------------------\n"
      "all         |       | 1.12 s\n"
      "run_batch   |   120 | 965 ms\n"
      "\n"
      "rank | waited in\n"
      "----------------\n"
      "   0 | exchanges\n";
  CHECK(levin::to_json(levin::cli::tables_of_text(text, 10)) ==
        R"([{"columns":["action","calls","total"],"rows":[["all","","1.12 s"],["run_batch","120","965 ms"]]},)"
        R"({"columns":["rank","waited in"],"rows":[["0","exchanges"]]}])");
  CHECK(levin::cli::tables_of_text(text, 1).as_list()[0].at("rows").size() == 1);
  CHECK(levin::cli::tables_of_text("no | table\nat all\n---", 1).size() == 0);

  const TemporaryFolder run;
  for (const char* name : {"fit-profile-10.txt", "fit-profile-2.txt", "test-mine-0.txt", "notes-0.txt"})
    write_file(run / name, text);
  write_file(run / "fit-profile-1.txt", "nothing");
  std::vector<std::string> found;
  for (const Value& profile : levin::cli::profile_tables(run.path()).as_list())
    found.push_back(profile.at("name").as_string() + " " + std::to_string(profile.at("rank").as_int()));
  CHECK(found == std::vector<std::string>{"fit-profile 2", "fit-profile 10", "test-mine 0"});
}

TEST_CASE("metrics stand in the section that their names say") {
  using levin::cli::section_of;
  CHECK(section_of("val_loss") == "Metrics");
  CHECK(section_of("lr-Adam/pg1") == "Learning rate");
  CHECK(section_of("train/device/samples_per_sec") == "Throughput");
  CHECK(section_of("train/time") == "Throughput");
  CHECK(section_of("memory_peak") == "Memory");
  CHECK(section_of("memory") == "Metrics");
}
