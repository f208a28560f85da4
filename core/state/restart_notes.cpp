#include "levin/core/state/restart_notes.h"

#include <algorithm>

#include "levin/core/console/console.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/state/checkpoint_choice.h"

namespace levin {

namespace fs = std::filesystem;

RestartNotes::RestartNotes(RankGroup& ranks, std::size_t fit, const std::optional<std::string>& earlier)
    : ranks_(ranks), fit_(fit) {
  const std::string stored = earlier ? *earlier : fit > 0 && ranks.rank() == 0 ? ranks.restart_state() : "";
  if (!stored.empty()) fits_ = OptionType<Fits>::read(parse_json(stored));
  // This attempt has stored notes of its earlier fits, and none of this one.
  if (!earlier) fits_.resize(fit);
  fits_.resize(std::max(fits_.size(), fit + 1));
}

std::optional<std::string> RestartNotes::newest_checkpoint() const {
  std::vector<fs::path> files;
  for (const bool alone : {false, true}) {
    for (auto file = fits_[fit_].checkpoints.rbegin(); file != fits_[fit_].checkpoints.rend(); ++file) {
      if (file->alone == alone && is_there(file->file)) files.emplace_back(file->file);
    }
  }
  return first_of_undamaged(files, "the newest", name_of_undamaged);
}

// The text, for each fit of the program:
//     [{"loggers": ["version_3"], "checkpoints": [{"file": "/…/epoch=0-step=8.ckpt", "alone": false}], "restart_steps": [0]}]
void RestartNotes::keep() {
  constexpr std::size_t kFewest = 2;  // one of them may have been written alone
  if (ranks_.rank() != 0) return;
  std::size_t most = 0;
  for (const Fit& fit : fits_) most = std::max(most, fit.checkpoints.size());
  while (!ranks_.store_restart_state(written())) {
    if (most <= kFewest) {
      return Console::instance().warn_once(
          "The notes of this run for an attempt after a failure are too long: such an attempt resumes from an earlier "
          "checkpoint. Use fewer fits in one program, or shorter paths of their folders.");
    }
    most = std::max(kFewest, most / 2);
    for (Fit& fit : fits_) {
      const std::size_t more = fit.checkpoints.size() - std::min(fit.checkpoints.size(), most);
      fit.checkpoints.erase(fit.checkpoints.begin(), fit.checkpoints.begin() + static_cast<std::ptrdiff_t>(more));
    }
  }
}

void RestartNotes::note_loggers(std::vector<std::string> tokens) {
  const std::lock_guard lock(mutex_);
  fits_[fit_].loggers = std::move(tokens);
  keep();
}

void RestartNotes::note_restart(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  fits_[fit_].restart_steps.push_back(step);
  keep();
}

void RestartNotes::note_checkpoint(const fs::path& file, bool alone, bool keeps) {
  if (ranks_.rank() != 0) return;
  // More are not needed: a run that keeps few files has removed the others.
  constexpr std::size_t kMostFiles = 100;
  const std::lock_guard lock(mutex_);
  const std::string path = fs::absolute(file).string();
  std::vector<File>& files = fits_[fit_].checkpoints;
  std::erase_if(files, [&](const File& known) { return known.file == path || !is_there(known.file); });
  files.push_back({path, alone});
  if (files.size() > kMostFiles) files.erase(files.begin());
  if (keeps) keep();
}

}  // namespace levin
