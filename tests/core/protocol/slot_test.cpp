#include "levin/core/protocol/metric_table.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using levin::Reduce;
using levin::detail::Slot;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Slot accumulated(Reduce reduce, const std::vector<std::pair<double, double>>& values) {
  Slot slot;
  for (const auto& [value, weight] : values) slot.accumulate(reduce, value, weight);
  return slot;
}

}  // namespace

TEST_CASE("a slot reduces an epoch: the mean by weight, all else without") {
  const std::vector<std::pair<double, double>> values{{10, 3}, {-2, 1}, {4, 2}};
  CHECK(epoch_value(accumulated(Reduce::kMean, values), Reduce::kMean) == Approx(36.0 / 6));
  CHECK(epoch_value(accumulated(Reduce::kSum, values), Reduce::kSum) == 12);
  CHECK(epoch_value(accumulated(Reduce::kMin, values), Reduce::kMin) == -2);
  CHECK(epoch_value(accumulated(Reduce::kMax, values), Reduce::kMax) == 10);
  CHECK_FALSE(Slot{}.present());
}

TEST_CASE("a weight of 0 counts as logged and adds nothing to a mean, not even NaN") {
  CHECK(epoch_value(accumulated(Reduce::kMean, {{kNan, 0}, {5, 2}}), Reduce::kMean) == 5);
  const Slot only = accumulated(Reduce::kMean, {{5, 0}});
  CHECK(only.present());
  CHECK(std::isnan(epoch_value(only, Reduce::kMean)));
}

TEST_CASE("NaN shows in every reduction, wherever it stands") {
  for (const Reduce reduce : {Reduce::kMean, Reduce::kSum, Reduce::kMin, Reduce::kMax}) {
    for (std::size_t place = 0; place < 3; ++place) {
      std::vector<std::pair<double, double>> values{{1, 1}, {2, 1}, {3, 1}};
      values[place].first = kNan;
      CHECK(std::isnan(epoch_value(accumulated(reduce, values), reduce)));
      std::array<Slot, 3> ranks;
      for (std::size_t rank = 0; rank < 3; ++rank) ranks[rank].accumulate(reduce, values[rank].first, 1);
      CHECK(std::isnan(reduce_epoch(ranks, reduce)));
    }
  }
}

TEST_CASE("a step value that one rank logged comes out bit for bit") {
  const std::array<Slot, 2> ranks{Slot{}, Slot{0.1, 3}};
  CHECK(0.1 * 3 / 3 != 0.1);
  CHECK(reduce_step(ranks, Reduce::kMean) == 0.1);
}
