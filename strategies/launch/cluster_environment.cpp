#include "levin/strategies/launch/cluster_environment.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

namespace {

constexpr int kMaxPort = 65535;
/// Ports that are made from a job's number: below those that the kernel gives to connections.
constexpr int kFirstJobPort = 15000;
constexpr int kJobPorts = 10000;
constexpr int kNoLimit = std::numeric_limits<int>::max();

/// Reads variables as numbers, and words the errors.
class Variables {
 public:
  explicit Variables(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  bool has(const char* name) const { return lookup_(name).has_value(); }
  std::optional<std::string> text(const char* name) const { return lookup_(name); }

  int number(const char* name, int minimum, int maximum) const {
    const std::string text = lookup_(name).value_or("");
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < minimum || value > maximum) {
      std::string range = maximum == kNoLimit ? format("of at least {}", minimum) : format("from {} to {}", minimum, maximum);
      throw ConfigError(format("environment variable {}='{}': expected a whole number {}", name, text, range));
    }
    return value;
  }
  /// A number that counts from 0, of so many.
  int number_below(const char* name, int limit, const char* limit_name) const {
    const int value = number(name, 0, kNoLimit);
    if (value < limit) return value;
    throw ConfigError(format("environment variables contradict each other: {}={} but {}={}; ranks count from 0.", name, value,
                             limit_name, limit));
  }
  int number_or(const char* name, int fallback, int minimum, int maximum) const {
    return has(name) ? number(name, minimum, maximum) : fallback;
  }

  /// All of `names` must be set once one of them is.
  void require(std::initializer_list<const char*> names, const std::string& launcher, const std::string& fix) const {
    std::vector<const char*> present;
    std::vector<const char*> missing;
    for (const char* name : names) (has(name) ? present : missing).push_back(name);
    if (missing.empty()) return;
    throw ConfigError(format("environment variables of {} are only partly set: {} set, {} not set. {}", launcher, join(present),
                             join(missing), fix));
  }
  void require_equal(const char* name, int expected, const char* other_name) const {
    if (has(name) && number(name, 0, kNoLimit) != expected) {
      throw ConfigError(format("environment variables contradict each other: {}={} but {}={}. Unset the wrong one.", name,
                               *text(name), other_name, expected));
    }
  }

