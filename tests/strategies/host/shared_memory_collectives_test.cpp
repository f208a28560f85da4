#include "levin/strategies/host/shared_memory_collectives.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/strategies/host/status_board.h"
#include "strategies/support/rank_threads.h"

using namespace levin;
using test::no_errors;

namespace {

using Ints = std::vector<std::int32_t>;

void add_ints(std::byte* result, std::span<const std::byte* const> parts, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    std::int32_t sum = 0;
    for (const std::byte* part : parts) sum += reinterpret_cast<const std::int32_t*>(part)[i];
    reinterpret_cast<std::int32_t*>(result)[i] = sum;
  }
}

/// The digits of a number tell the order in which the parts came.
void append_digits(std::byte* result, std::span<const std::byte* const> parts, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    std::int32_t digits = 0;
    for (const std::byte* part : parts) digits = digits * 10 + reinterpret_cast<const std::int32_t*>(part)[i];
    reinterpret_cast<std::int32_t*>(result)[i] = digits;
  }
}

/// One rank of a run whose ranks are threads.
struct Rank {
  Rank(const std::shared_ptr<RunSegment>& run_segment, const std::string& memory, int rank, double timeout_seconds)
      : segment(run_segment),
        board(std::make_shared<SharedMemoryStatusBoard>(segment, rank)),
        collectives(SharedFile::open_at(memory), segment, board, timeout_seconds) {}
  int number() const { return collectives.rank(); }
  SharedMemoryCollectives::Values values(Ints& ints) {
    return {std::as_writable_bytes(std::span(ints)), sizeof(std::int32_t), add_ints};
  }
  /// All come to it.
  void barrier() { collectives.broadcast({}, 0, "barrier"); }
  std::shared_ptr<RunSegment> segment;
  std::shared_ptr<SharedMemoryStatusBoard> board;
  SharedMemoryCollectives collectives;
};

/// Runs `body` on each rank; gives what each threw, empty for nothing.
std::vector<std::string> run_ranks(int ranks, const std::function<void(Rank&)>& body, double timeout_seconds = 60) {
  const auto segment = RunSegment::create(ranks);
  const SharedFile memory = SharedFile::create(SharedMemoryCollectives::memory_bytes(ranks));
  return test::on_threads(ranks, [&](int number) {
    Rank rank(segment, memory.place(), number, timeout_seconds);
    body(rank);
  });
}

/// What a rank gives in a call.
std::int32_t given(int rank, std::size_t call, std::size_t index) {
  return static_cast<std::int32_t>(index * 7 + call * 31) % 1000 + rank * 1001;
}

Ints given(int rank, std::size_t call, std::size_t begin, std::size_t size) {
  Ints ints(size);
  for (std::size_t i = 0; i < size; ++i) ints[i] = given(rank, call, begin + i);
  return ints;
}

Ints sum_of_given(int ranks, std::size_t call, std::size_t begin, std::size_t size) {
  Ints sum(size);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < size; ++i) sum[i] += given(rank, call, begin + i);
  }
  return sum;
}

