#include "levin/callbacks/early_stopping.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

using levin::EarlyStopping;
using levin::EarlyStoppingOptions;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Check {
  int stop;
  int wait_count;
  double best_score;
  friend bool operator==(const Check&, const Check&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Check& check) {
    return out << "(" << check.stop << ", " << check.wait_count << ", " << check.best_score << ")";
  }
};

std::vector<Check> checks(EarlyStopping& stopping, const std::vector<double>& scores) {
  std::vector<Check> seen;
  for (const double score : scores) {
    const bool stop = stopping.evaluate(score).stop;
    seen.push_back({stop, static_cast<int>(stopping.wait_count()), stopping.best_score()});
  }
  return seen;
}

std::vector<Check> checks(EarlyStoppingOptions options, const std::vector<double>& scores) {
  EarlyStopping stopping(std::move(options));
  return checks(stopping, scores);
}

}  // namespace

// The expected rows were made with Lightning's EarlyStopping._evaluate_stopping_criteria over the same scores.
TEST_CASE("early stopping decides like Lightning") {
  using Rows = std::vector<Check>;
  CHECK(checks({.monitor = "m", .patience = 2}, {5, 4, 4, 4.5, 3, 3, 3, 3}) ==
        Rows{{0, 0, 5}, {0, 0, 4}, {0, 1, 4}, {1, 2, 4}, {0, 0, 3}, {0, 1, 3}, {1, 2, 3}, {1, 3, 3}});
  CHECK(checks({.monitor = "m", .min_delta = 0.25}, {1, 0.75, 0.5, 0.5, 0.25}) ==
        Rows{{0, 0, 1}, {0, 1, 1}, {0, 0, 0.5}, {0, 1, 0.5}, {0, 2, 0.5}});
  CHECK(checks({.monitor = "m", .patience = 2, .mode = levin::MonitorMode::kMax}, {1, 2, 2, 1, 3}) ==
        Rows{{0, 0, 1}, {0, 0, 2}, {0, 1, 2}, {1, 2, 2}, {0, 0, 3}});
  CHECK(checks({.monitor = "m", .patience = 5}, {1, kNan, 0.5}) == Rows{{0, 0, 1}, {1, 0, 1}, {0, 0, 0.5}});
  CHECK(checks({.monitor = "m", .patience = 2, .check_finite = false}, {1, kNan, kInfinity, 0.5}) ==
        Rows{{0, 0, 1}, {0, 1, 1}, {1, 2, 1}, {0, 0, 0.5}});
  CHECK(checks({.monitor = "m", .stopping_threshold = 0.5}, {1, 0.5, 0.25}) == Rows{{0, 0, 1}, {0, 0, 0.5}, {1, 0, 0.5}});
  CHECK(checks({.monitor = "m", .divergence_threshold = 2.0}, {1, 2, 2.5}) == Rows{{0, 0, 1}, {0, 1, 1}, {1, 1, 1}});
  CHECK(checks({.monitor = "m", .mode = levin::MonitorMode::kMax, .divergence_threshold = 0.5}, {1, 0.5, 0.25}) ==
        Rows{{0, 0, 1}, {0, 1, 1}, {1, 1, 1}});
  CHECK(checks({.monitor = "m", .patience = 0}, {1, 0.5, 0.5}) == Rows{{0, 0, 1}, {0, 0, 0.5}, {1, 1, 0.5}});
}

TEST_CASE("early stopping says why, in Lightning's numbers") {
  const auto reason_after = [](EarlyStoppingOptions options, const std::vector<double>& scores) {
    EarlyStopping stopping(std::move(options));
    for (const double score : scores) stopping.evaluate(score);
    return static_cast<int>(stopping.stopping_reason());
  };
  CHECK(reason_after({.monitor = "m"}, {1, 2}) == 0);
  CHECK(reason_after({.monitor = "m", .stopping_threshold = 0.5}, {0.25}) == 1);
  CHECK(reason_after({.monitor = "m", .divergence_threshold = 2.0}, {3}) == 2);
  CHECK(reason_after({.monitor = "m", .patience = 1}, {1, 1}) == 3);
  CHECK(reason_after({.monitor = "m"}, {kNan}) == 4);
  // A metric that recovered is no reason any more, unlike in Lightning.
  CHECK(reason_after({.monitor = "m", .patience = 1}, {1, 1, 0.5}) == 0);

  EarlyStopping stopping({.monitor = "val_loss", .patience = 1});
  CHECK(stopping.evaluate(2).message == "Metric val_loss improved. New best score: 2.000");
  CHECK(stopping.evaluate(1.5).message == "Metric val_loss improved by 0.500 >= min_delta = 0. New best score: 1.500");
  CHECK(stopping.evaluate(1.75).message == "Monitored metric val_loss did not improve in the last 1 checks. Best score: 1.500");
  CHECK(stopping.stopping_reason_message() ==
        "Monitored metric val_loss did not improve in the last 1 checks. Best score: 1.500");
  CHECK(EarlyStopping({.monitor = "a", .divergence_threshold = 2.0}).evaluate(3).message ==
        "Divergence threshold reached: a = 3 > 2");
}