 private:
  const EnvironmentLookup& lookup_;
};

/// What a launcher calls the three numbers of a rank.
struct RankNames {
  const char* world_size;
  const char* rank;
  const char* local_rank;
};
constexpr RankNames kTorchrunNames = {"WORLD_SIZE", "RANK", "LOCAL_RANK"};

/// torchrun's variables may accompany another launcher's when they say the same.
ClusterEnvironment read_ranks(const Variables& variables, ClusterKind kind, const RankNames& names) {
  ClusterEnvironment environment{.kind = kind};
  environment.world_size = variables.number(names.world_size, 1, kNoLimit);
  environment.rank = variables.number_below(names.rank, environment.world_size, names.world_size);
  environment.local_rank = variables.number_below(names.local_rank, environment.world_size, names.world_size);
  variables.require_equal(kTorchrunNames.world_size, environment.world_size, names.world_size);
  variables.require_equal(kTorchrunNames.rank, environment.rank, names.rank);
  variables.require_equal(kTorchrunNames.local_rank, environment.local_rank, names.local_rank);
  return environment;
}

/// The address and port at which ranks find one another, where variables name them.
void read_rendezvous(const Variables& variables, int default_port, ClusterEnvironment& environment) {
  if (variables.has("MASTER_ADDR")) environment.master_address = *variables.text("MASTER_ADDR");
  environment.master_port = variables.number_or("MASTER_PORT", default_port, 1, kMaxPort);
}

ClusterEnvironment read_levin(const Variables& variables) {
  variables.require({"LEVIN_LAUNCHED", "LEVIN_SHM_FD", "RANK", "WORLD_SIZE", "LOCAL_RANK"}, "levin's launcher",
                    "Do not set LEVIN_LAUNCHED by hand.");
  ClusterEnvironment environment = read_ranks(variables, ClusterKind::kLevin, kTorchrunNames);
  const auto number = [&](const char* name) {
    return variables.has(name) ? std::optional(variables.number(name, 0, kNoLimit)) : std::nullopt;
  };
  environment.shared_memory_fd = number("LEVIN_SHM_FD");
  environment.store_fd = number("LEVIN_STORE_FD");
  environment.inputs_fd = number("LEVIN_INPUTS_FD");
  environment.local_world_size = number("LOCAL_WORLD_SIZE");
  environment.node_rank = number("GROUP_RANK").value_or(0);
  environment.device = number("LEVIN_DEVICE").value_or(environment.local_rank);
  environment.restarts = number("LEVIN_RESTARTS").value_or(0);
  if (environment.store_fd) return environment;
  variables.require({"LEVIN_LAUNCHED", "MASTER_ADDR", "MASTER_PORT"}, "levin's launcher", "Do not set LEVIN_LAUNCHED by hand.");
  read_rendezvous(variables, 0, environment);
  return environment;
}

ClusterEnvironment read_torchrun(const Variables& variables) {
  ClusterEnvironment environment = read_ranks(variables, ClusterKind::kTorchrun, kTorchrunNames);
  environment.node_rank = variables.number_or("GROUP_RANK", 0, 0, kNoLimit);
  if (variables.has("LOCAL_WORLD_SIZE")) {
    environment.local_world_size = variables.number("LOCAL_WORLD_SIZE", 1, environment.world_size);
    static_cast<void>(variables.number_below("LOCAL_RANK", *environment.local_world_size, "LOCAL_WORLD_SIZE"));
  }
  if (environment.world_size == 1) return environment;
  variables.require({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}, "torchrun",
                    "Ranks connect to MASTER_ADDR:MASTER_PORT; set both, or start with torchrun.");
  read_rendezvous(variables, 0, environment);
  environment.restarts = variables.number_or("TORCHELASTIC_RESTART_COUNT", 0, 0, kNoLimit);
  // torchrun's agent keeps its store open at that address; its ranks use it under a prefix that changes with each restart.
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    environment.agent_store_key = format("/worker/attempt_{}", environment.restarts);
  }
  return environment;
}

ClusterEnvironment read_slurm(const Variables& variables) {
  if (!variables.has("SLURM_PROCID") && variables.number("SLURM_NTASKS", 1, kNoLimit) == 1)
    return {.kind = ClusterKind::kSlurm};
  variables.require({"SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"}, "Slurm",
                    "Start the program with srun, or unset SLURM_NTASKS to run one process.");
  ClusterEnvironment environment =
      read_ranks(variables, ClusterKind::kSlurm, {"SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"});
  environment.node_rank = variables.number_or("SLURM_NODEID", 0, 0, kNoLimit);
  if (environment.world_size == 1) return environment;
  const auto node_list =
      variables.text("SLURM_NODELIST") ? variables.text("SLURM_NODELIST") : variables.text("SLURM_JOB_NODELIST");
  if (!variables.has("MASTER_ADDR") && !node_list) {
    throw ConfigError(
        "environment variables of Slurm are only partly set: neither SLURM_NODELIST nor MASTER_ADDR says where rank 0 is.");
  }
  if (!variables.has("MASTER_ADDR")) environment.master_address = first_slurm_host(*node_list);
  // Jobs that share a host must not share a port: the port is made from the end of the job's number.
  std::string job = variables.text("SLURM_JOB_ID").value_or("0");
  std::erase_if(job, [](char c) { return c < '0' || c > '9'; });
  job = job.substr(job.size() - std::min<std::size_t>(4, job.size()));
  read_rendezvous(variables, kFirstJobPort + (job.empty() ? 0 : std::stoi(job)), environment);
  return environment;
}

