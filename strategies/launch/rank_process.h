#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "levin/core/files/descriptor.h"
#include "levin/strategies/host/run_segment.h"

namespace levin {

/// The position that a launcher gives a rank. Plain bytes: it is sent to the ForkServer.
struct RankSpec {
  std::int32_t local_rank = 0;
  std::int32_t local_ranks = 1;
  std::int32_t host = 0;
  std::int32_t hosts = 1;
  std::int32_t device = 0;    ///< which of the devices of this host: its local rank's, unless devices are gone
  std::int32_t restarts = 0;  ///< how often the run has been started again
  std::int32_t call = 0;      ///< see LaunchPermit

  int rank() const { return host * local_ranks + local_rank; }
  int world_size() const { return hosts * local_ranks; }
};

/// Open files that ranks inherit; -1 is none.
struct InheritedFiles {
  int segment = -1;
  int store = -1;   ///< see inherited_address(); none if ranks of several hosts connect at a port
  int inputs = -1;  ///< see RunInputs
};

/// A copy of this process from when its libraries are loaded and nothing of it has run. Ranks that it makes start there, as if
/// the program had been started again, without loading LibTorch, which takes most of a rank's start. The name and the idea are
/// from Python's multiprocessing. One in a process. Threading: the main thread.
class ForkServer {
 public:
  static ForkServer& instance();

  /// Called: first in main(), before code that each rank must run. Returns false in this process and, when it has made ranks,
  /// true in each of them, with the environment of a rank. Returns false without a server in a process that is a rank already,
  /// has other threads, or cannot fork.
  bool start();

  /// Makes ranks of this process, with the files of `files_of` for each. Returns their processes, in order; unset without a
  /// server, or on failure, which leaves no rank and no server. `specs`: by local rank.
  std::optional<std::vector<pid_t>> make_ranks(const std::vector<RankSpec>& specs,
                                               const std::function<InheritedFiles(const RankSpec&)>& files_of);

  /// Ends the server, if there is one: no more ranks are needed.
  void end();

 private:
  ForkServer() = default;

  Descriptor socket_;
  pid_t process_ = 0;
};

/// The ranks that a launcher has started, and the memory it shares with them.
struct StartedRanks {
  std::shared_ptr<RunSegment> segment;
  std::vector<pid_t> processes;  ///< by local rank
};

/// Starts this program once for each spec with its own arguments: by the ForkServer where one runs, otherwise from its file.
/// `specs`: of this host, by local rank. `restart_state`: of an earlier attempt. The processes are killed by the kernel when
/// the calling thread ends. Throws IoError, with no process left behind.
StartedRanks start_ranks(const std::vector<RankSpec>& specs, std::string_view restart_state = {});

}  // namespace levin
