// Pipelines: what each step gives; and, of pipelines put together at random, that ranks, workers and a resume make no
// difference.
#include "levin/data/pipeline.h"

#include <torch/types.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/data_loader.h"
#include "levin/data/stream.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::Batch;
using levin::from_list;
using levin::from_range;
using levin::Pipeline;
using levin::Random;
using Numbers = std::vector<std::int64_t>;

namespace {

template <class T>
std::vector<T> all_of(const Pipeline<T>& pipeline, const levin::StreamEpoch& epoch = {}) {
  std::vector<T> all;
  auto reader = pipeline.read(epoch);
  while (auto element = reader.next()) all.push_back(std::move(*element));
  return all;
}

Numbers numbers_to(std::int64_t from, std::int64_t to) {
  Numbers numbers(static_cast<std::size_t>(to - from));
  std::iota(numbers.begin(), numbers.end(), from);
  return numbers;
}

Numbers in_order(Numbers numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

Batch row(std::int64_t number) { return {{"number", torch::tensor({number})}}; }

Numbers numbers_of(const Batch& batch) {
  const at::Tensor numbers = batch["number"].contiguous().flatten();
  const auto* data = numbers.const_data_ptr<std::int64_t>();
  return {data, data + numbers.numel()};
}

/// Of the rest of an epoch.
std::vector<Numbers> rest_of(levin::Stream& stream) {
  std::vector<Numbers> batches;
  while (const auto batch = stream.next()) batches.push_back(numbers_of(*batch));
  return batches;
}

}  // namespace

TEST_CASE("the steps of a pipeline give what they say") {
  const auto ten = from_range(10);
  CHECK(all_of(ten.map([](std::int64_t n) { return n * n; }).filter([](std::int64_t n) { return n % 2 == 0; })) ==
        Numbers{0, 4, 16, 36, 64});
  CHECK(all_of(ten.take(4).skip(1)) == Numbers{1, 2, 3});
  CHECK(all_of(ten.skip(20)).empty());
  CHECK(all_of(ten.take(2).repeat(3)) == Numbers{0, 1, 0, 1, 0, 1});
  CHECK(all_of(ten.take(2).repeat().take(5)) == Numbers{0, 1, 0, 1, 0});
  CHECK(all_of(ten.take(0).repeat()).empty());
  CHECK(all_of(from_range(3).flat_map([](std::int64_t n) { return Numbers(static_cast<std::size_t>(n), n); })) ==
        Numbers{1, 2, 2});
  CHECK(all_of(from_range(4).flat_map(
            [](std::int64_t n) {
              return from_list(Numbers{n, 10 * n, 100 * n});
            },
            {.at_once = 2})) == Numbers{0, 1, 0, 10, 0, 100, 2, 3, 20, 30, 200, 300});
  CHECK(all_of(ten.batch(4)) == std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  CHECK(all_of(ten.batch(4, {.drop_last = true})) == std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(all_of(ten.batch(5, [](const Numbers& five) { return std::accumulate(five.begin(), five.end(), 0L); })) ==
        std::vector<long>{10, 35});
  CHECK(all_of(ten.shard(), {.rank = 1, .world_size = 3}) == Numbers{1, 4, 7});
  CHECK(all_of(ten.prefetch(3, 2)) == numbers_to(0, 10));
  CHECK(all_of(levin::interleave<std::int64_t>({ten.take(2), ten.skip(6)})) == Numbers{0, 6, 1, 7, 8, 9});
  CHECK(all_of(levin::interleave<std::int64_t>({ten.take(2), ten.skip(6)}, {.ends_with_first = true})) == Numbers{0, 6, 1, 7});
  CHECK(all_of(levin::interleave<std::int64_t>({ten.skip(6), ten.take(2)}, {.ends_with_first = true})) ==
        Numbers{6, 0, 7, 1, 8});
  CHECK_THROWS_AS(ten.batch(0), levin::MisuseError);
  CHECK_THROWS_AS(ten.shuffle(0), levin::MisuseError);
  CHECK_THROWS_AS(ten.take(-1), levin::MisuseError);
}

TEST_CASE("a shuffle holds every element once, in another order in each epoch and by each seed") {
  const auto window = GENERATE(std::optional<std::int64_t>(), std::optional<std::int64_t>(8));
  const auto shuffled = from_range(100).shuffle(window);
  const Numbers first = all_of(shuffled);
  CHECK(first != numbers_to(0, 100));
  CHECK(in_order(first) == numbers_to(0, 100));
  CHECK(all_of(shuffled) == first);
  CHECK(all_of(shuffled, {.epoch = 1}) != first);
  CHECK(all_of(shuffled, {.seed = 1}) != first);
  CHECK(all_of(shuffled, {.rank = 1, .world_size = 2}) == first);
  if (window) {
    for (std::size_t place = 0; place < first.size(); ++place) CHECK(first[place] < static_cast<std::int64_t>(place) + 8);
  }
  const Numbers twice = all_of(shuffled.repeat(2));
  CHECK(Numbers(twice.begin(), twice.begin() + 100) == first);
  CHECK(in_order(Numbers(twice.begin() + 100, twice.end())) == numbers_to(0, 100));
  CHECK(Numbers(twice.begin() + 100, twice.end()) != first);
  // All places of the permutations of three are as likely.
  std::map<Numbers, int> permutations;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) ++permutations[all_of(from_range(3).shuffle(window), {.seed = seed})];
  REQUIRE(permutations.size() == 6);
  for (const auto& [permutation, times] : permutations) CHECK(std::abs(times - 1000) < 150);
}

TEST_CASE("a mix draws from its pipelines by their weights until all have ended") {
  const auto ones = from_list(Numbers(300, 1));
  const auto tens = from_list(Numbers(100, 10));
  const auto mixed = levin::mix<std::int64_t>({{ones, 3.0}, {tens, 1.0}});
  const Numbers all = all_of(mixed);
  CHECK(std::ranges::count(all, 1) == 300);
  CHECK(std::ranges::count(all, 10) == 100);
  const auto early = std::count(all.begin(), all.begin() + 200, 10);
  CHECK(early > 30);
  CHECK(early < 70);
  const Numbers first = all_of(levin::mix<std::int64_t>({{ones, 1.0}, {from_range(0), 1.0}}, {.ends_with_first = true}));
  CHECK(first.size() < 20);
  CHECK_THROWS_AS(levin::mix<std::int64_t>({}), levin::MisuseError);
  CHECK_THROWS_AS(levin::mix<std::int64_t>({{ones, 0.0}}), levin::MisuseError);
}

TEST_CASE("random numbers of an element depend on seed, epoch and element alone") {
  const auto draw = [](std::int64_t, Random& random) { return static_cast<std::int64_t>(random() >> 1U); };
  const auto drawn = from_range(6).map(draw);
  const Numbers all = all_of(drawn);
  CHECK(std::set<std::int64_t>(all.begin(), all.end()).size() == 6);
  CHECK(all_of(drawn) == all);
  CHECK(all_of(drawn.skip(2)) == Numbers(all.begin() + 2, all.end()));
  CHECK(all_of(drawn.prefetch(3, 2)) == all);
  CHECK(in_order(all_of(from_range(6).shuffle().map(draw))) != in_order(all));  // its numbers are a step's own
  CHECK(in_order(all_of(from_range(6).map(draw).shuffle())) == in_order(all));
  CHECK(all_of(drawn, {.epoch = 1}) != all);
  CHECK(all_of(drawn, {.seed = 1}) != all);
  // Other numbers in a second step, a second pass, and a second file.
  const auto second = all_of(from_range(6).map(draw).map(draw));
  CHECK(second[0] != all[0]);
  const auto passes = all_of(drawn.repeat(2));
  CHECK(passes[6] != passes[0]);
  const auto files = all_of(from_range(2).flat_map([&](std::int64_t) { return from_range(3).map(draw); }));
  CHECK(std::set<std::int64_t>(files.begin(), files.end()).size() == 6);
  const auto mixed = all_of(levin::interleave<std::int64_t>({drawn, drawn}));
  CHECK(std::set<std::int64_t>(mixed.begin(), mixed.end()).size() == 12);
}

TEST_CASE("values are made for the batches of a rank alone, and not at all where they are passed over") {
  std::atomic<int> made = 0;
  const auto pipeline = from_range(40).shuffle().map([&](std::int64_t n) {
    ++made;
    return row(n);
  });
  levin::Stream stream = levin::stream(pipeline.batch(4));
  stream.set_shard({.rank = 1, .world_size = 4});
  stream.start_epoch(0);
  CHECK(rest_of(stream).size() == 3);
  CHECK(made == 12);
  made = 0;
  stream.start_epoch_at(0, 32);
  CHECK(rest_of(stream).size() == 1);
  CHECK(made == 4);
}

TEST_CASE("batches by length stay within max_tokens, and buckets hold similar lengths") {
  Numbers lengths;
  for (std::int64_t n = 0; n < 60; ++n) lengths.push_back(1 + n * n % 13);
  const auto same = [](const Numbers& elements) { return elements; };
  const auto length = [](std::int64_t n) { return n; };
  const auto consecutive = all_of(from_list(lengths).batch_by_tokens(30, length, same));
  Numbers joined;
  for (const Numbers& batch : consecutive) {
    CHECK(*std::ranges::max_element(batch) * std::ssize(batch) <= 30);
    joined.insert(joined.end(), batch.begin(), batch.end());
  }
  CHECK(joined == lengths);
  const auto bucketed =
      all_of(from_list(lengths).bucket_by_length({.boundaries = {4, 9}, .max_tokens = 30, .max_samples = 5}, length, same));
  joined.clear();
  for (const Numbers& batch : bucketed) {
    const auto [shortest, longest] = std::ranges::minmax(batch);
    CHECK(longest * std::ssize(batch) <= 30);
    CHECK(batch.size() <= 5);
    const auto bucket = [](std::int64_t n) { return n <= 4 ? 0 : n <= 9 ? 1 : 2; };
    CHECK(bucket(shortest) == bucket(longest));
    joined.insert(joined.end(), batch.begin(), batch.end());
  }
  CHECK(in_order(joined) == in_order(lengths));
  CHECK(
      all_of(from_list(lengths).bucket_by_length({.boundaries = {}, .max_tokens = 0, .max_samples = 1}, length, same)).size() ==
      60);
  CHECK_THROWS_WITH(all_of(from_list(lengths).batch_by_tokens(12, length, same)), Contains("length 13, and max_tokens is 12"));
  CHECK_THROWS_AS(from_list(lengths).batch_by_tokens(0, length, same), levin::MisuseError);
}

TEST_CASE("packed sequences are cut into pieces of one length, with their documents and positions") {
  const auto sequences =
      from_list(std::vector<at::Tensor>{torch::arange(5), torch::arange(0), torch::arange(10, 12), torch::arange(20, 28)});
  const auto pieces = all_of(sequences.pack(4));
  REQUIRE(pieces.size() == 3);
  const auto equal = [](const at::Tensor& tensor, const Numbers& numbers) {
    return torch::equal(tensor, torch::tensor(numbers));
  };
  CHECK(equal(pieces[0]["tokens"], {0, 1, 2, 3}));
  CHECK(equal(pieces[1]["tokens"], {4, 10, 11, 20}));
  CHECK(equal(pieces[1]["document"], {0, 1, 1, 2}));
  CHECK(equal(pieces[1]["position"], {4, 0, 1, 0}));
  CHECK(equal(pieces[2]["tokens"], {21, 22, 23, 24}));
  CHECK(equal(pieces[2]["position"], {1, 2, 3, 4}));
}

TEST_CASE("lines come from all files of a pattern in order, and errors name file and line") {
  const levin::test::TemporaryFolder folder;
  std::ofstream(folder / "b.txt") << "3\r\n4";
  std::ofstream(folder / "a.txt") << "1\n2\n";
  std::ofstream(folder / "c.txt") << "\nfive\n";
  const std::string pattern = (folder / "*.txt").string();
  CHECK(all_of(levin::from_lines(pattern)) == std::vector<std::string>{"1", "2", "3", "4", "", "five"});
  auto reader = levin::from_lines(pattern).read();
  CHECK(reader.skip(3) == 3);
  CHECK(reader.next() == "4");
  const auto parsed = levin::from_lines(pattern).map([](const std::string& line) {
    if (line.empty()) throw std::runtime_error("no number");
    return row(std::stol(line));
  });
  levin::Stream stream = levin::stream(parsed.batch(2));
  stream.start_epoch(0);
  CHECK(numbers_of(*stream.next()) == Numbers{1, 2});
  CHECK(numbers_of(*stream.next()) == Numbers{3, 4});
  CHECK_THROWS_WITH(stream.next(), Contains("batch 2 of epoch 0") && Contains("c.txt', line 1: no number"));
  CHECK_FALSE(stream.next());
  CHECK_THROWS_WITH(levin::from_lines((folder / "*.csv").string()), Contains("no file matches"));
}

namespace {

/// A pipeline of rows, put together at random of steps that know where they are.
Pipeline<Batch> any_pipeline(std::mt19937& random) {
  const auto upto = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  Pipeline<std::int64_t> numbers = from_range(20 + upto(60));
  const std::int64_t steps = upto(4);
  for (std::int64_t step = 0; step < steps; ++step) {
    switch (upto(8)) {
      case 0:
        numbers = numbers.shuffle();
        break;
      case 1:
        numbers = numbers.shuffle(1 + upto(20));
        break;
      case 2:
        numbers = numbers.filter([](std::int64_t n) { return n % 5 != 0; });
        break;
      case 3:
        numbers = numbers.repeat(2);
        break;
      case 4:
        numbers = numbers.skip(upto(9)).take(50);
        break;
      case 5:
        numbers = numbers.map([](std::int64_t n, Random& r) { return n + 1000 * static_cast<std::int64_t>(r() % 7); });
        break;
      case 6:
        numbers =
            numbers.flat_map([](std::int64_t n) { return from_list(Numbers(static_cast<std::size_t>(n % 3), n)).shuffle(); },
                             {.at_once = 1 + upto(2)});
        break;
      case 7:
        numbers = levin::mix<std::int64_t>({{numbers, 2.0}, {from_range(9).shuffle(), 1.0}});
        break;
      default:
        numbers = numbers.prefetch(1 + upto(3), 2);
    }
  }
  const auto rows = numbers.map(row);
  if (upto(3) == 0) {
    return rows.bucket_by_length(
        {.boundaries = {20, 40}, .max_tokens = 0, .max_samples = 4},
        [](const Batch& sample) { return sample["number"].item<std::int64_t>(); }, levin::stack_samples);
  }
  return rows.batch(1 + upto(4), {.drop_last = upto(1) == 0});
}

}  // namespace

TEST_CASE("ranks take the batches of any pipeline in turn, and a run resumes anywhere on any number of ranks and workers") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    const Pipeline<Batch> pipeline = any_pipeline(random);
    const auto stream = [&](int rank, int world_size, int workers = 0) {
      levin::Stream made = levin::stream(pipeline, {.seed = 3, .num_workers = workers});
      made.set_shard({.rank = rank, .world_size = world_size});
      return made;
    };
    INFO("pipeline " << seed);
    levin::Stream alone = stream(0, 1);
    alone.start_epoch(2);
    const std::vector<Numbers> whole = rest_of(alone);
    if (const auto size = alone.size()) CHECK(*size == std::ssize(whole));
    const int world_size = 2 + static_cast<int>(seed % 2);
    for (int rank = 0; rank < world_size; ++rank) {
      levin::Stream part = stream(rank, world_size, static_cast<int>(seed % 3));
      part.start_epoch(2);
      std::vector<Numbers> expected;
      for (auto place = static_cast<std::size_t>(rank); place < whole.size(); place += static_cast<std::size_t>(world_size)) {
        expected.push_back(whole[place]);
      }
      CHECK(rest_of(part) == expected);
      if (const auto size = part.size()) CHECK(*size == std::ssize(expected));
    }
    // Saved by these ranks after so many batches, resumed by one rank.
    for (std::int64_t batches = 0; batches * world_size <= std::ssize(whole); batches += 1 + batches / 2) {
      const auto position = stream(0, world_size).samples_before(batches);
      REQUIRE(position);
      levin::Stream resumed = stream(0, 1, static_cast<int>(seed % 2));
      REQUIRE(resumed.can_start_at(*position, false));
      resumed.start_epoch_at(2, *position);
      CHECK(rest_of(resumed) == std::vector<Numbers>(whole.begin() + batches * world_size, whole.end()));
      if (const auto left = resumed.batches_from(*position)) CHECK(*left == std::ssize(whole) - batches * world_size);
    }
  }
}

