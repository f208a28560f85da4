#include "levin/strategies/world/failure_report.h"

#include <c10/util/Exception.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/strategies/host/failure_watch.h"
#include "levin/strategies/host/status_board.h"
#include "levin/strategies/world/store_status_board.h"
#include "support/patience.h"

namespace levin {
namespace {

/// Rank 1 of 2, to which the process of rank 0 always looks ended.
class SmallBoard final : public StatusBoard {
 public:
  SmallBoard() : StatusBoard(nullptr, 1) {}
  int size() const override { return 2; }
  std::string table() const override { return ""; }
  std::optional<int> rank_in_later_reduction() const override { return std::nullopt; }
  std::optional<int> ended_rank() const override {
    ++looks_for_ended_rank;
    return 0;
  }
  std::optional<int> stalled_rank() const override { return std::nullopt; }
  void report_failure(const FailureRecord& failure) noexcept override {
    if (!first) first = failure;
  }
  std::optional<FailureRecord> failure() const override { return first; }
  void wait_for_failure(std::chrono::milliseconds) const override {}

  std::optional<FailureRecord> first;
  mutable int looks_for_ended_rank = 0;
};

constexpr Whereabouts kStep{Stage::kTrain, Hook::kTrainingStep, 0, 3};
constexpr const char* kPlace = "in training_step (train, epoch 0, step 3)";

}  // namespace

TEST_CASE("an error of the user's own is its rank's failure at once, whatever its text is") {
  const OwnProcess own;
  for (const char* text : {"gloo is my dog", "Connection closed by peer", "recvBytes failed"}) {
    SmallBoard board;
    const auto error = std::make_exception_ptr(std::runtime_error(text));
    CHECK(report_own_failure(board, kStep, error) == std::nullopt);
    REQUIRE(board.first);
    CHECK(board.first->rank == 1);
    CHECK(board.first->error == text);
    CHECK(board.looks_for_ended_rank == 0);
    CHECK(Console::instance().was_reported(error));
  }
}

TEST_CASE("a lost connection is the echo of a rank that has ended") {
  SmallBoard board;
  const auto error = std::make_exception_ptr(ConnectionLost("no more bytes"));
  CHECK(report_own_failure(board, kStep, error) ==
        std::string("rank 1 ended ") + kPlace + ", because rank 0 failed between hooks" + " (train, epoch 0, step 0)");
  CHECK(board.first->error == "its process ended in the middle of the run");
  CHECK_FALSE(Console::instance().was_reported(error));
}

TEST_CASE("after another rank's failure a rank says how its own error is related to it") {
  const auto said = [](const auto& error) {
    SmallBoard board;
    board.first = FailureRecord{0, kStep, "boom"};
    const auto pointer = std::make_exception_ptr(error);
    const auto text = report_own_failure(board, kStep, pointer);
    CHECK_FALSE(board.has_explained());
    CHECK(board.explanation() == text);
    CHECK_FALSE(Console::instance().was_reported(pointer));
    return text.value_or("nothing");
  };
  const std::string place = kPlace;
  CHECK(said(RecordedFailure("any")) == "rank 1 ended " + place + ", because rank 0 failed " + place);
  CHECK(said(ConnectionLost("any")) == "rank 1 ended " + place + ", because rank 0 failed " + place);
  CHECK(said(std::runtime_error("boom")) == "rank 1 failed with the same error " + place);
  CHECK(said(std::runtime_error("gloo")) == "rank 1 failed too, " + place + ": gloo (before it, rank 0 failed " + place + ")");
  CHECK(said(42) == "rank 1 failed too, " + place +
                        ": an exception of type int, which is not a std::exception (before it, rank 0 failed " + place + ")");
}

TEST_CASE("a rank that is ended while it cleans up has its line all the same, and only then") {
  const auto last_word = [](bool has_said_it) {
    const auto board = std::make_shared<SmallBoard>();
    board->first = FailureRecord{0, kStep, "boom"};
    REQUIRE(report_own_failure(*board, kStep, std::make_exception_ptr(std::runtime_error("own"))));
    if (has_said_it) board->post_explained();
    std::promise<std::string> said;
    FailureWatch::Settings settings;
    settings.grace = std::chrono::milliseconds(0);
    settings.end_process = [&](const std::string& reason) { said.set_value(reason); };
    const FailureWatch watch(board, std::move(settings));
    auto result = said.get_future();
    REQUIRE(result.wait_for(levin::test::patience(std::chrono::seconds(20))) == std::future_status::ready);
    return result.get();
  };
  CHECK(last_word(false) ==
        std::string("levin:   rank 1 failed too, ") + kPlace + ": own (before it, rank 0 failed " + kPlace + ")");
  CHECK(last_word(true).empty());
}

TEST_CASE("an error of LibTorch's is known as told, though it is told without its backtrace") {
  const OwnProcess own;
  SmallBoard board;
  try {
    TORCH_CHECK(false, "the tensor is too small");
  } catch (const c10::Error& error) {
    report_own_failure(board, kStep, std::current_exception());
    CHECK(board.first->error == error.what_without_backtrace());
    CHECK(Console::instance().was_reported(std::current_exception()));
  }
}

TEST_CASE("a failure that a rank sees on its host, while another rank writes it down for all, ends the search for it") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->add("failure_claimed", 1);  // by the other rank, which has not come further
  const auto segment = RunSegment::create(2);
  const StoreStatusBoard board(store, 0, 4, /*rank_zero_serves=*/false, segment);
  REQUIRE(record_failure(*segment, {1, kBeforeFirstHook, "its process was killed"}));

  board.wait_for_failure(std::chrono::milliseconds(0));
  REQUIRE(board.failure().has_value());
  CHECK(board.failure()->rank == 1);
  CHECK(board.failure()->error == "its process was killed");
}

}  // namespace levin
