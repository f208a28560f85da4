#include "levin/rl/rollout_buffer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <string_view>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/rl/random_numbers.h"
#include "levin/rl/rows.h"

namespace levin {

namespace {
constexpr std::array kNeededRows = {"value", "reward", "terminated", "truncated"};
constexpr std::string_view kFinalValue = "final_value";
}  // namespace

void RolloutBufferOptions::declare(OptionList<RolloutBufferOptions>& options) {
  using O = RolloutBufferOptions;
  options.add(&O::steps, "Steps of each environment").min(1);
  options.add(&O::environments, "Environments").min(1);
  options.add(&O::gamma, "Discount of a step").min(0).max(1);
  options.add(&O::gae_lambda, "1: returns without the values of later states, 0: the next state's value alone").min(0).max(1);
  options.add(&O::seed, "Seed of the shuffles; null: that of seed_everything");
}

RolloutBuffer::RolloutBuffer(Options options)
    : options_(checked("RolloutBuffer", options)), random_(chosen_seed(options_.seed)) {}

void RolloutBuffer::make_storage(const Batch& rows) {
  for (const auto& [name, tensor] : rows.items()) {
    if (name == kFinalValue) continue;
    std::vector<std::int64_t> sizes = tensor.sizes().vec();
    sizes.insert(sizes.begin(), options_.steps);
    columns_.push_back({name, at::empty(sizes, tensor.options())});
  }
  final_value_ = at::zeros({options_.steps, options_.environments}, at::kFloat);
}

void RolloutBuffer::add(const Batch& rows) {
  constexpr const char* kWhat = "RolloutBuffer::add()";
  const at::NoGradGuard no_gradients;
  if (is_full()) throw MisuseError(format("{}: the buffer is full. Call finish() and minibatches(), or clear().", kWhat));
  const std::int64_t count = rows_of(rows, kWhat);
  if (count != options_.environments) {
    throw MisuseError(format("{}: '{}' is {}, but the buffer is for {} environments.", kWhat, rows.items().front().first,
                             form_of_rows(rows[0]), options_.environments));
  }
  const bool has_final_value = rows.contains(kFinalValue);
  for (const char* name : kNeededRows) {
    if (!rows.contains(name)) throw MisuseError(format("{}: '{}' is missing.", kWhat, name));
    if (rows[name].dim() != 1) {
      throw MisuseError(
          format("{}: '{}' is {}, but has one number for each environment.", kWhat, name, form_of_rows(rows[name])));
    }
  }
  if (has_final_value && rows[kFinalValue].dim() != 1) {
    throw MisuseError(format("{}: '{}' is {}, but has one number for each environment.", kWhat, kFinalValue,
                             form_of_rows(rows[kFinalValue])));
  }
  if (!has_final_value && rows["truncated"].logical_and(rows["terminated"].logical_not()).any().item<bool>()) {
    throw MisuseError(format("{}: an episode was truncated, which needs '{}'.", kWhat, kFinalValue));
  }
  if (columns_.empty()) make_storage(rows);
  if (rows.size() - (has_final_value ? 1 : 0) != columns_.size()) {
    throw MisuseError(
        format("{}: {} tensors, but earlier steps have {}.", kWhat, rows.size() - (has_final_value ? 1 : 0), columns_.size()));
  }
  for (const Column& column : columns_) check_rows(rows[column.name], column.rows[0], column.name, kWhat);
  for (const Column& column : columns_) column.rows[filled_].copy_(rows[column.name]);
  if (has_final_value) final_value_[filled_].copy_(rows[kFinalValue]);
  ++filled_;
}

at::Tensor RolloutBuffer::numbers(const char* name) const {
  for (const Column& column : columns_) {
    if (column.name == name) return column.rows.to(at::kCPU, at::kFloat).contiguous();
  }
  return {};
}

void RolloutBuffer::finish(const at::Tensor& last_value) {
  constexpr const char* kWhat = "RolloutBuffer::finish()";
  const at::NoGradGuard no_gradients;
  if (!is_full()) throw MisuseError(format("{}: the buffer has {} of {} steps.", kWhat, filled_, options_.steps));
  if (last_value.dim() != 1 || last_value.size(0) != options_.environments) {
    throw MisuseError(format("{}: the last value is {}, but the buffer is for {} environments.", kWhat,
                             form_of_rows(last_value), options_.environments));
  }
  const at::Tensor last = last_value.detach().to(at::kCPU, at::kFloat).contiguous();
  const at::Tensor value = numbers("value"), reward = numbers("reward"), final_value = final_value_;
  const at::Tensor terminated = numbers("terminated"), truncated = numbers("truncated");
  const at::Tensor advantage = at::empty_like(value), returns = at::empty_like(value);
  const float* const values = value.const_data_ptr<float>();
  const float* const rewards = reward.const_data_ptr<float>();
  const float* const final_values = final_value.const_data_ptr<float>();
  const float* const terminations = terminated.const_data_ptr<float>();
  const float* const truncations = truncated.const_data_ptr<float>();
  for (std::int64_t environment = 0; environment < options_.environments; ++environment) {
    double next_value = last.const_data_ptr<float>()[environment];
    double next_advantage = 0;
    for (std::int64_t step = options_.steps - 1; step >= 0; --step) {
      const std::int64_t row = step * options_.environments + environment;
      const bool is_terminated = terminations[row] != 0;
      const bool is_ended = is_terminated || truncations[row] != 0;
      if (is_ended) {
        next_value = is_terminated ? 0 : final_values[row];
        next_advantage = 0;
      }
      const double delta = rewards[row] + options_.gamma * next_value - values[row];
      next_advantage = delta + options_.gamma * options_.gae_lambda * next_advantage;
      next_value = values[row];
      advantage.mutable_data_ptr<float>()[row] = static_cast<float>(next_advantage);
      returns.mutable_data_ptr<float>()[row] = static_cast<float>(next_advantage + values[row]);
    }
  }
  const at::Device device = columns_.front().rows.device();
  advantage_ = advantage.to(device);
  return_ = returns.to(device);
  pass_ = position_ = 0;
}

Batch RolloutBuffer::rows() const {
  if (!is_finished()) throw MisuseError("RolloutBuffer: call finish() first.");
  Batch batch;
  for (const Column& column : columns_) batch.set(column.name, column.rows.flatten(0, 1));
  batch.set("advantage", advantage_.flatten());
  batch.set("return", return_.flatten());
  return batch;
}

Minibatches RolloutBuffer::minibatches(std::int64_t size, std::int64_t passes) {
  if (!is_finished()) throw MisuseError("RolloutBuffer::minibatches(): call finish() first.");
  return {*this, size, passes};
}

std::optional<Batch> RolloutBuffer::next_minibatch(std::int64_t size, std::int64_t passes) {
  if (size < 1) throw MisuseError(format("RolloutBuffer: a minibatch has at least one row, not {}.", size));
  const at::NoGradGuard no_gradients;
  const Batch all = rows();
  const std::int64_t count = options_.steps * options_.environments;
  if (position_ == count) {
    ++pass_;
    position_ = 0;
  }
  if (pass_ >= passes) {
    clear();
    return std::nullopt;
  }
  if (position_ == 0) {
    // Fisher and Yates.
    RandomNumbers random(random_);
    order_ = at::empty({count}, at::kLong);
    std::int64_t* const order = order_.mutable_data_ptr<std::int64_t>();
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t other = random.below(row + 1);
      order[row] = order[other];
      order[other] = row;
    }
    random_ = static_cast<std::uint64_t>(random.state());
  }
  const std::int64_t rows = std::min(size, count - position_);
  const at::Tensor index = order_.narrow(0, position_, rows).to(columns_.front().rows.device());
  position_ += rows;
  Batch batch;
  for (const auto& [name, tensor] : all.items()) batch.set(name, tensor.index_select(0, index));
  return batch;
}

