#include "levin/core/loops/sample_gather.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <sstream>
#include <string>

#include "levin/core/error.h"
#include "levin/core/loops/runtime.h"
#include "levin/core/protocol/log_options.h"

namespace levin {

namespace {

constexpr std::size_t kMaxDimensions = 16;

/// What a rank says of its rows before it sends them.
struct Header {
  std::int64_t rows = 0;
  std::int64_t indexed = 0;  ///< the dataset indices of the rows are known, and follow them
  std::int64_t type = 0;
  std::int64_t dimensions = 0;
  std::array<std::int64_t, kMaxDimensions> sizes{};  ///< of one row
  std::int64_t row_bytes = 0;

  bool same_kind(const Header& other) const {
    return type == other.type && dimensions == other.dimensions && sizes == other.sizes;
  }
  std::int64_t message_bytes() const {
    return rows * row_bytes + (indexed != 0 ? rows * std::int64_t{sizeof(std::int64_t)} : 0);
  }
  std::vector<std::int64_t> shape() const {
    std::vector<std::int64_t> shape = {rows};
    shape.insert(shape.end(), sizes.begin(), sizes.begin() + dimensions);
    return shape;
  }
  std::string str() const {
    std::ostringstream text;
    text << at::ScalarType(type) << " [*";
    for (std::int64_t index = 0; index < dimensions; ++index) text << ", " << sizes[static_cast<std::size_t>(index)];
    text << "]";
    return text.str();
  }
};

/// Rows of one rank with the samples that they belong to.
struct Rows {
  at::Tensor values;  ///< undefined: none
  std::optional<std::vector<std::int64_t>> samples;

  std::int64_t count() const { return values.defined() ? values.size(0) : 0; }
};

Header header_of(const Rows& rows) {
  Header header;
  header.indexed = rows.samples ? 1 : 0;
  if (!rows.values.defined()) return header;
  header.rows = rows.count();
  header.type = static_cast<std::int64_t>(rows.values.scalar_type());
  header.dimensions = rows.values.dim() - 1;
  for (std::int64_t index = 0; index < header.dimensions; ++index) {
    header.sizes[static_cast<std::size_t>(index)] = rows.values.size(index + 1);
  }
  header.row_bytes = header.rows == 0 ? 0 : static_cast<std::int64_t>(rows.values.nbytes()) / header.rows;
  return header;
}

at::Tensor joined(const std::vector<at::Tensor>& batches, const std::string& call) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& batch : batches) {
    if (!batch.defined()) throw MisuseError(call + ": one of the tensors is undefined.");
    if (batch.dim() == 0 || batch.dim() > static_cast<std::int64_t>(kMaxDimensions)) {
      throw MisuseError(call + ": takes tensors of 1 to " + std::to_string(kMaxDimensions) +
                        " dimensions, the first of which counts samples; one has " + std::to_string(batch.dim()) + ".");
    }
    // What a rank without a batch passes, torch::empty({0}), says nothing of a row's shape.
    if (batch.size(0) > 0) parts.push_back(batch.detach().to(at::kCPU));
  }
  return parts.empty() ? at::Tensor() : at::cat(parts).contiguous();
}

/// The samples that this rank's rows must belong to; nullopt when the loader cannot tell.
std::optional<std::vector<std::int64_t>> samples_in_work(const LoopState& state, std::int64_t dataloader_idx) {
  const auto index = static_cast<std::size_t>(state.in_batch ? state.dataloader_idx : dataloader_idx);
  if (index >= state.loaders.size() || state.loaders[index].loader == nullptr) return std::nullopt;
  const LoaderProgress& progress = state.loaders[index];
  auto samples = progress.loader->epoch_samples(progress.batches);
  if (samples && state.in_batch && progress.batches > 0) {
    const auto earlier = progress.loader->epoch_samples(progress.batches - 1);
    if (earlier) samples->erase(samples->begin(), samples->begin() + static_cast<std::ptrdiff_t>(earlier->size()));
  }
  return samples;
}

Rows own_rows(const LoopState& state, const std::vector<at::Tensor>& batches, std::int64_t dataloader_idx,
              const std::string& call) {
  Rows rows{joined(batches, call), samples_in_work(state, dataloader_idx)};
  if (rows.samples && static_cast<std::int64_t>(rows.samples->size()) != rows.count()) {
    throw MisuseError(call + " got " + std::to_string(rows.count()) + " rows, but this rank has seen " +
                      std::to_string(rows.samples->size()) +
                      (state.in_batch ? " samples in this batch" : " samples in this epoch") +
                      ": it needs one row for each sample, collected since the epoch began.");
  }
  return rows;
}

