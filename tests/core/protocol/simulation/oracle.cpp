#include "core/protocol/simulation/oracle.h"

#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::testing {

namespace {

using detail::MetricGroup;
using detail::MetricOptions;
using Key = std::tuple<Hook, std::string, int>;  // hook, name, dataloader or -1

struct Sample {
  double value = 0;
  double weight = 1;
};

/// What one rank has logged under one key, value by value.
struct Own {
  MetricOptions options;
  std::string site;
  std::vector<Sample> epoch;
  std::vector<Sample> step;  ///< since the last step boundary
  bool is_unshared = false;  ///< the step's value is newer than the last boundary that carries steps
};

/// A key that the ranks agree on.
struct Agreed {
  Key key;
  MetricOptions options;
  std::string site;
  bool warned = false;

  MetricGroup group() const { return detail::group_of(std::get<0>(key)); }
  std::string name(const char* fork) const {
    const int loader = std::get<2>(key);
    return std::get<1>(key) + (options.forked() ? fork : "") + (loader < 0 ? "" : "/dataloader_idx_" + std::to_string(loader));
  }
};

struct RankState {
  bool alive = true;
  std::map<Key, Own> own;
  std::vector<Key> news;  ///< not agreed on, in the order of first use
  std::map<MetricGroup, int> epoch_batches;
  std::map<MetricGroup, int> step_batches;
  bool in_batch = false;
  ExpectedViews views;
};

double extreme(const std::vector<Sample>& samples, bool smallest) {
  double result = samples.front().value;
  for (const Sample& sample : samples) {
    if (std::isnan(sample.value)) return sample.value;
    if (smallest ? sample.value < result : sample.value > result) result = sample.value;
  }
  return result;
}

double reduce(const std::vector<Sample>& samples, Reduce how) {
  if (how == Reduce::kMin || how == Reduce::kMax) return extreme(samples, how == Reduce::kMin);
  long double sum = 0;
  long double weights = 0;
  for (const Sample& sample : samples) {
    const long double weight = how == Reduce::kMean ? sample.weight : 1;
    if (weight == 0) continue;
    sum += sample.value * weight;
    weights += weight;
  }
  if (how == Reduce::kSum) return static_cast<double>(sum);
  return weights == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(sum / weights);
}

class Oracle {
 public:
  explicit Oracle(const Program& program) : program_(program), ranks_(static_cast<std::size_t>(program.ranks)) {
    expected_.ends.resize(ranks_.size());
  }

  ExpectedRun run() {
    for (std::size_t index = 0; index < program_.phases.size() && !over_; ++index) {
      if (jump_) {
        index = program_.end_phase;
        jump_ = false;
      }
      const Phase& phase = program_.phases[index];
      if (program_.fault.type == Fault::kThrows && program_.fault.phase == index) {
        end(program_.fault.rank, {ExpectedEnd::kOwnFault, {"thrown on purpose"}});
      }
      for (int rank = 0; rank < program_.ranks; ++rank) {
        if (at(rank).alive && program_.has(phase, rank)) act(phase, index, rank);
      }
      if (phase.type == Phase::kBeginStage) stages_.push_back(phase.boundary.stage);
      if (phase.type == Phase::kEndStage) stages_.pop_back();
      if (phase.type == Phase::kBoundary) meet(phase.boundary, index);
    }
    return std::move(expected_);
  }

 private:
  RankState& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  void end(int rank, ExpectedEnd how) {
    if (!at(rank).alive) return;
    at(rank).alive = false;
    expected_.ends[static_cast<std::size_t>(rank)] = std::move(how);
  }
  void end_all(const ExpectedEnd& how) {
    for (int rank = 0; rank < program_.ranks; ++rank) end(rank, how);
    over_ = true;
  }

  void act(const Phase& phase, std::size_t index, int rank) {
    RankState& state = at(rank);
    const Stage stage = phase.type == Phase::kBeginStage ? phase.boundary.stage
                        : stages_.empty()                ? Stage::kTrain
                                                         : stages_.back();
    const MetricGroup group = detail::group_of(stage);
    switch (phase.type) {
      case Phase::kBeginStage:
        if (stages_.empty()) state.views = {};
        forget(state, group);
        break;
      case Phase::kEndStage:
        if (stage == Stage::kSanityCheck) {
          state.views = {};
          forget(state, group);
          monitored_.clear();
        }
        break;
      case Phase::kBeginBatch:
        state.in_batch = true;
        ++state.epoch_batches[group];
        ++state.step_batches[group];
        break;
      case Phase::kEndBatch:
        state.in_batch = false;
        break;
      case Phase::kResetEpoch:
        forget(state, group);
        break;
      case Phase::kBoundary:
        break;
      case Phase::kHook:
        for (const std::size_t statement : program_.statements_at(index, rank)) {
          if (state.alive) log(statement, phase, index, rank);
        }
    }
  }

