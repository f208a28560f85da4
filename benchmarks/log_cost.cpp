// Prints what recording one metric costs, in nanoseconds per log() of a known key.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "levin/core/protocol/metric_store.h"

namespace {

double nanoseconds_per_log(int keys, const levin::LogOptions& options) {
  levin::SingleProcessGroup group;
  levin::MetricStore store(group, {});
  std::vector<std::string> names;
  for (int index = 0; index < keys; ++index) names.push_back("metric_" + std::to_string(index));
  store.begin_stage(levin::Stage::kTrain);
  store.begin_batch({.batch_size = 32});
  store.enter(levin::Hook::kTrainingStep);
  const levin::CallSite here = levin::SourceLocation::current();
  for (const std::string& name : names) store.log(name, 0.5, options, here);

  const int rounds = 5'000'000 / keys;
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds; ++round) {
    for (const std::string& name : names) store.log(name, static_cast<double>(round), options, here);
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / (static_cast<double>(rounds) * keys);
}

}  // namespace

int main() {
  for (const int keys : {1, 10, 100, 1000}) {
    const double step = nanoseconds_per_log(keys, {});
    const double both = nanoseconds_per_log(keys, {.on_epoch = true, .prog_bar = true});
    std::printf("%4d keys: %6.1f ns per log() on_step, %6.1f ns on_step + on_epoch + prog_bar\n", keys, step, both);
  }
}
