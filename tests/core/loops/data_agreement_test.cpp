#include "levin/core/engine/parts/rank_agreement.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <set>

#include "levin/core/base/error.h"

using namespace levin;
using Catch::Matchers::Contains;

TEST_CASE("a batch's fingerprint is of its names, shapes, types and values") {
  const at::Tensor rows = torch::arange(6, torch::kFloat).reshape({3, 2});
  const std::int64_t fingerprint = batch_fingerprint(Batch{{"x", rows}});
  CHECK(batch_fingerprint(Batch{{"x", rows.clone()}}) == fingerprint);
  CHECK(batch_fingerprint(Batch{{"x", rows.t().contiguous().t()}}) == fingerprint);
  at::Tensor other = rows.clone();
  other[2][1] = 5.5;
  const std::set<std::int64_t> all = {fingerprint,
                                      batch_fingerprint({}),
                                      batch_fingerprint(Batch{{"y", rows}}),
                                      batch_fingerprint(Batch{{"x", rows.reshape({2, 3})}}),
                                      batch_fingerprint(Batch{{"x", rows.to(torch::kDouble)}}),
                                      batch_fingerprint(Batch{{"x", at::Tensor()}}),
                                      batch_fingerprint(Batch{{"x", rows}, {"y", rows}}),
                                      batch_fingerprint(Batch{{"x", other}})};
  CHECK(all.size() == 8);
  CHECK_FALSE(all.contains(0));
}

TEST_CASE("batches of sparse tensors, which may be of one kind and hold other values, are not compared") {
  const at::Tensor rows = torch::eye(3);
  for (const at::Tensor& sparse : {rows.to_sparse(), rows.to_sparse_csr(), rows.to_sparse_csc()}) {
    const Batch batch{{"x", sparse}, {"y", rows}};
    CHECK(batch_fingerprint(batch) == 0);
    CHECK(first_batch_mark(batch, std::nullopt) == 0);
  }
}

TEST_CASE("what a rank tells of its first batch is of its values and of its samples, and says whether they are known") {
  const Batch zeros{{"x", torch::zeros({2, 2})}};
  CHECK(first_batch_mark(zeros, std::nullopt) % 2 != 0);
  using Samples = std::vector<std::int64_t>;
  const std::int64_t mark = first_batch_mark(zeros, Samples{0, 1});
  CHECK(first_batch_mark(zeros, Samples{0, 1}) == mark);
  const std::set<std::int64_t> marks = {mark, first_batch_mark(zeros, Samples{2, 3}),
                                        first_batch_mark(Batch{{"x", torch::ones({2, 2})}}, Samples{0, 1})};
  CHECK(marks.size() == 3);
  for (const std::int64_t known : marks) CHECK((known % 2 == 0 && known != 0));
}

TEST_CASE("ranks that all begin with the same samples are an error; those that do not, or do not say, are none") {
  CHECK_THROWS_WITH(check_different_batches({8, 8}, 3),
                    Contains("All 2 ranks begin epoch 3 with the same training batch") && Contains("2 times as slowly") &&
                        Contains("use_distributed_sampler") && Contains("allow_same_batches"));
  CHECK_THROWS_AS(check_different_batches({8, 8, 8}, 0), MisuseError);
  CHECK_NOTHROW(check_different_batches({7, 7}, 0));  // equal, of samples that are not known: a warning
  CHECK_NOTHROW(check_different_batches({8}, 0));
  CHECK_NOTHROW(check_different_batches({8, 8, 10}, 0));
  CHECK_NOTHROW(check_different_batches({0, 0}, 0));
  CHECK_NOTHROW(check_different_batches({8, 0}, 0));
}
