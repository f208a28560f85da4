// Prints what the runtime's exchanges cost on 1 to 1,024 ranks, counted in the simulation: exchanges, and the bytes that
// rank 0 gives and gets, and another rank gets. An exchange is one call of the ControlGroup: over Gloo's ring an all_gather
// takes ranks - 1 rounds, each with what one rank gives; within a host one write and reads of shared memory. Processor time is
// that of rank 0's work in it, without any transport, and without what groups add to find different calls.

#include <time.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metric_store.h"
#include "support/counting_group.h"
#include "support/simulated_ranks.h"

namespace {

using levin::ControlGroup;
using levin::MetricStore;
using levin::testing::CountingGroup;

/// What one rank does.
struct Scenario {
  std::string name;
  std::function<void(CountingGroup&, MetricStore&)> before;  ///< not counted
  std::function<void(CountingGroup&, MetricStore&)> act;
};

void log_metrics(MetricStore& store, int metrics) {
  store.enter(levin::Hook::kTrainingStep);
  const levin::CallSite here = levin::SourceLocation::current();
  for (int index = 0; index < metrics; ++index) {
    store.log("metric_" + std::to_string(index), 0.5, {.on_epoch = true, .sync_dist = true}, here);
  }
}

/// A metric object of fixed size, as an accuracy of ten classes has it, without tensors.
class Counts final : public levin::MetricObject {
 public:
  levin::MetricState empty_state() const override { return {std::vector<double>(12)}; }
  void merge(levin::MetricState& total, const levin::MetricState& more) const override {
    for (std::size_t index = 0; index < total.numbers.size(); ++index) total.numbers[index] += more.numbers[index];
    total.updates += more.updates;
  }
  std::vector<double> values_of(const levin::MetricState& state) const override { return {state.numbers.front()}; }
  std::vector<std::string> value_names(const std::string& name) const override { return {name}; }
  const levin::MetricState& state() const override { return state_; }
  void set_state(levin::MetricState state) override { state_ = std::move(state); }
  void reset() override { state_ = empty_state(); }
  std::shared_ptr<levin::MetricStateReader> batch_state() override { return std::make_shared<Batch>(state_); }
  std::int64_t changes() const override { return state_.updates; }
  void show_all_ranks(std::shared_ptr<const levin::MetricState>) override {}
  std::shared_ptr<const levin::MetricState> all_ranks() const override { return nullptr; }
  void update() {
    ++state_.updates;
    for (double& number : state_.numbers) ++number;
  }

 private:
  struct Batch final : levin::MetricStateReader {
    explicit Batch(levin::MetricState seen) : state(std::move(seen)) {}
    const levin::MetricState& read() override { return state; }
    levin::MetricState state;
  };
  levin::MetricState state_ = empty_state();
};

/// Of the rank that this thread is.
std::vector<Counts>& objects_of_rank() {
  thread_local std::vector<Counts> objects(20);
  return objects;
}

void log_objects(MetricStore& store) {
  store.enter(levin::Hook::kTrainingStep);
  const levin::CallSite here = levin::SourceLocation::current();
  for (Counts& object : objects_of_rank()) {
    object.update();
    store.log(object.name(), object, {.on_step = false, .on_epoch = true}, here);
  }
}

void meet(MetricStore& store, int epoch) {
  store.meet({levin::BoundaryKind::kEpochReached, levin::Stage::kTrain, epoch, epoch}, {}, {});
  store.reset_epoch();
}

Scenario boundary(const std::string& name, int metrics, bool known) {
  const auto log_and_meet = [metrics](MetricStore& store, int epoch) {
    log_metrics(store, metrics);
    meet(store, epoch);
  };
  return {name,
          [=](CountingGroup&, MetricStore& store) {
            store.begin_stage(levin::Stage::kTrain);
            store.begin_batch({.batch_size = 32});
            if (known) log_and_meet(store, 0);
          },
          [=](CountingGroup&, MetricStore& store) { log_and_meet(store, 1); }};
}

Scenario boundary_with_objects() {
  return {"boundary, 20 metric objects",
          [](CountingGroup&, MetricStore& store) {
            std::vector<levin::MetricObject*> objects;
            for (Counts& object : objects_of_rank()) {
              object.set_name("object_" + std::to_string(objects.size()));
              objects.push_back(&object);
            }
            store.set_objects(objects);
            store.begin_stage(levin::Stage::kTrain);
            store.begin_batch({.batch_size = 32});
            for (int epoch = -3; epoch <= 0; ++epoch) {  // memory is new at first
              log_objects(store);
              meet(store, epoch);
            }
          },
          [](CountingGroup&, MetricStore& store) {
            log_objects(store);
            meet(store, 1);
          }};
}

Scenario exchange(const std::string& name, const std::function<void(levin::RankExchange&)>& act) {
  return {name, [](CountingGroup&, MetricStore&) {},
          [act](CountingGroup& group, MetricStore&) {
            levin::RankExchange exchange(group);
            act(exchange);
          }};
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void print_row(const Scenario& scenario, int ranks) {
  levin::testing::SimulatedRanks simulation;
  levin::testing::ExchangeCounts counts;
  std::size_t got_by_another = 0;
  double seconds = 0;
  simulation.run(ranks, /*seed=*/1, [&](ControlGroup& group) {
    CountingGroup counting(group);
    MetricStore store(counting, {});
    scenario.before(counting, store);
    counting.take();
    const double begin = thread_seconds();
    scenario.act(counting, store);
    if (group.rank() == 1) got_by_another = counting.take().got;
    if (group.rank() != 0) return;
    seconds = thread_seconds() - begin;
    counts = counting.take();
  });
  std::printf("| %s | %d | %zu | %zu | %zu | %zu | %.0f |\n", scenario.name.c_str(), ranks, counts.exchanges, counts.given,
              counts.got, got_by_another, seconds * 1e6);
}

}  // namespace

int main() {
  const std::string configuration(20'000, 'c');
  const std::string rank_state(8'000, 's');
  const levin::ExchangeSite site("a benchmark", "all do the same");
  const std::vector<Scenario> scenarios = {
      boundary("boundary, nothing logged", 0, true),
      boundary("boundary, 20 metrics", 20, true),
      boundary("boundary, 20 metrics, first time", 20, false),
      boundary_with_objects(),
      exchange("start: 20 KB of options are equal",
               [&](levin::RankExchange& ranks) { ranks.first_difference(configuration, site); }),
      exchange("start: rank 0's folder, 60 bytes",
               [&](levin::RankExchange& ranks) { ranks.broadcast_text(configuration.substr(0, 60), site); }),
      exchange("checkpoint: 8 KB of each rank's state",
               [&](levin::RankExchange& ranks) { ranks.gather_text_to_rank_zero(rank_state, site); }),
  };
  std::printf(
      "| what | ranks | exchanges | bytes rank 0 gives | bytes rank 0 gets | bytes another rank gets | processor time, µs "
      "|\n|---|---|---|---|---|---|---|\n");
  for (const Scenario& scenario : scenarios) {
    for (const int ranks : {1, 2, 8, 64, 512, 1024}) print_row(scenario, ranks);
  }
}