TEST_CASE("early stopping's numbers have the digits that tell them apart") {
  EarlyStopping loss({.monitor = "loss", .patience = 1});
  CHECK(loss.evaluate(0.25).message == "Metric loss improved. New best score: 0.250");
  CHECK(loss.evaluate(0.2496).message == "Metric loss improved by 0.00040 >= min_delta = 0. New best score: 0.24960");
  CHECK(loss.evaluate(0.0004).message == "Metric loss improved by 0.249 >= min_delta = 0. New best score: 0.00040");
  CHECK(loss.evaluate(0.0004).message == "Monitored metric loss did not improve in the last 1 checks. Best score: 0.00040");
  EarlyStopping tiny({.monitor = "loss"});
  CHECK(tiny.evaluate(3e-7).message == "Metric loss improved. New best score: 0.00000030");
  CHECK(tiny.evaluate(kNan).message == "Monitored metric loss = nan is not finite. Previous best value was 0.00000030");
  EarlyStopping none({.monitor = "acc", .mode = levin::MonitorMode::kMax});
  CHECK(none.evaluate(kNan).message == "Monitored metric acc = nan is not finite. Previous best value was -inf");
  EarlyStopping large({.monitor = "acc", .mode = levin::MonitorMode::kMax});
  CHECK(large.evaluate(0).message == "Metric acc improved. New best score: 0.000");
  CHECK(large.evaluate(1e300).message.size() > 600);
}

TEST_CASE("early stopping equals an oracle over the whole history") {
  // The oracle looks at all scores anew after each one, with nothing carried over but the history.
  REQUIRE(rc::check([] {
    const bool minimize = *rc::gen::arbitrary<bool>();
    const int patience = *rc::gen::inRange(1, 5);
    const int delta_eighths = *rc::gen::inRange(0, 4);
    const auto eighths = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-24, 24));
    EarlyStopping stopping({.monitor = "m",
                            .min_delta = delta_eighths / 8.0,
                            .patience = patience,
                            .mode = minimize ? levin::MonitorMode::kMin : levin::MonitorMode::kMax});
    for (std::size_t now = 0; now < eighths.size(); ++now) {
      const bool stop = stopping.evaluate(eighths[now] / 8.0).stop;
      int best = 0;
      std::size_t best_at = 0;
      for (std::size_t i = 0; i <= now; ++i) {
        const int gain = minimize ? best - eighths[i] : eighths[i] - best;
        if (i == 0 || gain > delta_eighths) {
          best = eighths[i];
          best_at = i;
        }
      }
      RC_ASSERT(stopping.best_score() == best / 8.0);
      RC_ASSERT(stopping.wait_count() == static_cast<std::int64_t>(now - best_at));
      RC_ASSERT(stop == (now - best_at >= static_cast<std::size_t>(patience)));
    }
  }));
}

TEST_CASE("early stopping goes on from its state") {
  const std::vector<double> scores{5, 4, 4, 4.5, 3, 3, 3.5, 3};
  for (std::size_t cut = 0; cut <= scores.size(); ++cut) {
    EarlyStopping whole({.monitor = "m", .patience = 3});
    EarlyStopping first({.monitor = "m", .patience = 3});
    EarlyStopping second({.monitor = "m", .patience = 3});
    const auto middle = scores.begin() + static_cast<std::ptrdiff_t>(cut);
    const auto expected = checks(whole, scores);
    auto seen = checks(first, {scores.begin(), middle});
    second.load_state_dict(first.state_dict());
    const auto rest = checks(second, {middle, scores.end()});
    seen.insert(seen.end(), rest.begin(), rest.end());
    CHECK(seen == expected);
    CHECK(second.state_dict() == whole.state_dict());
  }
}

TEST_CASE("a patience that is changed for a run that goes on counts from its next check on") {
  using Rows = std::vector<Check>;
  const auto resumed = [](std::int64_t patience, std::vector<double> scores) {
    EarlyStopping first({.monitor = "m", .patience = 4});
    checks(first, {1, 2, 2});  // two without improvement
    EarlyStopping second({.monitor = "m", .patience = patience});
    second.load_state_dict(first.state_dict());
    CHECK(second.wait_count() == 2);
    CHECK(second.state_dict().at("patience") == levin::Value(patience));
    return checks(second, std::move(scores));
  };
  CHECK(resumed(4, {2, 2, 2}) == Rows{{0, 3, 1}, {1, 4, 1}, {1, 5, 1}});
  CHECK(resumed(6, {2, 2, 2, 2}) == Rows{{0, 3, 1}, {0, 4, 1}, {0, 5, 1}, {1, 6, 1}});
  CHECK(resumed(3, {2, 2}) == Rows{{1, 3, 1}, {1, 4, 1}});
  CHECK(resumed(1, {2}) == Rows{{1, 3, 1}});
  CHECK(resumed(1, {0.5, 2}) == Rows{{0, 0, 0.5}, {1, 1, 0.5}});
}

TEST_CASE("early stopping's state has Lightning's keys") {
  EarlyStopping stopping({.monitor = "val_acc", .mode = levin::MonitorMode::kMax});
  CHECK(stopping.state_key() == "EarlyStopping{'monitor': 'val_acc', 'mode': 'max'}");
  std::vector<std::string> keys;
  const levin::Value state = stopping.state_dict();
  for (const auto& [key, value] : state.as_map()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"wait_count", "stopped_epoch", "best_score", "patience", "stopping_reason",
                                         "stopping_reason_message", "asked_to_stop"});
}
