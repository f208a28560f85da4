#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <sstream>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/host_load.h"
#include "levin/core/config/component.h"
#include "levin/core/config/value_json.h"
#include "support/file_text.h"
#include "support/toy_accelerator.h"

namespace levin::test {
namespace {

Value device_reference(const char* what) {
  return parse_json(read_text(LEVIN_SOURCE_DIR "/tests/core/train/flag_references.json")).at(what);
}

/// The rows of DeviceStatsMonitor in a fit and a test: "step hook statistics", a line each.
std::string rows_of_device(const Value& cpu_stats, const Component<Accelerator>& accelerator) {
  const auto logger = std::make_shared<RowsOf>();
  ScriptedRun run(2);
  run.options.logger = std::static_pointer_cast<Logger>(logger);
  run.options.log_every_n_steps = 2;
  run.options.accelerator = accelerator;
  run.options.callbacks = {Component<Callback>(Value("DeviceStatsMonitor"), Value(Value::Map{{"cpu_stats", cpu_stats}}))};
  ScriptedModule module;
  run.fit(module, 5, {FixedLoader::of_rows(3, 1)})->test(module, {FixedLoader::of_rows(3, 1)}, {.verbose = false});
  std::string found;
  for (const MetricRow& row : logger->rows) {
    const std::string prefix = "DeviceStatsMonitor.";
    std::string line;
    for (const auto& [key, value] : row.values) {
      if (!key.starts_with(prefix)) continue;
      const std::size_t slash = key.find('/');
      if (line.empty()) line = std::to_string(row.step) + " " + key.substr(prefix.size(), slash - prefix.size());
      line += " " + key.substr(slash + 1);
      CHECK((value >= 0 && value <= 100));
    }
    if (!line.empty()) found += line + "\n";
  }
  return found;
}

/// A device that counts something.
struct CountingToy final : Toy {
  std::map<std::string, double> statistics(const at::Device&) const override {
    return {{"allocated_bytes.all.current", 100}, {"num_ooms", 1}};
  }
};

/// Lightning's rows, but those of the sanity check, which are its first; with other statistics where they are given.
std::string rows_of_lightning(const std::string& statistics = "") {
  std::string lines;
  for (const Value& row : device_reference("device_stats").as_list()) {
    const auto& [step, hook, names] = std::tie(row.as_list()[0], row.as_list()[1], row.as_list()[2]);
    if (step == Value(0)) continue;
    lines += std::to_string(step.as_int()) + " " + hook.as_string() + " " +
             (statistics.empty() ? names.as_string() : statistics) + "\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("what a device counts is handed to loggers in Lightning's rows, by its names, but not in a sanity check") {
  CHECK(rows_of_device({}, "cpu") == rows_of_lightning());
  CHECK(rows_of_device(false, "cpu").empty());
  const std::string both = "allocated_bytes.all.current cpu_percent cpu_swap_percent cpu_vm_percent num_ooms";
  CHECK(rows_of_device(true, std::make_shared<CountingToy>()) == rows_of_lightning(both));
  CHECK(rows_of_device(false, std::make_shared<CountingToy>()) == rows_of_lightning("allocated_bytes.all.current num_ooms"));
  ScriptedRun run(1);
  run.options.callbacks = {Component<Callback>("DeviceStatsMonitor")};
  ScriptedModule module;
  CHECK_THROWS_WITH(run.fit(module), Catch::Contains("DeviceStatsMonitor has nowhere to write to"));
}

TEST_CASE("the load of processors and memory is what psutil makes of the same files") {
  detail::ProcessorLoad processors;
  for (const Value& look : device_reference("host_load").as_list()) {
    std::istringstream stat(look.as_list()[0].as_string());
    std::istringstream meminfo(look.as_list()[1].as_string());
    const auto& expected = look.as_list()[2].as_list();
    const double busy = processors.read(stat);
    const auto memory = detail::memory_load(meminfo);
    if (!expected[0].is_null()) CHECK(busy == Approx(expected[0].as_double()));
    CHECK(memory.at("cpu_vm_percent") == Approx(expected[1].as_double()));
    CHECK(memory.at("cpu_swap_percent") == Approx(expected[2].as_double()));
  }
}

}  // namespace levin::test
