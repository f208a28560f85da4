#include "core/protocol/simulation/oracle.h"

#include <tuple>
#include <utility>

#include "core/protocol/simulation/oracle_ranks.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::testing {

namespace {

using detail::MetricGroup;
using detail::MetricOptions;
using oracle::Agreed;
using oracle::Key;
using oracle::Own;
using oracle::OwnObject;
using oracle::RankState;
using oracle::reduce;
using oracle::Samples;
using oracle::values_of;
using oracle::Weighted;

class Oracle {
 public:
  explicit Oracle(const Program& program) : program_(program), ranks_(static_cast<std::size_t>(program.ranks)) {
    expected_.ends.resize(ranks_.size());
    for (RankState& state : ranks_) state.objects.resize(program.objects.size());
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
      if (phase.type == Phase::kResume) {
        // Ranks agree on its keys and report them again.
        agreed_.clear();
        warnings_ = 0;
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
        state.forget(group);
        break;
      case Phase::kEndStage:
        if (stage == Stage::kSanityCheck) {
          state.views = {};
          state.forget(group);
          monitored_.clear();
        }
        break;
      case Phase::kBeginBatch:
        state.in_batch = true;
        ++state.epoch_batches[group];
        ++state.step_batches[group];
        for (const auto& [key, own] : state.own) {
          const bool has_steps = own.object >= 0 && own.options.on_step;
          if (has_steps && detail::group_of(std::get<0>(key)) == group)
            state.objects[static_cast<std::size_t>(own.object)].batch_is_taken = true;
        }
        break;
      case Phase::kEndBatch:
        state.in_batch = false;
        break;
      case Phase::kResetEpoch:
        state.forget(group);
        break;
      case Phase::kBoundary:
        break;
      case Phase::kResume:
        state.resume();
        break;
      case Phase::kHook:
        for (const std::size_t statement : program_.statements_at(index, rank)) {
          if (state.alive) execute(statement, phase, index, rank);
        }
    }
  }

  void execute(std::size_t statement_index, const Phase& phase, std::size_t index, int rank) {
    const LogStatement& statement = program_.statements[statement_index];
    if (statement.object >= 0) {
      OwnObject& object = at(rank).objects[static_cast<std::size_t>(statement.object)];
      if (statement.resets) object = {};
      for (auto& [key, own] : at(rank).own) {
        own.rows_are_old |= own.object == statement.object && (statement.resets || statement.updates > 0);
      }
      for (int update = 0; update < statement.updates; ++update)
        object.update(program_.sample(statement_index, index, rank, update));
    }
    if (statement.logs) log(statement_index, phase, index, rank);
  }

  void log(std::size_t statement_index, const Phase& phase, std::size_t index, int rank) {
    RankState& state = at(rank);
    const LogStatement& statement = program_.statements[statement_index];
    const HookPolicy policy = hook_policy(statement.hook);
    MetricOptions options = detail::resolve(statement.options, policy);
    if (statement.object >= 0)
      options.object = detail::object_id(program_.objects[static_cast<std::size_t>(statement.object)].name);
    const std::string site = "program.cpp:" + std::to_string(statement.line);
    if (!options.on_step && !options.on_epoch)
      return end(rank, {ExpectedEnd::kMisuse, {"log(\"" + statement.name + "\")", site}});
    const bool suffix = state.in_batch && !phase.training && program_.dataloaders > 1 && statement.options.add_dataloader_idx;
    const Key key{statement.hook, statement.name, suffix ? phase.dataloader : -1};

    auto found = state.own.find(key);
    if (found == state.own.end()) {
      found = state.own.emplace(key, Own{.options = options, .site = site, .object = statement.object}).first;
      state.known.push_back(key);
      state.news.push_back(key);
    }
    Own& own = found->second;
    if (!(own.options == options)) {
      return end(rank, {ExpectedEnd::kMisuse, {"log(\"" + statement.name + "\")", "(" + site + ")", "at " + own.site}});
    }
    if (options.rank_zero_only && rank != 0) return;
    const std::int64_t size = state.in_batch ? program_.batch_size(index, rank) : 1;
    const Weighted sample{program_.value(statement_index, index, rank),
                          static_cast<double>(statement.options.batch_size.value_or(size))};
    own.epoch_is_logged = options.on_epoch;
    if (options.on_epoch) own.epoch.push_back(sample);
    if (!options.on_step) return;
    own.step = {sample};
    own.step_is_logged = own.step_is_new = own.is_unshared = true;
    if (own.object >= 0) {
      OwnObject& object = state.objects[static_cast<std::size_t>(own.object)];
      own.batch = object.batch;
      object.batch_is_taken = true;
    }
    const Agreed metric{key, options, "", own.object};
    const bool reduced = metric.group() == MetricGroup::kTrain && options.is_reduced(detail::Level::kStep);
    if (reduced && program_.ranks > 1) return;
    const std::vector<double> values = own_values(rank, metric, true);
    const std::vector<Agreed> parts = parts_of(metric);
    for (std::size_t part = 0; part < parts.size(); ++part) show(state, parts[part], values[part], true);
  }

