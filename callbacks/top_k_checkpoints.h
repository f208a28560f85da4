#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace levin {

/// Which checkpoint files are among the k best, by score. Plain bookkeeping: it touches no file.
/// A NaN counts as the worst score there is; equal scores do not displace one another.
class TopKCheckpoints {
 public:
  /// k -1: keep all; 0: none.
  TopKCheckpoints(std::int64_t k, bool minimize);

  /// True when a checkpoint of this score belongs to the k best.
  bool accepts(double score) const;
  /// The file that has to make room for the next accepted one; nothing while there is room.
  std::optional<std::string> next_displaced() const;
  /// Adds an accepted checkpoint, in place of next_displaced(). A file that is known already gets the new score.
  void add(const std::string& file, double score);

  /// Files and scores, oldest first.
  const std::vector<std::pair<std::string, double>>& files() const { return files_; }
  /// The best file and its score; nothing when there is none.
  std::optional<std::pair<std::string, double>> best() const;
  /// The worst of the k best once there are k: what a new score has to beat. Empty and infinite before.
  const std::string& kth_file() const { return kth_file_; }
  double kth_value() const { return kth_value_; }

  /// Goes on from what files() gave, maybe of another k. Gives the files that are not among the k best, the worst first.
  std::vector<std::string> restore(std::vector<std::pair<std::string, double>> files);

 private:
  bool better(double left, double right) const { return minimize_ ? left < right : left > right; }
  bool full() const { return k_ > 0 && files_.size() >= static_cast<std::size_t>(k_); }

  /// Of equal ones the oldest. There is a file.
  std::vector<std::pair<std::string, double>>::const_iterator worst() const;
  void find_kth();

  std::int64_t k_;
  bool minimize_;
  double worst_possible_;
  std::vector<std::pair<std::string, double>> files_;
  std::string kth_file_;
  double kth_value_;
};

}  // namespace levin