TEST_CASE("a stream resumes with another batch size, and with shard() on as many ranks alone") {
  const auto rows = from_range(40).shuffle(8).map(row);
  levin::Stream whole = levin::stream(rows.batch(40), {.seed = 1});
  whole.start_epoch(0);
  const Numbers order = rest_of(whole)[0];
  levin::Stream saved = levin::stream(rows.batch(3), {.seed = 1});
  saved.set_shard({.world_size = 2});
  saved.start_epoch(0);
  levin::Stream resumed = levin::stream(rows.batch(7), {.seed = 1});
  resumed.start_epoch_at(0, *saved.samples_before(3));
  CHECK(rest_of(resumed)[0] == Numbers(order.begin() + 18, order.begin() + 25));

  const auto divided = [&](int rank, int world_size) {
    levin::Stream stream = levin::stream(rows.shard().batch(4), {.seed = 1});
    stream.set_shard({.rank = rank, .world_size = world_size});
    return stream;
  };
  levin::Stream second = divided(1, 2);
  second.start_epoch(0);
  const auto own = rest_of(second);
  REQUIRE(own.size() == 5);
  CHECK(own[0] == Numbers{order[1], order[3], order[5], order[7]});
  const auto position = second.samples_before(2);
  REQUIRE(position);
  CHECK(second.can_start_at(*position, true));
  CHECK_FALSE(divided(0, 1).can_start_at(*position, false));
  CHECK(second.batches_from(*position) == 3);
  second.start_epoch_at(0, *position);
  CHECK(rest_of(second) == std::vector<Numbers>(own.begin() + 2, own.end()));
}