  /// The parts of a metric that have their own name and value.
  std::vector<Agreed> parts_of(const Agreed& metric) const {
    if (metric.object < 0) return {metric};
    std::vector<Agreed> parts;
    for (const auto& [ending, value] : values_of(program_.objects[static_cast<std::size_t>(metric.object)], {})) {
      Agreed& part = parts.emplace_back(metric);
      std::get<1>(part.key) += ending;
    }
    return parts;
  }

  /// What a rank's object has seen of a step, or of the epoch.
  const Samples& seen(int rank, const Agreed& metric, bool step) {
    if (step) return at(rank).own.at(metric.key).batch;
    return at(rank).objects[static_cast<std::size_t>(metric.object)].epoch;
  }

  std::vector<double> computed(const Agreed& metric, const Samples& samples) const {
    std::vector<double> values;
    for (const auto& [ending, value] : values_of(program_.objects[static_cast<std::size_t>(metric.object)], samples))
      values.push_back(value);
    return values;
  }

  /// Of a rank that has logged it.
  std::vector<double> own_values(int rank, const Agreed& metric, bool step) {
    if (metric.object >= 0) return computed(metric, seen(rank, metric, step));
    const Own& own = at(rank).own.at(metric.key);
    return {step ? own.step.front().value : reduce(own.epoch, metric.options.reduce)};
  }

  /// Of all of these ranks together.
  std::vector<double> values_of_all(const std::vector<int>& ranks, const Agreed& metric, bool step) {
    if (metric.object >= 0) return computed(metric, seen_by(ranks, metric, step));
    std::vector<Weighted> all;
    for (const int rank : ranks) {
      const Own& own = at(rank).own.at(metric.key);
      const auto& mine = step ? own.step : own.epoch;
      all.insert(all.end(), mine.begin(), mine.end());
    }
    return {step && all.size() == 1 ? all.front().value : reduce(all, metric.options.reduce)};
  }

  Samples seen_by(const std::vector<int>& ranks, const Agreed& metric, bool step) {
    Samples all;
    for (const int rank : ranks) {
      const Samples& mine = seen(rank, metric, step);
      all.insert(all.end(), mine.begin(), mine.end());
    }
    return all;
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
      return end_all({ExpectedEnd::kDesync,
                      {"not at the same boundary",
                       "rank " + std::to_string(fault.rank) + " is in a checkpoint of test (epoch 77, step 777)"},
                      true});
    }
    if (fault.phase == index && (fault.type == Fault::kDeferredFails || fault.type == Fault::kObjectFails)) {
      end(fault.rank, {ExpectedEnd::kOwnFault, {"unreadable on purpose"}});
      return end_all({ExpectedEnd::kDesync, {"rank " + std::to_string(fault.rank) + " failed", "unreadable on purpose"}, true});
    }
    collectives_ += 1;
    if (!agree()) return;
    collectives_ += rows_travel(boundary);
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
      state.views.objects.clear();
      for (std::size_t object = 0; object < program_.objects.size(); ++object) {
        const OwnObject& own = state.objects[object];
        for (const auto& [ending, value] : values_of(program_.objects[object], own.shown.value_or(own.epoch)))
          state.views.objects[program_.objects[object].name + ending] = value;
      }
      expected.views.push_back(state.views);
      for (auto& [key, own] : state.own) own.is_unshared = own.is_unshared && !carries_steps(boundary);
      if (boundary.kind != BoundaryKind::kTrainStep) continue;
      for (auto& [key, own] : state.own) {
        if (detail::group_of(std::get<0>(key)) == detail::group_of(boundary.stage)) own.step_is_new = false;
      }
      state.step_batches[detail::group_of(boundary.stage)] = 0;
    }
    // On one rank it is the newest at any time.
    expected.monitored = program_.ranks > 1 ? monitored_ : ranks_.front().views.callback;
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
          fresh.push_back({key, own.options, own.site, own.object});
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
        if (!state.own.contains(metric.key)) state.known.push_back(metric.key);
        Own& own = state.own[metric.key];
        own.options = metric.options;
        own.site = metric.site;
        own.object = metric.object;
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
  bool has_logged(int rank, const Agreed& metric, const Boundary& boundary, bool step) {
    const Own& own = at(rank).own.at(metric.key);
    if (!step) return own.epoch_is_logged;
    return is_step(boundary) ? own.step_is_new : own.is_unshared;
  }