/// Makes call number `call` of a rank; true when it gave what it should.
bool is_right(Rank& rank, std::size_t call, std::size_t kind, std::size_t size, int root) {
  const int ranks = rank.collectives.size();
  Ints mine = given(rank.number(), call, 0, size);
  switch (kind) {
    case 0:
      rank.collectives.all_reduce(rank.values(mine), "all_reduce");
      return mine == sum_of_given(ranks, call, 0, size);
    case 1: {
      std::vector<Ints> all(static_cast<std::size_t>(ranks), Ints(size));
      std::vector<std::byte*> places;
      for (Ints& ints : all) places.push_back(std::as_writable_bytes(std::span(ints)).data());
      rank.collectives.all_gather(std::as_bytes(std::span(mine)), places, "all_gather");
      for (int other = 0; other < ranks; ++other) {
        if (all[static_cast<std::size_t>(other)] != given(other, call, 0, size)) return false;
      }
      return true;
    }
    case 2:
      rank.collectives.broadcast(std::as_writable_bytes(std::span(mine)), root, "broadcast");
      return mine == given(root, call, 0, size);
    case 3: {
      // The last share lacks a number.
      const std::size_t all = static_cast<std::size_t>(ranks) * size - (size > 0);
      const Ints values = given(rank.number(), call, 0, all);
      Ints result(size);
      rank.collectives.reduce_scatter(std::as_bytes(std::span(values)), rank.values(result), "reduce_scatter");
      Ints joined(all);
      rank.collectives.all_gather_shares(std::as_bytes(std::span(result)), std::as_writable_bytes(std::span(joined)), "join");
      return joined == sum_of_given(ranks, call, 0, all);
    }
    case 4: {
      const std::span<std::byte> window = rank.collectives.window();
      const std::size_t fitting = std::min(size, window.size() / sizeof(std::int32_t));
      std::copy_n(mine.data(), fitting, reinterpret_cast<std::int32_t*>(window.data()));
      Ints result(fitting);
      rank.collectives.all_reduce_window(rank.values(result), "all_reduce_window");
      return result == sum_of_given(ranks, call, 0, fitting);
    }
    case 5: {
      const auto parts = rank.collectives.share_parts(size * sizeof(std::int32_t), "share_parts");
      if (!parts) return false;
      std::byte* const part = parts->of(rank.number());
      std::copy_n(mine.data(), size, reinterpret_cast<std::int32_t*>(part));
      Ints result(size);
      auto values = rank.values(result);
      values.bytes = {part, size * sizeof(std::int32_t)};
      rank.collectives.all_reduce_parts(*parts, values, "all_reduce_parts");
      std::copy_n(reinterpret_cast<const std::int32_t*>(part), size, result.data());
      return result == sum_of_given(ranks, call, 0, size);
    }
    default:
      rank.barrier();
      return true;
  }
}

}  // namespace

TEST_CASE("collectives of any kind and size give what every rank should have, many in a row") {
  const std::size_t chunk = (std::size_t{1} << 20) / sizeof(std::int32_t);
  const std::vector<std::size_t> sizes = {0,    1,     15,        16,    17,        1000,         4096,
                                          4097, 20000, chunk - 1, chunk, chunk + 1, 2 * chunk + 5};
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    std::atomic<int> wrong{0};
    const auto errors = run_ranks(ranks, [&](Rank& rank) {
      std::mt19937 random(42);  // the same calls on all ranks
      for (std::size_t call = 0; call < 200; ++call) {
        const std::size_t kind = random() % 7;
        const std::size_t size = sizes[random() % (call % 10 == 0 ? sizes.size() : 9)];
        const int root = static_cast<int>(random() % static_cast<unsigned>(ranks));
        wrong += !is_right(rank, call, kind, size, root);
      }
    });
    CHECK(wrong == 0);
    CHECK(errors == no_errors(ranks));
  }
}

TEST_CASE("ranks in different collectives, or with other sizes, all get one error, in every later call too") {
  const auto calls = run_ranks(2, [](Rank& rank) {
    Ints mine(8);
    rank.barrier();
    try {
      if (rank.number() == 0) {
        rank.collectives.all_reduce(rank.values(mine), "all_reduce(sum) of Float");
      } else {
        rank.collectives.broadcast(std::as_writable_bytes(std::span(mine)), 0, "broadcast from rank 0 of Float");
      }
    } catch (const DesyncError&) {
    }
    rank.barrier();
  });
  CHECK(calls[0] ==
        "ranks met in different calls:\n  rank 0: all_reduce(sum) of Float\n  rank 1: broadcast from rank 0 of Float");
  CHECK(calls[1] == calls[0]);
  const auto sizes = run_ranks(3, [](Rank& rank) {
    Ints mine(rank.number() == 1 ? 2'000'000 : 8);
    rank.collectives.all_reduce(rank.values(mine), "all_reduce");
  });
  for (const std::string& error : sizes) {
    CHECK(error ==
          "ranks met in different calls:\n  rank 0: all_reduce (32 bytes)\n  rank 1: all_reduce (8000000 bytes)\n  rank 2: "
          "all_reduce (32 bytes)");
  }
}

TEST_CASE("a failure ends a collective on all ranks, between any two of its chunks") {
  for (const std::size_t chunks : {0, 1, 2, 3}) {
    const auto errors = run_ranks(3, [&](Rank& rank) {
      Ints mine(chunks * (std::size_t{1} << 18));
      if (rank.number() == 1) {
        if (chunks > 0) rank.collectives.all_reduce(rank.values(mine), "all_reduce");
        rank.board->report_failure({1, {Stage::kTrain, Hook::kBackward, 0, 3}, "boom"});
        return;
      }
      if (chunks > 0) rank.collectives.all_reduce(rank.values(mine), "all_reduce");
      mine.resize(std::size_t{1} << 20);
      rank.collectives.all_reduce(rank.values(mine), "all_reduce");
    });
    CHECK(errors[0] == "rank 1 failed in backward (train, epoch 0, step 3): boom");
    CHECK(errors[1].empty());
    CHECK(errors[2] == errors[0]);
  }
}