  void forget(RankState& state, MetricGroup group) {
    for (auto& [key, own] : state.own) {
      if (detail::group_of(std::get<0>(key)) != group) continue;
      own.epoch.clear();
      own.step.clear();
      own.is_unshared = false;
    }
    state.epoch_batches[group] = 0;
    state.step_batches[group] = 0;
  }

  void log(std::size_t statement_index, const Phase& phase, std::size_t index, int rank) {
    RankState& state = at(rank);
    const LogStatement& statement = program_.statements[statement_index];
    const HookPolicy policy = hook_policy(statement.hook);
    const MetricOptions options = detail::resolve(statement.options, policy);
    const std::string site = "program.cpp:" + std::to_string(statement.line);
    if (!options.on_step && !options.on_epoch)
      return end(rank, {ExpectedEnd::kMisuse, {"log(\"" + statement.name + "\")", site}});
    const bool suffix = state.in_batch && !phase.training && program_.dataloaders > 1 && statement.options.add_dataloader_idx;
    const Key key{statement.hook, statement.name, suffix ? phase.dataloader : -1};

    auto found = state.own.find(key);
    if (found == state.own.end()) {
      found = state.own.emplace(key, Own{options, site, {}, {}, false}).first;
      state.news.push_back(key);
    }
    Own& own = found->second;
    if (!(own.options == options)) {
      return end(rank, {ExpectedEnd::kMisuse, {"log(\"" + statement.name + "\")", "(" + site + ")", "at " + own.site}});
    }
    if (options.rank_zero_only && rank != 0) return;
    const std::int64_t size = state.in_batch ? program_.batch_size(index, rank) : 1;
    const Sample sample{program_.value(statement_index, index, rank),
                        static_cast<double>(statement.options.batch_size.value_or(size))};
    if (options.on_epoch) own.epoch.push_back(sample);
    if (!options.on_step) return;
    own.step = {sample};
    own.is_unshared = true;
    const Agreed metric{key, options, "", false};
    const bool reduced = metric.group() == MetricGroup::kTrain && options.is_reduced(detail::Level::kStep);
    if (!reduced) show(state, metric, sample.value, true);
  }

  static void show(RankState& state, const Agreed& metric, double value, bool step) {
    const char* fork = step ? "_step" : "_epoch";
    if (!step || metric.group() == MetricGroup::kTrain) {
      state.views.callback[metric.name("")] = value;
      state.views.callback[metric.name(fork)] = value;
    }
    if (metric.options.logger) state.views.logged[metric.name(fork)] = value;
    if (metric.options.prog_bar) state.views.progress_bar[metric.name(fork)] = value;
  }

  void meet(const Boundary& boundary, std::size_t index) {
    const Fault& fault = program_.fault;
    std::vector<int> gone;
    for (int rank = 0; rank < program_.ranks; ++rank) {
      if (!at(rank).alive) gone.push_back(rank);
    }
    if (!gone.empty()) return end_all({ExpectedEnd::kDesync, {"gone"}});
    if (fault.phase == index && fault.type == Fault::kWrongBoundary) {
      return end_all(
          {ExpectedEnd::kDesync,
           {"not in the same place", "rank " + std::to_string(fault.rank) + " is in a checkpoint of test (epoch 77, step 777)"},
           true});
    }
    if (fault.phase == index && fault.type == Fault::kDeferredFails) {
      end(fault.rank, {ExpectedEnd::kOwnFault, {"unreadable on purpose"}});
      return end_all({ExpectedEnd::kDesync, {"rank " + std::to_string(fault.rank) + " failed", "unreadable on purpose"}, true});
    }
    collectives_ += 1;
    if (!agree()) return;
    if (!check_coverage(boundary)) return;

    ExpectedBoundary expected{.phase = index,
                              .votes = {.has_next = false},
                              .logger_row = {},
                              .monitored = {},
                              .rank_rows = std::vector<MetricMap>(ranks_.size()),
                              .views = {},
                              .collectives = collectives_};
    merge_votes(expected.votes, index);
    for (RankState& state : ranks_) state.views.local_row.clear();
    // What is of an epoch comes last: it stays under the plain name of a key that is both.
    for (const bool step : {true, false}) {
      for (const Agreed& metric : agreed_) conclude(metric, boundary, step, expected);
    }
    for (RankState& state : ranks_) {
      expected.views.push_back(state.views);
      for (auto& [key, own] : state.own) own.is_unshared = own.is_unshared && !carries_steps(boundary);
      if (boundary.kind != BoundaryKind::kTrainStep) continue;
      for (auto& [key, own] : state.own) {
        if (detail::group_of(std::get<0>(key)) == detail::group_of(boundary.stage)) own.step.clear();
      }
      state.step_batches[detail::group_of(boundary.stage)] = 0;
    }
    expected.monitored = monitored_;
    jump_ = expected.votes.stop;
    expected_.boundaries.push_back(std::move(expected));
  }

