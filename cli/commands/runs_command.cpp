#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/class_catalog.h"
#include "levin/cli/runs/metric_direction.h"
#include "levin/cli/runs/run_folder.h"
#include "levin/cli/runs/run_record.h"
#include "levin/cli/runs/run_removal.h"
#include "levin/cli/runs/run_tables.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/atomic_file.h"
#include "levin/loggers/mlflow/mlflow_logger.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// What stands behind `levin runs`.
struct RunsOptions {
  std::function<void(const RunsOptions&)> action;
  std::vector<fs::path> folders;  ///< where runs are looked for; empty: default_run_folders()
  std::vector<std::string> runs;  ///< folders of runs, or their names in a list
  std::string run;                ///< the same, where it is one
  std::vector<std::string> tags;
  std::string metric;
  std::string mode;  ///< empty: what callbacks and names say
  fs::path file;
  bool yes = false;
  std::vector<std::string> commands;  ///< of levin runs
};

/// As it is printed: what another program has called a file may hold anything.
std::string shown(const fs::path& path) { return one_line(path.string()); }

std::vector<RunRecord> records_of(const RunsOptions& options, RunDetail detail = RunDetail::kSettings) {
  return find_run_records(options.folders.empty() ? default_run_folders() : options.folders, detail);
}

/// The folder of a run that is given as one, or by its name in `levin runs list`.
fs::path folder_of_run(const std::string& given) {
  if (is_written_by_run(given)) return given;
  std::vector<std::string> names;
  try {
    const std::vector<fs::path> paths = find_run_paths(default_run_folders());
    names = run_names(paths);
    const auto found = std::find(names.begin(), names.end(), given);
    if (found != names.end()) return paths[static_cast<std::size_t>(found - names.begin())];
  } catch (const IoError&) {
    // There is no run here at all.
  }
  throw ConfigError(Mark{"command line"}, format("{} is neither the folder nor the name of a run{}", quoted_text(given),
                                                 names.empty() ? "" : did_you_mean(given, names, "runs")));
}

std::vector<fs::path> folders_of_runs(const RunsOptions& options) {
  std::vector<fs::path> folders;
  for (const std::string& run : options.runs) folders.push_back(folder_of_run(run));
  return folders;
}

/// Nothing where it is unknown.
std::optional<bool> maximizes(const RunsOptions& options, const std::vector<RunRecord>& runs, const std::string& metric) {
  return options.mode.empty() ? is_larger_better_in(runs, metric) : std::optional(options.mode == "max");
}

void list(const RunsOptions& options) {
  std::vector<RunRecord> runs = records_of(options, RunDetail::kState);
  const std::string metric = chosen_metric(runs, options.metric);
  // Try the metric's name first; read configurations only if it does not decide.
  std::optional<bool> maximize = maximizes(options, runs, metric);
  if (!maximize && !metric.empty()) maximize = maximizes(options, runs = records_of(options), metric);
  std::cout << list_table(runs, metric, maximize);
}

void compare(const RunsOptions& options) {
  const std::vector<fs::path> folders = folders_of_runs(options);
  const std::vector<std::string> names = run_names(folders);
  std::vector<RunRecord> runs;
  for (std::size_t index = 0; index < folders.size(); ++index) {
    runs.push_back(read_run_record(folders[index]));
    runs.back().name = names[index];
  }
  std::cout << comparison_table(runs);
}

void best(const RunsOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(options.metric, ignored))
    throw ConfigError(Mark{"command line"}, format("{} is a folder: give the metric before it, levin runs best METRIC {}",
                                                   quoted_text(options.metric), options.metric));
  const std::vector<RunRecord> runs = records_of(options);
  if (!is_among(metric_names(runs), options.metric))
    throw ConfigError(Mark{"command line"}, format("no run has {}{}", quoted_text(options.metric),
                                                   did_you_mean(options.metric, metric_names(runs), "metrics")));
  const std::optional<bool> maximize = maximizes(options, runs, options.metric);
  if (!maximize) ask_for_mode(options.metric);
  std::cout << list_table(ranked_by(runs, options.metric, *maximize), options.metric, maximize);
}

void tag(const RunsOptions& options) {
  const fs::path folder = folder_of_run(options.run);
  std::vector<std::string> tags = read_run_folder(folder, RunDetail::kState).tags;
  for (const std::string& tag : options.tags) {
    if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
  }
  write_tags(folder, tags);
  std::cout << format("{}: {}\n", shown(folder), join(tags, ", ", one_line));
}

bool is_confirmed(const std::string& question) {
  std::cout << question << " [y/N] " << std::flush;
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "yes");
}

/// "notes.txt, data/a.csv and 12 more": what is in a run's folder, but not the run's.
std::string others_text(const RunContents& contents) {
  constexpr std::size_t kMost = 10;
  const std::size_t named = std::min(contents.others.size(), kMost);
  const std::vector<fs::path> first(contents.others.begin(), contents.others.begin() + static_cast<std::ptrdiff_t>(named));
  const std::string names = join(first, ", ", shown);
  return named == contents.others.size() ? names : format("{} and {} more", names, contents.others.size() - named);
}

