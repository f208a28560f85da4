#include "levin/cli/sweep/trial_runner.h"

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "levin/cli/config/shell_words.h"
#include "levin/cli/runs/run_record.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/file_bytes.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// The newest complete run in a trial's folder, if there is one.
std::optional<RunRecord> newest_run(const fs::path& folder) try {
  std::vector<RunRecord> runs = find_run_records({folder}, RunDetail::kState);
  std::erase_if(runs, [](const RunRecord& run) { return run.status != "finished"; });
  return runs.empty() ? std::nullopt : std::optional(std::move(runs.back()));
} catch (const IoError&) {
  return std::nullopt;
}

/// Gives a finished trial its score in this rung.
void score(const SweepState& sweep, Trial& trial) {
  trial.scores.emplace_back();
  trial.failure.clear();
  if (sweep.monitor.empty()) return;
  const std::optional<RunRecord> run = newest_run(sweep.folder_of(trial));
  const RunSummary summary = run ? run->summary : RunSummary{};
  if (const auto metric = summary.metrics.find(sweep.monitor); metric != summary.metrics.end()) {
    trial.scores.back() = metric->second.best(sweep.maximize);
    return;
  }
  std::vector<std::string> names;
  for (const auto& [name, metric] : summary.metrics) names.push_back(name);
  trial.failure = format("no finite value of {}; it has {}", sweep.monitor, names.empty() ? "no metrics" : join(names));
}

/// Adds a line to the commands that a trial has consisted of, to be typed in the folder of the sweep's start.
void write_command(const fs::path& folder, const std::vector<std::string>& words) {
  const fs::path file = folder / "command.txt";
  const std::string earlier = file_bytes(file).value_or("");
  const std::string line = join(without_secrets(words), " ", shell_quoted) + "\n";
  if (!earlier.ends_with(line)) write_file(file, earlier + line);
}

}  // namespace

std::vector<std::string> trial_command(const SweepState& sweep, const Trial& trial, std::size_t rung) {
  const fs::path folder = sweep.folder_of(trial);
  std::vector<std::string> words = {own_program(), "fit"};
  words.insert(words.end(), sweep.arguments.begin(), sweep.arguments.end());
  for (const auto& [key, text] : trial.values) words.push_back(format("--{}={}", key, text));
  words.push_back(format("--trainer.default_root_dir={}", as_argument(folder.string())));
  if (sweep.rungs[rung] > 0) words.push_back(format("--trainer.max_epochs={}", sweep.rungs[rung]));
  if (rung == 0) return words;
  const std::optional<RunRecord> earlier = newest_run(folder);
  if (!earlier) throw IoError(format("{} is to resume from its checkpoint, but its run is gone from {}", trial.name(), folder));
  words.push_back(format("--ckpt_path={}", as_argument(earlier->path.string() + ":last")));
  words.emplace_back("--init_from=null");
  return words;
}

