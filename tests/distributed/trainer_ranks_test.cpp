#include <catch2/catch.hpp>
#include <set>

#include "distributed/rank_run.h"
#include "levin/core/base/process.h"

namespace {

using levin::test::GoodRun;
using levin::test::RankRun;

}  // namespace

TEST_CASE("a run resumed inside an epoch on other ranks, with other batches, sees exactly the samples that are left") {
  // 64 samples; the first run sees `steps` global batches of ranks x batch.
  const auto [ranks, batch, steps, other_ranks, other_batch] =
      GENERATE(table<int, int, int, int, int>({{2, 4, 3, 4, 4}, {4, 4, 1, 2, 4}, {2, 3, 5, 1, 7}, {1, 5, 7, 2, 3}}));
  GoodRun run("trainer", "resumes_elsewhere", ranks,
              {"part=saves", "batch=" + std::to_string(batch), "steps=" + std::to_string(steps)});
  std::multiset<double> seen;
  const auto add = [&seen, &run] {
    for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank) {
      if (run.text(rank, "seen") == "none") continue;
      for (const double sample : levin::test::numbers_in(run.text(rank, "seen"))) seen.insert(sample);
    }
  };
  add();
  REQUIRE(seen.size() == static_cast<std::size_t>(ranks * batch * steps));
  run.start("trainer", "resumes_elsewhere", other_ranks, {"part=resumes", "batch=" + std::to_string(other_batch)});
  add();
  std::multiset<double> each_once;
  for (int sample = 0; sample < 64; ++sample) each_once.insert(sample);
  CHECK(seen == each_once);
}

TEST_CASE("a schedule takes all of training, the same on all ranks, whichever has the most batches") {
  const int ranks = GENERATE(1, 2, 4);
  const GoodRun run("trainer", "length_of_training", ranks);
  const double steps = 3 * (4 + ranks - 1);
  for (const char* name : {"T_max", "agreed", "global_step"}) run.check_everywhere(name, steps);
  for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank)
    CHECK(run.number(rank, "before") == Approx(3 * (4 + static_cast<int>(rank))));
  run.check_alike("weight");
  run.check_everywhere("groups", 2);
  run.check_everywhere("bias", 1);
  CHECK_THAT(run.outcome.out + run.outcome.err,
             Catch::Contains("SGD has 2 parameter groups:") && Catch::Contains("pg2: 1 tensor, 1 parameter, weight_decay 0.0"));
}

TEST_CASE("the length of training counts the samples that a rank has, padded or dropped as the options say") {
  const auto [uneven, steps] = GENERATE(table<std::string, int>({{"pad", 3 * 4}, {"drop", 3 * 3}}));
  const GoodRun run("trainer", "length_of_training", 4, {"samples=26", "uneven=" + uneven});
  for (const char* name : {"before", "T_max", "agreed", "global_step"}) run.check_everywhere(name, steps);
  const GoodRun kept("trainer", "length_of_training", 4, {"samples=26", "uneven=keep"});
  for (const char* name : {"T_max", "agreed", "global_step"}) kept.check_everywhere(name, 3 * 4);
  CHECK(kept.number(0, "before") == 3 * 4);
  CHECK(kept.number(3, "before") == 3 * 3);
}

TEST_CASE("a validation before training counts each sample once over all ranks, also where one has none, and is seen on each") {
  const int ranks = GENERATE(1, 2, 4);
  const int samples = GENERATE(3, 8);
  const GoodRun run("trainer", "validates_first", ranks, {"samples=" + std::to_string(samples)});
  const std::string value = samples == 3 ? ":1:3," : ":3.5:8,";
  run.check_alike("order");
  CHECK(run.text(0, "order") == "start:-1:0,validation" + value + "epoch" + value + "validation" + value);
}

TEST_CASE(
    "shared data that differs on a rank, or that nobody divides, is an error or a warning that names it, unless intended") {
  using Texts = std::vector<std::string>;
  const std::string host = " (" + levin::host_name() + ")";
  const std::string equal = "All 3 ranks begin epoch 0 with equal training batches. Unless their values are made up, ";
  const auto [scenario, settings, status, says, lacks] = GENERATE_COPY(table<std::string, Texts, int, Texts, std::string>({
      {"uneven_data",
       {"more=train", "shared=1"},
       1,
       {"Ranks share the training data, but it has 8 samples on rank 0 (", ") and 10 on rank 2 ("},
       "differs"},
      {"uneven_data",
       {"more=val", "shared=1"},
       1,
       {"data, loader 1, but it has 8 samples on rank 0 (", ") and 10 on rank 2 ("},
       "differs"},
      {"uneven_data", {"more=train", "shared=0"}, 0, {}, "Ranks share"},
      // Other values may be meant.
      {"uneven_data",
       {"more=", "other=train", "shared=1"},
       0,
       {"Ranks share the training data, but its data on rank 2" + host + " differs from that on rank 0" + host},
       "and 10"},
      {"uneven_data", {"more=", "other=train", "shared=0"}, 0, {}, "Ranks share"},
      {"same_batches",
       {"allow=0", "differs=0", "samples=known"},
       1,
       {"All 3 ranks begin epoch 0 with the same training batch", "trainer.allow_same_batches: true"},
       "equal training batches"},
      {"same_batches", {"allow=1", "differs=0", "samples=known"}, 0, {}, "ranks begin"},
      // Of samples that have no numbers.
      {"same_batches",
       {"allow=0", "differs=0", "samples=own"},
       0,
       {equal, "trainer.allow_same_batches: true"},
       "with the same training batch"},
      {"same_batches", {"allow=0", "differs=1", "samples=own"}, 0, {}, "ranks begin"},
      {"same_batches", {"allow=1", "differs=0", "samples=own"}, 0, {}, "ranks begin"},
  }));
  const RankRun run("trainer", scenario, 3, settings);
  CHECK(run.outcome.status == status);
  for (const std::string& text : says) CHECK_THAT(run.outcome.text(), Catch::Contains(text));
  CHECK_THAT(run.outcome.text(), !Catch::Contains(lacks));
}