/// Throws the same error on every rank when rows do not fit together. Gives one header of the kind that all have.
Header common_kind(const std::vector<Header>& headers, const std::string& call) {
  const auto has_rows = [](const Header& header) { return header.rows > 0; };
  const auto first = std::find_if(headers.begin(), headers.end(), has_rows);
  if (first == headers.end()) return {};
  for (auto other = first; other != headers.end(); ++other) {
    if (!has_rows(*other) || other->same_kind(*first)) continue;
    throw DesyncError(call + ": ranks collected different tensors: " + first->str() + " on rank " +
                      std::to_string(first - headers.begin()) + ", " + other->str() + " on rank " +
                      std::to_string(other - headers.begin()) + ".");
  }
  return *first;
}

std::vector<std::byte> message_of(const Rows& rows, const Header& header, std::int64_t padded_bytes) {
  std::vector<std::byte> message(static_cast<std::size_t>(padded_bytes));
  const auto values = static_cast<std::size_t>(header.rows * header.row_bytes);
  if (values > 0) std::memcpy(message.data(), rows.values.const_data_ptr(), values);
  if (rows.samples && !rows.samples->empty()) {
    std::memcpy(message.data() + values, rows.samples->data(), rows.samples->size() * sizeof(std::int64_t));
  }
  return message;
}

/// Positions of rows so that samples come in order and once; all of them as they are when not every rank knows its samples.
std::vector<std::int64_t> order_of(const std::vector<std::optional<std::vector<std::int64_t>>>& samples_by_rank,
                                   std::int64_t rows) {
  std::vector<std::int64_t> samples;
  for (const auto& part : samples_by_rank) {
    if (part) samples.insert(samples.end(), part->begin(), part->end());
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  if (static_cast<std::int64_t>(samples.size()) != rows) return order;
  const auto sample = [&](std::int64_t row) { return samples[static_cast<std::size_t>(row)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t left, std::int64_t right) { return sample(left) < sample(right); });
  const auto same = [&](std::int64_t left, std::int64_t right) { return sample(left) == sample(right); };
  order.erase(std::unique(order.begin(), order.end(), same), order.end());
  return order;
}

}  // namespace

at::Tensor gather_samples(Trainer::Runtime& runtime, const std::vector<at::Tensor>& batches, std::int64_t dataloader_idx,
                          SourceLocation where) {
  const std::string call = "gather_for_metrics at " + CallSite(where).str();
  const Rows mine = own_rows(runtime.state, batches, dataloader_idx, call);
  ControlGroup& group = runtime.strategy->control_group();
  const auto ranks = static_cast<std::size_t>(group.size());

  const Header header = header_of(mine);
  std::vector<Header> headers(ranks);
  group.all_gather(std::as_bytes(std::span(&header, 1)), std::as_writable_bytes(std::span(headers)), call.c_str());
  const Header kind = common_kind(headers, call);
  std::int64_t longest = 0;
  for (const Header& one : headers) longest = std::max(longest, one.message_bytes());
  const std::vector<std::byte> message = message_of(mine, header, longest);
  std::vector<std::byte> messages(message.size() * ranks);
  group.all_gather(message, messages, call.c_str());

  std::vector<at::Tensor> values;
  std::vector<std::optional<std::vector<std::int64_t>>> samples(ranks);
  std::int64_t rows = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Header& of_rank = headers[rank];
    if (of_rank.rows == 0) continue;
    const std::byte* bytes = messages.data() + rank * message.size();
    const auto value_bytes = static_cast<std::size_t>(of_rank.rows * of_rank.row_bytes);
    values.push_back(at::empty(of_rank.shape(), at::TensorOptions(at::ScalarType(of_rank.type))));
    std::memcpy(values.back().mutable_data_ptr(), bytes, value_bytes);
    if (of_rank.indexed != 0) {
      samples[rank].emplace(static_cast<std::size_t>(of_rank.rows));
      std::memcpy(samples[rank]->data(), bytes + value_bytes, samples[rank]->size() * sizeof(std::int64_t));
    }
    rows += of_rank.rows;
  }
  const at::Device device = runtime.strategy->device();
  if (values.empty()) return at::empty({0}, at::TensorOptions(at::ScalarType(kind.type)).device(device));
  return at::cat(values).index_select(0, at::tensor(order_of(samples, rows))).to(device);
}

}  // namespace levin
