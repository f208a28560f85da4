#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "levin/cli/sweep/search_space.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// One run of a sweep, or, with halving, several that resume one another.
struct Trial {
  std::size_t number = 0;
  Assignment values;
  std::string status = "waiting";  ///< or "running", "finished", "failed", "interrupted"
  /// The best value of the metric after each rung that has ended; none where it had no finite value.
  std::vector<std::optional<double>> scores;
  double seconds = 0;        ///< in all rungs
  std::string failure = {};  ///< the last lines of a failed trial's output

  std::string name() const;  ///< "trial_007"
  std::optional<double> score() const { return scores.empty() ? std::nullopt : scores.back(); }
  bool has_failed() const { return status == "failed"; }
};

/// A sweep as `sweep.json` in its folder has it.
struct SweepState {
  std::filesystem::path folder;
  std::vector<std::string> arguments;  ///< of `levin fit`, without what trials add; secrets stay in memory
  std::string monitor;                 ///< the metric; empty: trials are not compared
  bool maximize = false;
  /// Each rung trains the best third of the trials of the one before, up to so many epochs. Without halving there is one, of 0:
  /// as many epochs as the configuration says.
  std::vector<std::int64_t> rungs = {0};
  Value sampler = {};     ///< what gives trials their values when they start (OptunaSampler::settings()); null: they have them
  Value begun_with = {};  ///< the options that it was started with, also when it resumes: random, seed, sampler, halving
  std::vector<Trial> trials;

  std::filesystem::path folder_of(const Trial& trial) const { return folder / trial.name(); }
  bool is_better(double one, double other) const { return maximize ? one > other : one < other; }
  /// The trials, by index, the best first: those without a metric are behind the others, in the order of their numbers.
  std::vector<std::size_t> ranking() const;
  /// The trials of a rung, by index, in the order of their numbers: those of the first are all, and of a later one the best
  /// third of those that have ended the one before.
  std::vector<std::size_t> participants(std::size_t rung) const;

  /// Writes sweep.json, whole or not at all. Throws IoError.
  void write() const;
  /// Reads a sweep. Throws IoError where the folder is not a sweep's, or its file is damaged.
  static SweepState read(const std::filesystem::path& folder);
};

/// The rungs of a sweep of so many trials that end with `epochs`: each has three times the epochs of the one before and a third
/// of its trials, down to one trial or one epoch.
std::vector<std::int64_t> halving_rungs(std::size_t trials, std::int64_t epochs);

}  // namespace levin::cli
