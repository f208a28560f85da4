#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "distributed/rank_run.h"
#include "levin/core/base/process.h"

namespace {

/// A scenario of trainer_program.
struct Run : levin::test::RankRun {
  Run(const std::string& scenario, int ranks, const std::vector<std::string>& settings = {})
      : RankRun("trainer", scenario, ranks, settings) {}
};

}  // namespace

TEST_CASE("a run that a signal stopped in an epoch ends, resumed, with the bits of one that was not") {
  const int ranks = GENERATE(2, 4);
  const Run whole("resumes", ranks, {"part=whole"});
  REQUIRE(whole.outcome.ok());
  Run stopped("resumes", ranks, {"part=interrupted"});
  REQUIRE(stopped.outcome.status == 128 + 15);
  stopped.start("trainer", "resumes", ranks, {"part=resumed"});
  REQUIRE(stopped.outcome.ok());
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    INFO("rank " << rank);
    for (const char* name : {"weight", "global_step", "epoch", "random", "metric:input_epoch"}) {
      CHECK(stopped.text(rank, name) == whole.text(rank, name));
    }
    if (rank > 0) CHECK(whole.text(rank, "random") != whole.text(0, "random"));
  }
}

TEST_CASE("a run resumed inside an epoch on other ranks, with other batches, sees exactly the samples that are left") {
  // 64 samples; the first run sees `steps` global batches of ranks x batch.
  const auto [ranks, batch, steps, other_ranks, other_batch] =
      GENERATE(table<int, int, int, int, int>({{2, 4, 3, 4, 4}, {4, 4, 1, 2, 4}, {2, 3, 5, 1, 7}, {1, 5, 7, 2, 3}}));
  Run run("resumes_elsewhere", ranks, {"part=saves", "batch=" + std::to_string(batch), "steps=" + std::to_string(steps)});
  REQUIRE(run.outcome.ok());
  std::multiset<int> seen;
  const auto add = [&seen, &run] {
    for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank) {
      std::istringstream samples(run.text(rank, "seen"));
      for (std::string sample; std::getline(samples, sample, ',');) {
        if (sample != "-") seen.insert(std::stoi(sample));
      }
    }
  };
  add();
  REQUIRE(seen.size() == static_cast<std::size_t>(ranks * batch * steps));
  run.start("trainer", "resumes_elsewhere", other_ranks, {"part=resumes", "batch=" + std::to_string(other_batch)});
  REQUIRE(run.outcome.ok());
  add();
  std::multiset<int> each_once;
  for (int sample = 0; sample < 64; ++sample) each_once.insert(sample);
  CHECK(seen == each_once);
}

TEST_CASE("a schedule takes all of training, the same on all ranks, whichever has the most batches") {
  const int ranks = GENERATE(1, 2, 4);
  const Run run("length_of_training", ranks);
  REQUIRE(run.outcome.ok());
  const double steps = 3 * (4 + ranks - 1);
  for (const char* name : {"T_max", "agreed", "global_step"}) run.check_everywhere(name, steps);
  for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank) {
    CHECK(run.number(rank, "before") == Approx(3 * (4 + static_cast<int>(rank))));
    CHECK(run.text(rank, "weight") == run.text(0, "weight"));
  }
  run.check_everywhere("groups", 2);
  run.check_everywhere("bias", 1);
  CHECK_THAT(run.outcome.out + run.outcome.err,
             Catch::Contains("SGD has 2 parameter groups:") && Catch::Contains("pg2: 1 tensor, 1 parameter, weight_decay 0.0"));
}

TEST_CASE("the length of training counts the samples that a rank has, padded or dropped as the options say") {
  const auto [uneven, steps] = GENERATE(table<std::string, int>({{"pad", 3 * 4}, {"drop", 3 * 3}}));
  const Run run("length_of_training", 4, {"samples=26", "uneven=" + uneven});
  REQUIRE(run.outcome.ok());
  for (const char* name : {"before", "T_max", "agreed", "global_step"}) run.check_everywhere(name, steps);
  const Run kept("length_of_training", 4, {"samples=26", "uneven=keep"});
  REQUIRE(kept.outcome.ok());
  for (const char* name : {"T_max", "agreed", "global_step"}) kept.check_everywhere(name, 3 * 4);
  CHECK(kept.number(0, "before") == 3 * 4);
  CHECK(kept.number(3, "before") == 3 * 3);
}

