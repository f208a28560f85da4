#include "levin/callbacks/top_k_checkpoints.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

using levin::TopKCheckpoints;

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
  CHECK(kept.next_evicted() == "a");  // of equal ones the oldest goes
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

TEST_CASE("stored checkpoints are the k best of the history, also after a state of another k is restored") {
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
      const auto evicted = kept.next_evicted();
      const std::string file = "file" + std::to_string(i);
      kept.add(file, score(i));
      on_disk.insert(file);
      if (evicted) on_disk.erase(*evicted);
    };
    TopKCheckpoints earlier(earlier_k, minimize);
    for (std::size_t i = 0; i < restored_at; ++i) add(earlier, i);
    std::vector<double> history = scores(earlier, minimize);
    TopKCheckpoints kept(k, minimize);
    for (const std::string& evicted : kept.restore(earlier.files())) RC_ASSERT(on_disk.erase(evicted) == 1);
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
