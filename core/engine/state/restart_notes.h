#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/rank_group.h"

namespace levin {

/// What the attempts of a run tell those after them, when the launcher starts all ranks again after a failure: for each fit of
/// the program, in order, where its loggers write and which checkpoints it has written. Rank 0 keeps them.
/// Threading: the thread that trains, but for note_checkpoint(), which BackgroundFiles calls on its own.
class RestartNotes {
 public:
  /// Ranks: all. The next fit of this program begins: takes over what earlier attempts kept, as rank 0 knows it. `from_queue`:
  /// the text of the run whose job has come out of its queue again, which is of use where this is the job's first attempt.
  void begin_fit(RankGroup& ranks, bool comes_from_queue, const std::string& from_queue);
  /// What is kept.
  std::string text() const;

  /// The newest checkpoint that an earlier attempt of this fit has written, and that is there and whole; one that rank 0 wrote
  /// alone, while an error left, only where there is no other. Damaged files are passed over, with a warning.
  std::optional<std::filesystem::path> newest_checkpoint() const;
  /// What Logger::open() of an earlier attempt gave, by logger; empty in the first.
  const std::vector<std::string>& logger_tokens() const { return fit_.loggers; }
  /// Where each attempt of this fit but the first began: a step, 0 for the beginning.
  const std::vector<std::int64_t>& restart_steps() const { return fit_.restart_steps; }

  void note_loggers(RankGroup& ranks, std::vector<std::string> tokens);
  void note_restart(RankGroup& ranks, std::int64_t step);
  /// `alone`: without the states of other ranks.
  void note_checkpoint(RankGroup& ranks, const std::filesystem::path& file, bool alone);
  /// The same without keeping it: for a file that holds these notes itself.
  void add_checkpoint(const std::filesystem::path& file, bool alone);

 private:
  struct File {
    std::string path;
    bool alone = false;
  };
  struct Fit {
    std::vector<std::string> loggers;
    std::vector<File> checkpoints;  ///< the newest last
    std::vector<std::int64_t> restart_steps;
  };
  void add(const std::filesystem::path& file, bool alone);
  std::string written() const;
  void keep(RankGroup& ranks) const;
  static std::vector<Fit> read(const std::string& text);

  mutable std::mutex mutex_;
  std::size_t number_ = 0;    ///< of the fit, from 0
  std::vector<Fit> earlier_;  ///< fits of this program before this one
  Fit fit_;
};

}  // namespace levin