std::string deletion_question(const RunFolder& run, const RunContents& contents) {
  const std::string others = others_text(contents);
  return format("Delete {}, {} with {}?{}", shown(run.path), counted(contents.own.size(), "file"),
                counted(run.checkpoints.size(), "checkpoint"),
                others.empty() ? "" : format(" Files that the run did not write are not deleted: {}.", others));
}

void remove(const RunsOptions& options) {
  for (const fs::path& folder : folders_of_runs(options)) {
    const RunFolder run = read_run_folder(folder);
    if (run.status == "running")
      throw ConfigError(Mark{"command line"}, format("{} is still running: stop it first", quoted_text(folder.native())));
    if (find_run_paths({folder}).size() > 1)
      throw ConfigError(Mark{"command line"}, format("{} has other runs below it", quoted_text(folder.native())));
    const RunContents contents = contents_of_run(run.path);
    const std::string others = others_text(contents);
    if (!options.yes && !is_confirmed(deletion_question(run, contents))) {
      std::cout << format("{} not deleted\n", shown(folder));
      continue;
    }
    remove_run_files(run.path, contents);
    const std::string rest = others.empty() ? "" : format(", except files that the run did not write: {}", others);
    std::cout << format("{} deleted{}\n", shown(folder), rest);
  }
}

void export_csv(const RunsOptions& options) {
  const std::vector<RunRecord> runs = records_of(options);
  write_file(options.file, runs_csv(runs));
  std::cout << format("{}: {}\n", shown(options.file), counted(runs.size(), "run"));
}

void sync(const RunsOptions& options) {
  for (const std::string& run : options.runs) {
    const fs::path folder = MLflowLogger::has_journal(run) ? fs::path(run) : folder_of_run(run);
    std::cout << format("{}: {}\n", shown(folder), MLflowLogger::sync(folder));
  }
}

void add_folders(CLI::App& app, RunsOptions& options) {
  app.add_option("folders", options.folders,
                 "Where to look for runs, at any depth; default: logs and sweeps, else the working folder");
}

void add_mode(CLI::App& app, RunsOptions& options) {
  app.add_option("--mode", options.mode,
                 "Whether the lowest or the highest value is best; default: the mode of the run's callback that monitors it, "
                 "else what its name suggests")
      ->check(CLI::IsMember({"min", "max"}));
}

CLI::App& add_action(CLI::App& app, RunsOptions& options, const char* name, const char* help,
                     void (*action)(const RunsOptions&)) {
  CLI::App& command = *app.add_subcommand(name, help);
  options.commands.emplace_back(name);
  command.callback([&options, action] { options.action = action; });
  return command;
}

void declare(CLI::App& app, RunsOptions& options) {
  options.action = list;
  app.require_subcommand(0, 1);
  CLI::App& listing = add_action(app, options, "list", "Runs with their states and a metric (default)", list);
  for (CLI::App* command : {&app, &listing}) {
    command->add_option("--metric", options.metric, "The metric to show; default: val_loss, or the first");
    add_mode(*command, options);
    add_folders(*command, options);
  }
  const auto add_runs = [&](CLI::App& command, int least) {
    constexpr int kMost = 1000;
    command.add_option("runs", options.runs, "Folders of runs, or names in the list")->required()->expected(least, kMost);
  };
  add_runs(add_action(app, options, "compare", "What differs between runs: configuration and metrics", compare), 2);
  CLI::App& ranking = add_action(app, options, "best", "Runs sorted by a metric, the best first", best);
  ranking.add_option("metric", options.metric, "The metric, such as val_loss")->required();
  add_folders(ranking, options);
  add_mode(ranking, options);
  CLI::App& tagging = add_action(app, options, "tag", "Add tags to a run", tag);
  tagging.add_option("run", options.run, "The folder of a run, or its name in the list")->required();
  tagging.add_option("tags", options.tags, "The tags")->required();
  CLI::App& removal = add_action(app, options, "delete", "Delete runs, checkpoints included", remove);
  add_runs(removal, 1);
  removal.add_flag("--yes", options.yes, "Without asking");
  add_runs(add_action(app, options, "sync", "Upload the rest of a run, also of a killed one, to MLflow", sync), 1);
  CLI::App& table = add_action(app, options, "export", "Write all runs, with options and metrics, as CSV", export_csv);
  table.add_option("file", options.file, "The file")->required();
  add_folders(table, options);
}

}  // namespace

Subcommand runs_subcommand() {
  const auto options = std::make_shared<RunsOptions>();
  return {"runs", "List, compare, tag and delete runs on the disk", [options](CLI::App& app) { declare(app, *options); },
          [options](const CommandLine& line) {
            // The word behind `runs` may be meant as a command of it.
            std::error_code ignored;
            if (options->folders.size() == 1 && !fs::exists(options->folders[0], ignored) && line.words.size() > 2 &&
                line.words[2] == options->folders[0])
              throw ConfigError(Mark{"command line: runs"},
                                format("there is neither a folder nor a command {}{}", quoted_text(line.words[2]),
                                       did_you_mean(line.words[2], options->commands, "commands")));
            options->action(*options);
            return 0;
          }};
}

}  // namespace levin::cli
