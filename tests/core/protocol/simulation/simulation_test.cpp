#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "core/protocol/simulation/oracle.h"
#include "core/protocol/simulation/simulated_object.h"
#include "levin/core/base/error.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/protocol/metric_table.h"
#include "support/simulated_ranks.h"

namespace levin::testing {
namespace {

class SimulatedDeferred final : public DeferredValue {
 public:
  explicit SimulatedDeferred(double value) : value_(value) {}
  double read() override { return value_; }
  std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>& total, Reduce reduce, double weight,
                                          double so_far) override {
    return std::make_shared<SimulatedDeferred>(
        detail::combine(reduce, total ? total->read() : so_far, reduce == Reduce::kMean ? weight * value_ : value_));
  }

 private:
  double value_;
};

class UnreadableDeferred final : public DeferredValue {
 public:
  double read() override { throw std::runtime_error("unreadable on purpose"); }
  std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>&, Reduce, double, double) override {
    return nullptr;
  }
};

/// The first difference found; a further comparison has no use.
struct Difference : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string str(const MetricMap& map) {
  std::ostringstream text;
  for (const auto& [name, value] : map) text << " " << name << "=" << value;
  return text.str();
}

bool same(double left, double right) {
  if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && std::isnan(right);
  return left == right || std::abs(left - right) <= 1e-12 * std::max(std::abs(left), std::abs(right));
}

bool same(const MetricMap& left, const MetricMap& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first && same(a.second, b.second); });
}

void require(const char* what, const MetricMap& got, const MetricMap& expected) {
  if (!same(got, expected)) throw Difference(std::string(what) + " is" + str(got) + ", expected" + str(expected));
}

void require(const char* what, bool holds) {
  if (!holds) throw Difference(std::string(what) + " is not as expected");
}

/// One rank's way through a program.
class RankRun {
 public:
  RankRun(const Program& program, const ExpectedRun& expected, ControlGroup& group, std::vector<std::string>& warnings)
      : program_(program),
        expected_(expected),
        group_(group),
        rank_(group.rank()),
        options_(
            {.strict_logging = program.strict, .warn = [&warnings](const std::string& text) { warnings.push_back(text); }}) {
    begin();
  }

  void run() {
    for (std::size_t index = 0; index < program_.phases.size(); ++index) {
      const Phase& phase = program_.phases[index];
      const Fault& fault = program_.fault;
      if (fault.type == Fault::kThrows && fault.rank == rank_ && fault.phase == index) {
        throw std::runtime_error("thrown on purpose");
      }
      if (!program_.has(phase, rank_)) continue;
      if (act(phase, index)) index = program_.end_phase - 1;
    }
    require("the number of boundaries", next_ == expected_.boundaries.size());
  }

 private:
  /// A run and its module, without any state.
  void begin() {
    store_.reset();
    objects_.clear();
    for (const ObjectPlan& plan : program_.objects) objects_.push_back(std::make_unique<SimulatedObject>(plan));
    store_ = std::make_unique<MetricStore>(group_, options_);
    std::vector<MetricObject*> objects;
    for (const auto& object : objects_) objects.push_back(object.get());
    store_->set_objects(objects);
  }

  /// All of the run goes through a snapshot.
  void resume() {
    const MetricSnapshot snapshot = store_->save();
    collectives_ += store_->collectives();
    begin();
    store_->begin_stage(Stage::kTrain);
    // What hooks do before the point of resuming does not count.
    for (const auto& object : objects_) object->update({77, 7});
    store_->restore({snapshot});
  }

