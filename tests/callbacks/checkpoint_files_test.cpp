#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "levin/callbacks/checkpoint_files.h"
#include "levin/callbacks/checkpoint_name.h"
#include "levin/core/base/error.h"

using levin::checkpoint_name;
using levin::TopKCheckpoints;

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

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The k best scores of a history, by sorting it whole; NaN counts as the worst score there is.
std::vector<double> k_best(std::vector<double> history, std::int64_t k, bool minimize) {
  for (double& score : history) {
    if (std::isnan(score)) score = minimize ? kInfinity : -kInfinity;
  }
  std::sort(history.begin(), history.end());
  if (!minimize) std::reverse(history.begin(), history.end());
  if (k != -1) history.resize(std::min(history.size(), static_cast<std::size_t>(k)));
  return history;
}

std::vector<double> scores(const TopKCheckpoints& kept, bool minimize) {
  std::vector<double> found;
  for (const auto& [file, score] : kept.files()) found.push_back(score);
  return k_best(found, -1, minimize);
}

std::set<std::string> names(const TopKCheckpoints& kept) {
  std::set<std::string> files;
  for (const auto& [file, score] : kept.files()) files.insert(file);
  return files;
}

}  // namespace

TEST_CASE("an equal score displaces nothing") {
  TopKCheckpoints kept(2, true);
  kept.add("a", 0.5);
  kept.add("b", 0.5);
  CHECK_FALSE(kept.accepts(0.5));
  CHECK(kept.best()->first == "a");
  REQUIRE(kept.accepts(0.25));
  CHECK(kept.next_displaced() == "a");  // of equal ones the oldest goes
}

TEST_CASE("a NaN is kept while there is room, and makes room for any number") {
  TopKCheckpoints kept(1, false);
  CHECK(kept.accepts(std::nan("")));
  kept.add("nan", std::nan(""));
  CHECK(kept.best()->second == -kInfinity);
  CHECK_FALSE(kept.accepts(std::nan("")));
  CHECK(kept.accepts(-1e30));
  kept.add("number", -1e30);
  CHECK(names(kept) == std::set<std::string>{"number"});
}

TEST_CASE("a file written again takes the new score") {
  TopKCheckpoints kept(-1, true);
  kept.add("same", 1.0);
  kept.add("other", 2.0);
  kept.add("same", 3.0);
  CHECK(kept.files().size() == 2);
  CHECK(kept.best()->first == "other");
  CHECK(kept.kth_file() == "same");
  CHECK(kept.kth_value() == 3.0);
}

TEST_CASE("the kept checkpoints are the k best of the history, also after a state of another k is restored") {
  REQUIRE(rc::check([] {
    const auto ks = rc::gen::element<std::int64_t>(-1, 0, 1, 2, 3, 6);
    const std::int64_t earlier_k = *ks;
    const std::int64_t k = *ks;
    const bool minimize = *rc::gen::arbitrary<bool>();
    const auto draws = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-4, 5));
    const auto restored_at = *rc::gen::inRange<std::size_t>(0, draws.size() + 1);
    std::set<std::string> on_disk;
    const auto score = [&](std::size_t i) { return draws[i] == 4 ? std::nan("") : draws[i] / 2.0; };
    const auto add = [&](TopKCheckpoints& kept, std::size_t i) {
      if (!kept.accepts(score(i))) return;
      const auto displaced = kept.next_displaced();
      const std::string file = "file" + std::to_string(i);
      kept.add(file, score(i));
      on_disk.insert(file);
      if (displaced) on_disk.erase(*displaced);
    };
    TopKCheckpoints earlier(earlier_k, minimize);
    for (std::size_t i = 0; i < restored_at; ++i) add(earlier, i);
    std::vector<double> history = scores(earlier, minimize);
    TopKCheckpoints kept(k, minimize);
    for (const std::string& displaced : kept.restore(earlier.files())) RC_ASSERT(on_disk.erase(displaced) == 1);
    for (std::size_t i = restored_at; i < draws.size(); ++i) {
      history.push_back(score(i));
      add(kept, i);
      RC_ASSERT(scores(kept, minimize) == k_best(history, k, minimize));
      RC_ASSERT(on_disk == names(kept));
      if (k != 0) RC_ASSERT(kept.best()->second == k_best(history, 1, minimize).front());
    }
    const bool is_full = k == -1 ? !kept.files().empty() : k > 0 && kept.files().size() == static_cast<std::size_t>(k);
    RC_ASSERT(kept.kth_file().empty() != is_full);
    if (is_full) RC_ASSERT(kept.kth_value() == k_best(history, k, minimize).back());
  }));
}
