#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace levin {

struct ModelCheckpointOptions;

/// Which checkpoint files are among the k best, by score. Plain bookkeeping: it touches no file.
/// A NaN counts as the worst score there is; equal scores do not displace one another.
class TopKCheckpoints {
 public:
  /// k -1: keep all; 0: none.
  TopKCheckpoints(std::int64_t k, bool minimize);

  /// True when a checkpoint of this score belongs to the k best.
  bool accepts(double score) const { return k_ != 0 && (!full() || better(score, kth_value())); }
  /// The file that has to make room for the next accepted one; nothing while there is room.
  std::optional<std::string> next_displaced() const { return full() ? std::optional(kth_file()) : std::nullopt; }
  /// Adds an accepted checkpoint, in place of next_displaced(). A file that is known already gets the new score.
  void add(const std::string& file, double score);

  /// Files and scores, oldest first.
  const std::vector<std::pair<std::string, double>>& files() const { return files_; }
  /// The best file and its score; nothing when there is none.
  std::optional<std::pair<std::string, double>> best() const;
  /// The worst of the k best once there are k: what a new score has to beat. Empty and infinite before.
  std::string kth_file() const { return has_kth() ? worst()->first : ""; }
  double kth_value() const { return has_kth() ? worst()->second : worst_possible_; }

  /// Goes on from what files() gave, maybe of another k. Gives the files that are not among the k best, the worst first.
  std::vector<std::string> restore(std::vector<std::pair<std::string, double>> files);

 private:
  bool better(double left, double right) const { return minimize_ ? left < right : left > right; }
  bool has_kth() const { return !files_.empty() && (k_ == -1 || full()); }
  bool full() const { return k_ > 0 && files_.size() >= static_cast<std::size_t>(k_); }

  /// Of equal ones the oldest. There is a file.
  std::vector<std::pair<std::string, double>>::const_iterator worst() const;

  std::int64_t k_;
  bool minimize_;
  double worst_possible_;
  std::vector<std::pair<std::string, double>> files_;
};

}  // namespace levin

namespace levin::detail {

/// The name of a checkpoint when nothing else is said.
inline constexpr const char* kDefaultName = "{epoch}-{step}";

/// The name that a ModelCheckpoint gives its files: its own, or that.
std::string name_of_files(const ModelCheckpointOptions& options);

/// Throws ConfigError when two ModelCheckpoints would write the same files, one in the other's place.
void check_files(const ModelCheckpointOptions& left, const ModelCheckpointOptions& right);

/// The folder as an absolute path; it need not exist. A leading "~" is the user's home.
std::string absolute_folder(const std::filesystem::path& folder);

/// Makes `link` point to `target`, in one step: at any instant the old or the new link is there. Throws IoError.
void link_checkpoint(const std::string& target, const std::string& link);

/// Removes a checkpoint that levin wrote into `folder` or a folder below it, or a link that link_checkpoint() made there. Any
/// other file, wherever its path leads, stays, with a warning; so does what cannot be removed.
void remove_checkpoint(const std::string& file, const std::string& folder);

}  // namespace levin::detail