  /// True: the run stops.
  bool act(const Phase& phase, std::size_t index) {
    switch (phase.type) {
      case Phase::kBeginStage:
        store_->begin_stage(phase.boundary.stage);
        break;
      case Phase::kEndStage:
        store_->end_stage();
        break;
      case Phase::kBeginBatch:
        store_->begin_batch({.batch_size = program_.batch_size(index, rank_),
                             .dataloader_idx = phase.dataloader,
                             .num_dataloaders = phase.training ? 1 : program_.dataloaders});
        break;
      case Phase::kEndBatch:
        store_->end_batch();
        break;
      case Phase::kResetEpoch:
        store_->reset_epoch();
        break;
      case Phase::kResume:
        resume();
        break;
      case Phase::kHook:
        store_->enter(phase.hook);
        for (const std::size_t statement : program_.statements_at(index, rank_)) execute(statement, index);
        if (program_.reads_metrics(index, rank_)) read_metrics();
        break;
      case Phase::kBoundary:
        return meet(phase.boundary, index);
    }
    return false;
  }

  void read_metrics() const {
    for (const auto& [name, value] : store_->callback_metrics()) store_->monitored(name);
    store_->logged_metrics();
    store_->progress_bar_metrics();
    store_->local_step_row();
  }

  void execute(std::size_t index, std::size_t phase) {
    const LogStatement& statement = program_.statements[index];
    if (statement.object >= 0) {
      SimulatedObject& object = *objects_[static_cast<std::size_t>(statement.object)];
      if (statement.resets) object.reset();
      for (int update = 0; update < statement.updates; ++update) {
        object.update(program_.sample(index, phase, rank_, update));
      }
    }
    if (statement.logs) log(index, phase);
  }

  void log(std::size_t index, std::size_t phase) {
    const LogStatement& statement = program_.statements[index];
    CallSite site;
    site.file = "src/program.cpp";
    site.line = statement.line;
    const double value = program_.value(index, phase, rank_);
    if (statement.object >= 0) {
      store_->log(statement.name, *objects_[static_cast<std::size_t>(statement.object)], statement.options, site);
    } else if (statement.deferred) {
      store_->log(statement.name, std::make_shared<SimulatedDeferred>(value), statement.options, site);
    } else {
      store_->log(statement.name, value, statement.options, site);
    }
  }

  bool meet(const Boundary& planned, std::size_t index) {
    Boundary boundary = planned;
    const bool faulty = program_.fault.rank == rank_ && program_.fault.phase == index;
    if (faulty && program_.fault.type == Fault::kWrongBoundary) boundary = {BoundaryKind::kCheckpoint, Stage::kTest, 77, 777};
    if (faulty && program_.fault.type == Fault::kDeferredFails) {
      store_->enter(Hook::kTrainingStep);
      store_->log("unreadable", std::make_shared<UnreadableDeferred>(), {}, {});
    }
    if (faulty && program_.fault.type == Fault::kObjectFails) fail_to_compute();
    const BoundaryOutcome outcome = store_->meet(boundary, program_.votes(index, rank_), program_.payload(index, rank_));
    require("meeting here", next_ < expected_.boundaries.size() && expected_.boundaries[next_].phase == index);
    compare(outcome, expected_.boundaries[next_++], index);
    return outcome.votes.stop;
  }

  /// A step's value that cannot be computed, of an object that only this rank logs.
  void fail_to_compute() {
    objects_.push_back(std::make_unique<SimulatedObject>(ObjectPlan{.name = "unreadable", .has_numbers = true}));
    std::vector<MetricObject*> objects;
    for (const auto& object : objects_) objects.push_back(object.get());
    store_->set_objects(objects);
    store_->enter(Hook::kTrainingStep);
    store_->log("unreadable", *objects_.back(), {}, {});
    objects_.back()->fail();
  }

