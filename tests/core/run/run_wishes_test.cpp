// State of a run that changes with each step, without LibTorch: the wish to stop, its progress, the weight of a batch.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/core/base/patience.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/run/progress.h"
#include "levin/core/run/run_wishes.h"
#include "levin/core/run/signal_scope.h"

using namespace levin;

TEST_CASE("a wish to stop travels as a vote and counts when ranks have agreed; one without a reason has that of the first") {
  RunWishes stop;
  CHECK(stop.votes(true) == Votes{});
  stop.ask_to_stop("val_loss is good enough");
  stop.ask_to_stop();
  CHECK(stop.stop_asked());
  CHECK_FALSE(stop.stop_agreed());
  CHECK(stop.votes(true).stop);
  stop.adopt({stop.votes(true)});
  CHECK(stop.stop_agreed());
  CHECK(stop.why_stopping(1) == "val_loss is good enough");
  stop.take_back_stop();
  CHECK_FALSE(stop.stop_asked());
  CHECK(stop.stop_reason().empty());
  CHECK_FALSE(stop.votes(true).stop);
}

TEST_CASE("what all ranks voted is agreed until they vote again, and names the lowest rank that asked") {
  RunWishes stop;
  const Votes nothing;
  const Votes stops{.stop = true};
  stop.adopt({nothing, nothing, stops, stops});
  CHECK(stop.stop_agreed());
  CHECK_FALSE(stop.stop_asked());
  CHECK(stop.why_stopping(4) == "rank 2 requested it");
  CHECK(stop.why_stopping(1) == "stop was requested");
  stop.adopt({nothing, nothing, nothing, nothing});
  CHECK_FALSE(stop.stop_agreed());
}

TEST_CASE("commands are wishes until ranks agree on them, and any rank's count for all") {
  RunWishes here, there;
  const auto meet = [&] {
    const Votes agreed = merge({here.votes(true), there.votes(true)});
    here.adopt_commands(agreed);
    there.adopt_commands(agreed);
    return agreed;
  };
  CHECK(meet() == Votes{});
  here.ask(RunCommand::kPause);
  there.ask(RunCommand::kPause);
  here.ask(RunCommand::kSaveCheckpoint);
  there.ask(RunCommand::kValidate);
  CHECK_FALSE(here.is_paused());
  CHECK(there.wants_validation());
  CHECK(meet() == Votes{.change_pause = true, .save_checkpoint = true, .validate = true});
  CHECK(here.is_paused());
  CHECK(there.is_paused());
  CHECK(meet() == Votes{});
  // Another rank than the one that asked ends the pause; a pause that is taken back in time is none.
  there.ask(RunCommand::kContinue);
  CHECK(meet().change_pause);
  CHECK_FALSE(here.is_paused());
  here.ask(RunCommand::kPause);
  here.ask(RunCommand::kContinue);
  CHECK(meet() == Votes{});
  // Or taken back after the vote was sent.
  here.ask(RunCommand::kPause);
  const Votes on_its_way = here.votes(true);
  here.ask(RunCommand::kContinue);
  here.adopt_commands(on_its_way);
  there.adopt_commands(on_its_way);
  CHECK(there.is_paused());
  CHECK(meet().change_pause);
  CHECK_FALSE(there.is_paused());
  here.ask(RunCommand::kStopAfterEpoch);
  CHECK(here.stops_after_epoch());
  here.ask(RunCommand::kCancelStop);
  CHECK_FALSE(here.stops_after_epoch());
  here.ask(RunCommand::kPause);
  here.begin(/*heeds_signals=*/false);
  CHECK(meet() == Votes{});
}

TEST_CASE("a wish to skip the epoch is merged, but is this rank's own") {
  RunWishes stop;
  const Votes merged = stop.adopt({Votes{}, Votes{.end_epoch = true, .has_next = false}});
  CHECK(merged.end_epoch);
  CHECK_FALSE(stop.skips_epoch());
  stop.skip_epoch(true);
  CHECK(stop.votes(false) == Votes{.end_epoch = true, .has_next = false});
  stop.skip_epoch(false);
  CHECK_FALSE(stop.votes(false).end_epoch);
}

