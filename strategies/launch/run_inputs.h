#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

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
