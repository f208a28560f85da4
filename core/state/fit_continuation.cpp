#include "levin/core/state/fit_continuation.h"

#include <cstdio>
#include <map>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/state/checkpoint_choice.h"
#include "levin/core/state/checkpoint_state.h"
#include "levin/core/state/restart_notes.h"

namespace levin {

namespace fs = std::filesystem;

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
  return first_of_undamaged(newest_first, "that of job " + job,
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
