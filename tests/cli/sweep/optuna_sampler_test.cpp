#include "levin/cli/sweep/optuna_sampler.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/files/atomic_file.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using levin::Interrupted;
using levin::IoError;
using levin::cli::AwaitedSignals;
using levin::cli::OptunaSampler;
using levin::cli::SearchSpace;
using levin::cli::SweepState;
using levin::test::error_of;
using levin::test::TemporaryFolder;

namespace {

constexpr std::chrono::milliseconds kShort(50);
constexpr std::chrono::minutes kLong(2);

/// While it lives, what samplers start in Python's place is this script.
class FakePython {
 public:
  explicit FakePython(const std::string& script) {
    const fs::path file = folder_ / "python";
    levin::write_file(file, "#!/bin/sh\n" + script);
    fs::permissions(file, fs::perms::owner_all);
    setenv("PYTHON", file.c_str(), 1);
  }
  ~FakePython() { unsetenv("PYTHON"); }
  FakePython(const FakePython&) = delete;
  FakePython& operator=(const FakePython&) = delete;

 private:
  TemporaryFolder folder_;
};

SweepState sweep_of(std::size_t trials) {
  SearchSpace space;
  space.add_distribution("a=uniform:0..1");
  SweepState sweep;
  sweep.sampler = OptunaSampler::settings(space, 0);
  sweep.trials.resize(trials);
  return sweep;
}

}  // namespace

TEST_CASE("a sampler that never answers, or has stopped to, is an error in time, and its process is ended") {
  const AwaitedSignals signals({SIGUSR1, SIGCHLD});
  {
    const FakePython silent("exec sleep 1000\n");
    CHECK_THAT(error_of<IoError>([&] { OptunaSampler(sweep_of(1), signals, kShort); }),
               Catch::Contains("has not answered for 0.05 s"));
  }
  {
    const FakePython greets("echo '{\"optuna\": \"4\"}'\nexec sleep 1000\n");
    OptunaSampler sampler(sweep_of(1), signals, kShort);
    CHECK_THAT(error_of<IoError>([&] { sampler.ask({}); }), Catch::Contains("has not answered for 0.05 s"));
  }
  {
    const FakePython ends("exit 1\n");
    CHECK_THAT(error_of<IoError>([&] { OptunaSampler(sweep_of(1), signals, kLong); }), Catch::Contains("has ended, see above"));
  }
}

TEST_CASE("a sampler that takes nothing more is no endless wait either") {
  const AwaitedSignals signals({SIGUSR1, SIGCHLD});
  SweepState sweep = sweep_of(20'000);
  for (auto& trial : sweep.trials) trial.status = "failed";
  const FakePython deaf("echo '{\"optuna\": \"4\"}'\nexec sleep 1000\n");
  CHECK_THAT(error_of<IoError>([&] { OptunaSampler(sweep, signals, kShort); }), Catch::Contains("has not answered for 0.05 s"));
}

TEST_CASE("a signal ends a wait for a sampler, but not the end of a child") {
  const AwaitedSignals signals({SIGUSR1, SIGCHLD});
  raise(SIGCHLD);
  CHECK(signals.pending_except(SIGCHLD) == 0);
  const FakePython greets("echo '{\"optuna\": \"4\"}'\nkill -USR1 $PPID\nexec sleep 1000\n");
  try {
    OptunaSampler(sweep_of(1), signals, kLong).ask({});
    FAIL("nobody has answered");
  } catch (const Interrupted& interrupted) {
    CHECK(interrupted.signal() == SIGUSR1);
  }
}
