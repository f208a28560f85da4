#include "levin/cli/report/run_metrics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

using levin::write_file;
using levin::cli::CurvePoint;
using levin::cli::MetricCurve;
using levin::cli::read_run_metrics;
using levin::cli::RunMetrics;
using levin::test::TemporaryFolder;

namespace {

/// "9:2.5 19:1.5"
std::string text_of(const MetricCurve& curve) {
  std::string text;
  for (const CurvePoint& point : curve.points()) text += levin::format(" {}:{}", point.step, point.last);
  return text.empty() ? "" : text.substr(1);
}

/// "9:1.0-2.0"
std::string band_of(const MetricCurve& curve) {
  std::string text;
  for (const CurvePoint& point : curve.points()) text += levin::format(" {}:{}-{}", point.step, point.min, point.max);
  return text.empty() ? "" : text.substr(1);
}

}  // namespace

TEST_CASE("columns become curves over steps, wherever the step stands") {
  const TemporaryFolder run;
  write_file(run / "metrics.csv",
             "epoch,evaluation_batch,loss,step,val\n"
             "0,,2.5,9,\n"
             "0,1,,9,0.5\n"
             "1,,1.5,19,\r\n"
             "\n"
             "1,,nan,29,-1e-3\n");
  const RunMetrics metrics = read_run_metrics(run.path());
  CHECK(metrics.problems.empty());
  REQUIRE(metrics.by_name.size() == 2);
  CHECK(text_of(metrics.by_name.at("loss").curve) == "9:2.5 19:1.5 29:.nan");
  CHECK(text_of(metrics.by_name.at("val").curve) == "9:0.5 29:-0.001");
  CHECK(text_of(metrics.epochs) == "9:0.0 19:1.0 29:1.0");
}

TEST_CASE("ranks' columns and files become one band") {
  const TemporaryFolder run;
  write_file(run / "metrics.csv", "step,loss,rank_0_loss,rank_1_loss,rank_x\n0,2,1,3,7\n");
  write_file(run / "metrics_rank_0.csv", "epoch,step,loss,own\n0,0,1.5,4\n0,1,5,4\n");
  write_file(run / "metrics_rank_11.csv", "epoch,step,loss,own\n0,0,4,6\n0,1,0.5,\n");
  write_file(run / "metrics_rank_x.csv", "step,loss\n0,100\n");
  const RunMetrics metrics = read_run_metrics(run.path());
  CHECK(text_of(metrics.by_name.at("loss").curve) == "0:2.0");
  CHECK(band_of(metrics.by_name.at("loss").ranks) == "0:1.0-4.0 1:0.5-5.0");
  const auto mean_of = [&](int rank) {
    const levin::cli::RankMean& mean = metrics.by_name.at("loss").by_rank.at(rank);
    return levin::format("{}/{}", mean.sum, mean.count);
  };
  CHECK(mean_of(0) == "7.5/3");
  CHECK(mean_of(1) == "3.0/1");
  CHECK(mean_of(11) == "4.5/2");
  CHECK(band_of(metrics.by_name.at("own").ranks) == "0:4.0-6.0 1:4.0-4.0");
  CHECK(metrics.by_name.at("own").curve.size() == 0);
  CHECK(text_of(metrics.by_name.at("rank_x").curve) == "0:7.0");
  CHECK(metrics.by_name.size() == 3);
}

TEST_CASE("names in quotes, half rows and what is no number do no harm") {
  const TemporaryFolder run;
  write_file(run / "metrics.csv",
             "step,\"a,\"\"b\"\"\nc\",<script>\n"
             "0,1,2\n"
             "1,\"x,y\",3\n"
             "2,oops\n"
             "3,4,5,6,7\n"
             "x,8,8\n"
             "-5,8,8\n"
             "1e300,8,8\n"
             "4,9,1");
  const RunMetrics metrics = read_run_metrics(run.path());
  CHECK(text_of(metrics.by_name.at("a,\"b\"\nc").curve) == "0:1.0 3:4.0 4:8.0");
  CHECK(text_of(metrics.by_name.at("<script>").curve) == "0:2.0 1:3.0 3:5.0 4:8.0");
}

TEST_CASE("a file without rows, or without anything, has no curves") {
  const TemporaryFolder run;
  CHECK(read_run_metrics(run.path()).by_name.empty());
  write_file(run / "metrics.csv", "");
  CHECK(read_run_metrics(run.path()).by_name.empty());
  write_file(run / "metrics.csv", "epoch,step,loss\n0,1,\n");
  CHECK(read_run_metrics(run.path()).by_name.empty());
}

TEST_CASE("what cannot be read is told") {
  const TemporaryFolder run;
  std::filesystem::create_directory(run / "metrics.csv");
  write_file(run / "metrics_rank_0.csv", "step,loss\n0,1\n");
  const RunMetrics metrics = read_run_metrics(run.path());
  REQUIRE(metrics.problems.size() == 1);
  CHECK(metrics.problems[0] == levin::format("cannot read {}: Is a directory", run / "metrics.csv"));
  CHECK(metrics.by_name.at("loss").ranks.size() == 1);
}