void RolloutBuffer::clear() {
  filled_ = pass_ = position_ = 0;
  advantage_ = return_ = order_ = at::Tensor();
  if (final_value_.defined()) final_value_.zero_();
}

KeptFunctions RolloutBuffer::kept() {
  return {[this] { return state(); }, [this](const KeptState& state) { set_state(state); }};
}

// values: steps, environments, filled, pass, position, random; columns: names in their order
// tensors: row_NAME [filled, environments, …]; final_value; from finish() on: advantage, return; in a pass: order
KeptState RolloutBuffer::state() const {
  KeptState state{.values = Value::Map{}};
  state.values["steps"] = options_.steps;
  state.values["environments"] = options_.environments;
  state.values["filled"] = filled_;
  state.values["pass"] = pass_;
  state.values["position"] = position_;
  state.values["random"] = static_cast<std::int64_t>(random_);
  Value& names = state.values["columns"] = Value::List{};
  if (filled_ == 0) return state;
  for (const Column& column : columns_) {
    names.push_back(column.name);
    state.tensors["row_" + column.name] = column.rows.narrow(0, 0, filled_);
  }
  state.tensors["final_value"] = final_value_;
  if (is_finished()) {
    state.tensors["advantage"] = advantage_;
    state.tensors["return"] = return_;
  }
  if (order_.defined()) state.tensors["order"] = order_;
  return state;
}

void RolloutBuffer::set_state(const KeptState& state) {
  const std::int64_t steps = state.values.at("steps").as_int(), environments = state.values.at("environments").as_int();
  if (steps != options_.steps || environments != options_.environments) {
    throw ConfigError(format("The checkpoint's RolloutBuffer is for {} steps of {} environments, and this one for {} of {}.",
                             steps, environments, options_.steps, options_.environments));
  }
  clear();
  columns_.clear();
  const auto stored = [&](const char* name) {
    const auto found = state.tensors.find(name);
    return found == state.tensors.end() ? at::Tensor() : found->second.clone();
  };
  random_ = static_cast<std::uint64_t>(state.values.at("random").as_int());
  const Value::List& names = state.values.at("columns").as_list();
  if (names.empty()) return;
  Batch first;
  for (const Value& name : names) first.set(name.as_string(), state.tensors.at("row_" + name.as_string())[0]);
  make_storage(first);
  filled_ = state.values.at("filled").as_int();
  pass_ = state.values.at("pass").as_int();
  position_ = state.values.at("position").as_int();
  for (const Column& column : columns_) column.rows.narrow(0, 0, filled_).copy_(state.tensors.at("row_" + column.name));
  final_value_ = stored("final_value");
  advantage_ = stored("advantage");
  return_ = stored("return");
  order_ = stored("order");
}

}  // namespace levin