TEST_CASE("a stream tells samples, their order and their fingerprint where its pipeline ends with batch()") {
  levin::Stream stream = levin::stream(from_range(10).map(row).batch(3));
  stream.set_shard({.rank = 1, .world_size = 2});
  CHECK(stream.batch_size() == 3);
  CHECK(stream.size() == 2);
  CHECK(stream.sample_share()->all == 10);
  CHECK(stream.sample_share()->mine == 4);
  stream.start_epoch(0);
  rest_of(stream);
  CHECK(stream.epoch_samples(2) == Numbers{3, 4, 5, 9});
  CHECK(stream.data_fingerprint() != levin::stream(from_range(11).map(row).batch(3)).data_fingerprint());
  levin::Stream filtered = levin::stream(from_range(10).filter([](std::int64_t n) { return n > 3; }).map(row).batch(3));
  CHECK_FALSE(filtered.size());
  CHECK_FALSE(filtered.sample_share());
  CHECK(filtered.batch_size() == 3);
}

TEST_CASE("samples of a dataset go through a pipeline") {
  const auto dataset = std::make_shared<levin::TensorDataset>(Batch{{"number", torch::arange(6).reshape({6, 1})}});
  levin::Stream stream = levin::stream(levin::from_dataset(dataset).batch(4));
  stream.start_epoch(0);
  CHECK(rest_of(stream) == std::vector<Numbers>{{0, 1, 2, 3}, {4, 5}});
  CHECK(stream.data_fingerprint() == dataset->fingerprint());

  // What it draws is what it draws in a DataLoader.
  struct Noisy : levin::SampleDataset {
    std::int64_t size() const override { return 5; }
    Batch get_sample(std::int64_t index) const override {
      return {{"number", torch::randint(1'000'000, {1}, levin::sample_generator(index)).to(torch::kLong)}};
    }
  };
  levin::DataLoader loader(Noisy(), {.batch_size = 5, .seed = 9});
  levin::Stream same = levin::stream(levin::from_dataset(Noisy()).batch(5), {.seed = 9, .num_workers = 1});
  for (const std::int64_t epoch : {0, 3}) {
    loader.start_epoch(epoch);
    same.start_epoch(epoch);
    CHECK(numbers_of(*same.next()) == numbers_of(*loader.next()));
  }
}

