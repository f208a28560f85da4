#include "levin/cli/report/rank_departures.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "levin/cli/report/profile_tables.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

using levin::Value;
using levin::cli::departure_in_waits;
using levin::cli::departures_in_metrics;
using levin::cli::RunMetrics;

namespace {

/// A metric that each rank has, by rank.
RunMetrics of_ranks(const std::vector<double>& values) {
  RunMetrics metrics;
  for (std::size_t rank = 0; rank < values.size(); ++rank)
    metrics.by_name["loss"].by_rank[static_cast<int>(rank)] = {.sum = 4 * values[rank], .count = 4};
  return metrics;
}

Value profiles_of(const std::string& table) {
  return Value::List{Value::Map{{"name", "fit-profile"}, {"rank", 0}, {"tables", levin::cli::tables_of_text(table, 100)}}};
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the rank that departs from the others is said in words") {
  CHECK(departures_in_metrics(of_ranks({0.31, 0.33, 1.92, 0.32})) ==
        Texts{"rank 2 departs in loss: 1.92 on average, the others 0.31 to 0.33"});
  CHECK(departures_in_metrics(of_ranks({0.31, 0.33, 0.02, 0.32})) ==
        Texts{"rank 2 departs in loss: 0.02 on average, the others 0.31 to 0.33"});
  CHECK(departures_in_metrics(of_ranks({1, 1, 2})) == Texts{"rank 2 departs in loss: 2 on average, the others 1"});
  CHECK(departures_in_metrics(of_ranks({0.5, 1})) == Texts{"ranks 0 and 1 differ in loss: 0.5 and 1 on average"});
  // Ranks that differ as they do, or by next to nothing, do not depart; neither does one alone.
  CHECK(departures_in_metrics(of_ranks({0.3, 0.4, 0.5, 0.7})).empty());
  CHECK(departures_in_metrics(of_ranks({1, 1, 1.01})).empty());
  CHECK(departures_in_metrics(of_ranks({0.9, 1})).empty());
  CHECK(departures_in_metrics(of_ranks({0, 0})).empty());
  CHECK(departures_in_metrics(of_ranks({7})).empty());
  CHECK(departures_in_metrics({}).empty());
}

TEST_CASE("the strongest departures come first, five at most") {
  RunMetrics metrics;
  for (const std::string name : {"a", "b", "c", "d", "e", "f"}) {
    for (const int rank : {0, 1})
      metrics.by_name[name].by_rank[rank] = {.sum = rank == 0 ? 1.0 : 1.0 + (name[0] - 'a' + 1), .count = 1};
  }
  const Texts texts = departures_in_metrics(metrics);
  REQUIRE(texts.size() == 5);
  CHECK(texts.front() == "ranks 0 and 1 differ in f: 1 and 7 on average");
  CHECK(texts.back() == "ranks 0 and 1 differ in b: 1 and 3 on average");
}

TEST_CASE("the rank that others waited for is said in words") {
  const std::string begin =
      "rank | waited in | times |    in all | for\n"
      "-------------------------------------------------------\n";
  CHECK(departure_in_waits(profiles_of(begin + "   0 | exchanges |    94 | 230.10 ms | rank 1 230.10 ms\n"
                                               "   1 | exchanges |    94 | 94.63 ms  | rank 0 94.63 ms\n"
                                               "   0 | gradients |   160 | 1.50 s    | rank 1 1.50 s\n")) ==
        "rank 1 is the slowest: others waited 1.73 s for it, and 0.0946 s for the next, rank 0");
  CHECK(departure_in_waits(profiles_of(begin + "   0 | exchanges | 4 | 1 s | rank 2 900 ms, rank 1 100 ms\n")) ==
        "rank 2 is the slowest: others waited 0.9 s for it, and 0.1 s for the next, rank 1");
  CHECK(departure_in_waits(profiles_of(begin + "   0 | exchanges | 4 | 1 s | rank 1 1.2 s\n"
                                               "   1 | exchanges | 4 | 1 s | rank 0 1.0 s\n"))
            .empty());
  CHECK(departure_in_waits(profiles_of("action | total\n--------------\nall    | 1.2 s\n")).empty());
  CHECK(departure_in_waits(Value::List{}).empty());
}