TEST_CASE("a rank that does not come ends a collective after the limit, and is named") {
  const auto errors = run_ranks(
      2,
      [](Rank& rank) {
        if (rank.number() == 1) return;
        rank.barrier();
      },
      /*timeout_seconds=*/0.2);
  CHECK_THAT(errors[0], Catch::Contains("waited 0 s in barrier for rank 1"));
}

TEST_CASE("a rank that waits long shows it, under the name of what it is in, and no longer than it waits") {
  for (const std::string within : {"", "the gradient reduction"}) {
    std::string seen;
    const auto errors = run_ranks(2, [&](Rank& rank) {
      if (rank.number() == 0) {
        if (!within.empty()) rank.board->post_waiting(within.c_str());
        rank.barrier();
        CHECK(rank.board->waiting().has_value() == !within.empty());
        return;
      }
      const auto other = std::make_shared<SharedMemoryStatusBoard>(rank.segment, 0);
      while (!other->waiting()) std::this_thread::yield();
      seen = other->waiting()->what;
      rank.barrier();
    });
    CHECK(errors == no_errors(2));
    CHECK(seen == (within.empty() ? "barrier" : within));
  }
}

TEST_CASE("memory of another size is refused") {
  const auto segment = RunSegment::create(2);
  const auto board = std::make_shared<SharedMemoryStatusBoard>(segment, 0);
  CHECK_THROWS_AS(SharedMemoryCollectives(SharedFile::create(4096), segment, board, 1), IoError);
}

namespace {

/// Ranks 2 to 4 of a run of six, alone on a host: the segment is for them only, the board for all.
struct OnHost {
  static constexpr int kRanks = 6;
  static constexpr int kFirst = 2;
  static constexpr int kOnHost = 3;

  std::shared_ptr<RunSegment> host = RunSegment::create(kOnHost, kFirst);
  std::shared_ptr<RunSegment> run = RunSegment::create(kRanks);
  SharedFile memory = SharedFile::create(SharedMemoryCollectives::memory_bytes(kOnHost));

  std::shared_ptr<SharedMemoryStatusBoard> board(int rank) const {
    return std::make_shared<SharedMemoryStatusBoard>(run, rank);
  }
  /// As rank 2, 3 or 4.
  std::unique_ptr<SharedMemoryCollectives> join(int rank, double timeout_seconds = 60,
                                                WaitingThread thread = WaitingThread::kHelper) const {
    host->join(rank);
    return std::make_unique<SharedMemoryCollectives>(SharedFile::open_at(memory.place()), host, board(rank), timeout_seconds,
                                                     thread);
  }
  /// Runs `body` on each; gives what each threw, from rank 2 on.
  std::vector<std::string> run_all(const std::function<void(int rank, SharedMemoryCollectives& collectives)>& body) const {
    return test::on_threads(kOnHost, [&](int place) { body(kFirst + place, *join(kFirst + place)); });
  }
};

SharedMemoryCollectives::Values digits_of(Ints& ints) {
  return {std::as_writable_bytes(std::span(ints)), sizeof(std::int32_t), append_digits};
}

}  // namespace

TEST_CASE("ranks of one host among several reduce among themselves, in the order of ranks, each at its place") {
  std::atomic<int> wrong{0};
  const auto errors = OnHost().run_all([&](int rank, SharedMemoryCollectives& collectives) {
    wrong += collectives.rank() != rank - OnHost::kFirst || collectives.size() != OnHost::kOnHost;
    for (const std::size_t size : {std::size_t{1}, std::size_t{30000}}) {
      Ints mine(size, rank);
      collectives.all_reduce(digits_of(mine), "all_reduce");
      wrong += mine != Ints(size, 234);
      Ints values(OnHost::kOnHost * size, rank);
      for (int share = 0; share < OnHost::kOnHost; ++share) values[static_cast<std::size_t>(share) * size] = share + 1;
      collectives.reduce_scatter(std::as_bytes(std::span(values)), digits_of(mine), "reduce_scatter");
      Ints expected(size, 234);
      expected[0] = (rank - 1) * 111;
      wrong += mine != expected;
    }
  });
  CHECK(wrong == 0);
  CHECK(errors == no_errors(OnHost::kOnHost));
}