TEST_CASE("uneven samples train to the same weights and means on 1, 2 and 4 ranks") {
  // 26 samples in global batches of 8: the last batch of 2 leaves two of four ranks without any.
  const Run one("samples", 1, {"samples=26", "batch=8"});
  REQUIRE(one.outcome.ok());
  // ddp, and a strategy of the program's own.
  const auto [strategy, ranks] =
      GENERATE(table<std::string, int>({{"auto", 2}, {"auto", 4}, {"MeanGradients", 2}, {"MeanGradients", 4}}));
  const Run many("samples", ranks, {"samples=26", "batch=8", "strategy=" + strategy});
  REQUIRE(many.outcome.ok());
  for (const char* name : {"weight", "global_step", "metric:input_epoch", "metric:val_input"}) {
    many.check_everywhere(name, one.number(0, name));
  }
}

TEST_CASE("a validation before training counts each sample once over all ranks, also where one has none, and is seen on each") {
  const int ranks = GENERATE(1, 2, 4);
  const int samples = GENERATE(3, 8);
  const Run run("validates_first", ranks, {"samples=" + std::to_string(samples)});
  REQUIRE(run.outcome.ok());
  const std::string value = samples == 3 ? ":1:3," : ":3.5:8,";
  for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank) {
    CHECK(run.text(rank, "order") == "start:-1:0,validation" + value + "epoch" + value + "validation" + value);
  }
}

TEST_CASE("data that ranks share and that has another size on one of them is an error; data that they do not share is not") {
  const Run train("uneven_data", 3, {"more=train", "shared=1"});
  CHECK(train.outcome.status == 1);
  CHECK_THAT(train.outcome.err, Catch::Contains("Ranks share the training data, but it has 8 samples on rank 0 (") &&
                                    Catch::Contains(") and 10 on rank 2 ("));
  const Run validation("uneven_data", 3, {"more=val", "shared=1"});
  CHECK(validation.outcome.status == 1);
  CHECK_THAT(validation.outcome.err,
             Catch::Contains("data, loader 1, but it has 8 samples on rank 0 (") && Catch::Contains(") and 10 on rank 2 ("));
  const Run own("uneven_data", 3, {"more=train", "shared=0"});
  CHECK(own.outcome.ok());
}

TEST_CASE("data that ranks of one host share and that holds other values on one of them is a warning that names it") {
  const Run train("uneven_data", 3, {"more=", "other=train", "shared=1"});
  CHECK(train.outcome.ok());
  CHECK_THAT(train.outcome.text(),
             Catch::Contains("Ranks share the training data, but its data on rank 2 (" + levin::host_name() +
                             ") differs from that on rank 0 (" + levin::host_name() + ")"));
  const Run own("uneven_data", 3, {"more=", "other=train", "shared=0"});
  CHECK(own.outcome.ok());
}

TEST_CASE("ranks that all read the same are an error on each, unless it is meant") {
  const Run same("same_batches", 3, {"allow=0", "differs=0", "samples=known"});
  CHECK_FALSE(same.outcome.ok());
  CHECK_THAT(same.outcome.text(), Catch::Contains("All 3 ranks begin epoch 0 with the same training batch") &&
                                      Catch::Contains("trainer.allow_same_batches: true"));
  CHECK(Run("same_batches", 2, {"allow=1", "differs=0", "samples=known"}).outcome.ok());
}

TEST_CASE("ranks that read equal batches of samples that nobody knows are warned, unless it is meant") {
  const char* const warning = "All 3 ranks begin epoch 0 with equal training batches. Unless their values are made up, ";
  const Run same("same_batches", 3, {"allow=0", "differs=0", "samples=own"});
  CHECK(same.outcome.ok());
  CHECK_THAT(same.outcome.text(), Catch::Contains(warning) && Catch::Contains("trainer.allow_same_batches: true"));
  for (const std::string setting : {"differs=1", "allow=1"}) {
    const Run silent("same_batches", 3, {"allow=0", "differs=0", "samples=own", setting});
    CHECK(silent.outcome.ok());
    CHECK_THAT(silent.outcome.text(), !Catch::Contains("equal training batches"));
  }
}

TEST_CASE("a number of batches for a step that one rank alone has set ends all ranks, which say who has set what") {
  const std::string when = GENERATE("epoch", "batch");
  const std::string knows_size = GENERATE("knows_size=1", "knows_size=0");
  const std::string strategy = GENERATE("auto", "MeanGradients");
  const int who = GENERATE(0, 2);
  const auto run = [&](int rank) {
    return Run("accumulates", 3, {"rank=" + std::to_string(rank), "when=" + when, knows_size, "strategy=" + strategy});
  };
  const Run alone = run(who);
  CHECK_FALSE(alone.outcome.ok());
  CHECK_THAT(alone.outcome.text(),
             Catch::Contains(who == 0 ? "different numbers of batches per step: 1 on ranks 1, 2; 2 on rank 0"
                                      : "different numbers of batches per step: 1 on ranks 0, 1; 2 on rank 2"));
  const Run all = run(-1);
  REQUIRE(all.outcome.ok());
  // Of six batches; within an epoch of unknown length the step after the change still is one of a single batch.
  const int steps = when == "epoch" ? 3 : knows_size == "knows_size=1" ? 4 : 5;
  all.check_everywhere("global_step", steps);
  all.check_everywhere("weight", -steps);
}

