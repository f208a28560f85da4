#include "levin/core/engine/run/fit_continuation.h"

#include <charconv>
#include <csignal>
#include <map>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/resume/checkpoint_state.h"
#include "levin/core/files/paths.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

std::optional<std::string> FitContinuation::checkpoint(const std::optional<std::string>& given) {
  RestartNotes& notes = run_.resume.notes;
  RankGroup& ranks = run_.strategy().ranks();
  const auto own_job = job();
  std::string from_queue;
  const bool comes_from_queue = own_job && own_job->restarts > 0;
  if (comes_from_queue && run_.is_global_zero()) {
    from_queue = notes_from_queue(run_.trainer.default_root_dir(), own_job->number);
  }
  notes.begin_fit(ranks, comes_from_queue, from_queue);
  if (ranks.restarts() == 0 && !comes_from_queue) return given;
  const auto file = run_.is_global_zero() ? notes.newest_checkpoint() : std::nullopt;
  const Meeting meeting("choosing where to go on", "all ranks have been started again");
  const std::string path = RankExchange(ranks.control_group()).broadcast_text(file ? file->string() : "", meeting);
  if (!path.empty()) return path;
  rank_zero_info("No whole checkpoint was written before: fit starts again from ", given ? *given : "the beginning");
  return given;
}

void FitContinuation::add_to(Value& hyperparams) {
  RankGroup& ranks = run_.strategy().ranks();
  const auto own_job = job();
  if (ranks.restarts() == 0 && (!own_job || own_job->restarts == 0)) return;
  run_.resume.notes.note_restart(ranks, run_.progress.global_step);
  Value steps(Value::List{});
  for (const std::int64_t step : run_.resume.notes.restart_steps()) steps.push_back(step);
  hyperparams["restarted_at_steps"] = std::move(steps);
}

void FitContinuation::save_for_queue() {
  const auto own_job = job();
  if (!own_job || run_.stop.signal() != SIGUSR1 || !run_.is_global_zero()) return;
  const std::filesystem::path file = next_queue_file(run_.trainer.default_root_dir());
  run_.resume.queued_job = own_job->number;
  run_.resume.notes.add_checkpoint(file, /*alone=*/false);
  save_run(run_, file, {});
  saved_ = file;
  rank_zero_info("Saved ", as_typed(file), ", with which job ", own_job->number,
                 " goes on when it comes out of the queue again");
}

void FitContinuation::go_back_to_queue() {
  const auto own_job = job();
  if (!saved_ || !own_job) return;
  try {
    run_.strategy().ranks().requeue(*own_job);
    rank_zero_info("Job ", own_job->number, " went back into the queue of ", own_job->scheduler);
  } catch (const IoError& error) {
    Console::instance().error(format("{}. Start it again with --ckpt_path={}", error.what(), saved_->string()));
  }
}

void FitContinuation::forget_queue() {
  if (const auto own_job = job(); own_job && own_job->restarts > 0 && run_.is_global_zero()) {
    remove_queue_files(run_.trainer.default_root_dir(), own_job->number);
  }
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "hpc_ckpt_";
constexpr std::string_view kEnd = ".ckpt";

/// By number.
std::map<int, fs::path> queue_files(const fs::path& folder) {
  std::map<int, fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
    const char* const last = name.data() + name.size() - kEnd.size();
    int number = 0;
    const auto [stop, problem] = std::from_chars(name.data() + kBegin.size(), last, number);
    if (problem == std::errc() && stop == last && number > 0) files[number] = entry->path();
  }
  return files;
}

/// The notes, when the file is of that job.
std::string notes_in(const fs::path& file, const std::string& job) {
  const Checkpoint checkpoint = Checkpoint::load(file);
  const Value* queued = checkpoint.manifest.find("queued_job");
  if (queued == nullptr || queued->at("number").as_string() != job) return "";
  return queued->at("notes").as_string();
}

}  // namespace

fs::path next_queue_file(const fs::path& folder) {
  const auto files = queue_files(folder);
  const int number = files.empty() ? 1 : files.rbegin()->first + 1;
  return folder / format("{}{}{}", kBegin, number, kEnd);
}

std::string notes_from_queue(const fs::path& folder, const std::string& job) {
  const auto files = queue_files(folder);
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    try {
      if (std::string notes = notes_in(file->second, job); !notes.empty()) return notes;
    } catch (const IoError& error) {
      rank_zero_warn(format("Skipping a damaged checkpoint of job {}: {}", job, error.what()));
    }
  }
  return "";
}

void remove_queue_files(const fs::path& folder, const std::string& job) {
  for (const auto& [number, file] : queue_files(folder)) {
    std::error_code ignored;
    try {
      if (!notes_in(file, job).empty()) fs::remove(file, ignored);
    } catch (const IoError&) {
      // A damaged one may be of another job.
    }
  }
}

}  // namespace levin
