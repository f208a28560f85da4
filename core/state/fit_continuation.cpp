#include "levin/core/state/fit_continuation.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/state/checkpoint_state.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

std::string text_at(const Value& state, std::string_view key) {
  const Value* text = state.find(key);
  return text != nullptr && text->is_string() ? text->as_string() : "";
}

/// The states of a checkpoint's callbacks, by key.
const Value::Map& states_in(const Value& manifest) {
  static const Value::Map none;
  const Value* callbacks = manifest.find("callbacks");
  return callbacks != nullptr && callbacks->is_map() ? callbacks->as_map() : none;
}

/// The best file of the run's ModelCheckpoints, in the order of its callbacks; those with a monitor first.
std::optional<std::string> best_named_in(const fs::path& file) {
  const Value manifest = Checkpoint::load_manifest(file);
  std::vector<const Value*> states;
  for (const auto& [key, state] : states_in(manifest)) {
    if (!text_at(state, "best_model_path").empty()) states.push_back(&state);
  }
  std::stable_partition(states.begin(), states.end(), [](const Value* one) { return !text_at(*one, "monitor").empty(); });
  if (states.empty()) return std::nullopt;
  fs::path best = text_at(*states.front(), "best_model_path");
  // The run's folder may have been moved since.
  if (const fs::path moved = file.parent_path() / best.filename(); !is_there(best) && is_there(moved)) best = moved;
  if (!is_there(best)) return std::nullopt;
  std::vector<std::string> monitors;
  for (const Value* state : states) monitors.push_back(text_at(*state, "monitor"));
  warn_of_other_monitors(monitors);
  return best.string();
}

/// "val_loss 0.123" of the ModelCheckpoint that wrote this checkpoint; "" without a monitor.
std::string score_of(const Checkpoint& checkpoint) {
  for (const auto& [key, state] : states_in(checkpoint.manifest)) {
    const Value* scores = state.find("best_k_models");
    const Value* score = scores == nullptr ? nullptr : scores->find(text_at(state, "saved_as"));
    if (score != nullptr && score->is_number()) return format("{} {:.4g}", text_at(state, "monitor"), score->as_double());
  }
  return "";
}

/// The name of a checkpoint. Throws IoError where it is damaged.
std::optional<std::string> when_whole(const fs::path& file) {
  Checkpoint::load(file);
  return file.string();
}

/// The first value that `look` gives for one of these files. Damaged files are skipped: a warning names `sought`.
std::optional<std::string> first_in_whole(const std::vector<fs::path>& files, const std::string& sought,
                                          const std::function<std::optional<std::string>(const fs::path&)>& look) {
  for (const fs::path& file : files) {
    try {
      if (auto found = look(file)) return found;
    } catch (const IoError& error) {
      rank_zero_warn(format("Skipping a damaged checkpoint while looking for {}: {}", sought, error.what()));
    }
  }
  return std::nullopt;
}

}  // namespace

void warn_of_other_monitors(const std::vector<std::string>& monitors) {
  std::vector<std::string> others;
  for (const std::string& other : monitors) {
    if (!other.empty() && other != monitors.front()) others.push_back(other);
  }
  if (others.empty()) return;
  rank_zero_warn(
      format("ckpt_path: best is the best by {}, which the run's first ModelCheckpoint monitors; the run also monitors {}, for "
             "whose best give the file.",
             monitors.front(), join(others)));
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

CheckpointChoice read_checkpoint_choice(const std::string& ckpt_path) {
  if (ckpt_path.empty()) throw ConfigError("ckpt_path: it is empty; give a file, the folder of a run, best or last.");
  if (ckpt_path == "best" || ckpt_path == "last") return {{}, ckpt_path};
  if (TensorFile::is_model_folder(ckpt_path)) return {ckpt_path, ""};
  std::error_code ignored;
  if (fs::is_directory(ckpt_path, ignored)) return {ckpt_path, "last"};
  if (is_there(ckpt_path)) return {ckpt_path, ""};
  const std::size_t colon = ckpt_path.rfind(':');
  const std::string which = colon == std::string::npos ? "" : ckpt_path.substr(colon + 1);
  if (which != "best" && which != "last")
    throw ConfigError(format("ckpt_path: there is no file '{}'{}.", ckpt_path, working_folder_of(ckpt_path)));
  const std::string folder = ckpt_path.substr(0, colon);
  if (!fs::is_directory(folder, ignored))
    throw ConfigError(format("ckpt_path: there is no folder '{}' of a run{}.", folder, working_folder_of(folder)));
  return {folder, which};
}

fs::path find_checkpoint(const std::vector<fs::path>& folders, const std::string& which) {
  for (const fs::path& folder : folders) {
    // The newest file is the most reliable; an older one is read if no ModelCheckpoint wrote the newest.
    const auto found =
        first_in_whole(newest_files(folder, ".ckpt"), "'" + which + "'", which == "best" ? best_named_in : when_whole);
    if (found) return *found;
  }
  throw ConfigError(
      format("ckpt_path: '{}' needs a run with checkpoints, and there is none in {}. Give the file, or the folder of a run "
             "(--ckpt_path=logs/version_3:{}).",
             which,
             folders.empty() ? "any folder"
                             : join(folders, ", ", [](const fs::path& folder) { return fs::absolute(folder).string(); }),
             which));
}

std::string checkpoint_summary(const Checkpoint& checkpoint) {
  std::vector<std::string> parts;
  for (const auto& [key, name] : {std::pair("epoch", "epoch"), std::pair("global_step", "step")}) {
    const Value* number = checkpoint.manifest.find(key);
    if (number != nullptr && number->is_int()) parts.push_back(format("{} {}", name, number->as_int()));
  }
  if (const std::string score = score_of(checkpoint); !score.empty()) parts.push_back(score);
  return join(parts);
}

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
  return first_in_whole(files, "the newest", when_whole);
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

namespace {

/// The checkpoints of jobs that went back into a queue, by number.
std::map<int, fs::path> queue_files(const fs::path& folder) {
  std::map<int, fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int number = 0;
    int length = 0;
    std::sscanf(name.c_str(), "hpc_ckpt_%d.ckpt%n", &number, &length);
    if (number > 0 && length == static_cast<int>(name.size())) files[number] = entry->path();
  }
  return files;
}

std::optional<std::string> notes_in(const Checkpoint& checkpoint, const std::string& job) {
  const Value* queued = checkpoint.manifest.find("queued_job");
  if (queued == nullptr || queued->at("number").as_string() != job) return std::nullopt;
  return queued->at("notes").as_string();
}

/// The notes in the newest whole file of this job; "" if there is none.
std::string notes_from_queue(const fs::path& folder, const std::string& job) {
  std::vector<fs::path> newest_first;
  for (const auto& [number, file] : queue_files(folder)) newest_first.insert(newest_first.begin(), file);
  return first_in_whole(newest_first, "that of job " + job,
                        [&](const fs::path& file) { return notes_in(Checkpoint::load(file), job); })
      .value_or("");
}

}  // namespace

