#include "levin/strategies/transport/shared_memory_backend.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>
#include <mutex>

#include "levin/core/base/error.h"
#include "levin/strategies/host/status_board.h"
#include "strategies/support/rank_threads.h"
#include "strategies/support/reduced_values.h"

namespace levin {
namespace {

using test::all_reduced;
using test::Backend;

/// Runs `body` on ranks that are threads; gives what each threw, empty for nothing.
std::vector<std::string> on_ranks(int ranks, const std::function<void(int rank, Backend& backend)>& body) {
  const auto segment = RunSegment::create(ranks);
  const SharedFile memory = SharedFile::create(SharedMemoryCollectives::memory_bytes(ranks));
  return test::on_threads(ranks, [&](int rank) {
    Backend backend = c10::make_intrusive<SharedMemoryBackend>(std::make_unique<SharedMemoryCollectives>(
        SharedFile::open_at(memory.place()), segment, std::make_shared<SharedMemoryStatusBoard>(segment, rank),
        /*timeout_seconds=*/60));
    body(rank, backend);
  });
}

std::unique_ptr<SharedMemoryBackend::Buckets> take_buckets(Backend& backend) {
  return dynamic_cast<SharedMemoryBackend&>(*backend).take_buckets();
}

}  // namespace

TEST_CASE("shared memory reduces each type with each operation as numbers of 64 bits would, to their own precision") {
  const int ranks = GENERATE(1, 2, 3);
  const auto errors = on_ranks(ranks, [&](int, Backend& backend) {
    test::check_reductions(backend, {0, 1, 5, 1000, 20000}, [](at::ScalarType) { return 1e-6; });
  });
  CHECK(errors == test::no_errors(ranks));
}

TEST_CASE("16-bit numbers are summed in 32 bits, and integers wrap around") {
  std::mutex mutex;
  on_ranks(3, [&](int rank, Backend& backend) {
    const std::array<double, 3> halves = {2048, 1, 1};  // in 16 bits 2048 + 1 is 2048
    const at::Tensor half =
        all_reduced(backend, torch::full({4}, halves[static_cast<std::size_t>(rank)], torch::kHalf), c10d::ReduceOp::SUM);
    const at::Tensor average =
        all_reduced(backend, torch::full({4}, 60000.0, torch::kHalf), c10d::ReduceOp::AVG);  // whose sum is beyond 16 bits
    const at::Tensor whole =
        all_reduced(backend, torch::full({4}, std::numeric_limits<std::int64_t>::max(), torch::kLong), c10d::ReduceOp::SUM);
    const std::lock_guard lock(mutex);
    CHECK(half[0].item<double>() == 2050);
    CHECK(average[0].item<double>() == 60000);
    CHECK(whole[3].item<std::int64_t>() == std::numeric_limits<std::int64_t>::max() - 2);
  });
}

TEST_CASE("a NaN of any rank stays one in a minimum and a maximum") {
  std::mutex mutex;
  on_ranks(3, [&](int rank, Backend& backend) {
    for (const auto op : {c10d::ReduceOp::MIN, c10d::ReduceOp::MAX}) {
      at::Tensor mine = torch::full({3}, static_cast<double>(rank), torch::kFloat);
      mine[rank] = std::numeric_limits<float>::quiet_NaN();
      const at::Tensor result = all_reduced(backend, mine, op);
      const std::lock_guard lock(mutex);
      CHECK(result.isnan().all().item<bool>());
    }
  });
}

TEST_CASE("sums are the same bits on every rank, whatever the numbers") {
  std::vector<at::Tensor> sums(4);
  on_ranks(4, [&](int rank, Backend& backend) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(rank));
    const at::Tensor mine = torch::randn({300'000}, generator) * std::pow(10.0, rank);
    sums[static_cast<std::size_t>(rank)] = all_reduced(backend, mine, c10d::ReduceOp::SUM);
  });
  for (const at::Tensor& sum : sums) CHECK(torch::equal(sum, sums[0]));
}

TEST_CASE("tensors that do not lie in one piece are gathered, sent and reduced in their place") {
  std::mutex mutex;
  const auto errors = on_ranks(2, [&](int rank, Backend& backend) {
    at::Tensor table = torch::zeros({4, 6});
    at::Tensor column = table.select(1, 2);  // every sixth number
    column.fill_(rank + 1);
    all_reduced(backend, column, c10d::ReduceOp::SUM);
    std::vector<at::Tensor> sent = {torch::full({6, 4}, static_cast<float>(rank)).t()};
    c10d::BroadcastOptions from_one;
    from_one.rootRank = 1;
    backend->broadcast(sent, from_one)->wait();
    std::vector<std::vector<at::Tensor>> all = {{torch::zeros({3, 2}), torch::zeros({2, 3}).t()}};
    std::vector<at::Tensor> mine = {torch::arange(6, torch::kFloat).view({2, 3}).t() + rank};
    backend->allgather(all, mine, {})->wait();
    const std::lock_guard lock(mutex);
    CHECK(torch::equal(table.select(1, 2), torch::full({4}, 3.0F)));
    CHECK(table.sum().item<float>() == 12);
    CHECK(torch::equal(sent[0], torch::ones({4, 6})));
    for (int other = 0; other < 2; ++other) {
      CHECK(torch::equal(all[0][static_cast<std::size_t>(other)], torch::arange(6, torch::kFloat).view({2, 3}).t() + other));
    }
  });
  CHECK(errors == test::no_errors(2));
}

TEST_CASE("what shared memory cannot carry is an error that says what it is") {
  on_ranks(1, [](int, Backend& backend) {
    const auto reduce = [&](const at::Tensor& tensor, c10d::ReduceOp::RedOpType op) { all_reduced(backend, tensor, op); };
    CHECK_THROWS_WITH(reduce(torch::zeros({2}, torch::kLong), c10d::ReduceOp::AVG),
                      "values of Long cannot be reduced to their average over ranks");
    CHECK_THROWS_WITH(reduce(torch::zeros({2}, torch::kComplexFloat), c10d::ReduceOp::SUM),
                      "values of ComplexFloat cannot be reduced to their sum over ranks");
    CHECK_THROWS_WITH(reduce(torch::zeros({2}, torch::kInt), c10d::ReduceOp::BXOR),
                      Catch::Contains("their minimum or maximum"));
    CHECK_THROWS_WITH(reduce(torch::zeros({2}, torch::kMeta), c10d::ReduceOp::SUM),
                      Catch::Contains("a tensor on meta cannot travel"));
    std::vector<std::vector<at::Tensor>> all = {{torch::zeros({3})}};
    std::vector<at::Tensor> mine = {torch::zeros({2})};
    CHECK_THROWS_WITH(backend->allgather(all, mine, {}), "all_gather: all tensors must be of one size");
  });
}

TEST_CASE("the first bucket's gradients lie where the other ranks read them, from the second average on") {
  std::mutex mutex;
  const auto errors = on_ranks(3, [&](int rank, Backend& backend) {
    const auto buckets = take_buckets(backend);
    std::vector<float*> places;
    at::Tensor bucket = torch::zeros({1000});
    const at::Tensor view = bucket.narrow(0, 500, 500);
    for (int step = 0; step < 20; ++step) {
      if (step == 10) bucket = torch::zeros({100'000});  // makes new buckets
      bucket.copy_(torch::arange(bucket.numel(), torch::kFloat) + static_cast<float>(rank * step));
      if (step < 10) view.fill_(static_cast<float>(rank));
      places.push_back(bucket.mutable_data_ptr<float>());
      const at::Tensor average = buckets->average(0, bucket, /*are_seen=*/false);
      std::vector<at::Tensor> other = {torch::zeros({1})};
      if (step % 3 == 0) backend->broadcast(other, {})->wait();
      at::Tensor wanted = torch::arange(bucket.numel(), torch::kFloat) + static_cast<float>(step);
      if (step < 10) wanted.narrow(0, 500, 500).fill_(1);
      const std::lock_guard lock(mutex);
      CHECK(torch::allclose(average, wanted));
    }
    const std::lock_guard lock(mutex);
    for (const std::size_t first : {1, 11}) {
      CHECK(places[first] != places[first - 1]);
      CHECK(places[first + 1] != places[first]);
      for (std::size_t step = first; step < first + 7; ++step) CHECK(places[step + 2] == places[step]);
    }
  });
  CHECK(errors == test::no_errors(3));
}

TEST_CASE("large buckets are averaged where they lie, also under views that outlive them") {
  const int ranks = GENERATE(1, 2, 3);
  const bool are_seen = GENERATE(false, true);
  const at::ScalarType type = GENERATE(torch::kFloat, torch::kBFloat16);
  CAPTURE(ranks, are_seen, type);
  const std::vector<std::int64_t> sizes = {600'011, 1'100'000};
  std::mutex mutex;
  std::vector<at::Tensor> kept;  // by no order
  const auto errors = on_ranks(ranks, [&](int rank, Backend& backend) {
    auto buckets = take_buckets(backend);
    std::vector<at::Tensor> memory;
    for (const std::int64_t size : sizes) memory.push_back(torch::zeros({size}, type));
    const at::Tensor view = memory[1].narrow(0, 1000, 8);
    std::vector<void*> places;
    for (int step = 0; step < 4; ++step) {
      for (std::size_t index = 0; index < memory.size(); ++index) {
        // Small whole numbers, whose mean each type holds.
        const at::Tensor numbers = torch::arange(sizes[index]).remainder(64).to(type);
        memory[index].copy_(numbers + (ranks - 1 - 2 * rank) + step);
        const at::Tensor average = buckets->average(index, memory[index], are_seen);
        const std::lock_guard lock(mutex);
        CHECK(average.is_same(memory[index]));
        CHECK(torch::equal(average, numbers + step));
        places.push_back(average.data_ptr());
      }
    }
    const std::lock_guard lock(mutex);
    for (std::size_t call = 2; call < places.size(); ++call) CHECK(places[call] == places[call - 2]);
    CHECK(torch::equal(view, torch::arange(1000, 1008).remainder(64).to(type) + 3));
    kept.push_back(view);
  });
  CHECK(errors == test::no_errors(ranks));
  // No one else has that memory any more.
  for (const at::Tensor& view : kept) CHECK(torch::equal(view, torch::arange(1000, 1008).remainder(64).to(type) + 3));
}

TEST_CASE("what has no memory of its own, or lies elsewhere, is averaged as any tensor") {
  on_ranks(2, [](int rank, Backend& backend) {
    const auto buckets = take_buckets(backend);
    REQUIRE(buckets != nullptr);
    CHECK(take_buckets(backend) == nullptr);
    const at::Tensor whole = torch::full({1'000'000}, static_cast<float>(rank));
    const at::Tensor part = whole.narrow(0, 10, 900'000);
    CHECK(buckets->average(0, part, false).eq(0.5).all().item<bool>());
    CHECK(whole[0].item<float>() == static_cast<float>(rank));
    CHECK_THROWS_WITH(buckets->average(0, torch::zeros({10}, torch::kMeta), false), Catch::Contains("on meta cannot travel"));
  });
}

TEST_CASE("buckets are taken again when they are given back") {
  on_ranks(1, [](int, Backend& backend) {
    auto buckets = take_buckets(backend);
    CHECK(take_buckets(backend) == nullptr);
    buckets.reset();
    CHECK(take_buckets(backend) != nullptr);
  });
}

TEST_CASE("a rank that averages a bucket while another averages a tensor is told so") {
  const std::int64_t size = GENERATE(4, 1'000'000);
  const auto errors = on_ranks(2, [&](int rank, Backend& backend) {
    const auto buckets = take_buckets(backend);
    const at::Tensor gradients = torch::ones({size});
    if (rank == 0) buckets->average(0, gradients, /*are_seen=*/false);
    if (rank == 1) all_reduced(backend, gradients, c10d::ReduceOp::AVG);
  });
  const std::string call = size == 4 ? "all_reduce in windows(average) of Float" : "memory for a bucket";
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains(call));
}

TEST_CASE("a work has ended, and its future holds the tensors") {
  on_ranks(1, [](int, Backend& backend) {
    std::vector<at::Tensor> tensors = {torch::ones({2})};
    const auto work = backend->allreduce(tensors, {});
    CHECK(work->isCompleted());
    CHECK(work->isSuccess());
    CHECK(work->wait());
    CHECK(work->getFuture()->value().toTensorVector()[0].is_same(tensors[0]));
  });
}

}  // namespace levin
