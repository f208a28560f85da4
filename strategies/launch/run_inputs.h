#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

struct ClusterEnvironment;

/// The input texts of a program, such as its configuration files. The process that the user started reads them and passes them
/// to its ranks, because a pipe can be read only once, and a file may change. Threading: any.
class LEVIN_API RunInputs {
 public:
  /// The inputs of this process. Throws IoError when it cannot read those of the launcher.
  static RunInputs& instance();
  /// The inputs from the launcher of `environment`; none without levin's launcher.
  explicit RunInputs(const ClusterEnvironment& environment);

  /// The launcher's next text of that name. Unset when there is none, and outside of ranks of levin's launcher.
  std::optional<std::string> take(const std::string& name);
  /// Stores a text that this process has read, for ranks and for find().
  void keep(const std::string& name, std::string text);
  /// The last text of that name, to show a line of it.
  std::optional<std::string> find(const std::string& name) const;

  /// The stored texts as a nameless file for ranks to inherit; the caller owns the descriptor. Unset when there are none.
  /// Throws IoError.
  std::optional<int> to_file() const;

 private:
  using Texts = std::vector<std::pair<std::string, std::string>>;
  mutable std::mutex mutex_;
  Texts handed_down_;
  Texts read_;
};

}  // namespace levin