std::optional<std::string> FitContinuation::checkpoint(const std::optional<std::string>& given) {
  std::optional<std::string> earlier;
  if (resumes()) {
    std::string own = run_.is_global_zero() ? ranks().restart_state() : "";
    if (own.empty() && comes_from_queue() && run_.is_global_zero()) {
      own = notes_from_queue(run_.trainer.default_root_dir(), ranks().batch_job()->number);
    }
    // Other hosts have no notes, and all ranks must resume from the same checkpoint.
    earlier = run_.rank_exchange().broadcast_text(own, {"reading the notes of earlier attempts", "every fit begins with it"});
  }
  run_.resume.notes = std::make_shared<RestartNotes>(ranks(), static_cast<std::size_t>(run_.progress.fit), earlier);
  if (!earlier) return given;
  const auto file = run_.is_global_zero() ? run_.resume.notes->newest_checkpoint() : std::nullopt;
  const ExchangeSite site("choosing a checkpoint to resume from", "all ranks have been started again");
  const std::string path = run_.rank_exchange().broadcast_text(file.value_or(""), site);
  if (!path.empty()) return path;
  rank_zero_info("No whole checkpoint was written before: fit starts again from ", given ? *given : "the beginning");
  return given;
}

void FitContinuation::add_to(Value& hyperparams) {
  if (!resumes()) return;
  run_.resume.notes->note_restart(run_.progress.global_step);
  const auto& steps = run_.resume.notes->restart_steps();
  hyperparams["restarted_at_steps"] = Value::List(steps.begin(), steps.end());
}

void FitContinuation::save_for_queue() {
  const auto job = ranks().batch_job();
  if (!job || !run_.options().process.requeues_on(run_.wishes.signal()) || !run_.is_global_zero()) return;
  const fs::path folder = run_.trainer.default_root_dir();
  const auto files = queue_files(folder);
  const fs::path file = folder / format("hpc_ckpt_{}.ckpt", files.empty() ? 1 : files.rbegin()->first + 1);
  run_.resume.queued_job = job->number;
  run_.resume.notes->note_checkpoint(file, /*alone=*/false, /*keep=*/false);
  save_run(run_, file, {});
  saved_ = file;
  rank_zero_info("Saved ", as_typed(file), ", from which job ", job->number, " resumes when it leaves the queue again");
}

void FitContinuation::go_back_to_queue() {
  const auto job = ranks().batch_job();
  if (!saved_ || !job) return;
  try {
    ranks().requeue(*job);
    rank_zero_info("Job ", job->number, " went back into the queue of ", job->scheduler);
  } catch (const IoError& error) {
    Console::instance().error(format("{}. Start it again with --ckpt_path={}", error.what(), saved_->string()));
  }
}

void FitContinuation::forget_queue() {
  if (!comes_from_queue() || !run_.is_global_zero()) return;
  for (const auto& [number, file] : queue_files(run_.trainer.default_root_dir())) {
    std::error_code ignored;
    try {
      if (notes_in(Checkpoint::load(file), ranks().batch_job()->number)) fs::remove(file, ignored);
    } catch (const IoError&) {
      // A damaged file may belong to another job.
    }
  }
}

}  // namespace levin
