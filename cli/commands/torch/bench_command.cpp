#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/commands/torch/configured_run.h"
#include "levin/cli/config/run_config.h"
#include "levin/core/base/amounts.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/atomic_file.h"
#include "levin/strategies/world/collective_bench.h"
#include "levin/strategies/world/join_ranks.h"

namespace levin::cli {
namespace {

std::string table_of(const std::vector<CollectiveTime>& times) {
  TextTable table{.header = {"group", "collective", "size", "time", "GB/s", "bus GB/s"},
                  .rows = {},
                  .align = {Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight}};
  for (const CollectiveTime& time : times) {
    table.rows.push_back({time.group, time.collective, bytes_text(static_cast<double>(time.bytes)), seconds_text(time.seconds),
                          format("{:.3g}", time.throughput()), format("{:.3g}", time.bus_bandwidth())});
  }
  return table.str();
}

std::string csv_of(const std::vector<CollectiveTime>& times) {
  std::string text = "group,collective,ranks,bytes,seconds,gb_per_second,bus_gb_per_second\n";
  for (const CollectiveTime& time : times) {
    text += format("{},{},{},{},{},{},{}\n", time.group, time.collective, time.ranks, time.bytes, float_text(time.seconds),
                   float_text(time.throughput()), float_text(time.bus_bandwidth()));
  }
  return text;
}

LaunchRequest request_of(const TrainerOptions& options) {
  return {.accelerator = options.accelerator,
          .devices = options.devices,
          .num_nodes = static_cast<int>(options.num_nodes),
          .connect_timeout_seconds = options.connect_timeout_seconds,
          .stall_report_seconds = options.stall_report_seconds,
          .timeout_seconds = options.timeout_seconds};
}

struct BenchOptions {
  std::string what;  ///< "comm": there may be more to measure
  std::string csv;   ///< a file; empty: none
  std::int64_t min_bytes = 1024;
  std::int64_t max_bytes = std::int64_t{256} << 20;
};

void show(const BenchOptions& options, const RankGroup& ranks, const std::vector<CollectiveTime>& times) {
  std::cout << format("{} ranks, {}. Bus bandwidth as nccl-tests define it.\n\n", ranks.world_size(), ranks.description())
            << table_of(times) << std::endl;
  if (!options.csv.empty()) write_file(options.csv, csv_of(times));
}

/// The times of collectives among the ranks of `trainer:`. Ranks: all.
void bench_comm(const BenchOptions& options, const RunConfig& config) {
  const Launched launched = join_ranks(request_of(config.trainer));
  if (launched.ranks->world_size() == 1)
    throw ConfigError("bench comm: one rank has no others to communicate with: give --trainer.devices=2 or more");
  try {
    const std::vector<CollectiveTime> times =
        measure_collectives(*launched.accelerator, launched.device, options.min_bytes, options.max_bytes);
    if (launched.ranks->rank() == 0) show(options, *launched.ranks, times);
  } catch (...) {
    launched.ranks->report_failure({}, std::current_exception());
    throw;
  }
  launched.ranks->end_entry_point();
}

}  // namespace

Subcommand bench_subcommand() {
  const auto options = std::make_shared<BenchOptions>();
  return {
      "bench", "Measure the communication between ranks",
      [options](CLI::App& app) {
        app.add_option("what", options->what, "comm: time all-reduce, all-gather and broadcast among --trainer.devices ranks")
            ->required()
            ->check(CLI::IsMember({"comm"}));
        app.add_option("--csv", options->csv, "Also write the numbers to this file")->type_name("FILE");
        app.add_option("--min_bytes", options->min_bytes, "Smallest tensor")->check(CLI::PositiveNumber)->capture_default_str();
        app.add_option("--max_bytes", options->max_bytes, "Largest tensor")->check(CLI::PositiveNumber)->capture_default_str();
        declare_sources(app);
      },
      [options](const CommandLine& line) {
        bench_comm(*options, begin_run(line));
        return 0;
      }};
}

}  // namespace levin::cli
