#include "levin/strategies/host/shared_memory_group.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <mutex>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/strategies/host/failure_watch.h"
#include "levin/strategies/host/status_board.h"
#include "strategies/support/rank_threads.h"
#include "support/group_program.h"

using namespace levin;

using testing::GroupFault;
using testing::GroupProgram;

namespace {

/// One rank of a run whose ranks are threads.
struct Rank {
  Rank(std::shared_ptr<RunSegment> memory, int rank, double timeout_seconds)
      : segment(std::move(memory)),
        board(std::make_shared<SharedMemoryStatusBoard>(segment, rank)),
        group(segment, board, timeout_seconds),
        votes(segment, board) {}
  std::vector<std::byte> gather(std::span<const std::byte> mine, const char* what = "test") {
    std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(group.size()));
    group.all_gather(mine, all, what);
    return all;
  }
  std::shared_ptr<RunSegment> segment;
  std::shared_ptr<SharedMemoryStatusBoard> board;
  SharedMemoryGroup group;
  SharedMemoryVoteChannel votes;
};

/// Runs `body` on each rank; gives what each threw, empty for nothing.
std::vector<std::string> run_ranks(int ranks, const std::function<void(Rank&)>& body, double timeout_seconds = 20) {
  const auto segment = RunSegment::create(ranks);
  return test::on_threads(ranks, [&](int number) {
    Rank rank(segment, number, timeout_seconds);
    body(rank);
  });
}

}  // namespace

TEST_CASE("ranks that come with different sizes or to different calls all get one error that names each call") {
  const auto sizes = run_ranks(3, [](Rank& rank) {
    const std::vector<std::byte> mine(rank.group.rank() == 2 ? 16 : 8);
    rank.gather(mine, "frame");
  });
  for (const std::string& error : sizes) {
    CHECK(error ==
          "ranks met in different calls:\n  rank 0: frame (8 bytes)\n  rank 1: frame (8 bytes)\n  rank 2: frame (16 bytes)");
  }
  const auto calls = run_ranks(2, [](Rank& rank) {
    const std::vector<std::byte> mine(8);
    rank.gather(mine, "frame");
    try {
      rank.gather(mine, rank.group.rank() == 0 ? "barrier at a.cpp:1" : "frame");
    } catch (const DesyncError&) {
    }
    rank.gather(mine, "frame");  // the group is unusable, and says why
  });
  CHECK(calls[0] == calls[1]);
  CHECK(calls[0] == "ranks met in different calls:\n  rank 0: barrier at a.cpp:1\n  rank 1: frame");
}

TEST_CASE("calls of every kind give what they promise, with parts of any length, many in a row") {
  for (const int ranks : {1, 2, 5}) {
    for (const std::size_t unit : {std::size_t{1}, kChunkBytes / 4}) {
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const GroupProgram program(seed, ranks, GroupFault::kNone, unit);
        const auto errors = run_ranks(ranks, [&](Rank& rank) { program.run(rank.group); });
        CHECK(errors == test::no_errors(ranks));
      }
    }
  }
}

TEST_CASE("ranks in different operations, or in a broadcast of different ranks, all get one error that names each") {
  for (const auto fault : {GroupFault::kOtherOperation, GroupFault::kOtherRoot, GroupFault::kOtherWhat, GroupFault::kTooLong}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const GroupProgram program(seed, 3, fault, 1000);
      const auto errors = run_ranks(3, [&](Rank& rank) { program.run(rank.group); });
      for (const std::string& error : errors) {
        CHECK(error == errors[0]);
        for (const std::string& part : program.expected_error()) CHECK_THAT(error, Catch::Contains(part));
      }
    }
  }
}

TEST_CASE("a rank that fails before a call of any kind ends it on all others, and only the first failure counts") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const GroupProgram program(seed, 3, GroupFault::kDies);
    const auto errors = run_ranks(3, [&](Rank& rank) {
      try {
        program.run(rank.group);
      } catch (const DesyncError&) {
        throw;
      } catch (const std::runtime_error& death) {
        rank.board->report_failure({rank.group.rank(), {Stage::kTrain, Hook::kTrainingStep, 0, 3}, death.what()});
        rank.board->report_failure({rank.group.rank(), {}, "a later one"});
      }
    });
    for (int rank = 0; rank < 3; ++rank) {
      const std::string expected = rank == program.faulty_rank()
                                       ? ""
                                       : "rank " + std::to_string(program.faulty_rank()) +
                                             " failed in training_step (train, epoch 0, step 3): died on purpose";
      CHECK(errors[static_cast<std::size_t>(rank)] == expected);
    }
  }
}

