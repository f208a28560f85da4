#include "levin/strategies/launch/cluster_environment.h"

#include <signal.h>
#include <sys/time.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "levin/core/base/error.h"
#include "strategies/support/child_program.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

using namespace std::chrono_literals;

/// A scontrol of a test's own, the first in PATH.
class Scontrol {
 public:
  explicit Scontrol(const std::string& script) : path_(std::getenv("PATH")) {
    std::ofstream(folder_ / "scontrol") << "#!/bin/sh\necho $$ > " << (folder_ / "process").string() << "\n" << script << "\n";
    std::filesystem::permissions(folder_ / "scontrol", std::filesystem::perms::owner_all);
    setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  ~Scontrol() { setenv("PATH", path_.c_str(), 1); }
  Scontrol(const Scontrol&) = delete;
  Scontrol& operator=(const Scontrol&) = delete;
  int process() const {
    int number = 0;
    std::ifstream(folder_ / "process") >> number;
    return number;
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

/// While it lives, a signal interrupts this process every 2 milliseconds.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, &before_);
    const itimerval often{{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~Interruptions() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  struct sigaction before_ {};
};

TEST_CASE("a job is put back into the queue, and what scontrol says against it is the error") {
  const Scontrol good("test \"$1 $2\" = 'requeue 12_3'");
  CHECK_NOTHROW(requeue_slurm_job("12_3"));
  const Scontrol bad("echo slurm_requeue error: Access/permission denied >&2; exit 1");
  CHECK_THROWS_WITH(requeue_slurm_job("7"),
                    "job 7 could not be put back into Slurm's queue: scontrol requeue says: "
                    "slurm_requeue error: Access/permission denied");
  const Scontrol silent("exit 3");
  CHECK_THROWS_WITH(requeue_slurm_job("7"), Catch::EndsWith("scontrol requeue failed"));
}

TEST_CASE("a scontrol that does not end is killed, whether its output stays open or not, and whatever signals come") {
  const std::string script = GENERATE("sleep 1000", "exec >&- 2>&-; sleep 1000", "trap '' TERM; echo waiting; exec sleep 1000");
  const bool with_signals = GENERATE(false, true);
  const Scontrol endless(script);
  {
    std::optional<Interruptions> interruptions;
    if (with_signals) interruptions.emplace();
    CHECK_THROWS_WITH(requeue_slurm_job("7", 300ms), Catch::EndsWith("scontrol requeue has not ended within 0.3 s"));
  }
  CHECK(levin_test::all_gone({endless.process()}, 10s));
}

TEST_CASE("signals that come meanwhile do not make a failure of a job that was put back") {
  const Scontrol slow("echo one; sleep 0.1; exec >&- 2>&-; sleep 0.1");
  const Interruptions interruptions;
  CHECK_NOTHROW(requeue_slurm_job("7"));
}

}  // namespace
}  // namespace levin::test