  void warn(const std::vector<std::string>& texts) {
    if (++warnings_ <= 50)
      expected_.warnings.push_back(texts);
    else if (warnings_ == 51)
      expected_.warnings.push_back({"More keys are logged on only some ranks"});
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
        if (has_logged(rank, metric, boundary, is_step(boundary))) {
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

  /// The ranks that have something to say of a metric; none where the boundary does not carry it.
  std::vector<int> ranks_with(const Agreed& metric, const Boundary& boundary, bool step) {
    const bool is_carried = step ? metric.options.on_step && metric.group() == MetricGroup::kTrain && carries_steps(boundary)
                                 : ends_epoch(boundary) && is_due(metric, boundary);
    std::vector<int> with;
    for (int rank = 0; is_carried && rank < program_.ranks; ++rank) {
      if (has_logged(rank, metric, boundary, step)) with.push_back(rank);
    }
    return with;
  }

  /// Rows of metric objects follow the frames: those of a step always, those of an epoch where they are not known already.
  bool rows_travel(const Boundary& boundary) {
    bool any = false;
    for (const Agreed& metric : agreed_) {
      if (metric.object < 0 || program_.objects[static_cast<std::size_t>(metric.object)].row_lists == 0) continue;
      any |= !seen_by(ranks_with(metric, boundary, true), metric, true).empty();
      const std::vector<int> with = ranks_with(metric, boundary, false);
      if (with.empty()) continue;
      bool are_known = true;
      for (RankState& state : ranks_) {
        const Own& own = state.own.at(metric.key);
        are_known &= own.knows_rows && !(own.epoch_is_logged && own.rows_are_old);
      }
      if (are_known) continue;
      for (RankState& state : ranks_) {
        Own& own = state.own.at(metric.key);
        own.knows_rows = true;
        own.rows_are_old = !own.epoch_is_logged;
      }
      any |= !seen_by(with, metric, false).empty();
    }
    return any;
  }

  void conclude(const Agreed& metric, const Boundary& boundary, bool step, ExpectedBoundary& expected) {
    const MetricOptions& options = metric.options;
    const std::vector<int> with = ranks_with(metric, boundary, step);
    if (with.empty()) return;
    const bool reduced = options.is_reduced(step ? detail::Level::kStep : detail::Level::kEpoch);
    const std::vector<double> decided = reduced ? values_of_all(with, metric, step) : own_values(with.front(), metric, step);
    if (reduced && metric.object >= 0 && !step) {
      for (RankState& state : ranks_)
        state.objects[static_cast<std::size_t>(metric.object)].shown = seen_by(with, metric, step);
    }
    const std::vector<Agreed> parts = parts_of(metric);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      conclude_part(parts[part], boundary, step, decided[part], expected);
      for (int rank = 0; rank < program_.ranks; ++rank) {
        const bool logged = has_logged(rank, metric, boundary, step);
        const double own = logged ? own_values(rank, metric, step)[part] : 0;
        if (reduced || options.rank_zero_only) {
          show(at(rank), parts[part], decided[part], step);
        } else if (logged) {
          show(at(rank), parts[part], own, step);
        }
        if (logged && gives_row(parts[part], boundary, step)) add_to_rows(parts[part], rank, own, step, expected);
      }
    }
  }

  static bool gives_row(const Agreed& metric, const Boundary& boundary, bool step) {
    return boundary.stage != Stage::kSanityCheck && metric.options.logger &&
           boundary.kind == (step ? BoundaryKind::kTrainStep : BoundaryKind::kEpochEnd);
  }

  void conclude_part(const Agreed& metric, const Boundary& boundary, bool step, double decided, ExpectedBoundary& expected) {
    const char* fork = step ? "_step" : "_epoch";
    if (!step || metric.group() == MetricGroup::kTrain) {
      monitored_[metric.name("")] = decided;
      monitored_[metric.name(fork)] = decided;
    }
    if (gives_row(metric, boundary, step)) expected.logger_row[metric.name(fork)] = decided;
  }

  void add_to_rows(const Agreed& metric, int rank, double value, bool step, ExpectedBoundary& expected) {
    const std::string name = metric.name(step ? "_step" : "_epoch");
    at(rank).views.local_row[name] = value;
    expected.rank_rows[static_cast<std::size_t>(rank)][name] = value;
    if (metric.options.per_rank) expected.logger_row["rank_" + std::to_string(rank) + "_" + name] = value;
  }

  const Program& program_;
  std::vector<RankState> ranks_;
  std::vector<Agreed> agreed_;
  std::vector<Stage> stages_;
  MetricMap monitored_;
  ExpectedRun expected_;
  std::int64_t collectives_ = 0;
  int warnings_ = 0;  ///< that the run has given since it began or resumed
  bool over_ = false;
  bool jump_ = false;
};

}  // namespace

ExpectedRun expect(const Program& program) { return Oracle(program).run(); }

}  // namespace levin::testing