TEST_CASE("a number of batches for a step that one rank alone has set ends all ranks, which name ranks and numbers") {
  const std::string when = GENERATE("epoch", "batch");
  const std::string knows_size = GENERATE("knows_size=1", "knows_size=0");
  const std::string strategy = GENERATE("auto", "MeanGradients");
  const int who = GENERATE(0, 2);
  const auto run = [&](int rank) {
    return RankRun("trainer", "accumulates", 3,
                   {"rank=" + std::to_string(rank), "when=" + when, knows_size, "strategy=" + strategy});
  };
  const RankRun alone = run(who);
  CHECK_FALSE(alone.outcome.ok());
  CHECK_THAT(alone.outcome.text(),
             Catch::Contains(who == 0 ? "different numbers of batches per step: 1 on ranks 1, 2; 2 on rank 0"
                                      : "different numbers of batches per step: 1 on ranks 0, 1; 2 on rank 2"));
  const RankRun all = run(-1);
  REQUIRE(all.outcome.ok());
  // Of six batches; within an epoch of unknown length the step after the change still is one of a single batch.
  const int steps = when == "epoch" ? 3 : knows_size == "knows_size=1" ? 4 : 5;
  all.check_everywhere("global_step", steps);
  all.check_everywhere("weight", -steps);
}

TEST_CASE("ranks that resume from other files of one name are an error that names ranks, hosts and files") {
  RankRun run("trainer", "own_checkpoints", 3, {"part=saves"});
  REQUIRE(run.outcome.ok());
  const int other = GENERATE(-1, 0, 2);
  run.start("trainer", "own_checkpoints", 3, {"part=resumes", "other=" + std::to_string(other)});
  if (other == -1) {
    REQUIRE(run.outcome.ok());
    return run.check_everywhere("global_step", 4);
  }
  CHECK(run.outcome.status == 2);
  const std::string host = " (" + levin::host_name() + ")";
  CHECK_THAT(run.outcome.text(), Catch::Contains("ckpt_path: 'saved.ckpt' differs between ranks: ") &&
                                     Catch::Contains((other == 0 ? " on rank 0" : " on rank 2") + host) &&
                                     Catch::Contains((other == 0 ? " on ranks 1, 2" : " on ranks 0, 1") + host));
}

TEST_CASE("a broken pipe does not end a rank, and ends a program that a rank has started") {
  const GoodRun run("trainer", "starts_programs", 2);
  run.check_everywhere("signal_of_the_program", 13);
}

TEST_CASE("a crash says in which hook and step it happened, with the calls that led to it") {
  const int ranks = GENERATE(1, 2);
  const auto [signal, name] = GENERATE(table<int, std::string>({{11, "SIGSEGV"}, {6, "SIGABRT"}, {8, "SIGFPE"}}));
  const RankRun run("trainer", "crashes", ranks, {"signal=" + std::to_string(signal)});
  CHECK(run.outcome.status == 128 + signal);
  CHECK_THAT(run.outcome.err, Catch::Contains("rank " + std::to_string(ranks - 1) + " crashed with " + name +
                                              " in training_step (train, epoch 0, step 1)"));
  CHECK_THAT(run.outcome.err, Catch::Contains("bin/rank_programs("));
}

TEST_CASE("what follows a loss that is NaN on one rank, follows on all") {
  const int ranks = GENERATE(1, 2, 3);
  const std::string place = "in training_step (train, epoch 0, step 1) on rank " + std::to_string(ranks - 1);
  const GoodRun warned("trainer", "loss_is_nan", ranks, {"on_nan=warn"});
  warned.check_everywhere("weight", -(1 + 2 + 3 + 4));
  CHECK_THAT(warned.outcome.err, Catch::Contains("The loss is nan " + place));

  const GoodRun skipped("trainer", "loss_is_nan", ranks, {"on_nan=skip"});
  skipped.check_everywhere("weight", -(1 + 3 + 4));
  CHECK_THAT(skipped.outcome.err, Catch::Contains("Epoch 0: 1 step was skipped"));

  const RankRun stopped("trainer", "loss_is_nan", ranks, {"on_nan=stop"});
  CHECK(stopped.outcome.status == 1);
  CHECK_THAT(stopped.outcome.err,
             Catch::Contains("The loss is NaN or infinite") && Catch::Contains("on_nan: stop ends the run"));
  CHECK(!stopped.has(0, "weight"));
}

TEST_CASE("a profiler gets of each reduction when ranks arrived, and that all left after the last") {
  const GoodRun run("trainer", "waits", 2, {"backend=" + GENERATE(as<std::string>(), "shared_memory", "gloo")});
  run.check_everywhere("reductions", 5);
  int late = 0;
  for (int index = 0; index < 5; ++index) {
    const auto time = [&](std::size_t rank, const char* name) { return run.number(rank, name + std::to_string(index)); };
    for (const std::size_t rank : {0, 1}) {
      CHECK(time(rank, "left_") >= time(0, "arrived_"));
      CHECK(time(rank, "left_") >= time(1, "arrived_"));
    }
    // Rank 1 computes its gradient when rank 0 has its own.
    if (time(1, "arrived_") > time(0, "arrived_")) ++late;
  }
  CHECK(late > 0);
}
