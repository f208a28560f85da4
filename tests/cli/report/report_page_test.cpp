#include "levin/cli/report/report_page.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "levin/cli/report/curves_json.h"
#include "levin/cli/report/profile_tables.h"
#include "levin/cli/report/settings_table.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using levin::Value;
using levin::write_file;
using levin::cli::curves_json;
using levin::cli::report_page;
using levin::cli::RunFolder;
using levin::cli::RunMetrics;
using levin::cli::settings_table;
using levin::test::TemporaryFolder;

namespace {

RunFolder run_in(const TemporaryFolder& folder) {
  RunFolder run;
  run.path = folder.path();
  run.name = "version_0";
  return run;
}

/// What stands in the page's element of this id.
std::string element(const std::string& page, const std::string& id) {
  const std::string begin = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find("</script>", from) - from);
}

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

TEST_CASE("a run has the last and the best value of each metric, by its callbacks' mode or by its name") {
  const TemporaryFolder folder;
  write_file(folder / "metrics.csv", "step,val_loss,val_acc,gain,odd\n0,3,0.5,1,1\n1,1,0.9,5,2\n2,2,0.7,3,nan\n");
  RunFolder run = run_in(folder);
  run.config = Value(Value::Map{
      {"trainer",
       Value::Map{{"callbacks", Value::List{Value::Map{{"class_path", "EarlyStopping"},
                                                       {"init_args", Value::Map{{"monitor", "gain"}, {"mode", "max"}}}}}}}}});
  const Value data = levin::parse_json(element(report_page({run}), "report-data"));
  const Value& read = data.at("runs").as_list()[0];
  CHECK(read.at("kind").as_string() == "fit");
  CHECK(levin::to_json(read.at("values")) ==
        R"({"gain":{"last":3.0,"best":5.0,"mode":"max"},"odd":{"last":null},)"
        R"("val_acc":{"last":0.7,"best":0.9,"mode":"max"},"val_loss":{"last":2.0,"best":1.0,"mode":"min"}})");
}

TEST_CASE("a run that only evaluated is no fit") {
  const auto kind_of = [](const std::string& rows) {
    const TemporaryFolder folder;
    write_file(folder / "metrics.csv", rows);
    return levin::parse_json(element(report_page({run_in(folder)}), "report-data"))
        .at("runs")
        .as_list()[0]
        .at("kind")
        .as_string();
  };
  CHECK(kind_of("epoch,step,test_acc,test_loss\n0,0,0.9,0.1\n") == "test");
  CHECK(kind_of("epoch,step,val_acc\n0,0,0.9\n") == "validate");
  CHECK(kind_of("epoch,step,train_loss,test_acc\n0,0,1,\n0,9,,0.9\n") == "fit");
  CHECK(kind_of("epoch,step,val_acc\n0,9,0.9\n1,19,0.95\n") == "fit");
}

TEST_CASE("a run whose process is gone says so, with its last sign of life") {
  const TemporaryFolder folder;
  write_file(folder / "metrics.csv", "step,loss\n0,1\n");
  write_file(folder / "run.json", levin::format(R"({{"status": "running", "pid": {}, "process_start": 1, "host": "{}"}})",
                                                getpid(), levin::host_name()));
  const auto wrote = [&](const char* file, int hour) {
    std::tm time{};
    time.tm_year = 126, time.tm_mon = 10, time.tm_mday = 26, time.tm_hour = hour, time.tm_isdst = -1;
    const auto clock = std::chrono::system_clock::from_time_t(std::mktime(&time));
    std::filesystem::last_write_time(folder / file, std::chrono::file_clock::from_sys(clock));
  };
  wrote("run.json", 14);
  wrote("metrics.csv", 15);
  // What somebody wrote there later is no sign of life.
  write_file(folder / "report.html", "");
  write_file(folder / "tags.json", "[]");
  const RunFolder run = levin::cli::read_run_folder(folder.path());
  CHECK(run.is_lost);
  const Value data = levin::parse_json(element(report_page({run}), "report-data"));
  CHECK(data.at("runs").as_list()[0].at("status").as_string() == "process gone");
  CHECK(data.at("runs").as_list()[0].at("last_sign").as_string() == "2026-11-26 15:00:00");
}

TEST_CASE("nothing that comes from files ends the element that it stands in") {
  const TemporaryFolder folder;
  write_file(folder / "metrics.csv", "step,</script><script>alert(1)</script>,{{style}},<!--\n0,1,2,3\n");
  RunFolder run = run_in(folder);
  run.name = "</script><img src=x onerror=alert(1)>";
  run.failure = "bytes \xff and </SCRIPT >";
  run.warnings = {"{{curves}}"};
  run.config = Value(Value::Map{{"a</script>", "b"}});
  const std::string page = report_page({run, run});
  // The page's own elements.
  CHECK(levin::test::count(page, "</script>") == 3);
  CHECK(levin::test::count(page, "</SCRIPT") == 0);
  CHECK(levin::test::count(page, "<!--") == 0);
  const Value data = levin::parse_json(element(page, "report-data"));
  CHECK(data.at("runs").as_list()[0].at("name").as_string() == run.name);
  CHECK(data.at("runs").as_list()[1].at("warnings").as_list()[0].as_string() == "{{curves}}");
  CHECK(data.at("metrics").as_list()[1].at("name").as_string() == "</script><script>alert(1)</script>");
  CHECK(data.at("metrics").as_list()[2].at("name").as_string() == "{{style}}");
  CHECK(data.at("reloads").as_bool() == false);
  CHECK(element(page, "curve-data").find(R"({"m":1,"r":1,"x":[0],"y":[1]})") != std::string::npos);
}

TEST_CASE("a page needs nothing from elsewhere") {
  const TemporaryFolder folder;
  write_file(folder / "metrics.csv", "step,loss\n0,1\n");
  const std::string page = report_page({run_in(folder)}, {.reloads = true});
  // The name of a language, which nobody looks up.
  CHECK(levin::test::count(page, "http:") == levin::test::count(page, "http://www.w3.org/2000/svg'"));
  for (const char* outside : {"https:", "src=\"", "@import", "url(", "<link"}) {
    INFO(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
  CHECK(page.find("{{") == std::string::npos);
  CHECK(levin::parse_json(element(page, "report-data")).at("reloads").as_bool());
}

TEST_CASE("a page keeps below its size: the oldest images go first") {
  const TemporaryFolder folder;
  const std::string image = "\x89PNG" + std::string(300'000, '\x01');
  for (int step = 0; step < 5; ++step) write_file(folder / ("media/images/digits/" + std::to_string(step) + ".png"), image);
  const std::string page = report_page({run_in(folder)}, {.max_bytes = 1'000'000});
  CHECK(page.size() < 1'000'000);
  const Value data = levin::parse_json(element(page, "report-data"));
  CHECK(data.at("media_left_out").as_int() == 3);
  const Value& items = data.at("media").as_list().at(0).at("items");
  REQUIRE(items.size() == 2);
  CHECK(items.as_list()[0].at("step").as_int() == 3);
  CHECK(items.as_list()[1].at("step").as_int() == 4);
}
