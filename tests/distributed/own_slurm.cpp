#include "distributed/own_slurm.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>

namespace levin::test {

namespace {

/// One user's memory of 1 KiB, which munge wants to be nobody else's.
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

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string text = name.data();
  return text.substr(0, text.find('.'));
}

}  // namespace

OwnSlurm::OwnSlurm() : hindrance_(start()) {}

OwnSlurm::~OwnSlurm() {
  for (const char* name : {"slurmd.pid", "slurmctld.pid", "munged.pid"}) {
    int process = 0;
    if (std::ifstream(folder_ / name) >> process && process > 1) kill(process, SIGTERM);
    // What it writes on its way out shall not outlive its folder.
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
  // munged wants its folders to be open to all, and its key to nobody.
  std::filesystem::permissions(folder, static_cast<std::filesystem::perms>(0755));
  for (const char* name : {"state", "spool"}) std::filesystem::create_directory(folder / name);
  write_key(folder / "munge.key");
  const std::string host = host_name();
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

}  // namespace levin::test
