#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/config/options.h"
#include "levin/core/config/value_json.h"
#include "levin/core/rank_group.h"

namespace levin {

/// What an attempt of a run passes on to the next one, when the run is started again after a failure: for each fit of the
/// program, in order, where its loggers write and which checkpoints it has. Rank 0 stores it. Threading: the training thread;
/// note_checkpoint() also the thread of BackgroundFiles.
class RestartNotes {
 public:
  /// A fit begins. `earlier`: the notes of earlier attempts, from rank 0; unset in the first.
  RestartNotes(RankGroup& ranks, std::size_t fit, const std::optional<std::string>& earlier);
  /// The notes as they are stored.
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return written();
  }

  /// The newest whole checkpoint of earlier attempts of this fit; one that rank 0 wrote alone after an error only if there is
  /// no other. Damaged files are skipped with a warning.
  std::optional<std::string> newest_checkpoint() const;
  /// What Logger::open() of an earlier attempt returned, by logger; empty in the first.
  const std::vector<std::string>& logger_tokens() const { return fits_[fit_].loggers; }
  /// The step at which each attempt of this fit but the first began; 0 for the beginning.
  const std::vector<std::int64_t>& restart_steps() const { return fits_[fit_].restart_steps; }

  void note_loggers(std::vector<std::string> tokens);
  void note_restart(std::int64_t step);
  /// `alone`: without the states of other ranks. `keep`: false for a file that contains these notes itself.
  void note_checkpoint(const std::filesystem::path& file, bool alone, bool keep = true);

 private:
  struct File {
    std::string file;
    bool alone = false;
  };
  struct Fit {
    std::vector<std::string> loggers;
    std::vector<File> checkpoints;  ///< oldest first
    std::vector<std::int64_t> restart_steps;
  };
  using Fits = std::vector<Fit>;
  std::string written() const { return to_json(OptionType<Fits>::write(fits_)); }
  /// Stores them for later attempts; for many fits with long paths, only the newest checkpoints of each.
  void keep();

  RankGroup& ranks_;
  std::size_t fit_;
  mutable std::mutex mutex_;
  Fits fits_;
};

}  // namespace levin