  void compare(const BoundaryOutcome& outcome, const ExpectedBoundary& expected, std::size_t index) const {
    const auto rank = static_cast<std::size_t>(rank_);
    const ExpectedViews& views = expected.views[rank];
    require("votes", outcome.votes == expected.votes);
    require("logger_row", outcome.logger_row, expected.logger_row);
    require("local_row", outcome.local_row, views.local_row);
    require("callback_metrics", store_->callback_metrics(), views.callback);
    require("logged_metrics", store_->logged_metrics(), views.logged);
    require("progress_bar_metrics", store_->progress_bar_metrics(), views.progress_bar);
    MetricMap objects;
    for (const auto& object : objects_) {
      const std::vector<std::string> names = object->value_names(object->name());
      const std::vector<double> values = object->seen();
      for (std::size_t value = 0; value < names.size(); ++value) objects[names[value]] = values[value];
    }
    require("what metric objects compute", objects, views.objects);
    for (int other = 0; other < program_.ranks; ++other) {
      const auto place = static_cast<std::size_t>(other);
      require("rank_rows", outcome.rank_rows.at(place), expected.rank_rows[place]);
      require("payload", outcome.payloads.at(place) == program_.payload(index, other));
      require("rank_votes", outcome.rank_votes.at(place) == program_.votes(index, other));
    }
    for (const auto& [name, value] : views.callback) {
      const auto known = expected.monitored.find(name);
      const auto monitored = store_->monitored(name);
      require("monitored", monitored.has_value() == (known != expected.monitored.end()));
      if (monitored) require("monitored", same(*monitored, known->second));
    }
    for (const auto& [name, value] : expected.monitored) require("monitored", same(store_->monitored(name).value(), value));
    require("collectives", collectives_ + store_->collectives() == expected.collectives);
  }

  const Program& program_;
  const ExpectedRun& expected_;
  ControlGroup& group_;
  const int rank_;
  const MetricStore::Options options_;
  std::vector<std::unique_ptr<SimulatedObject>> objects_;
  std::unique_ptr<MetricStore> store_;
  std::int64_t collectives_ = 0;  ///< before the run was resumed last
  std::size_t next_ = 0;
};

/// How a rank ended, in the oracle's terms.
std::pair<ExpectedEnd::Type, std::string> end_of(const std::exception_ptr& error) {
  if (!error) return {ExpectedEnd::kWell, ""};
  try {
    std::rethrow_exception(error);
  } catch (const Difference& difference) {
    throw;
  } catch (const MisuseError& misuse) {
    return {ExpectedEnd::kMisuse, misuse.what()};
  } catch (const DesyncError& desync) {
    return {ExpectedEnd::kDesync, desync.what()};
  } catch (const std::exception& other) {
    return {ExpectedEnd::kOwnFault, other.what()};
  }
}

bool contains_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) return false;
  }
  return true;
}

void compare_ends(const ExpectedRun& expected, const SimulationResult& result) {
  std::string shared;
  // Prefer the report of a rank that saw a wrong value.
  for (const std::exception_ptr& error : result.errors) end_of(error);
  for (std::size_t rank = 0; rank < expected.ends.size(); ++rank) {
    const ExpectedEnd& end = expected.ends[rank];
    const auto [type, text] = end_of(result.errors[rank]);
    if (type != end.type || !contains_all(text, end.texts)) {
      std::string wanted;
      for (const std::string& part : end.texts) wanted += " '" + part + "'";
      throw Difference("rank " + std::to_string(rank) + " ended with kind " + std::to_string(type) + " '" + text +
                       "', expected kind " + std::to_string(end.type) + wanted);
    }
    if (!end.same_on_all) continue;
    if (!shared.empty() && shared != text)
      throw Difference("ranks ended with different texts: '" + shared + "', '" + text + "'");
    shared = text;
  }
}

