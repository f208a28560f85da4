#pragma once

#include <optional>
#include <string>

namespace levin {

/// What the attempts of a run tell those after them: the text that was kept last. It lies in memory without a name, which the
/// launcher makes and every attempt's ranks inherit; rank 0 alone writes, and may be killed at any instant of it.
class AttemptNotes {
 public:
  /// A text may be as long as this; a longer one is not kept.
  static constexpr std::size_t kLongest = 64 * 1024;

  /// New memory, in which nothing is kept; the descriptor is closed on exec and belongs to the caller. Throws IoError.
  static int make();

  explicit AttemptNotes(int descriptor) : descriptor_(descriptor) {}
  /// "" when nothing was kept.
  std::string read() const;
  void write(const std::string& text) const;

 private:
  int descriptor_;
};

}  // namespace levin
