#include "levin/core/protocol/metric_store.h"

#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/metric_recorder.h"

namespace levin {

struct MetricStore::State {
  State(ControlGroup& its_group, Options its_options)
      : group(its_group),
        options(std::move(its_options)),
        recorder(table, views, group.rank(), group.size()),
        exchange(group, table) {}

  ControlGroup& group;
  Options options;
  detail::MetricTable table;
  detail::MetricViews views;
  detail::MetricRecorder recorder;
  detail::BoundaryExchange exchange;
  std::size_t coverage_warnings = 0;
};

MetricStore::MetricStore(ControlGroup& group, Options options) : state_(std::make_unique<State>(group, std::move(options))) {}
MetricStore::~MetricStore() = default;

void MetricStore::clear() {
  hook_ = Hook::kNone;
  state_ = std::make_unique<State>(state_->group, std::move(state_->options));
}

void MetricStore::begin_stage(Stage stage) {
  if (state_->recorder.is_idle()) state_->views.clear();
  state_->recorder.begin_stage(stage);
}

void MetricStore::end_stage() {
  const Stage ended = state_->recorder.end_stage();
  if (ended == Stage::kSanityCheck) state_->views.clear();
}

void MetricStore::begin_batch(const BatchScope& scope) { state_->recorder.begin_batch(scope); }
void MetricStore::end_batch() { state_->recorder.end_batch(); }
void MetricStore::reset_epoch() { state_->recorder.reset_epoch(); }

void MetricStore::mark() { state_->recorder.mark(); }

MetricSnapshot MetricStore::save(MetricMoment moment) {
  MetricSnapshot snapshot = state_->recorder.save(moment);
  snapshot.maps = maps();
  return snapshot;
}

MetricMaps MetricStore::maps() const { return state_->views.maps(); }

void MetricStore::restore(const std::vector<MetricSnapshot>& by_rank) {
  if (by_rank.empty()) return;
  state_->recorder.restore(by_rank);
  state_->views.restore(by_rank.front().maps);
}

void MetricStore::log(std::string_view name, double value, const LogOptions& options, CallSite where) {
  state_->recorder.log(hook_, name, value, options, where);
}

void MetricStore::log(std::string_view name, std::shared_ptr<DeferredValue> value, const LogOptions& options, CallSite where) {
  state_->recorder.log(hook_, name, std::move(value), options, where);
}

BoundaryOutcome MetricStore::meet(const Boundary& boundary, const Votes& votes, const BoundaryPayload& payload) {
  State& state = *state_;
  const detail::Level level = detail::level_of(boundary.kind);
  const detail::MetricGroup group = detail::group_of(boundary.stage);
  const std::int64_t batches = state.recorder.batches(group, level);
  const detail::Exchanged& exchanged = state.exchange.meet(boundary, hook_, votes, payload, batches);
  BoundaryOutcome outcome =
      detail::conclude(boundary, exchanged, state.group.rank(),
                       {state.options.strict_logging, state.options.warn, state.coverage_warnings}, state.views);
  state.recorder.end_boundary(boundary.kind);
  return outcome;
}

const MetricMap& MetricStore::callback_metrics() const { return state_->views.callback(); }
const MetricMap& MetricStore::logged_metrics() const { return state_->views.logged(); }
const MetricMap& MetricStore::progress_bar_metrics() const { return state_->views.progress_bar(); }

std::optional<double> MetricStore::monitored(std::string_view name) const {
  if (state_->group.size() > 1) return state_->views.monitored(name);
  const auto found = state_->views.callback().find(name);
  if (found == state_->views.callback().end()) return std::nullopt;
  return found->second;
}

MetricMap MetricStore::local_step_row() const { return state_->recorder.local_step_row(); }
void MetricStore::set_callback_metric(std::string_view name, double value) { state_->views.set(name, value); }
std::int64_t MetricStore::collectives() const { return state_->exchange.collectives(); }

}  // namespace levin
