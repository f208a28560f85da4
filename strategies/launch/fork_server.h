#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <vector>

#include "levin/core/files/descriptor.h"
#include "levin/strategies/launch/rank_process.h"

namespace levin {

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

  /// Ends the server, if there is one: no ranks are needed any more.
  void end();

 private:
  ForkServer() = default;

  Descriptor socket_;
  pid_t process_ = 0;
};

}  // namespace levin
