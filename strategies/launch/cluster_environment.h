#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace levin {

/// The launcher that started this process as one rank of several.
enum class ClusterKind { kNone, kLevin, kTorchrun, kSlurm, kOpenMpi };

/// "no launcher", "levin", "torchrun", "Slurm", "Open MPI".
const char* cluster_kind_name(ClusterKind kind);

/// This process's position in a run, from environment variables. Without a launcher: rank 0 of 1.
struct ClusterEnvironment {
  ClusterKind kind = ClusterKind::kNone;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;                               ///< among the ranks of this host
  int node_rank = 0;                                ///< the host, if the launcher reports it
  std::string master_address = "127.0.0.1";         ///< where rank 0, or the launcher, serves the store
  int master_port = 0;                              ///< 0: world_size is 1, or levin's launcher
  std::optional<std::string> agent_store_key = {};  ///< set: our key prefix in the store that the launcher serves
  std::optional<int> shared_memory_fd = {};         ///< kLevin: the inherited segment of this host's ranks
  std::optional<int> inputs_fd = {};                ///< kLevin: the inherited file of RunInputs, where the launcher read any
  /// kLevin: this rank's end of inherited sockets, see inherited_address(); unset: ranks connect at MASTER_PORT.
  std::optional<int> store_fd = {};
  int device = 0;                            ///< kLevin: which of this host's devices
  int restarts = 0;                          ///< how often all ranks have been started again
  std::optional<int> local_world_size = {};  ///< ranks per host, if the launcher reports it
};

/// The value of an environment variable; unset when it is not set or empty.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

/// Reads, in this order: levin's own launcher, torchrun (RANK, WORLD_SIZE, LOCAL_RANK, GROUP_RANK, MASTER_ADDR, MASTER_PORT),
/// Slurm (SLURM_NTASKS, SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_NODELIST; not in a job named bash or interactive),
/// Open MPI (OMPI_COMM_WORLD_SIZE, _RANK, _LOCAL_RANK, _LOCAL_SIZE); otherwise a single process. A program that a levin rank
/// starts is not itself a rank: the launcher's variables count in the launcher's own children only. Throws a ConfigError that
/// names the variables when they are only partly set, contradict one another or are not numbers in range.
ClusterEnvironment detect_cluster_environment(const EnvironmentLookup& lookup = process_environment);

/// The same for optional use; unset when the variables are wrong, which their user reports.
std::optional<ClusterEnvironment> find_cluster_environment();

/// This host's number among `hosts` that each start `local_ranks` ranks, without a launcher, from NODE_RANK (or GROUP_RANK),
/// MASTER_ADDR and MASTER_PORT, as with Lightning. Throws a ConfigError that names the variables when one is missing, they
/// contradict the request, or are not numbers in range.
int detect_node_rank(int hosts, int local_ranks, const EnvironmentLookup& lookup = process_environment);

/// The first host of a Slurm node list: "node[07-09,12],login" gives "node07".
std::string first_slurm_host(const std::string& node_list);

/// A Slurm job.
struct SlurmJob {
  std::string number;  ///< "123", or "123_4" of an array
  int restarts = 0;    ///< the number of requeues
};

/// The job of this process; unset outside of Slurm and in an interactive job, which is not requeued.
std::optional<SlurmJob> slurm_job(const EnvironmentLookup& lookup = process_environment);

/// Requeues the job with `scontrol requeue`; Slurm then ends its processes. Throws IoError with scontrol's output, or when it
/// has not ended within `patience`, after which it is killed.
void requeue_slurm_job(const std::string& number, std::chrono::milliseconds patience = std::chrono::seconds(30));

}  // namespace levin
