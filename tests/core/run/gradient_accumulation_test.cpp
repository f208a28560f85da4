#include "levin/core/engine/parts/gradient_accumulation.h"

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/protocol/control_group.h"

using namespace levin;

TEST_CASE("batches count by their samples when all ranks have one batch size, and alike otherwise") {
  const GradientAccumulation each_batch{.full_batch_size = 4};
  CHECK(each_batch.full_weight(1) == 1);  // one process that steps after every batch weighs nothing
  CHECK(each_batch.weight_of(3, 1) == 1);
  CHECK(each_batch.full_weight(2) == 4);
  CHECK(each_batch.weight_of(1, 2) == 1);
  const GradientAccumulation two_batches{.batches = 2, .full_batch_size = 4};
  CHECK(two_batches.scale() == 8);
  CHECK(two_batches.full_weight(1) == 4);
  CHECK(two_batches.weight_of(3, 1) == 3);
  const GradientAccumulation of_no_size{.batches = 3};
  CHECK(of_no_size.scale() == 3);
  CHECK(of_no_size.full_weight(2) == 1);
  CHECK(of_no_size.weight_of(17, 2) == 1);
}

TEST_CASE("the correction makes a sum of weighted losses the mean over the samples that there were") {
  // By hand: two ranks with batches of 4; rank 1 has only 2 samples. Each loss is its mean times samples / 4, and the
  // reduction divides by 2 ranks: (4 a + 2 b) / 8. The mean is (4 a + 2 b) / 6.
  const GradientAccumulation accumulation{.full_batch_size = 4};
  CHECK(accumulation.correction(4 + 2, 2) == Approx(8.0 / 6.0));
  CHECK(accumulation.correction(8, 2) == 1.0);
  // A window of 3 batches of which 1 was there.
  const GradientAccumulation window{.batches = 3};
  CHECK(window.correction(1, 1) == Approx(3.0));
}

TEST_CASE("ranks that make a step of different numbers of batches are an error that names ranks and numbers") {
  const auto votes_of = [](const std::vector<std::int32_t>& numbers) {
    std::vector<Votes> votes;
    for (const std::int32_t number : numbers) votes.push_back(unpack_votes(pack(Votes{.accumulate_grad_batches = number})));
    return votes;
  };
  CHECK_NOTHROW(check_same_accumulation(votes_of({4})));
  CHECK_NOTHROW(check_same_accumulation(votes_of({65535, 65535, 65535})));
  CHECK_THROWS_AS(check_same_accumulation(votes_of({1, 2})), DesyncError);
  CHECK_THROWS_WITH(check_same_accumulation(votes_of({4, 1, 4, 8, 1})),
                    Catch::Contains("1 on ranks 1, 4; 4 on ranks 0, 2; 8 on rank 3."));
}