TEST_CASE("what keeps ranks of one host among several apart is told with their numbers in the run, on the board of the run") {
  const OnHost host;
  const auto errors = host.run_all([](int rank, SharedMemoryCollectives& collectives) {
    Ints mine(rank == 3 ? 16 : 8);
    collectives.all_reduce(digits_of(mine), "all_reduce");
  });
  for (const std::string& error : errors) {
    CHECK(error ==
          "ranks met in different calls:\n  rank 2: all_reduce (32 bytes)\n  rank 3: all_reduce (64 bytes)\n  rank 4: "
          "all_reduce (32 bytes)");
  }
  const auto failure = host.board(0)->failure();
  REQUIRE(failure);
  CHECK(failure->rank >= OnHost::kFirst);
  CHECK(failure->error == errors[0]);
  CHECK_FALSE(recorded_failure(*host.host));
}

TEST_CASE("a failure on another host ends a wait on this one") {
  const OnHost host;
  const auto collectives = host.join(2);
  host.board(5)->report_failure({5, {Stage::kTrain, Hook::kBackward, 0, 3}, "boom"});
  CHECK_THROWS_WITH(collectives->broadcast({}, 0, "barrier"), "rank 5 failed in backward (train, epoch 0, step 3): boom");
}

TEST_CASE("a rank of this host whose process has ended is named with its number in the run") {
  const OnHost host;
  const pid_t child = fork();
  if (child == 0) {
    host.host->join(3);
    _exit(0);
  }
  siginfo_t ended{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED) == 0);
  const auto collectives = host.join(2);
  host.host->join(4);
  CHECK_THROWS_WITH(collectives->broadcast({}, 0, "barrier"),
                    Catch::StartsWith("rank 3 failed before the first hook: its process ended "
                                      "while other ranks wait in barrier"));
  CHECK(host.board(0)->failure().value().rank == 3);
}

TEST_CASE("a wait of a thread beside posts nothing, and ends after the limit") {
  const OnHost host;
  const auto collectives = host.join(2, /*timeout_seconds=*/0.2);
  host.host->join(3);
  const auto board = host.board(2);
  board->post_waiting("the gradient reduction");
  CHECK_THROWS_WITH(collectives->broadcast({}, 0, "barrier"),
                    Catch::Contains("waited 0 s in the gradient reduction for rank 3"));
  CHECK(board->waiting().value().what == "the gradient reduction");

  const OnHost other;
  std::atomic<int> posted{0};
  const auto waits = other.join(2);
  std::thread watch([&] {
    const auto own = other.board(2);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < end) posted += own->waiting().has_value();
    waits->give_up();
  });
  CHECK_THROWS_AS(waits->broadcast({}, 0, "barrier"), DesyncError);
  watch.join();
  CHECK(posted == 0);
}

TEST_CASE("a wait of a thread beside lets another host be a reduction ahead, one of a rank's own thread does not") {
  const OnHost host;
  host.board(5)->begin_reduction();
  host.host->join(3);
  const auto own = host.join(2, 60, WaitingThread::kOwn);
  CHECK_THROWS_WITH(own->broadcast({}, 0, "barrier"), Catch::Contains("rank 5: the gradient reduction of"));
  const OnHost ahead;
  ahead.board(5)->begin_reduction();
  const auto errors = ahead.run_all([&](int rank, SharedMemoryCollectives& collectives) {
    // The others wait for several checks.
    if (rank == 4) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    collectives.broadcast({}, 0, "barrier");
  });
  CHECK(errors == no_errors(OnHost::kOnHost));
}

TEST_CASE("a wait that is given up ends, and every later one") {
  const OnHost host;
  const auto collectives = host.join(2);
  host.host->join(3);
  std::thread other([&] { collectives->give_up(); });
  for (int call = 0; call < 2; ++call) {
    CHECK_THROWS_WITH(collectives->broadcast({}, 0, "barrier"), "rank 2 has aborted barrier");
  }
  other.join();
  CHECK_FALSE(host.board(0)->failure());
}