TEST_CASE("a wish from before an entry point counts for it, and one from within it not for the next") {
  RunWishes stop;
  stop.ask_to_stop("the client has gone");
  stop.begin(/*heeds_signals=*/false);
  CHECK(stop.votes(true).stop);
  CHECK(stop.stop_reason() == "the client has gone");
  stop.end();
  CHECK(stop.stop_asked());
  stop.begin(false);
  CHECK_FALSE(stop.votes(true).stop);
  CHECK(stop.stop_reason().empty());
  stop.ask_to_stop();
  stop.end();
  stop.ask_to_stop("once more");
  stop.begin(false);
  CHECK(stop.stop_asked());
  CHECK(stop.stop_reason() == "once more");
}

TEST_CASE("any thread may ask while votes are taken") {
  RunWishes stop;
  stop.begin(false);
  std::thread asking([&] {
    for (int time = 0; time < 1000; ++time) stop.ask_to_stop("time " + std::to_string(time));
  });
  while (!stop.adopt({stop.votes(true)}).stop || stop.why_stopping(1) != "time 999") std::this_thread::yield();
  asking.join();
  CHECK(stop.stop_agreed());
}

TEST_CASE("a signal that this process received is among its votes, and one of any rank is agreed for good") {
  RunWishes stop;
  {
    const SignalScope signals;
    CHECK(stop.votes(true).signal == 0);
    raise(SIGUSR1);
    CHECK(stop.votes(true).signal == SIGUSR1);
    RunWishes heedless;
    heedless.begin(/*heeds_signals=*/false);
    CHECK(heedless.votes(true).signal == 0);
  }
  CHECK_NOTHROW(stop.throw_if_signalled("during fit"));
  stop.adopt({Votes{}, Votes{.signal = SIGTERM}});
  stop.adopt({Votes{}, Votes{}});
  CHECK(stop.signal() == SIGTERM);
  CHECK_THROWS_AS(stop.throw_if_signalled("during fit"), Interrupted);
  CHECK_THROWS_WITH(stop.throw_if_signalled("during fit"), "Stopped by signal 15 (Terminated) during fit.");
}

TEST_CASE("a signal ends what the end of a run waits for, unless the run ends for it") {
  using levin::HeededSignals;
  const levin::Patience patience(std::chrono::hours(1));
  HeededSignals::note();  // of an earlier run
  const SignalScope signals;
  CHECK_FALSE(patience.is_over());
  raise(SIGUSR1);
  CHECK(HeededSignals::is_pending());
  CHECK(patience.is_over());
  RunWishes stop;
  stop.adopt({stop.votes(true)});
  CHECK_THROWS_AS(stop.throw_if_signalled("during fit"), Interrupted);
  CHECK_FALSE(patience.is_over());
  raise(SIGUSR1);  // another one
  CHECK(patience.is_over());
  HeededSignals::settle();
}

TEST_CASE("patience ends with its time, which progress renews") {
  levin::HeededSignals::settle();
  CHECK(levin::Patience(std::chrono::seconds(0)).is_over());
  levin::Patience patience(std::chrono::hours(1));
  CHECK_FALSE(patience.is_over());
  patience.renew();
  CHECK_FALSE(patience.is_over());
  CHECK(patience.next_look() <= levin::Patience::Clock::now() + std::chrono::seconds(1));
}

TEST_CASE("other signals than those of every run are taken while a scope wants them, also one within another") {
  const auto is_taken = [](int signal) {
    struct sigaction present {};
    sigaction(signal, nullptr, &present);
    return present.sa_handler != SIG_DFL;
  };
  const SignalScope plain;
  CHECK_FALSE(is_taken(SIGUSR2));
  CHECK((is_taken(SIGINT) && is_taken(SIGTERM) && is_taken(SIGHUP) && is_taken(SIGUSR1)));
  {
    const SignalScope inner([](int signal) { return signal == SIGUSR2; });
    CHECK(is_taken(SIGUSR2));
    CHECK(is_taken(SIGTERM));
    raise(SIGUSR2);
    CHECK(SignalScope::received() == SIGUSR2);
  }
}