TEST_CASE("ranks that go on from other files of one name are an error that names ranks, hosts and files") {
  Run run("own_checkpoints", 3, {"part=saves"});
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
  const Run run("starts_programs", 2);
  REQUIRE(run.outcome.ok());
  run.check_everywhere("signal_of_the_program", 13);
}

TEST_CASE("stop() on one rank ends all ranks at the same step") {
  const auto [strategy, ranks, who, when] = GENERATE(
      table<std::string, int, int, int>({{"auto", 2, 0, 0}, {"auto", 2, 1, 3}, {"auto", 4, 3, 7}, {"MeanGradients", 2, 1, 3}}));
  const Run run("stops", ranks, {"rank=" + std::to_string(who), "step=" + std::to_string(when), "strategy=" + strategy});
  REQUIRE(run.outcome.ok());
  run.check_everywhere("global_step", when + 1);
  const std::string why = who == 0 ? "enough" : "rank " + std::to_string(who) + " requested it";
  CHECK(run.outcome.out.find("Training stopped: " + why) != std::string::npos);
}

TEST_CASE("a crash says in which hook and step it happened, with the calls that led to it") {
  const int ranks = GENERATE(1, 2);
  const auto [signal, name] = GENERATE(table<int, std::string>({{11, "SIGSEGV"}, {6, "SIGABRT"}, {8, "SIGFPE"}}));
  const Run run("crashes", ranks, {"signal=" + std::to_string(signal)});
  CHECK(run.outcome.status == 128 + signal);
  CHECK_THAT(run.outcome.err, Catch::Contains("rank " + std::to_string(ranks - 1) + " crashed with " + name +
                                              " in training_step (train, epoch 0, step 1)"));
  CHECK_THAT(run.outcome.err, Catch::Contains("bin/rank_programs("));
}

TEST_CASE("what follows a loss that is NaN on one rank, follows on all") {
  const int ranks = GENERATE(1, 2, 3);
  const std::string place = "in training_step (train, epoch 0, step 1) on rank " + std::to_string(ranks - 1);
  const Run warned("loss_is_nan", ranks, {"on_nan=warn"});
  REQUIRE(warned.outcome.ok());
  warned.check_everywhere("weight", -(1 + 2 + 3 + 4));
  CHECK_THAT(warned.outcome.err, Catch::Contains("The loss is nan " + place));

  const Run skipped("loss_is_nan", ranks, {"on_nan=skip"});
  REQUIRE(skipped.outcome.ok());
  skipped.check_everywhere("weight", -(1 + 3 + 4));
  CHECK_THAT(skipped.outcome.err, Catch::Contains("Epoch 0: 1 step was skipped"));

  const Run stopped("loss_is_nan", ranks, {"on_nan=stop"});
  CHECK(stopped.outcome.status == 1);
  CHECK_THAT(stopped.outcome.err,
             Catch::Contains("The loss is NaN or infinite") && Catch::Contains("on_nan: stop ends the run"));
  CHECK(!stopped.has(0, "weight"));
}

TEST_CASE("each rank has a device of an accelerator of the program's own, or is refused before it starts") {
  const Run one("own_accelerator", 1, {"devices=1,"});
  REQUIRE(one.outcome.ok());
  CHECK(one.number(0, "device") == 1);
  const Run two("own_accelerator", 2, {"devices=0,2"});
  REQUIRE(two.outcome.ok());
  CHECK(two.number(0, "device") == 0);
  CHECK(two.number(1, "device") == 2);
  CHECK_THAT(two.outcome.out, Catch::Contains("[rank 1] device toy:2, process "));
  two.check_everywhere("drawn", one.number(0, "drawn"));
  const Run missing("own_accelerator", 2, {"devices=1,3"});
  CHECK(missing.outcome.status == 2);
  CHECK(missing.outcome.err == "devices: toy device 3 does not exist; visible are 0, 1, 2\n");
}

TEST_CASE("a strategy gathers what a checkpoint holds from all ranks, and gives each its part back") {
  const Run run("shards", 3);
  REQUIRE(run.outcome.ok());
  for (std::size_t rank = 0; rank < 3; ++rank) CHECK(run.number(rank, "shard") == 10.0 + static_cast<double>(rank));
}

TEST_CASE("a profiler is told of reductions when each rank came, and that all left after the last") {
  const Run run("waits", 2, {"backend=" + GENERATE(as<std::string>(), "shared_memory", "gloo")});
  REQUIRE(run.outcome.ok());
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
