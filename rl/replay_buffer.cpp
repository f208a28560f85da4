#include "levin/rl/replay_buffer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/rl/random_numbers.h"
#include "levin/rl/rows.h"
#include "levin/rl/sum_tree.h"

namespace levin {

struct ReplayBuffer::Priorities {
  SumTree tree;  ///< of priorities to the power of α
  double largest = 1;
};

void ReplayBufferOptions::declare(OptionList<ReplayBufferOptions>& options) {
  using O = ReplayBufferOptions;
  options.add(&O::capacity, "Transitions; null: as many as fit into max_bytes").min(1);
  options.add(&O::max_bytes, "Bytes of memory at most").min(1);
  options.add(&O::priority_exponent, "How much priorities count; 0: not at all").min(0);
  options.add(&O::importance_exponent, "How much weights correct for priorities; 1: fully").min(0).max(1);
  options.add(&O::seed, "Seed of what is drawn; null: that of seed_everything");
  options.rule({"capacity", "max_bytes"}, [](const O& buffer) {
    return buffer.capacity || buffer.max_bytes ? "" : "one of capacity and max_bytes is needed";
  });
}

ReplayBuffer::ReplayBuffer(Options options) : options_(checked("ReplayBuffer", options)), random_(chosen_seed(options_.seed)) {}

ReplayBuffer::~ReplayBuffer() = default;

void ReplayBuffer::make_storage(const Batch& rows) {
  std::int64_t row_bytes = 0;
  for (const auto& [name, tensor] : rows.items()) {
    row_bytes += static_cast<std::int64_t>(c10::multiply_integers(tensor.sizes().slice(1)) * tensor.element_size());
  }
  const bool has_priorities = options_.priority_exponent > 0;
  const auto bytes_of = [&](std::int64_t transitions) {
    return transitions * row_bytes + (has_priorities ? SumTree::bytes(transitions) : 0);
  };
  std::int64_t capacity = options_.capacity.value_or(0);
  if (options_.max_bytes) {
    // bytes_of(fits) <= max_bytes < bytes_of(too_many)
    std::int64_t fits = 0, too_many = *options_.max_bytes / std::max<std::int64_t>(row_bytes, 1) + 1;
    while (too_many - fits > 1) {
      const std::int64_t middle = fits + (too_many - fits) / 2;
      (bytes_of(middle) <= *options_.max_bytes ? fits : too_many) = middle;
    }
    if (fits == 0 || capacity > fits) {
      throw ConfigError(format("ReplayBuffer: {} take {} bytes, more than max_bytes: {}. {} fit.",
                               capacity > 0 ? format("{} transitions", capacity) : "one transition and its priority",
                               bytes_of(std::max<std::int64_t>(capacity, 1)), *options_.max_bytes,
                               fits == 0 ? "None" : format("{}", fits)));
    }
    if (capacity == 0) capacity = fits;
  }
  std::vector<Column> columns;
  for (const auto& [name, tensor] : rows.items()) {
    std::vector<std::int64_t> sizes = tensor.sizes().vec();
    sizes[0] = capacity;
    columns.push_back({name, at::empty(sizes, tensor.options())});
  }
  if (has_priorities) priorities_ = std::make_unique<Priorities>(Priorities{SumTree(capacity)});
  columns_ = std::move(columns);
  capacity_ = capacity;
}

void ReplayBuffer::add(const Batch& rows) {
  constexpr const char* kWhat = "ReplayBuffer::add()";
  const at::NoGradGuard no_gradients;
  const std::int64_t count = rows_of(rows, kWhat);
  if (count == 0) return;
  if (columns_.empty()) make_storage(rows);
  if (rows.size() != columns_.size()) {
    throw MisuseError(format("{}: {} tensors, but earlier rows have {}.", kWhat, rows.size(), columns_.size()));
  }
  std::vector<at::Tensor> given;
  for (const Column& column : columns_) {
    given.push_back(rows[column.name]);
    check_rows(given.back(), column.rows, column.name, kWhat);
  }
  // Of more rows than there is room for, the last ones stay.
  const std::int64_t stored = std::min(count, capacity_);
  const std::int64_t first = std::min(stored, capacity_ - next_);
  for (std::size_t index = 0; index < columns_.size(); ++index) {
    const at::Tensor newest = given[index].narrow(0, count - stored, stored);
    columns_[index].rows.narrow(0, next_, first).copy_(newest.narrow(0, 0, first));
    if (stored > first) columns_[index].rows.narrow(0, 0, stored - first).copy_(newest.narrow(0, first, stored - first));
  }
  if (priorities_) {
    for (std::int64_t row = 0; row < stored; ++row) set_priority((next_ + row) % capacity_, priorities_->largest);
  }
  next_ = (next_ + stored) % capacity_;
  size_ = std::min(capacity_, size_ + stored);
}

void ReplayBuffer::set_priority(std::int64_t index, double priority) {
  priorities_->tree.set(index, std::pow(priority, options_.priority_exponent));
}

Batch ReplayBuffer::sample(std::int64_t count) {
  if (size_ == 0) throw MisuseError("ReplayBuffer::sample(): the buffer is empty. Ask is_ready() first.");
  if (count < 1) throw MisuseError(format("ReplayBuffer::sample(): {} transitions cannot be drawn.", count));
  const at::NoGradGuard no_gradients;
  RandomNumbers random(random_);
  const at::Tensor index = at::empty({count}, at::kLong);
  std::int64_t* const indices = index.mutable_data_ptr<std::int64_t>();
  at::Tensor weight;
  if (priorities_) {
    const SumTree& tree = priorities_->tree;
    const double part = tree.total() / static_cast<double>(count);
    std::vector<double> weights;
    for (std::int64_t draw = 0; draw < count; ++draw) {
      indices[draw] = tree.find((static_cast<double>(draw) + random.uniform()) * part);
      const double chance = tree.weight(indices[draw]) / tree.total();
      weights.push_back(std::pow(static_cast<double>(size_) * chance, -options_.importance_exponent));
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    weight = at::empty({count}, at::kFloat);
    std::transform(weights.begin(), weights.end(), weight.mutable_data_ptr<float>(),
                   [largest](double one) { return static_cast<float>(one / largest); });
  } else {
    for (std::int64_t draw = 0; draw < count; ++draw) indices[draw] = random.below(size_);
  }
  random_ = static_cast<std::uint64_t>(random.state());
  Batch batch;
  const at::Tensor there = index.to(columns_.front().rows.device());
  for (const Column& column : columns_) batch.set(column.name, column.rows.index_select(0, there));
  if (priorities_) {
    batch.set("index", index);
    batch.set("weight", weight.to(there.device()));
  }
  return batch;
}

void ReplayBuffer::update_priorities(const at::Tensor& index, const at::Tensor& priority) {
  constexpr const char* kWhat = "ReplayBuffer::update_priorities()";
  if (options_.priority_exponent == 0) throw MisuseError(format("{}: set priority_exponent first.", kWhat));
  if (index.sizes() != priority.sizes() || index.scalar_type() != at::kLong) {
    throw MisuseError(format("{}: the index is {}, and the priority {}: one number each.", kWhat, form_of_rows(index),
                             form_of_rows(priority)));
  }
  const at::Tensor indices = index.detach().to(at::kCPU).contiguous();
  const at::Tensor numbers = priority.detach().to(at::kCPU, at::kDouble).contiguous();
  const std::int64_t* const at = indices.const_data_ptr<std::int64_t>();
  const double* const value = numbers.const_data_ptr<double>();
  for (std::int64_t draw = 0; draw < indices.numel(); ++draw) {
    if (at[draw] < 0 || at[draw] >= size_) {
      throw MisuseError(format("{}: there is no transition {}: the buffer has {}.", kWhat, at[draw], size_));
    }
    if (!std::isfinite(value[draw]) || value[draw] <= 0) {
      throw MisuseError(
          format("{}: the priority of transition {} is {}; it has to be finite and above 0.", kWhat, at[draw], value[draw]));
    }
  }
  for (std::int64_t draw = 0; draw < indices.numel(); ++draw) {
    set_priority(at[draw], value[draw]);
    priorities_->largest = std::max(priorities_->largest, value[draw]);
  }
}

void ReplayBuffer::set_importance_exponent(double exponent) {
  Options options = options_;
  options.importance_exponent = exponent;
  options_ = checked("ReplayBuffer", options);
}

std::int64_t ReplayBuffer::bytes() const {
  std::int64_t bytes = priorities_ ? SumTree::bytes(capacity_) : 0;
  for (const Column& column : columns_) bytes += static_cast<std::int64_t>(column.rows.nbytes());
  return bytes;
}

KeptFunctions ReplayBuffer::kept() {
  return {[this] { return state(); }, [this](const KeptState& state) { set_state(state); }};
}

// values: capacity, next, random, importance_exponent; columns: names in their order
// tensors: row_NAME [size, …]; priority [size], to the power of α; largest: priority
KeptState ReplayBuffer::state() const {
  KeptState state{.values = Value::Map{}};
  state.values["capacity"] = capacity_;
  state.values["next"] = next_;
  state.values["random"] = static_cast<std::int64_t>(random_);
  state.values["importance_exponent"] = options_.importance_exponent;
  Value& names = state.values["columns"] = Value::List{};
  for (const Column& column : columns_) {
    names.push_back(column.name);
    state.tensors["row_" + column.name] = column.rows.narrow(0, 0, size_);
  }
  if (priorities_) {
    std::vector<double> weights;
    for (std::int64_t index = 0; index < size_; ++index) weights.push_back(priorities_->tree.weight(index));
    state.tensors["priority"] = at::tensor(weights);
    state.tensors["largest"] = at::tensor(std::vector<double>{priorities_->largest});
  }
  return state;
}

void ReplayBuffer::set_state(const KeptState& state) {
  const Value::List& names = state.values.at("columns").as_list();
  columns_.clear();
  priorities_.reset();
  size_ = next_ = capacity_ = 0;
  random_ = static_cast<std::uint64_t>(state.values.at("random").as_int());
  options_.importance_exponent = state.values.at("importance_exponent").as_double();
  if (names.empty()) return;
  Batch rows;
  for (const Value& name : names) rows.set(name.as_string(), state.tensors.at("row_" + name.as_string()));
  make_storage(rows);
  const std::int64_t capacity = state.values.at("capacity").as_int();
  const auto weights = state.tensors.find("priority");
  if (capacity != capacity_ || (weights != state.tensors.end()) != (priorities_ != nullptr)) {
    throw ConfigError(
        format("The checkpoint's ReplayBuffer has room for {} transitions with{} priorities, and this one for {} "
               "with{}.",
               capacity, weights == state.tensors.end() ? "out" : "", capacity_, priorities_ ? "" : "out"));
  }
  size_ = rows.batch_size();
  next_ = state.values.at("next").as_int();
  for (const Column& column : columns_) column.rows.narrow(0, 0, size_).copy_(rows[column.name]);
  if (!priorities_) return;
  for (std::int64_t index = 0; index < size_; ++index) {
    priorities_->tree.set(index, weights->second[index].item<double>());
  }
  priorities_->largest = state.tensors.at("largest").item<double>();
}

}  // namespace levin