  void merge_votes(Votes& merged, std::size_t index) const {
    for (int rank = 0; rank < program_.ranks; ++rank) {
      const Votes vote = program_.votes(index, rank);
      merged.stop = merged.stop || vote.stop;
      merged.end_epoch = merged.end_epoch || vote.end_epoch;
      merged.has_next = merged.has_next || vote.has_next;
      merged.parameters_changed = merged.parameters_changed || vote.parameters_changed;
      merged.loss_is_bad = merged.loss_is_bad || vote.loss_is_bad;
      if (merged.signal == 0) merged.signal = vote.signal;
      merged.gradient_weight += vote.gradient_weight;
    }
  }

  /// All ranks learn all keys. False when two ranks mean different things by one key.
  bool agree() {
    std::vector<Agreed> fresh;
    bool any = false;
    for (RankState& state : ranks_) {
      for (const Key& key : state.news) {
        any = true;
        const Own& own = state.own.at(key);
        const Agreed* known = nullptr;
        for (const Agreed& metric : fresh) {
          if (metric.key == key) known = &metric;
        }
        if (known == nullptr) {
          fresh.push_back({key, own.options, own.site, false});
        } else if (!(known->options == own.options)) {
          end_all({ExpectedEnd::kMisuse,
                   {"log(\"" + std::get<1>(key) + "\")", "(" + known->site + ")", "(" + own.site + ")"},
                   true});
          return false;
        }
      }
      state.news.clear();
    }
    collectives_ += any;
    for (const Agreed& metric : fresh) {
      agreed_.push_back(metric);
      for (RankState& state : ranks_) {
        Own& own = state.own[metric.key];
        own.options = metric.options;
        own.site = metric.site;
      }
    }
    return true;
  }

  static bool is_due(const Agreed& metric, const Boundary& boundary) {
    return metric.group() == detail::group_of(boundary.stage) &&
           ((is_step(boundary) && metric.options.on_step) || (ends_epoch(boundary) && metric.options.on_epoch));
  }
  static bool is_step(const Boundary& boundary) { return boundary.kind == BoundaryKind::kTrainStep; }
  static bool ends_epoch(const Boundary& boundary) {
    return boundary.kind == BoundaryKind::kEpochReached || boundary.kind == BoundaryKind::kEpochEnd;
  }
  static bool carries_steps(const Boundary& boundary) {
    return is_step(boundary) || ends_epoch(boundary) || boundary.kind == BoundaryKind::kDecision;
  }
  const std::vector<Sample>& samples(int rank, const Agreed& metric, const Boundary& boundary, bool step) {
    static const std::vector<Sample> kNone;
    const Own& own = at(rank).own.at(metric.key);
    if (!step) return own.epoch;
    return is_step(boundary) || own.is_unshared ? own.step : kNone;
  }

  void warn(const std::vector<std::string>& texts) {
    if (expected_.warnings.size() < 50)
      expected_.warnings.push_back(texts);
    else if (expected_.warnings.size() == 50)
      expected_.warnings.push_back({"More keys are logged by some ranks only"});
  }