TEST_CASE("an error that only tells what was written down is no failure of its own, in every later call too") {
  std::atomic<int> recorded{0};
  std::atomic<bool> written{false};
  run_ranks(2, [&](Rank& rank) {
    if (rank.group.rank() == 1) {
      rank.board->report_failure({1, {Stage::kTrain, Hook::kTrainingStep, 0, 3}, "boom"});
      written = true;
      return;
    }
    while (!written) std::this_thread::yield();
    const std::vector<std::byte> mine(8);
    for (int call = 0; call < 2; ++call) {
      try {
        rank.gather(mine);
      } catch (const RecordedFailure&) {
        ++recorded;
      }
    }
  });
  CHECK(recorded == 2);
}

TEST_CASE("waiting for a rank in a gradient reduction that needs this rank is an error at once") {
  std::atomic<bool> waiting{true};
  const auto errors = run_ranks(2, [&](Rank& rank) {
    rank.board->post_whereabouts({Stage::kTrain, Hook::kBackward, 0, 5});
    if (rank.group.rank() == 1) {
      rank.board->begin_reduction();
      while (waiting) std::this_thread::yield();
      return;
    }
    try {
      const std::vector<std::byte> mine(8);
      rank.gather(mine, "barrier at a.cpp:7");
    } catch (...) {
      waiting = false;
      throw;
    }
  });
  CHECK_THAT(errors[0], Catch::Contains("rank 0: barrier at a.cpp:7") && Catch::Contains("rank 1: the gradient reduction") &&
                            Catch::Contains("epoch 0, step 5"));
}

TEST_CASE("a rank that is still in a reduction which this rank has already ended is waited for") {
  std::atomic<int> in_reduction{0};
  const auto errors = run_ranks(2, [&](Rank& rank) {
    rank.board->begin_reduction();
    if (rank.group.rank() == 1) {
      while (rank.segment->slot(0).control.published.load() == 0) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // several checks of the waiting rank
    }
    const std::vector<std::byte> mine(8);
    rank.gather(mine);
    in_reduction += rank.segment->slot(rank.group.rank()).in_reduction != 0;  // a later wait would be taken for it
  });
  CHECK(errors == test::no_errors(2));
  CHECK(in_reduction == 0);
}