TEST_CASE("patterns of files stand for what a shell makes of them") {
  const levin::test::TemporaryFolder folder;
  for (const char* name : {"a-08.txt", "a-09.txt", "a-10.txt", "b-09.txt", "c.txt", "{x}.txt"})
    std::ofstream(folder / name) << name;
  const auto found = [&](const std::string& pattern) {
    std::vector<std::string> names;
    for (const auto& file : all_of(levin::from_files((folder / pattern).string()))) names.push_back(file.filename());
    return names;
  };
  CHECK(found("{a,b}-09.txt") == std::vector<std::string>{"a-09.txt", "b-09.txt"});
  CHECK(found("a-{08..10}.txt") == std::vector<std::string>{"a-08.txt", "a-09.txt", "a-10.txt"});
  CHECK_THROWS_WITH(found("{a,b}-{08..09}.txt"), Contains("b-08.txt' of '") && Contains("is not there"));
  CHECK_THROWS_WITH(found("a-{8..12}.txt"), Contains("a-8.txt' of '"));
  CHECK(found("?.txt") == std::vector<std::string>{"c.txt"});
  CHECK(found("{x}.txt") == std::vector<std::string>{"{x}.txt"});
  CHECK_THROWS_WITH(found("c.csv"), Contains("no file matches"));
  CHECK_THROWS_WITH(found("{0..99999999}"), Contains("more than 1000000 files"));
}