std::string failure_in(const fs::path& output) {
  constexpr std::streamoff kLongestEnd = 16384;
  constexpr std::size_t kMostLines = 8, kLinesWithoutError = 3;
  std::ifstream stream(output, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream.tellg();
  if (size <= 0) return "it printed nothing";
  stream.seekg(std::max<std::streamoff>(0, size - kLongestEnd));
  std::vector<std::string> lines = split(std::string(std::istreambuf_iterator<char>(stream), {}), "\n");
  std::erase(lines, "");
  const auto error = std::find_if(lines.rbegin(), lines.rend(), [](const auto& line) { return line.starts_with("error:"); });
  const std::size_t wanted = error == lines.rend() ? kLinesWithoutError : static_cast<std::size_t>(error - lines.rbegin()) + 1;
  const auto first = lines.end() - static_cast<std::ptrdiff_t>(std::min(wanted, lines.size()));
  lines.erase(lines.begin(), first);
  if (lines.size() > kMostLines) lines.resize(kMostLines);
  return printable(join(lines, "\n"));
}

void TrialRunner::run() {
  if (!sweep_.sampler.is_null()) {
    try {
      sampler_.emplace(sweep_, signals_);
    } catch (const Interrupted& interrupted) {
      throw_interrupted(interrupted.signal());
    }
  }
  for (std::size_t rung = 0; rung < sweep_.rungs.size(); ++rung) run_rung(rung);
}

void TrialRunner::run_rung(std::size_t rung) {
  queue_ = sweep_.participants(rung);
  std::erase_if(queue_, [&](std::size_t index) {
    return sweep_.trials[index].has_failed() || sweep_.trials[index].scores.size() > rung;
  });
  if (queue_.empty()) return;
  if (sweep_.rungs.size() > 1)
    std::cout << format("{} up to {}\n", counted(queue_.size(), "trial"), counted(sweep_.rungs[rung], "epoch")) << std::flush;
  std::reverse(queue_.begin(), queue_.end());
  while (!running_.empty() || (!queue_.empty() && stop_signal_ == 0)) {
    while (stop_signal_ == 0 && !queue_.empty() && running_.size() < jobs_ && start(queue_.back(), rung)) queue_.pop_back();
    if (const int signal = signals_.wait(); signal != SIGCHLD) {
      stop_signal_ = signal;
      for (const Running& run : running_) kill(-run.process, signal);
    }
    reap_ended(rung);
  }
  if (stop_signal_ != 0) throw_interrupted(stop_signal_);
}

void TrialRunner::throw_interrupted(int signal) const {
  throw Interrupted(signal, format("in a sweep. To resume: levin sweep --resume {}", shell_quoted(sweep_.folder)));
}

bool TrialRunner::start(std::size_t index, std::size_t rung) {
  Trial& trial = sweep_.trials[index];
  try {
    if (trial.values.empty() && sampler_) trial.values = sampler_->ask(trial);
  } catch (const Interrupted&) {
    return false;
  }
  const std::vector<std::string> words = trial_command(sweep_, trial, rung);
  write_command(sweep_.folder_of(trial), words);
  trial.status = "running";
  const std::size_t slot = free_slot();
  const pid_t process = start_child(words, sweep_.folder_of(trial) / "output.txt", devices_.variable(slot));
  running_.push_back({index, process, steady_seconds(), slot});
  return true;
}

std::size_t TrialRunner::free_slot() const {
  std::size_t slot = 0;
  while (std::ranges::any_of(running_, [&](const Running& run) { return run.slot == slot; })) ++slot;
  return slot;
}

void TrialRunner::reap_ended(std::size_t rung) {
  std::erase_if(running_, [&](const Running& run) {
    const std::optional<int> status = status_if_ended(run.process);
    if (status) record_end(run, *status, rung);
    return status.has_value();
  });
}

void TrialRunner::record_end(const Running& run, int status, std::size_t rung) {
  Trial& trial = sweep_.trials[run.index];
  trial.seconds += steady_seconds() - run.start_seconds;
  if (status == 0) {
    trial.status = "finished";
    score(sweep_, trial);
  } else if (stop_signal_ != 0) {
    trial.status = "interrupted";
  } else {
    trial.status = "failed";
    trial.failure = format("exit status {}: {}", status, failure_in(sweep_.folder_of(trial) / "output.txt"));
  }
  try {
    if (sampler_ && stop_signal_ == 0) sampler_->tell(trial);
  } catch (const Interrupted&) {
    // The signal is waited for next; a resumed sweep passes the trial on then.
  }
  sweep_.write();
  std::cout << printable(progress_text(trial, rung)) << std::flush;
}

std::string TrialRunner::progress_text(const Trial& trial, std::size_t rung) const {
  const auto has_ended = [&](std::size_t index) {
    return sweep_.trials[index].has_failed() || sweep_.trials[index].scores.size() > rung;
  };
  const std::vector<std::size_t> all = sweep_.participants(rung);
  const std::string values = join(trial.values, ", ", [](const auto& value) { return value.first + "=" + value.second; });
  std::string text = format("{} {}, {} of {} ended: {}", trial.name(), trial.status, std::ranges::count_if(all, has_ended),
                            all.size(), values);
  if (trial.score()) text += format(": {} {:.6g}", sweep_.monitor, *trial.score());
  if (!trial.failure.empty()) text += "\n  " + join(split(trial.failure, "\n"), "\n  ");
  return text + "\n";
}

}  // namespace levin::cli