/// An interactive job: its variables do not describe ranks, and it is not requeued.
bool is_interactive_slurm(const EnvironmentLookup& lookup) {
  const std::string name = lookup("SLURM_JOB_NAME").value_or("");
  return name == "bash" || name == "interactive";
}

/// Jobs that share a host must not share a port: it is made from what Open MPI calls the job, on all of its hosts.
int open_mpi_port(const Variables& variables) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (!variables.has(name)) continue;
    Fnv1aHash hash;
    hash.add(*variables.text(name));
    return kFirstJobPort + static_cast<int>(hash.value() % kJobPorts);
  }
  return 29500;
}

ClusterEnvironment read_open_mpi(const Variables& variables) {
  constexpr RankNames kNames = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"};
  variables.require({kNames.world_size, kNames.rank, kNames.local_rank}, "Open MPI",
                    "Start the program with mpirun, or unset them to run one process.");
  ClusterEnvironment environment = read_ranks(variables, ClusterKind::kOpenMpi, kNames);
  if (environment.world_size == 1) return environment;
  const int local_size = variables.number_or("OMPI_COMM_WORLD_LOCAL_SIZE", environment.world_size, 1, environment.world_size);
  environment.node_rank = environment.rank / local_size;
  environment.local_world_size = local_size;
  if (!variables.has("MASTER_ADDR") && local_size != environment.world_size) {
    throw ConfigError(
        format("Open MPI started {} ranks on several hosts: set MASTER_ADDR (mpirun -x MASTER_ADDR=<host of rank 0>) so that "
               "they can connect.",
               environment.world_size));
  }
  read_rendezvous(variables, open_mpi_port(variables), environment);
  return environment;
}

}  // namespace

