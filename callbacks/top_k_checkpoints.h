#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace levin {

/// Which checkpoint files are among the k best, by score. Plain bookkeeping: it touches no file.
/// A NaN counts as the worst score there is; equal scores do not evict one another.
class TopKCheckpoints {
 public:
  /// k -1: keep all; 0: none.
  TopKCheckpoints(std::int64_t k, bool minimize);

  /// True when a checkpoint of this score belongs to the k best.
  bool accepts(double score) const { return k_ != 0 && (!full() || better(score, kth_value())); }
  /// The file that has to make room for the next accepted one; nothing while there is room.
  std::optional<std::string> next_evicted() const { return full() ? std::optional(kth_file()) : std::nullopt; }
  /// Adds an accepted checkpoint, which replaces next_evicted(). A file that is known already gets the new score.
  void add(const std::string& file, double score);

  /// Files and scores, oldest first.
  const std::vector<std::pair<std::string, double>>& files() const { return files_; }
  /// The best file and its score; nothing when there is none.
  std::optional<std::pair<std::string, double>> best() const;
  /// The worst of the k best once there are k: what a new score has to beat. Empty and infinite before.
  std::string kth_file() const { return has_kth() ? worst()->first : ""; }
  double kth_value() const { return has_kth() ? worst()->second : worst_possible_; }

  /// Restores what files() gave, maybe of another k. Gives the files that are not among the k best, the worst first.
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
