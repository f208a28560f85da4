#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// For programs with a main() of their own: ranks that the Trainer starts (`devices: N`) begin with this call, in a copy of
/// this process as it is now, and need not load the program and LibTorch again, which takes most of their start. Without it
/// they begin with main(), and what comes before the Trainer is done in each of them either way. The levin program has it.
///
/// Call it first in main(), before threads are started and files opened. True in such a rank, whose environment then says which
/// it is; false in the process that the user started, and where ranks cannot begin here: they then begin with main().
LEVIN_API bool start_ranks_here();

/// The number of the levin::launch() in whose ranks this process is one; unset where levin has not started it as a rank.
LEVIN_API std::optional<int> launch_of_this_rank();

/// Lets the console carry this process's rank from here on, before a Trainer exists: the rank that a launcher's variables tell.
/// Without a launcher, or with variables that make no sense, nothing changes; the Trainer says what is wrong with them.
LEVIN_API void introduce_rank();

struct ClusterEnvironment;

/// The texts that tell a program what to run, such as its configuration files. The process that the user started reads them;
/// the ranks that it starts get what it read: a pipe gives its text only once, and a file may have changed meanwhile.
/// Threading: from one thread, and not while ranks are started.
class LEVIN_API RunInputs {
 public:
  /// Those of this process. Throws IoError when what the launcher handed down cannot be read.
  static RunInputs& instance();
  /// Those that the launcher of `environment` handed down; none without one of ours.
  explicit RunInputs(const ClusterEnvironment& environment);

  /// What the launcher read under that name; the first time the first text of that name, then the next. Nothing when it read
  /// none, and outside of our launcher's ranks.
  std::optional<std::string> take(const std::string& name);
  /// Keeps a text that this process has read, for ranks and for find().
  void keep(const std::string& name, std::string text);
  /// The text last read or taken under that name, to show a line of it.
  std::optional<std::string> find(const std::string& name) const;

  /// What was kept, as a file without a name for ranks to inherit; it belongs to the caller. Nothing when nothing was kept.
  /// Throws IoError.
  std::optional<int> to_file() const;

 private:
  using Texts = std::vector<std::pair<std::string, std::string>>;
  Texts handed_down_;
  Texts read_;
};

}  // namespace levin