TEST_CASE("signals are given back, but for one whose handler the program has replaced") {
  const auto handler = [] {
    struct sigaction present {};
    sigaction(SIGUSR1, nullptr, &present);
    return present.sa_handler;
  };
  void (*const own)(int) = [](int) {};
  for (const bool sets_its_own : {false, true}) {
    REQUIRE(handler() == SIG_DFL);
    {
      const SignalScope signals;
      { const SignalScope inner; }
      CHECK(handler() != SIG_DFL);
      if (sets_its_own) std::signal(SIGUSR1, own);
    }
    CHECK(handler() == (sets_its_own ? own : SIG_DFL));
    std::signal(SIGUSR1, SIG_DFL);
  }
}

namespace {

/// In the middle of training.
Progress in_training() {
  Progress progress;
  progress.batch = {.batch_idx = 7, .is_last = true, .has_next = false, .loaders = {{.batches = 8}}};
  return progress;
}

}  // namespace

TEST_CASE("a stage inside another one has its own loaders, and gives the outer one's back") {
  Progress progress = in_training();
  {
    StageScope scope(progress, Stage::kValidate);
    progress.batch.loaders = {{.batches = 0}, {.batches = 0}};
    CHECK(progress.stage == Stage::kValidate);
    CHECK(progress.batch.loaders.size() == 2);
    progress.batch.batch_idx = 3;
    progress.batch.dataloader_idx = 1;
    progress.batch.is_last = false;
    progress.batch.loaders[1].batches = 4;

    scope.end_batches();
    CHECK(progress.stage == Stage::kValidate);
    CHECK(progress.batch.batch_idx == 7);
    CHECK(progress.batch.dataloader_idx == 0);
    CHECK(progress.batch.is_last);
    CHECK(progress.batch.loaders.at(1).batches == 4);
  }
  CHECK(progress.stage == Stage::kTrain);
  CHECK(progress.batch.batch_idx == 7);
  CHECK_FALSE(progress.batch.has_next);
  REQUIRE(progress.batch.loaders.size() == 1);
  CHECK(progress.batch.loaders[0].batches == 8);
}

TEST_CASE("an error leaves the stage as it is, so that a report says where it happened") {
  Progress progress = in_training();
  try {
    const StageScope scope(progress, Stage::kValidate);
    progress.batch.loaders = {{.batches = 2}};
    progress.batch.batch_idx = 1;
    throw std::runtime_error("a step failed");
  } catch (const std::runtime_error&) {
    CHECK(progress.stage == Stage::kValidate);
    CHECK(progress.batch.batch_idx == 1);
    CHECK(progress.batch.loaders.at(0).batches == 2);
  }
}

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
  // A window of 3 batches, only 1 of which exists.
  const GradientAccumulation window{.batches = 3};
  CHECK(window.correction(1, 1) == Approx(3.0));
}

TEST_CASE("a signal that comes again ends the process: SIGINT the second time, SIGTERM and SIGHUP the third, some time later") {
  CHECK_FALSE(ends_at_once(SIGINT, 1, 100));
  CHECK_FALSE(ends_at_once(SIGINT, 2, 0.01));  // one from a terminal, one from `timeout`, which got it from the terminal, too
  CHECK(ends_at_once(SIGINT, 2, 0.3));
  CHECK(asks_again(SIGINT, 2, 0.3));
  for (const int signal : {SIGTERM, SIGHUP}) {
    CHECK_FALSE(ends_at_once(signal, 1, 0));
    CHECK_FALSE(ends_at_once(signal, 2, 100));
    CHECK_FALSE(asks_again(signal, 2, 9.9));
    CHECK(asks_again(signal, 2, 10));
    CHECK_FALSE(ends_at_once(signal, 5, 9.9));  // of a launcher, a group and an impatient script
    CHECK(ends_at_once(signal, 3, 10));
  }
  for (const int signal : {SIGUSR1, SIGUSR2}) CHECK_FALSE(ends_at_once(signal, 9, 100));
}
