#include "levin/core/engine/state/restart_notes.h"

#include <algorithm>
#include <atomic>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/console/console.h"
#include "levin/core/options/value_json.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

namespace {

/// More are not needed: of a run that keeps few files, the others are gone.
constexpr std::size_t kMostFiles = 100;

bool still_there(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

Value texts(const std::vector<std::string>& list) {
  Value value(Value::List{});
  for (const std::string& text : list) value.push_back(text);
  return value;
}

}  // namespace

std::vector<RestartNotes::Fit> RestartNotes::read(const std::string& text) {
  std::vector<Fit> fits;
  if (text.empty()) return fits;
  const Value notes = parse_json(text);
  for (const Value& saved : notes.as_list()) {
    Fit& fit = fits.emplace_back();
    for (const Value& token : saved.at("loggers").as_list()) fit.loggers.push_back(token.as_string());
    for (const Value& file : saved.at("checkpoints").as_list()) {
      fit.checkpoints.push_back({file.at("file").as_string(), file.at("alone").as_bool()});
    }
    for (const Value& step : saved.at("restart_steps").as_list()) fit.restart_steps.push_back(step.as_int());
  }
  return fits;
}

void RestartNotes::begin_fit(RankGroup& ranks, bool comes_from_queue, const std::string& from_queue) {
  static std::atomic<std::size_t> fits_begun = 0;
  number_ = fits_begun++;
  fit_ = {};
  earlier_ = {};
  if (ranks.restarts() == 0 && !comes_from_queue) {
    if (number_ > 0 && ranks.rank() == 0) earlier_ = read(ranks.kept_for_restarts());
    return;
  }
  // Other hosts have no notes of their own, and all ranks must go on from one checkpoint.
  std::string text = ranks.rank() == 0 ? ranks.kept_for_restarts() : "";
  if (text.empty()) text = from_queue;
  text = RankExchange(ranks.control_group())
             .broadcast_text(text, {"reading what earlier attempts kept", "every fit begins with it"});
  std::vector<Fit> fits = read(text);
  fits.resize(std::max(fits.size(), number_ + 1));
  fit_ = fits[number_];
  earlier_ = std::move(fits);
}

std::optional<std::filesystem::path> RestartNotes::newest_checkpoint() const {
  for (const bool alone : {false, true}) {
    for (auto file = fit_.checkpoints.rbegin(); file != fit_.checkpoints.rend(); ++file) {
      if (file->alone != alone || !still_there(file->path)) continue;
      try {
        Checkpoint::load(file->path);
        return file->path;
      } catch (const IoError& error) {
        rank_zero_warn(format("Skipping a damaged checkpoint while looking for the newest: {}", error.what()));
      }
    }
  }
  return std::nullopt;
}

void RestartNotes::note_loggers(RankGroup& ranks, std::vector<std::string> tokens) {
  const std::lock_guard lock(mutex_);
  fit_.loggers = std::move(tokens);
  keep(ranks);
}

void RestartNotes::note_restart(RankGroup& ranks, std::int64_t step) {
  const std::lock_guard lock(mutex_);
  fit_.restart_steps.push_back(step);
  keep(ranks);
}

void RestartNotes::note_checkpoint(RankGroup& ranks, const std::filesystem::path& file, bool alone) {
  if (ranks.rank() != 0) return;
  const std::lock_guard lock(mutex_);
  add(file, alone);
  keep(ranks);
}

void RestartNotes::add_checkpoint(const std::filesystem::path& file, bool alone) {
  const std::lock_guard lock(mutex_);
  add(file, alone);
}

void RestartNotes::add(const std::filesystem::path& file, bool alone) {
  const std::string path = std::filesystem::absolute(file).string();
  std::erase_if(fit_.checkpoints, [&](const File& known) { return known.path == path || !still_there(known.path); });
  fit_.checkpoints.push_back({path, alone});
  if (fit_.checkpoints.size() > kMostFiles) fit_.checkpoints.erase(fit_.checkpoints.begin());
}

std::string RestartNotes::text() const {
  const std::lock_guard lock(mutex_);
  return written();
}

std::string RestartNotes::written() const {
  std::vector<Fit> fits = earlier_;
  fits.resize(std::max(fits.size(), number_ + 1));
  fits[number_] = fit_;
  Value notes(Value::List{});
  for (const Fit& fit : fits) {
    Value saved(Value::Map{});
    saved["loggers"] = texts(fit.loggers);
    Value files(Value::List{});
    for (const File& file : fit.checkpoints) {
      files.push_back(Value(Value::Map{{"file", Value(file.path)}, {"alone", Value(file.alone)}}));
    }
    saved["checkpoints"] = std::move(files);
    Value steps(Value::List{});
    for (const std::int64_t step : fit.restart_steps) steps.push_back(step);
    saved["restart_steps"] = std::move(steps);
    notes.push_back(std::move(saved));
  }
  return to_json(notes);
}

void RestartNotes::keep(RankGroup& ranks) const {
  if (ranks.rank() == 0) ranks.keep_for_restarts(written());
}

}  // namespace levin
