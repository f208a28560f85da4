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

/// One rank as its launcher places it. Plain bytes: the ForkServer is sent one.
struct RankPlace {
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
  int store = -1;   ///< see inherited_address(); none where ranks of several hosts meet at a port
  int inputs = -1;  ///< see RunInputs
};

/// A copy of this process as it is when its libraries are loaded and nothing of it has run. Ranks that it makes begin there, as
/// if the program had been started again: but they do not load it again, and loading LibTorch takes most of a rank's start.
/// The name and the idea are those of Python's multiprocessing. One in a process. Threading: the main thread.
class ForkServer {
 public:
  static ForkServer& instance();

  /// First of all in main(), before anything that shall happen in each rank. Comes back with false in this process and, when it
  /// has made ranks, with true in each of them: the environment is then that of a rank. Without a server, and false, where this
  /// process is a rank already, has other threads, or cannot fork.
  bool start();

  /// Makes ranks of this process, with what `files_of` gives for each: their processes, in order. Nothing where no server
  /// runs, or where it cannot do it; then no rank is left behind, and no server. `places`: by local rank.
  std::optional<std::vector<pid_t>> make_ranks(const std::vector<RankPlace>& places,
                                               const std::function<InheritedFiles(const RankPlace&)>& files_of);

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

/// Starts this program once for each place with its own arguments: by the ForkServer where one runs, otherwise from its file.
/// `places`: of this host, by local rank. `restart_state`: of an earlier attempt. The processes are killed by the kernel when
/// the calling thread ends. Throws IoError, with no process left behind.
StartedRanks start_ranks(const std::vector<RankPlace>& places, std::string_view restart_state = {});

}  // namespace levin
