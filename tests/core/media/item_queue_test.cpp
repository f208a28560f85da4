#include "levin/core/media/item_queue.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/patience.h"
#include "support/error_of.h"
#include "support/shown_messages.h"

using namespace levin;
using levin::test::error_of;
using levin::test::ShownMessages;
using Names = std::vector<std::string>;

namespace {

/// Shows texts and tables. The first item waits for let_go().
class GatedLogger : public Logger {
 public:
  explicit GatedLogger(bool gated = false) {
    if (!gated) gate_.set_value();
  }
  void let_go() { gate_.set_value(); }
  /// Returns when the first item is being shown.
  void wait_for_first() { first_.get_future().wait(); }

  bool log_item(const LoggedItem& item) override {
    if (item.kind() != LoggedItem::Kind::kText && item.kind() != LoggedItem::Kind::kTable) return false;
    if (!std::exchange(has_first_, true)) first_.set_value();
    opened_.wait();
    if (item.name == "broken") throw IoError("the disk is full");
    shown_.push_back(item.name);
    thread_ = std::this_thread::get_id();
    return true;
  }
  /// After finish().
  const std::vector<std::string>& shown() const { return shown_; }
  std::thread::id thread() const { return thread_; }

 private:
  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
  std::promise<void> first_;
  bool has_first_ = false;
  std::vector<std::string> shown_;
  std::thread::id thread_;
};

WaitingItem text(const std::string& name, std::size_t bytes = 0) {
  return {.item = {.name = name, .step = 7, .content = LoggedText{"…"}}, .complete = {}, .bytes = bytes};
}

}  // namespace

TEST_CASE("loggers get items in order, completed, on another thread, those too that came before they were open") {
  const auto logger = std::make_shared<GatedLogger>();
  ItemQueue queue;
  queue.give(text("first"));
  queue.open({logger});
  queue.give(text("second"));
  queue.give(text("third"));
  queue.finish();
  CHECK(logger->shown() == Names{"first", "second", "third"});
  CHECK(logger->thread() != std::this_thread::get_id());
  // The next entry point of the Trainer.
  queue.open({logger});
  std::thread::id completed_on;
  WaitingItem item = text("named later");
  item.complete = [&](LoggedItem& completed) {
    completed_on = std::this_thread::get_id();
    completed.name = "completed";
  };
  queue.give(std::move(item));
  queue.finish();
  CHECK(logger->shown().back() == "completed");
  CHECK(completed_on == logger->thread());
}

TEST_CASE("what does not fit is dropped, counted by kind, and reported once in the end") {
  const ShownMessages shown;
  const auto logger = std::make_shared<GatedLogger>(/*gated=*/true);
  ItemQueue queue({.items = 2, .bytes = std::size_t{3} << 20});
  queue.open({logger});
  queue.give(text("under way", 1 << 20));
  logger->wait_for_first();
  SECTION("by number") {
    for (int item = 0; item < 5; ++item) queue.give(text("waits"));
    queue.give({.item = {.name = "table", .content = Table{}}});
    CHECK(shown.texts().empty());
    logger->let_go();
    queue.finish();
    CHECK(logger->shown() == Names{"under way", "waits", "waits"});
    const std::string limits = ": the queue for the loggers holds at most 2 items and 3 MB. Log them less often.";
    CHECK(shown.texts() == Names{"Dropped 3 of 6 texts" + limits, "Dropped 1 of 1 table" + limits});
  }
  SECTION("by bytes, those under way included") {
    queue.give(text("too much", (2 << 20) + 1));
    queue.give(text("just fits", (2 << 20) - (1 << 16)));
    logger->let_go();
    queue.finish();
    CHECK(logger->shown() == Names{"under way", "just fits"});
    CHECK(shown.texts().size() == 1);
  }
  queue.open({logger});
  queue.finish();
  CHECK(shown.texts().size() <= 2);
}

TEST_CASE("what a logger throws, the next item throws or the end of the run, once") {
  const ShownMessages shown;  // of those that are dropped below
  const auto logger = std::make_shared<GatedLogger>(/*gated=*/true);
  ItemQueue queue;
  queue.open({logger});
  queue.give(text("broken"));
  queue.give(text("after it"));
  logger->let_go();
  const std::string error = "log_text('broken') of step 7: the disk is full";
  CHECK(error_of<IoError>([&] { queue.finish(); }) == error);
  CHECK(logger->shown().empty());
  CHECK_NOTHROW(queue.finish());

  const auto next = std::make_shared<GatedLogger>();
  queue.open({next});
  queue.give(text("broken"));
  std::string thrown;
  while (thrown.empty()) thrown = error_of<IoError>([&] { queue.give(text("fine")); });
  CHECK(thrown == error);
  queue.give(text("later"));
  CHECK_NOTHROW(queue.finish());
  CHECK(next->shown().back() == "later");
}

