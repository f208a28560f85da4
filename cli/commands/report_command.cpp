#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/report/report_page.h"
#include "levin/cli/report/watched_files.h"
#include "levin/cli/runs/run_folder.h"
#include "levin/cli/sweep/awaited_signals.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/atomic_file.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

struct ReportCommand {
  std::vector<fs::path> folders;
  fs::path output = "report.html";
  double max_megabytes = 5;
  bool watch = false;
};

std::vector<RunFolder> runs_of(const ReportCommand& command) {
  return find_runs(command.folders.empty() ? default_run_folders() : command.folders);
}

void write_report(const ReportCommand& command, const std::vector<RunFolder>& runs, bool reloads) {
  constexpr double kMegabyte = 1e6;
  const auto max_bytes = static_cast<std::size_t>(command.max_megabytes * kMegabyte);
  write_file(command.output, report_page(runs, {.max_bytes = max_bytes, .reloads = reloads}));
}

void watch(const ReportCommand& command) {
  constexpr std::chrono::seconds kPeriod(2);
  const AwaitedSignals signals({SIGINT, SIGTERM});
  FileStates shown;
  do {
    // Runs may come while it watches.
    const std::vector<RunFolder> runs = runs_of(command);
    FileStates states = watched_files(runs, command.output);
    if (states == shown) continue;
    write_report(command, runs, /*reloads=*/true);
    shown = std::move(states);
  } while (!signals.arrives_within(kPeriod));
  write_report(command, runs_of(command), /*reloads=*/false);
}

}  // namespace

Subcommand report_subcommand() {
  const auto command = std::make_shared<ReportCommand>();
  return {"report", "Write an HTML page that shows runs: curves, settings, times, images",
          [command](CLI::App& app) {
            app.add_option(
                "folders", command->folders,
                "Folders of runs, or folders with some below them; default: logs and sweeps, else the working folder");
            app.add_option("-o,--output", command->output, "The file to write")->type_name("FILE")->capture_default_str();
            app.add_option("--max_megabytes", command->max_megabytes, "The largest size of the page")
                ->check(CLI::Range(1.0, 1000.0))
                ->capture_default_str();
            app.add_flag("--watch", command->watch, "Write it again whenever a run advances, until Ctrl-C");
          },
          [command](const CommandLine&) {
            if (command->watch) {
              std::cout << format("{} is updated with the runs until Ctrl-C", one_line(command->output.native())) << std::endl;
              watch(*command);
            }
            const std::vector<RunFolder> runs = runs_of(*command);
            if (!command->watch) write_report(*command, runs, /*reloads=*/false);
            std::cout << format("{} written: {}\n", one_line(command->output.native()), counted(runs.size(), "run"));
            return 0;
          }};
}

}  // namespace levin::cli
