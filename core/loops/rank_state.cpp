#include "levin/core/loops/rank_state.h"

#include <ATen/ops/empty.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include "levin/core/checkpoint/rng_state.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"
#include "levin/core/protocol/news.h"

namespace levin {

namespace {

constexpr const char* kMetrics = "metrics";

Hook hook_of(const std::string& name) {
  for (int index = 0; index < static_cast<int>(Hook::kCount); ++index) {
    if (hook_name(static_cast<Hook>(index)) == name) return static_cast<Hook>(index);
  }
  return Hook::kNone;
}

Value to_value(const detail::NewMetric& metric) {
  return Value(Value::Map{{"hook", Value(hook_name(metric.hook))},
                          {"name", Value(metric.name)},
                          {"dataloader_idx", Value(static_cast<std::int64_t>(metric.dataloader_idx))},
                          {"options", Value(static_cast<std::int64_t>(metric.options.pack()))},
                          {"site", Value(metric.site)},
                          {"value", Value(metric.epoch.value)},
                          {"weight", Value(metric.epoch.weight)}});
}

/// Unset when this build of levin does not know the hook or the options.
std::optional<detail::NewMetric> metric_of(const Value& value) {
  const auto options = detail::MetricOptions::unpack(static_cast<std::uint16_t>(value.at("options").as_int()));
  const Hook hook = hook_of(value.at("hook").as_string());
  if (!options || hook == Hook::kNone) return std::nullopt;
  return detail::NewMetric{hook,
                           static_cast<std::int32_t>(value.at("dataloader_idx").as_int()),
                           value.at("name").as_string(),
                           *options,
                           value.at("site").as_string(),
                           {},
                           {value.at("value").as_double(), value.at("weight").as_double()}};
}

std::string text_of(const at::Tensor& bytes) { return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}; }

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

}  // namespace

RankState own_rank_state(Trainer::Runtime& runtime) {
  RankState state{text_of(rng_state()), {}};
  const LoopState& loop = runtime.state;
  if (!loop.fitting || loop.epoch_ending) return state;
  const std::vector<std::byte> metrics = runtime.metrics->save_training_epoch();
  state.metrics.assign(reinterpret_cast<const char*>(metrics.data()), metrics.size());
  return state;
}

std::vector<RankState> gather_rank_states(Trainer::Runtime& runtime) {
  const RankState mine = own_rank_state(runtime);
  const std::string size = std::to_string(mine.random.size());
  std::vector<RankState> states;
  for (const std::string& text : all_gather_text(runtime.strategy->control_group(), size + " " + mine.random + mine.metrics,
                                                 "gathering the ranks' states for a checkpoint")) {
    std::size_t random_size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), random_size);
    const auto begin = static_cast<std::size_t>(end - text.data()) + 1;
    if (error != std::errc() || begin > text.size() || *end != ' ' || random_size > text.size() - begin) {
      throw DesyncError("rank " + std::to_string(states.size()) +
                        " sent what is no state of a rank for a checkpoint: do all ranks run the same build of levin?");
    }
    states.push_back({text.substr(begin, random_size), text.substr(begin + random_size)});
  }
  return states;
}

void save_rank_state(int rank, const RankState& state, Checkpoint& checkpoint) {
  save_rng_state(rank, bytes_of(state.random), checkpoint);
  if (state.metrics.empty()) return;
  Value metrics(Value::List{});
  for (const detail::NewMetric& metric : detail::unpack_news(std::as_bytes(std::span(state.metrics))).metrics) {
    metrics.push_back(to_value(metric));
  }
  checkpoint.manifest[kMetrics][std::to_string(rank)] = std::move(metrics);
}

void restore_random_state(const Trainer::Runtime& runtime, const Checkpoint& checkpoint) {
  const int rank = runtime.strategy->rank();
  if (load_rng_state(rank, checkpoint)) return;
  Console::instance().warn("The checkpoint has no random state for rank " + std::to_string(rank) +
                           ", since it was written by a run on fewer ranks; random numbers go on from the seed.");
}

std::vector<std::vector<std::byte>> saved_metrics(const Trainer::Runtime& runtime, const Checkpoint& checkpoint) {
  std::vector<std::vector<std::byte>> saved;
  const Value* by_rank = checkpoint.manifest.find(kMetrics);
  if (by_rank == nullptr) return saved;
  for (int rank = runtime.strategy->rank();; rank += runtime.world_size()) {
    const Value* metrics = by_rank->find(std::to_string(rank));
    if (metrics == nullptr) return saved;
    detail::News news;
    for (const Value& value : metrics->as_list()) {
      if (auto metric = metric_of(value)) news.metrics.push_back(std::move(*metric));
    }
    saved.push_back(detail::pack(news));
  }
}

void keep_rank_states(Trainer::Runtime& runtime) {
  try {
    runtime.rank_states_at_end = gather_rank_states(runtime);
  } catch (const std::exception&) {
    // Another rank has failed meanwhile, which others report; a checkpoint then has rank 0's state.
  }
}

}  // namespace levin