TEST_CASE("a logger that shows nothing of a kind is named once for it") {
  const ShownMessages shown;
  const auto logger = std::make_shared<GatedLogger>();
  ItemQueue queue;
  queue.open({logger, std::make_shared<Logger>()});
  for (int item = 0; item < 3; ++item) queue.give({.item = {.name = "samples", .content = LoggedImage()}});
  queue.give(text("note"));
  queue.finish();
  const std::string images = " does not show images: it ignores log_image()";
  CHECK(shown.texts() == Names{"GatedLogger" + images, "Logger" + images, "Logger does not show texts: it ignores log_text()"});
  CHECK(logger->shown() == Names{"note"});
}

TEST_CASE("without loggers nothing is made, and nothing is reported") {
  const ShownMessages shown;
  ItemQueue queue;
  int completed = 0;
  const auto counting = [&] {
    WaitingItem item = text("never");
    item.complete = [&](LoggedItem&) { ++completed; };
    return item;
  };
  queue.give(counting());
  queue.finish();  // a run that failed before its loggers were open
  queue.open({});
  for (int item = 0; item < 5000; ++item) queue.give(counting());
  queue.finish();
  CHECK(completed == 0);
  CHECK(shown.texts().empty());
}

TEST_CASE("texts and tables count with what they hold, as long as they wait") {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20U;
  const ShownMessages shown;
  const auto logger = std::make_shared<GatedLogger>(/*gated=*/true);
  ItemQueue queue({.items = 1000, .bytes = 4 * kMegabyte});
  queue.open({logger});
  queue.give(text("under way"));
  logger->wait_for_first();
  const std::string long_text(3 * kMegabyte / 2, 'x');
  const auto content = GENERATE_COPY(
      decltype(LoggedItem::content)(LoggedText{long_text}),
      decltype(LoggedItem::content)(Table{{"column"}, {{Value(long_text)}}}),
      decltype(LoggedItem::content)(Table{{long_text}, {}}),
      decltype(LoggedItem::content)(Table{
          {"a"}, std::vector(3 * kMegabyte / 2 / (sizeof(std::vector<Value>) + 2 * sizeof(Value)), std::vector<Value>(2))}));
  for (int item = 0; item < 10; ++item) queue.give({.item = {.name = "waits", .content = content}});
  logger->let_go();
  queue.finish();
  CHECK(logger->shown() == Names{"under way", "waits", "waits"});
  REQUIRE(shown.texts().size() == 1);
  CHECK_THAT(shown.texts()[0], Catch::StartsWith("Dropped 8 of 1"));
}

TEST_CASE("a signal in the end drops what waits, but not what is under way") {
  const ShownMessages shown;
  const auto logger = std::make_shared<GatedLogger>();
  ItemQueue queue;
  auto waits = std::make_shared<int>(0);
  WaitingItem first = text("first");
  // It continues until the others are gone.
  first.complete = [others = std::weak_ptr(waits)](LoggedItem&) {
    while (!others.expired()) std::this_thread::yield();
  };
  queue.give(std::move(first));
  for (int item = 0; item < 3; ++item) {
    WaitingItem other = text("other");
    other.complete = [held = waits](LoggedItem&) { (void)held; };
    queue.give(std::move(other));
  }
  waits.reset();
  queue.open({logger});
  HeededSignals::note();
  queue.finish();
  HeededSignals::settle();
  CHECK(logger->shown() == Names{"first"});
  CHECK(shown.texts() == Names{"Dropped 3 of 4 texts: a signal came before the loggers had received all."});
}

TEST_CASE("a logger that never comes back is left behind after a signal, and the queue continues with others") {
  const auto stuck = std::make_shared<GatedLogger>(/*gated=*/true);
  const bool in_the_end = GENERATE(true, false);
  {
    const ShownMessages shown;
    ItemQueue queue({.patience = std::chrono::milliseconds(20)});
    queue.open({stuck});
    queue.give(text("first"));
    stuck->wait_for_first();
    queue.give(text("second"));
    HeededSignals::note();
    if (in_the_end) {
      queue.finish();
      HeededSignals::settle();
      CHECK(shown.texts() == Names{"A logger has not returned from log_text('first') of step 7 for 0.02 s after a signal, "
                                   "and is abandoned: its items may be lost.",
                                   "Dropped 1 of 2 texts: a signal came before the loggers had received all."});
      const auto other = std::make_shared<GatedLogger>();
      queue.open({other});
      queue.give(text("third"));
      queue.finish();
      CHECK(other->shown() == Names{"third"});
    }
  }
  HeededSignals::settle();
  CHECK(stuck.use_count() >= 1);
  stuck->let_go();
}