const char* cluster_kind_name(ClusterKind kind) {
  constexpr std::array kNames = {"no launcher", "levin", "torchrun", "Slurm", "Open MPI"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<ClusterEnvironment> find_cluster_environment() {
  try {
    return detect_cluster_environment();
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::string first_slurm_host(const std::string& node_list) {
  const std::size_t bracket = node_list.find('[');
  const std::size_t comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) return node_list.substr(0, comma);
  const std::size_t end = node_list.find_first_of(",-]", bracket);
  const std::size_t close = node_list.find(']', bracket);
  if (close == std::string::npos) throw ConfigError("environment variable SLURM_NODELIST='" + node_list + "': ']' is missing");
  const std::size_t tail_end = node_list.find(',', close);
  const std::string tail = node_list.substr(close + 1, tail_end == std::string::npos ? tail_end : tail_end - close - 1);
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1) + tail;
}

int detect_node_rank(int hosts, int local_ranks, const EnvironmentLookup& lookup) {
  const Variables variables(lookup);
  const char* node_rank = variables.has("NODE_RANK") || !variables.has("GROUP_RANK") ? "NODE_RANK" : "GROUP_RANK";
  if (hosts == 1) {
    if (!variables.has(node_rank) || variables.number(node_rank, 0, kNoLimit) == 0) return 0;
    throw ConfigError(
        format("environment variable {}={} contradicts num_nodes: 1: say how many hosts there are "
               "(--trainer.num_nodes=2), or unset it",
               node_rank, *variables.text(node_rank)));
  }
  std::vector<std::string> missing;
  for (const char* name : {node_rank, "MASTER_ADDR", "MASTER_PORT"}) {
    if (!variables.has(name)) missing.emplace_back(name);
  }
  if (!missing.empty()) {
    throw ConfigError(
        format("num_nodes: {}: each host must know its number and rank 0, but not set: {}. Start levin on each host with "
               "NODE_RANK=0, 1, … and with host 0's address and a free port of it as MASTER_ADDR and MASTER_PORT; "
               "or start it with torchrun, srun or mpirun.",
               hosts, join(missing)));
  }
  const int host = variables.number(node_rank, 0, kNoLimit);
  if (host >= hosts) {
    throw ConfigError(
        format("environment variable {}={} contradicts num_nodes: {}; hosts count from 0", node_rank, host, hosts));
  }
  variables.require_equal("GROUP_RANK", host, node_rank);
  if (variables.has("WORLD_SIZE") && variables.number("WORLD_SIZE", 1, kNoLimit) != hosts * local_ranks) {
    throw ConfigError(format(
        "environment variable WORLD_SIZE={} contradicts num_nodes: {} with {} on each, which are {}. Unset "
        "it, or make both the same.",
        *variables.text("WORLD_SIZE"), hosts, counted(static_cast<std::size_t>(local_ranks), "rank"), hosts * local_ranks));
  }
  static_cast<void>(variables.number("MASTER_PORT", 1, kMaxPort));
  return host;
}

ClusterEnvironment detect_cluster_environment(const EnvironmentLookup& lookup) {
  const Variables variables(lookup);
  if (variables.has("LEVIN_LAUNCHED")) {
    if (variables.number("LEVIN_LAUNCHED", 1, kNoLimit) == getppid()) return read_levin(variables);
    return {};
  }
  const int torchrun_variables = variables.has("RANK") + variables.has("WORLD_SIZE") + variables.has("LOCAL_RANK");
  if (torchrun_variables == 3) return read_torchrun(variables);
  if ((variables.has("SLURM_NTASKS") || variables.has("SLURM_PROCID")) && !is_interactive_slurm(lookup)) {
    return read_slurm(variables);
  }
  if (variables.has("OMPI_COMM_WORLD_SIZE") || variables.has("OMPI_COMM_WORLD_RANK")) return read_open_mpi(variables);
  // WORLD_SIZE may accompany NODE_RANK, as with Lightning: levin starts the ranks of this host.
  const bool is_host_of_several = variables.has("NODE_RANK") && !variables.has("RANK") && !variables.has("LOCAL_RANK");
  if (torchrun_variables > 0 && !is_host_of_several) {
    variables.require({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}, "torchrun",
                      "Set all of them, or start with torchrun, or unset them to run one process.");
  }
  return {};
}

std::optional<SlurmJob> slurm_job(const EnvironmentLookup& lookup) {
  const auto number = lookup("SLURM_JOB_ID");
  if (!number || is_interactive_slurm(lookup)) return std::nullopt;
  SlurmJob job{*number};
  const auto array = lookup("SLURM_ARRAY_JOB_ID");
  const auto task = lookup("SLURM_ARRAY_TASK_ID");
  if (array && task) job.number = *array + "_" + *task;
  const std::string restarts = lookup("SLURM_RESTART_COUNT").value_or("0");
  std::from_chars(restarts.data(), restarts.data() + restarts.size(), job.restarts);
  return job;
}

void requeue_slurm_job(const std::string& number, std::chrono::milliseconds patience) {
  const auto fail = [&](const std::string& why) {
    throw IoError(format("job {} could not be requeued: scontrol requeue {}", number, why));
  };
  if (number.find_first_not_of("0123456789_") != std::string::npos) fail("takes a job's number");
  const double seconds = std::chrono::duration<double>(patience).count();
  // timeout ends it with all that it has started. The number has digits only.
  // NOLINTNEXTLINE(bugprone-command-processor)
  FILE* const output = popen(format("timeout -s KILL {} scontrol requeue {} 2>&1", seconds, number).c_str(), "re");
  if (output == nullptr) fail(std::strerror(errno));
  std::string said;
  std::array<char, 512> bytes{};
  while (std::feof(output) == 0) {
    // Signals, of which there are some while a job ends, interrupt it.
    std::clearerr(output);
    said.append(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), output));
  }
  const int status = pclose(output);
  const bool is_killed = WIFSIGNALED(status) || WEXITSTATUS(status) == 128 + SIGKILL;
  if (is_killed) fail(format("has not ended within {} s", seconds));
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (status != 0) fail(said.empty() ? "failed" : "says: " + said);
}

}  // namespace levin
