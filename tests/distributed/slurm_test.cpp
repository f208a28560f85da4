// Jobs of Slurm: their tasks as ranks, and requeued jobs.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <string>
#include <thread>

#include "distributed/start_run.h"
#include "levin/core/base/process.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {
namespace {

/// Writes a key of 1 KiB, which munge wants no other user to have.
void write_key(const std::filesystem::path& file) {
  std::ofstream key(file, std::ios::binary);
  std::random_device random;
  for (int i = 0; i < 256; ++i) {
    const std::uint32_t word = random();
    key.write(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  key.close();
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

/// A private Slurm: munged, slurmctld and slurmd on this machine, as root, with everything in a folder. All of it ends with
/// this object.
class OwnSlurm {
 public:
  OwnSlurm();
  ~OwnSlurm();
  OwnSlurm(const OwnSlurm&) = delete;
  OwnSlurm& operator=(const OwnSlurm&) = delete;

  /// Why it does not run: a program or a permission is missing; "" when it runs.
  const std::string& hindrance() const { return hindrance_; }
  /// The environment in which Slurm's programs find it.
  Environment environment() const { return {{"SLURM_CONF", (folder_ / "slurm.conf").string()}}; }
  /// Runs one of Slurm's programs and returns its output.
  std::string ask(const std::vector<std::string>& arguments) const;
  /// Asks repeatedly until the answer contains `text`; false if it does not within the limit.
  bool wait_for(const std::vector<std::string>& arguments, const std::string& text,
                std::chrono::seconds limit = std::chrono::seconds(60)) const;

 private:
  std::string start();

  TemporaryFolder folder_;
  std::string hindrance_;
};

OwnSlurm::OwnSlurm() : hindrance_(start()) {}

OwnSlurm::~OwnSlurm() {
  for (const char* name : {"slurmd.pid", "slurmctld.pid", "munged.pid"}) {
    int process = 0;
    if (std::ifstream(folder_ / name) >> process && process > 1) kill(process, SIGTERM);
    // It may write files while it ends, which must not remain.
    for (int tries = 0; process > 1 && kill(process, 0) == 0 && tries < 500; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

std::string OwnSlurm::start() {
  for (const char* program : {"munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol"}) {
    if (!has_program(program)) return std::string(program) + " is not installed";
  }
  if (geteuid() != 0) return "only root may start slurmd";
  const std::filesystem::path& folder = folder_.path();
  // munged wants its folders open to all, and its key closed to others.
  std::filesystem::permissions(folder, static_cast<std::filesystem::perms>(0755));
  for (const char* name : {"state", "spool"}) std::filesystem::create_directory(folder / name);
  write_key(folder / "munge.key");
  const std::string host = host_name().substr(0, host_name().find('.'));
  const auto in_folder = [&](const char* name) { return (folder / name).string(); };
  std::ofstream(folder / "slurm.conf")
      << "ClusterName=test\nSlurmctldHost=" << host << "(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
      << "AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket=" << in_folder("munge.socket") << "\n"
      << "StateSaveLocation=" << in_folder("state") << "\nSlurmdSpoolDir=" << in_folder("spool") << "\n"
      << "SlurmctldPidFile=" << in_folder("slurmctld.pid") << "\nSlurmdPidFile=" << in_folder("slurmd.pid") << "\n"
      << "SlurmctldPort=" << free_port() << "\nSlurmdPort=" << free_port() << "\n"
      << "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
      << "AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\nMailProg=/bin/true\nReturnToService=2\n"
      << "SchedulerParameters=sched_interval=1,batch_sched_delay=0\n"
      << "SlurmctldLogFile=" << in_folder("slurmctld.log") << "\nSlurmdLogFile=" << in_folder("slurmd.log") << "\n"
      << "NodeName=" << host << " NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n"
      << "PartitionName=all Nodes=" << host << " Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4\n";
  const Outcome munge =
      run({.arguments = {"munged", "--force", "--socket=" + in_folder("munge.socket"), "--key-file=" + in_folder("munge.key"),
                         "--log-file=" + in_folder("munged.log"), "--pid-file=" + in_folder("munged.pid"),
                         "--seed-file=" + in_folder("munged.seed")}});
  if (!munge.ok()) return "munged does not start: " + munge.text();
  for (const char* program : {"slurmctld", "slurmd"}) {
    const Outcome outcome = run({.arguments = {program, "-f", in_folder("slurm.conf")}, .environment = environment()});
    if (!outcome.ok()) return std::string(program) + " does not start: " + outcome.text();
  }
  return wait_for({"sinfo", "-h", "-o", "%T"}, "idle") ? "" : "slurmd did not come up";
}

std::string OwnSlurm::ask(const std::vector<std::string>& arguments) const {
  return run({.arguments = arguments, .environment = environment()}).out;
}

bool OwnSlurm::wait_for(const std::vector<std::string>& arguments, const std::string& text, std::chrono::seconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (ask(arguments).find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

/// A folder with a `scontrol` that records its calls.
struct FakeScontrol {
  explicit FakeScontrol(const std::string& also = "") {
    const std::filesystem::path file = folder / "scontrol";
    std::ofstream(file) << "#!/bin/sh\necho \"$@\" >> " << (folder / "asked").string() << "\n" << also << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  Environment job(int restarts) const {
    Environment environment = {{"PATH", folder.path().string() + ":" + std::getenv("PATH")}, {"SLURM_JOB_ID", "77"}};
    if (restarts > 0) environment.emplace_back("SLURM_RESTART_COUNT", std::to_string(restarts));
    return environment;
  }
  std::string asked() const { return std::filesystem::exists(folder / "asked") ? read_text(folder / "asked") : ""; }

  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("a job that Slurm warns with SIGUSR1 saves itself, goes back into the queue, and goes on from there") {
  const auto [ranks, manner, signal, requeue] =
      GENERATE(table<std::string, std::string, int, std::string>({{"ranks=2", "sigusr1", SIGUSR1, ""},
                                                                  {"ranks=1", "sigusr1", SIGUSR1, ""},
                                                                  {"ranks=2", "sigterm", SIGTERM, "SIGTERM"},
                                                                  {"ranks=1", "sigusr2", SIGUSR2, "SIGUSR2"}}));
  const FakeScontrol scontrol;
  const TemporaryFolder whole;
  const Outcome undisturbed = run(start_command(whole.path(), {ranks}));
  INFO(undisturbed.text());
  REQUIRE(undisturbed.ok());
  const TemporaryFolder folder;
  for (int restarts = 0; restarts < 2; ++restarts) {
    // No periodic checkpoints: only those of the job count.
    const std::string rank = ranks == "ranks=2" ? "1" : "0";
    const Outcome outcome = run(start_command(folder.path(),
                                              {ranks, "save_every=0", "save_on_exception=0", "requeue=" + requeue,
                                               "fail=0:" + rank + ":" + std::to_string(4 * restarts + 4) + ":" + manner},
                                              scontrol.job(restarts)));
    INFO(outcome.text());
    CHECK(outcome.status == 128 + signal);
    CHECK(std::filesystem::exists(folder / ("hpc_ckpt_" + std::to_string(restarts + 1) + ".ckpt")));
    CHECK_THAT(outcome.out, Catch::Contains("Job 77 went back into the queue of Slurm"));
  }
  CHECK(scontrol.asked() == "requeue 77\nrequeue 77\n");
  const Outcome last = run(start_command(folder.path(), {ranks, "save_every=0"}, scontrol.job(2)));
  INFO(last.text());
  REQUIRE(last.ok());
  CHECK_THAT(last.out, Catch::Contains("fit resumes from ") && Catch::Contains("hpc_ckpt_2.ckpt"));
  CHECK(left_by(folder.path()) == left_by(whole.path()));
  CHECK_FALSE(std::filesystem::exists(folder / "hpc_ckpt_1.ckpt"));
  CHECK_FALSE(std::filesystem::exists(folder / "hpc_ckpt_2.ckpt"));
  CHECK_FALSE(std::filesystem::exists(folder / "logs/version_1"));
}

TEST_CASE("a job that Slurm does not take back says so, and how it goes on") {
  const FakeScontrol scontrol("echo 'slurm_requeue error: Requested operation is presently disabled' >&2; exit 1");
  const TemporaryFolder folder;
  const Outcome outcome = run(start_command(folder.path(), {"ranks=2", "fail=0:0:4:sigusr1"}, scontrol.job(0)));
  INFO(outcome.text());
  CHECK(outcome.status == 128 + SIGUSR1);
  CHECK_THAT(outcome.err, Catch::Contains("job 77 could not be requeued: scontrol requeue says: "
                                          "slurm_requeue error: Requested operation is presently disabled. Start it again "
                                          "with --ckpt_path="));
}

TEST_CASE("another job's checkpoint, and SIGUSR1 outside of Slurm, mean nothing") {
  const FakeScontrol scontrol;
  const TemporaryFolder folder;
  const Outcome outside = run(start_command(folder.path(), {"ranks=2", "fail=0:0:4:sigusr1"}));
  INFO(outside.text());
  CHECK(outside.status == 128 + SIGUSR1);
  CHECK_FALSE(std::filesystem::exists(folder / "hpc_ckpt_1.ckpt"));
  // Nor does it in a job that is requeued by another signal.
  REQUIRE(run(start_command(folder.path(), {"ranks=2", "fail=0:0:4:sigusr1", "requeue=SIGTERM"}, scontrol.job(0))).status ==
          128 + SIGUSR1);
  CHECK_FALSE(std::filesystem::exists(folder / "hpc_ckpt_1.ckpt"));
  REQUIRE(run(start_command(folder.path(), {"ranks=2", "fail=0:0:4:sigusr1"}, scontrol.job(0))).status == 128 + SIGUSR1);
  Environment other = scontrol.job(1);
  other.emplace_back("SLURM_JOB_ID", "78");
  const Outcome begun_anew = run(start_command(folder.path(), {"ranks=2"}, other));
  INFO(begun_anew.text());
  CHECK(begun_anew.ok());
  CHECK(begun_anew.out.find("fit resumes from ") == std::string::npos);
  CHECK(std::filesystem::exists(folder / "hpc_ckpt_1.ckpt"));
}

TEST_CASE("a real Slurm starts ranks, and, in the whole matrix, takes a job back into its queue") {
  const OwnSlurm slurm;
  if (!slurm.hindrance().empty()) {
    WARN("not tested: " << slurm.hindrance());
    return;
  }
  const Left expected = left_undisturbed();
  const TemporaryFolder started;
  const Command command = under({"srun", "--ntasks=2", "--overcommit", "--export=ALL"},
                                start_command(started.path(), {"ranks=2"}, slurm.environment()));
  const Outcome outcome = run(command);
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK(left_by(started.path()) == expected);
  const TemporaryFolder sharing;
  const Outcome shared = run(with_own_threads(under({"srun", "--ntasks=2", "--overcommit", "--cpu-bind=none", "--export=ALL"},
                                                    start_command(sharing.path(), {"ranks=2"}, slurm.environment()))));
  INFO(shared.text());
  REQUIRE(shared.ok());
  const int threads = std::max(1, usable_cores() / 2);
  const std::regex device("device cpu \\((\\d+) thread");
  const std::sregex_iterator first(shared.out.begin(), shared.out.end(), device);
  CHECK(std::distance(first, {}) == 2);
  std::for_each(first, {}, [&](const std::smatch& found) { CHECK(std::stoi(found[1]) == threads); });

  if (!is_whole_matrix()) return;  // Slurm takes up to three minutes to start a job again; the tests above use a script instead

  // A batch job that warns itself in its first turn, as sbatch --signal=USR1@90 would.
  const TemporaryFolder folder;
  const std::string program = command.arguments[4] + " folder=" + folder.path().string() + " ranks=2 save_every=0";
  std::ofstream(folder / "job.sh")
      << "#!/bin/bash\nexport OMP_NUM_THREADS=1\n[ -n \"$SLURM_RESTART_COUNT\" ] || fail=fail=0:1:4:sigusr1\n"
      << "srun --ntasks=2 --overcommit " << program << " $fail\n";
  const std::string answer =
      slurm.ask({"sbatch", "--parsable", "--ntasks=2", "--overcommit", "--requeue", "--output=" + (folder / "output").string(),
                 "--open-mode=append", (folder / "job.sh").string()});
  const std::string job = std::regex_replace(answer, std::regex("\\s"), "");
  INFO("job " << job);
  const std::vector<std::string> show = {"scontrol", "show", "job", job};
  REQUIRE(slurm.wait_for(show, "Restarts=1"));
  // Slurm lets a requeued job wait for two minutes after its processes have ended. The update shortens that, and is repeated
  // until it works; too frequent updates keep Slurm from other work.
  const std::string hurry = "sleep 2; scontrol update jobid=" + job + " StartTime=now 2>&1; scontrol show job " + job;
  CHECK(slurm.wait_for({"sh", "-c", hurry}, "JobState=COMPLETED", std::chrono::seconds(200)));
  INFO(read_text(folder / "output"));
  CHECK_THAT(read_text(folder / "output"), Catch::Contains("hpc_ckpt_1.ckpt (epoch 0, step "));
  CHECK(left_by(folder.path()) == expected);
}

}  // namespace levin::test