/// Two ranks of three that wait for the third until a limit, with the watch's reports of it.
struct WaitingRanks {
  explicit WaitingRanks(double stall_report_seconds) {
    std::mutex mutex;
    FailureWatch::Settings settings;
    settings.timeouts = {stall_report_seconds, 20};
    settings.end_process = [](const std::string&) {};
    settings.print = [&](const std::string& text) {
      const std::lock_guard lock(mutex);
      ++reports;
      report = text;
    };
    std::atomic<int> ended{0};
    const auto begin = std::chrono::steady_clock::now();
    errors = run_ranks(
        3,
        [&](Rank& rank) {
          rank.board->post_whereabouts({Stage::kValidate, Hook::kValidationStep, 4, 9});
          const FailureWatch watch(rank.board, settings);
          if (rank.group.rank() == 2) {
            while (ended < 2) std::this_thread::yield();
            return;
          }
          struct AtEnd {
            std::atomic<int>& count;
            ~AtEnd() { ++count; }
          } at_end{ended};
          const std::vector<std::byte> mine(8);
          rank.gather(mine, "the end of the epoch");
        },
        /*timeout_seconds=*/0.8);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  int reports = 0;
  std::string report;  ///< the last one
  double seconds = 0;
  std::vector<std::string> errors;
};

TEST_CASE("a wait is reported by the watch, with where each rank is, and ends after the limit") {
  const double after = 0.2;
  const WaitingRanks waiting(after);
  // One rank's at a time, and not before the limit has passed again.
  CHECK(waiting.reports >= 1);
  CHECK(waiting.reports <= waiting.seconds / after);
  CHECK_THAT(waiting.report, Catch::Contains("has waited 0 s in the end of the epoch. Ranks are:\n") &&
                                 Catch::Contains("validation_step (validate, epoch 4, step 9)"));
  CHECK_THAT(waiting.errors[0], Catch::Contains("timeout_seconds"));
  CHECK_THAT(waiting.errors[1], Catch::Contains("timeout_seconds"));
}

TEST_CASE("a wait is not told where stall_report_seconds is 0") {
  const WaitingRanks waiting(0);
  CHECK(waiting.reports == 0);
  CHECK_THAT(waiting.errors[0], Catch::Contains("timeout_seconds"));
}

TEST_CASE("votes of each reduction are read by all ranks, and another reduction's votes are an error") {
  std::atomic<int> wrong{0};
  auto errors = run_ranks(3, [&](Rank& rank) {
    for (std::int64_t sequence = 0; sequence < 500; ++sequence) {
      Votes mine;
      mine.stop = sequence == 400 && rank.group.rank() == 2;
      mine.gradient_weight = static_cast<std::int32_t>(sequence) + rank.group.rank();
      rank.votes.publish(sequence, mine);
      const std::byte reduction{};
      rank.gather(std::span(&reduction, 1));
      const auto votes = rank.votes.read(sequence);
      for (int peer = 0; peer < 3; ++peer) {
        wrong += votes[static_cast<std::size_t>(peer)].gradient_weight != sequence + peer;
        wrong += votes[static_cast<std::size_t>(peer)].stop != (sequence == 400 && peer == 2);
      }
    }
  });
  CHECK(wrong == 0);
  CHECK(errors == test::no_errors(3));
  errors = run_ranks(2, [](Rank& rank) {
    rank.votes.publish(rank.group.rank() == 0 ? 2 : 1, {});
    const std::byte reduction{};
    rank.gather(std::span(&reduction, 1));
    rank.votes.read(rank.group.rank() == 0 ? 2 : 1);
  });
  CHECK_THAT(errors[0],
             Catch::Contains("rank 1 last published votes for gradient reduction") && Catch::Contains("rank 0 is in 2"));
}

TEST_CASE("the watch ends a rank that does not notice another's failure, and not one that has been left in peace") {
  std::atomic<int> ended{0};
  std::string reason;
  run_ranks(2, [&](Rank& rank) {
    FailureWatch::Settings settings;
    settings.grace = std::chrono::milliseconds(10);
    settings.end_process = [&](const std::string& text) {
      reason = text;
      ++ended;
    };
    if (rank.group.rank() == 0) {
      const FailureWatch watch(rank.board, settings);
      rank.board->post_whereabouts({Stage::kTrain, Hook::kBackward, 1, 2});
      while (ended == 0) std::this_thread::yield();
    } else {
      rank.board->report_failure({1, {Stage::kTrain, Hook::kTrainingStep, 1, 2}, "boom"});
    }
  });
  CHECK(reason ==
        "levin:   rank 0 ended in backward (train, epoch 1, step 2), because rank 1 failed in training_step (train, epoch 1, "
        "step 2)");
}

TEST_CASE("the watch lets a rank save what it can, for a limited time") {
  const bool saves_for_ever = GENERATE(false, true);
  std::atomic<bool> was_saving{false};
  std::atomic<int> ended{0};
  run_ranks(1, [&](Rank& rank) {
    FailureWatch::Settings settings;
    settings.own_grace = std::chrono::milliseconds(1);
    settings.saving_grace = saves_for_ever ? std::chrono::milliseconds(50) : std::chrono::seconds(1000);
    settings.end_process = [&](const std::string&) {
      was_saving = rank.board->is_saving();
      ++ended;
    };
    rank.board->post_saving(true);
    rank.board->report_failure({0, {Stage::kTrain, Hook::kTrainingStep, 1, 2}, "boom"});
    const FailureWatch watch(rank.board, settings);
    if (!saves_for_ever) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      rank.board->post_saving(false);
    }
    while (ended == 0) std::this_thread::yield();
  });
  CHECK(was_saving == saves_for_ever);
}

TEST_CASE("a gradient reduction that does not end is reported, and then fails the run") {
  std::atomic<int> ended{0};
  std::atomic<int> reports{0};
  run_ranks(1, [&](Rank& rank) {
    FailureWatch::Settings settings;
    settings.own_grace = std::chrono::milliseconds(1);
    settings.timeouts = {0.1, 0.3};
    settings.print = [&](const std::string& report) {
      reports += report.starts_with("rank 0 has waited 0 s in the gradient reduction. Ranks are:\n") ? 1 : 0;
    };
    settings.end_process = [&](const std::string&) { ++ended; };
    const FailureWatch watch(rank.board, settings);
    rank.board->begin_reduction();
    while (ended == 0) std::this_thread::yield();
    CHECK(rank.board->failure().has_value());
  });
  CHECK(reports >= 1);
}
