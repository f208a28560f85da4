#include "levin/strategies/launch/cluster_environment.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "levin/core/base/error.h"
#include "strategies/support/child_program.h"
#include "support/temporary_folder.h"

namespace {

using namespace std::chrono_literals;
using levin::ClusterEnvironment;
using levin::ClusterKind;
using Variables = std::map<std::string, std::string>;

levin::EnvironmentLookup lookup_in(const Variables& variables) {
  return [&variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
  };
}

ClusterEnvironment detect(const Variables& variables) { return levin::detect_cluster_environment(lookup_in(variables)); }

int node_rank(const Variables& variables, int hosts, int local_ranks) {
  return levin::detect_node_rank(hosts, local_ranks, lookup_in(variables));
}

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

/// The text of the ConfigError that the variables give; empty when they are accepted.
std::string error_of(const Variables& variables) {
  try {
    detect(variables);
  } catch (const levin::ConfigError& error) {
    return error.what();
  }
  return "";
}

const Variables kTorchrun = {{"RANK", "5"},       {"WORLD_SIZE", "8"},       {"LOCAL_RANK", "1"},
                             {"GROUP_RANK", "1"}, {"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29400"}};
const Variables kSlurm = {{"SLURM_NTASKS", "4"},
                          {"SLURM_PROCID", "3"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_NODELIST", "node[07-08]"},
                          {"SLURM_JOB_ID", "123456"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};

/// A scontrol for tests, the first in PATH.
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
  levin::test::TemporaryFolder folder_;
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

}  // namespace

TEST_CASE("without a launcher's variables there is one process") {
  const auto environment = detect({});
  CHECK(environment.kind == ClusterKind::kNone);
  CHECK(environment.rank == 0);
  CHECK(environment.world_size == 1);
  CHECK(detect({{"RANK", ""}, {"MASTER_PORT", "29500"}}).kind == ClusterKind::kNone);
}

TEST_CASE("torchrun's variables are read") {
  const auto environment = detect(kTorchrun);
  CHECK(environment.kind == ClusterKind::kTorchrun);
  CHECK(environment.rank == 5);
  CHECK(environment.world_size == 8);
  CHECK(environment.local_rank == 1);
  CHECK(environment.node_rank == 1);
  CHECK(environment.master_address == "node-a");
  CHECK(environment.master_port == 29400);
  CHECK_FALSE(environment.agent_store_key);
  const auto agent = detect(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  CHECK(agent.agent_store_key == "/worker/attempt_2");
  CHECK(agent.restarts == 2);
}

TEST_CASE("torchrun's variables count also inside a Slurm step") {
  CHECK(detect(with(kSlurm, kTorchrun)).kind == ClusterKind::kTorchrun);
}

TEST_CASE("Slurm's variables are read, and ignored in an interactive shell") {
  const auto environment = detect(kSlurm);
  CHECK(environment.kind == ClusterKind::kSlurm);
  CHECK(environment.rank == 3);
  CHECK(environment.world_size == 4);
  CHECK(environment.local_rank == 1);
  CHECK(environment.node_rank == 1);
  CHECK(environment.master_address == "node07");
  CHECK(environment.master_port == 15000 + 3456);
  CHECK(detect(with(kSlurm, {{"MASTER_ADDR", "other"}, {"MASTER_PORT", "77"}})).master_address == "other");
  CHECK(detect(with(kSlurm, {{"SLURM_JOB_NAME", "bash"}})).kind == ClusterKind::kNone);
  CHECK(detect(with(kSlurm, {{"SLURM_JOB_NAME", "interactive"}})).kind == ClusterKind::kNone);
  CHECK(detect({{"SLURM_NTASKS", "1"}}).world_size == 1);
}

TEST_CASE("the first host of a Slurm node list is found") {
  CHECK(levin::first_slurm_host("alpha") == "alpha");
  CHECK(levin::first_slurm_host("alpha,beta[1-2]") == "alpha");
  CHECK(levin::first_slurm_host("node[007-009,12],login") == "node007");
  CHECK(levin::first_slurm_host("node[3,5]") == "node3");
  CHECK(levin::first_slurm_host("rack[1-2]n-ib,x") == "rack1n-ib");
  CHECK_THROWS_AS(levin::first_slurm_host("node[1-2"), levin::ConfigError);
}

TEST_CASE("Open MPI's variables are read; on several hosts it must be told where rank 0 is") {
  const auto environment = detect(kOpenMpi);
  CHECK(environment.kind == ClusterKind::kOpenMpi);
  CHECK(environment.rank == 1);
  CHECK(environment.world_size == 2);
  CHECK(environment.master_address == "127.0.0.1");
  CHECK(environment.node_rank == 0);
  const Variables two_hosts = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  CHECK_THAT(error_of(two_hosts), Catch::Contains("MASTER_ADDR"));
  CHECK(detect(with(two_hosts, {{"MASTER_ADDR", "node-a"}})).node_rank == 1);
  CHECK(detect(with(two_hosts, {{"MASTER_ADDR", "node-a"}})).local_world_size == 1);
}

TEST_CASE("jobs of Open MPI meet at ports of their own, which all ranks of a job know") {
  CHECK(detect(kOpenMpi).master_port == 29500);
  std::set<int> ports;
  for (const char* variable : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    for (const char* job : {"496435201", "496369665", "prterun-node-4711@1"}) {
      const int port = detect(with(kOpenMpi, {{variable, job}})).master_port;
      CHECK(port == detect(with(kOpenMpi, {{variable, job}, {"OMPI_COMM_WORLD_RANK", "0"}})).master_port);
      CHECK((port >= 15000 && port < 25000));
      ports.insert(port);
    }
  }
  CHECK(ports.size() == 3);
  CHECK(detect(with(kOpenMpi, {{"PMIX_NAMESPACE", "496435201"}, {"MASTER_PORT", "29501"}})).master_port == 29501);
}

TEST_CASE("levin's variables count in a child of the launcher, and nowhere else") {
  Variables variables = {{"RANK", "1"},         {"WORLD_SIZE", "2"},      {"LOCAL_RANK", "1"},
                         {"LEVIN_SHM_FD", "9"}, {"LEVIN_STORE_FD", "10"}, {"LEVIN_LAUNCHED", std::to_string(getppid())}};
  const auto environment = detect(variables);
  CHECK(environment.kind == ClusterKind::kLevin);
  CHECK(environment.rank == 1);
  CHECK(environment.shared_memory_fd == 9);
  CHECK(environment.store_fd == 10);
  CHECK(environment.device == 1);
  CHECK(environment.restarts == 0);
  Variables started_again = with(variables, {{"LEVIN_RESTARTS", "2"}, {"LEVIN_DEVICE", "3"}});
  CHECK(detect(started_again).restarts == 2);
  CHECK(detect(started_again).device == 3);
  // Between hosts ranks meet at a port.
  variables["LEVIN_STORE_FD"] = "";
  CHECK_THAT(error_of(variables), Catch::Contains("MASTER_ADDR, MASTER_PORT not set"));
  CHECK(detect(with(variables, {{"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29400"}})).master_address == "node-a");
  variables["LEVIN_LAUNCHED"] = std::to_string(getpid());
  CHECK(detect(variables).kind == ClusterKind::kNone);
}

TEST_CASE("a host of several that starts its own ranks is told its place as Lightning tells it") {
  const Variables variables = {{"NODE_RANK", "1"}, {"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29400"}, {"WORLD_SIZE", "6"}};
  CHECK(node_rank(variables, 3, 2) == 1);
  CHECK(detect(variables).kind == ClusterKind::kNone);
  CHECK(node_rank(with(variables, {{"NODE_RANK", ""}, {"GROUP_RANK", "2"}}), 3, 2) == 2);
  // One host needs none of them, and may have them.
  CHECK(node_rank({}, 1, 4) == 0);
  CHECK(node_rank({{"NODE_RANK", "0"}, {"MASTER_ADDR", "node-a"}}, 1, 4) == 0);
}

TEST_CASE("a host's variables that say too little or something else are an error that names them") {
  const auto [changes, hosts, text] = GENERATE(table<Variables, int, std::string>({
      {{{"NODE_RANK", ""}}, 2, "not set: NODE_RANK. Start levin on each host"},
      {{{"MASTER_ADDR", ""}}, 2, "not set: MASTER_ADDR. Start levin on each host"},
      {{{"MASTER_PORT", ""}}, 2, "not set: MASTER_PORT. Start levin on each host"},
      {{{"NODE_RANK", "2"}}, 2, "NODE_RANK=2 contradicts num_nodes: 2"},
      {{{"NODE_RANK", "x"}}, 2, "NODE_RANK='x'"},
      {{{"MASTER_PORT", "0"}}, 2, "MASTER_PORT='0'"},
      {{{"WORLD_SIZE", "2"}}, 2, "WORLD_SIZE=2 contradicts num_nodes: 2 with 2 ranks on each, which are 4"},
      {{{"GROUP_RANK", "0"}}, 2, "GROUP_RANK=0 but NODE_RANK=1"},
      {{}, 1, "NODE_RANK=1 contradicts num_nodes: 1"},
  }));
  const Variables whole = {{"NODE_RANK", "1"}, {"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29400"}};
  CHECK_THROWS_WITH(node_rank(with(whole, changes), hosts, 2), Catch::Contains(text));
}

TEST_CASE("variables that are set by half, contradict one another, or are no numbers, are an error that names them") {
  const auto [launcher, changes, texts] = GENERATE(table<Variables, Variables, std::vector<std::string>>({
      {kTorchrun, {{"RANK", ""}}, {"RANK not set"}},
      {kTorchrun, {{"WORLD_SIZE", ""}}, {"WORLD_SIZE not set"}},
      {kTorchrun, {{"LOCAL_RANK", ""}}, {"LOCAL_RANK not set"}},
      {kTorchrun, {{"MASTER_ADDR", ""}}, {"MASTER_ADDR not set"}},
      {kTorchrun, {{"MASTER_PORT", ""}}, {"MASTER_PORT not set"}},
      {kSlurm, {{"SLURM_PROCID", ""}}, {"SLURM_PROCID not set"}},
      {kSlurm, {{"SLURM_NODELIST", ""}}, {"SLURM_NODELIST"}},
      {kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", ""}}, {"OMPI_COMM_WORLD_LOCAL_RANK not set"}},
      {kTorchrun, {{"RANK", "8"}}, {"RANK=8", "WORLD_SIZE=8"}},
      {kTorchrun, {{"LOCAL_WORLD_SIZE", "1"}}, {"LOCAL_RANK=1", "LOCAL_WORLD_SIZE=1"}},
      {kSlurm, {{"WORLD_SIZE", "2"}}, {"WORLD_SIZE=2", "SLURM_NTASKS=4"}},
      {kTorchrun, {{"RANK", "one"}}, {"RANK='one'"}},
      {kTorchrun, {{"WORLD_SIZE", "0"}}, {"WORLD_SIZE='0'"}},
      {kTorchrun, {{"MASTER_PORT", "70000"}}, {"MASTER_PORT='70000'"}},
      {kTorchrun, {{"RANK", "-1"}}, {"RANK='-1'"}},
  }));
  for (const std::string& text : texts) CHECK_THAT(error_of(with(launcher, changes)), Catch::Contains(text));
}

TEST_CASE("a job is put back into the queue, and what scontrol says against it is the error") {
  const Scontrol good("test \"$1 $2\" = 'requeue 12_3'");
  CHECK_NOTHROW(levin::requeue_slurm_job("12_3"));
  const Scontrol bad("echo slurm_requeue error: Access/permission denied >&2; exit 1");
  CHECK_THROWS_WITH(levin::requeue_slurm_job("7"),
                    "job 7 could not be requeued: scontrol requeue says: "
                    "slurm_requeue error: Access/permission denied");
  const Scontrol silent("exit 3");
  CHECK_THROWS_WITH(levin::requeue_slurm_job("7"), Catch::EndsWith("scontrol requeue failed"));
}

TEST_CASE("a scontrol that does not end is killed, whether its output stays open or not, and whatever signals come") {
  const std::string script = GENERATE("sleep 1000", "exec >&- 2>&-; sleep 1000", "trap '' TERM; echo waiting; exec sleep 1000");
  const bool with_signals = GENERATE(false, true);
  const Scontrol endless(script);
  {
    std::optional<Interruptions> interruptions;
    if (with_signals) interruptions.emplace();
    CHECK_THROWS_WITH(levin::requeue_slurm_job("7", 300ms), Catch::EndsWith("scontrol requeue has not ended within 0.3 s"));
  }
  CHECK(levin_test::all_gone({endless.process()}, 10s));
}

TEST_CASE("signals that come meanwhile do not make a failure of a job that was put back") {
  const Scontrol slow("echo one; sleep 0.1; exec >&- 2>&-; sleep 0.1");
  const Interruptions interruptions;
  CHECK_NOTHROW(levin::requeue_slurm_job("7"));
}