/// The program as a readable text.
std::string describe(const Program& program) {
  std::ostringstream text;
  text << "replay: LEVIN_SIMULATION_SEED=" << program.seed << " LEVIN_SIMULATION_PROGRAMS=1\n"
       << program.ranks << " ranks" << (program.strict ? ", strict" : "")
       << (program.reorder ? ", odd ranks in opposite order" : "") << ", " << program.dataloaders
       << " validation loaders; batches of training";
  for (const int length : program.train_batches) text << " " << length;
  text << ", of validation";
  for (const int length : program.val_batches) text << " " << length;
  text << "; fault " << program.fault.type << " on rank " << program.fault.rank << " in phase " << program.fault.phase << "\n";
  for (const LogStatement& statement : program.statements) {
    text << "  program.cpp:" << statement.line << " " << hook_name(statement.hook) << ": ";
    if (statement.object >= 0) {
      const ObjectPlan& object = program.objects[static_cast<std::size_t>(statement.object)];
      text << object.name << " (" << (object.has_numbers ? "numbers, " : "") << object.row_lists << " lists of rows)"
           << (statement.resets ? " reset()," : "") << " update() " << statement.updates << " times, ";
    }
    if (!statement.logs) text << "no ";
    const detail::MetricOptions options = detail::resolve(statement.options, hook_policy(statement.hook));
    text << "log(" << statement.name << ") " << options.str() << ", ranks 0x" << std::hex << statement.ranks << std::dec
         << ", period " << statement.period << (statement.deferred ? ", deferred" : "") << "\n";
  }
  return text.str();
}

/// Runs a program on real MetricStores over simulated ranks, and compares everything with the oracle. Returns the difference
/// with the seed, or "" for none.
std::string run_and_compare(SimulatedRanks& ranks, const Program& program) {
  const ExpectedRun expected = expect(program);
  std::vector<std::vector<std::string>> warnings(static_cast<std::size_t>(program.ranks));
  const SimulationResult result = ranks.run(program.ranks, program.seed, [&](ControlGroup& group) {
    RankRun(program, expected, group, warnings[static_cast<std::size_t>(group.rank())]).run();
  });
  try {
    compare_ends(expected, result);
    if (result.hung) throw Difference("a rank waits for others that ended well: a hang");
    const bool all_end_well =
        std::ranges::all_of(expected.ends, [](const auto& end) { return end.type == ExpectedEnd::kWell; });
    if (all_end_well && result.exchanges != expected.boundaries.back().collectives) {
      throw Difference(std::to_string(result.exchanges) + " exchanges, expected " +
                       std::to_string(expected.boundaries.back().collectives));
    }
    if (result.calls_differed) throw Difference("ranks met in different calls of the group");
    for (const auto& by_rank : warnings) {
      if (by_rank != warnings[0]) throw Difference("warnings differ by rank");
    }
    if (warnings[0].size() != expected.warnings.size()) {
      throw Difference(std::to_string(warnings[0].size()) + " warnings, expected " + std::to_string(expected.warnings.size()));
    }
    for (std::size_t index = 0; index < expected.warnings.size(); ++index) {
      if (!contains_all(warnings[0][index], expected.warnings[index]))
        throw Difference("unexpected warning: " + warnings[0][index]);
    }
  } catch (const Difference& difference) {
    return std::string(difference.what()) + "\n" + describe(program);
  }
  return {};
}

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

/// Keeps this process's threads on the core they are on. Simulated ranks take turns: where each turn has to wake a thread on
/// another core, a busy machine takes a hundred times as long.
class OnOneCore {
 public:
  OnOneCore() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneCore() { sched_setaffinity(0, sizeof before_, &before_); }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_{};
};

// LEVIN_SIMULATION_SEED is the first program's seed, LEVIN_SIMULATION_PROGRAMS the number of programs.
TEST_CASE("generated programs end as one process says they must, and none hangs") {
  const std::uint64_t first = number_from_environment("LEVIN_SIMULATION_SEED", 1);
  const std::uint64_t programs = number_from_environment("LEVIN_SIMULATION_PROGRAMS", 5000);
  const OnOneCore on_one_core;
  SimulatedRanks ranks;
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + programs && failures < 5; ++seed) {
    const std::string difference = run_and_compare(ranks, generate(seed));
    if (difference.empty()) continue;
    ++failures;
    UNSCOPED_INFO(difference);
    CHECK(difference.empty());
  }
  CHECK(failures == 0);
}

}  // namespace
}  // namespace levin::testing