  bool check_coverage(const Boundary& boundary) {
    if (boundary.kind != BoundaryKind::kTrainStep && boundary.kind != BoundaryKind::kEpochEnd) return true;
    std::vector<std::vector<std::string>> missing;  // by key
    for (Agreed& metric : agreed_) {
      if (!is_due(metric, boundary) || metric.options.rank_zero_only || metric.warned) continue;
      std::vector<int> with;
      std::vector<int> without;
      for (int rank = 0; rank < program_.ranks; ++rank) {
        auto& batches = is_step(boundary) ? at(rank).step_batches : at(rank).epoch_batches;
        const bool had_chance = hook_policy(std::get<0>(metric.key)).epoch_only || batches[metric.group()] > 0;
        if (!samples(rank, metric, boundary, is_step(boundary)).empty()) {
          with.push_back(rank);
        } else if (had_chance) {
          without.push_back(rank);
        }
      }
      if (with.empty() || without.empty()) continue;
      if (with.size() == 1 && std::get<1>(metric.key).starts_with("rank_" + std::to_string(with[0]) + "_")) continue;
      metric.warned = true;
      missing.push_back({"log(\"" + std::get<1>(metric.key), metric.site,
                         "ran on " + detail::rank_list(with) + " and not on " + detail::rank_list(without)});
    }
    if (missing.size() > 8) {
      missing[0].push_back(std::to_string(missing.size()) + " keys were not logged by every rank");
      missing.resize(1);
    }
    if (!program_.strict) {
      for (const std::vector<std::string>& texts : missing) warn(texts);
      return true;
    }
    if (missing.empty()) return true;
    std::vector<std::string> strict_texts;
    for (const auto& texts : missing) strict_texts.insert(strict_texts.end(), texts.begin(), texts.end());
    strict_texts.emplace_back("strict_logging");
    end_all({ExpectedEnd::kMisuse, strict_texts, true});
    return false;
  }

  void conclude(const Agreed& metric, const Boundary& boundary, bool step, ExpectedBoundary& expected) {
    const MetricOptions& options = metric.options;
    const bool is_carried = step ? options.on_step && metric.group() == MetricGroup::kTrain && carries_steps(boundary)
                                 : ends_epoch(boundary) && is_due(metric, boundary);
    if (!is_carried) return;
    std::vector<Sample> all;
    int first = -1;
    for (int rank = 0; rank < program_.ranks; ++rank) {
      const auto& mine = samples(rank, metric, boundary, step);
      if (first < 0 && !mine.empty()) first = rank;
      all.insert(all.end(), mine.begin(), mine.end());
    }
    if (first < 0) return;
    const bool reduced = options.is_reduced(step ? detail::Level::kStep : detail::Level::kEpoch);
    const auto value_of = [&](int rank) {
      const auto& mine = samples(rank, metric, boundary, step);
      return step ? mine.front().value : reduce(mine, options.reduce);
    };
    double decided = reduced ? reduce(all, options.reduce) : value_of(first);
    if (step && all.size() == 1) decided = all.front().value;

    const char* fork = step ? "_step" : "_epoch";
    if (!step || metric.group() == MetricGroup::kTrain) {
      monitored_[metric.name("")] = decided;
      monitored_[metric.name(fork)] = decided;
    }
    const bool row = boundary.stage != Stage::kSanityCheck && options.logger &&
                     boundary.kind == (step ? BoundaryKind::kTrainStep : BoundaryKind::kEpochEnd);
    if (row) expected.logger_row[metric.name(fork)] = decided;
    for (int rank = 0; rank < program_.ranks; ++rank) {
      const bool logged = !samples(rank, metric, boundary, step).empty();
      if (reduced || options.rank_zero_only) {
        show(at(rank), metric, decided, step);
      } else if (logged) {
        show(at(rank), metric, value_of(rank), step);
      }
      if (!row || !logged) continue;
      at(rank).views.local_row[metric.name(fork)] = value_of(rank);
      expected.rank_rows[static_cast<std::size_t>(rank)][metric.name(fork)] = value_of(rank);
      if (options.per_rank) expected.logger_row["rank_" + std::to_string(rank) + "_" + metric.name(fork)] = value_of(rank);
    }
  }

  const Program& program_;
  std::vector<RankState> ranks_;
  std::vector<Agreed> agreed_;
  std::vector<Stage> stages_;
  MetricMap monitored_;
  ExpectedRun expected_;
  std::int64_t collectives_ = 0;
  bool over_ = false;
  bool jump_ = false;
};

}  // namespace

ExpectedRun expect(const Program& program) { return Oracle(program).run(); }

}  // namespace levin::testing
