// Rows that are read by groups: the order of an epoch, what is in memory at once, and what is passed over.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "levin/data/row_blocks.h"
#include "levin/data/stream.h"

namespace {

/// Groups of different sizes, whose rows are numbers; counts those that are in memory.
struct CountedGroups {
  std::vector<std::int64_t> sizes;
  std::shared_ptr<std::atomic<std::int64_t>> held = std::make_shared<std::atomic<std::int64_t>>(0);
  std::shared_ptr<std::atomic<std::int64_t>> most = std::make_shared<std::atomic<std::int64_t>>(0);
  std::shared_ptr<std::atomic<std::int64_t>> reads = std::make_shared<std::atomic<std::int64_t>>(0);

  levin::GroupedRows rows() const {
    return {sizes, [own = *this](std::int64_t group) { return own.read(group); }, 7};
  }
  levin::Batch read(std::int64_t group) const {
    const std::int64_t size = sizes[static_cast<std::size_t>(group)];
    const std::int64_t first = std::accumulate(sizes.begin(), sizes.begin() + group, std::int64_t{0});
    auto* const numbers = new std::int64_t[static_cast<std::size_t>(size)];
    std::iota(numbers, numbers + size, first);
    ++*reads;
    const std::int64_t now = *held += size;
    for (std::int64_t before = *most; before < now && !most->compare_exchange_weak(before, now);) {
    }
    return {{"number", at::from_blob(
                           numbers, {size},
                           [held = held, size](void* memory) {
                             *held -= size;
                             delete[] static_cast<std::int64_t*>(memory);
                           },
                           at::kLong)}};
  }
};

std::vector<std::int64_t> numbers_of(levin::Stream& stream, std::int64_t epoch, std::int64_t first = 0) {
  std::vector<std::int64_t> numbers;
  stream.start_epoch_at(epoch, first);
  while (const auto batch = stream.next()) {
    const at::Tensor values = (*batch)["number"];
    numbers.insert(numbers.end(), values.const_data_ptr<std::int64_t>(),
                   values.const_data_ptr<std::int64_t>() + values.numel());
  }
  return numbers;
}

levin::Stream stream_of(const CountedGroups& groups, const levin::RowBlockOptions& blocks, int workers = 0) {
  return levin::stream(levin::rows_in_blocks(groups.rows(), blocks).batch(4, levin::batch_of_rows),
                       {.seed = 11, .num_workers = workers});
}

CountedGroups forty_groups() {
  CountedGroups groups;
  for (std::int64_t group = 0; group < 40; ++group) groups.sizes.push_back(5 + group % 4);
  return groups;
}

}  // namespace

TEST_CASE("each row comes once, in a new order in each epoch, or in that of the groups") {
  const CountedGroups groups = forty_groups();
  levin::Stream shuffled = stream_of(groups, {.shuffle = true, .most_rows = 30});
  std::vector<std::int64_t> first = numbers_of(shuffled, 0), second = numbers_of(shuffled, 1);
  CHECK(first != second);
  CHECK(numbers_of(shuffled, 0) == first);
  CHECK(*shuffled.size() == (std::ssize(first) + 3) / 4);
  // Rows of different groups are mixed.
  std::int64_t jumps = 0;
  for (std::size_t row = 1; row < first.size(); ++row) jumps += std::abs(first[row] - first[row - 1]) > 8 ? 1 : 0;
  CHECK(jumps > std::ssize(first) / 3);
  std::ranges::sort(first);
  levin::Stream in_order = stream_of(groups, {});
  CHECK_FALSE(in_order.shuffles());
  CHECK(numbers_of(in_order, 0) == first);
  CHECK(std::ranges::is_sorted(first));
  CHECK(std::ssize(std::set(first.begin(), first.end())) == std::ssize(first));
}

TEST_CASE("the rows of three blocks are in memory at most, and one group where blocks are no larger") {
  const CountedGroups groups = forty_groups();
  const int workers = GENERATE(0, 2);
  levin::Stream stream = stream_of(groups, {.shuffle = true, .most_rows = 30, .threads = workers}, workers);
  numbers_of(stream, 0);
  CHECK(*groups.reads == 40);
  CHECK(*groups.held == 0);
  CHECK(*groups.most <= 3 * 30);
  CHECK(*groups.most >= 20);
  const CountedGroups others = forty_groups();
  levin::Stream in_order = stream_of(others, {});
  numbers_of(in_order, 0);
  CHECK(*others.most <= 2 * 8);
}

TEST_CASE("a run that resumes within an epoch has the rows that are left, without reading the blocks before") {
  const CountedGroups groups = forty_groups();
  const levin::RowBlockOptions blocks{.shuffle = true, .most_rows = 30};
  levin::Stream whole = stream_of(groups, blocks);
  const std::vector<std::int64_t> all = numbers_of(whole, 3);
  for (const std::int64_t passed : {4, 60, 160, 200}) {
    const CountedGroups rest = forty_groups();
    levin::Stream resumed = stream_of(rest, blocks);
    CHECK(numbers_of(resumed, 3, passed) == std::vector<std::int64_t>(all.begin() + passed, all.end()));
    CHECK(*rest.reads <= 40 - (passed - 30) / 8);
  }
  // The same rows on two ranks, batch by batch.
  std::vector<std::int64_t> of_ranks(all.size());
  for (int rank = 0; rank < 2; ++rank) {
    levin::Stream stream = stream_of(groups, blocks);
    stream.set_shard({.rank = rank, .world_size = 2});
    const std::vector<std::int64_t> own = numbers_of(stream, 3);
    for (std::size_t place = 0; place < own.size(); ++place)
      of_ranks[(place / 4 * 2 + static_cast<std::size_t>(rank)) * 4 + place % 4] = own[place];
  }
  CHECK(of_ranks == all);
}

TEST_CASE("a group that cannot be read fails its batch, and the epoch goes on with the next block") {
  CountedGroups groups{.sizes = {3, 3, 3}};
  levin::GroupedRows rows = groups.rows();
  rows.read = [groups](std::int64_t group) {
    if (group == 1) throw std::runtime_error("damaged");
    return groups.read(group);
  };
  levin::Stream stream = levin::stream(levin::rows_in_blocks(rows, {}).batch(3, levin::batch_of_rows));
  stream.start_epoch(0);
  CHECK(stream.next()->batch_size() == 3);
  CHECK_THROWS_WITH(stream.next(), Catch::Contains("damaged"));
  CHECK((*stream.next())["number"][0].item<std::int64_t>() == 6);
  CHECK_FALSE(stream.next());
}
