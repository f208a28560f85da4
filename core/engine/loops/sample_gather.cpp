#include "levin/core/engine/loops/sample_gather.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <sstream>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/batch_loader.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/log_options.h"

namespace levin {

namespace {

constexpr std::size_t kMaxDimensions = 16;

/// What a rank says of its rows before it sends them.
struct Header {
  std::int64_t rows = 0;
  std::int64_t indexed = 0;  ///< the dataset indices of the rows are known, and follow them
  std::int64_t type = static_cast<std::int64_t>(at::kFloat);
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
  at::TensorOptions tensor_options() const { return at::TensorOptions(at::ScalarType(type)); }
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
  at::Tensor values;
  std::optional<std::vector<std::int64_t>> samples;

  std::int64_t count() const { return values.size(0); }
};

Header header_of(const at::Tensor& values) {
  Header header;
  header.rows = values.size(0);
  header.type = static_cast<std::int64_t>(values.scalar_type());
  header.dimensions = values.dim() - 1;
  for (std::int64_t index = 0; index < header.dimensions; ++index) {
    header.sizes[static_cast<std::size_t>(index)] = values.size(index + 1);
  }
  header.row_bytes = header.rows == 0 ? 0 : static_cast<std::int64_t>(values.nbytes()) / header.rows;
  return header;
}

void check_tensor(const at::Tensor& batch, const std::string& call) {
  if (!batch.defined()) throw MisuseError(call + ": one of the tensors is undefined.");
  if (batch.dim() > 0 && batch.dim() <= static_cast<std::int64_t>(kMaxDimensions)) return;
  throw MisuseError(format("{}: takes tensors of 1 to {} dimensions, the first of which counts samples; one has {}.", call,
                           kMaxDimensions, batch.dim()));
}

/// All batches as one tensor on the CPU.
at::Tensor joined(const std::vector<at::Tensor>& batches, const std::string& call) {
  std::vector<at::Tensor> parts;
  at::Tensor empty = at::empty({0}, at::kFloat);
  for (const at::Tensor& batch : batches) {
    check_tensor(batch, call);
    // What a rank without a batch passes, torch::empty({0}), says nothing of a row's shape.
    if (batch.size(0) == 0) {
      empty = batch.detach().to(at::kCPU);
      continue;
    }
    parts.push_back(batch.detach().to(at::kCPU));
    const Header first = header_of(parts.front());
    const Header other = header_of(parts.back());
    if (other.same_kind(first)) continue;
    throw MisuseError(call + ": all batches need rows of one type and shape, but they are " + first.str() + " and " +
                      other.str() + ". Pad or convert them first.");
  }
  return parts.empty() ? empty : at::cat(parts).contiguous();
}

/// The samples of the batch in work, or of the epoch of that loader so far; nullopt when the loader cannot tell.
std::optional<std::vector<std::int64_t>> samples_in_work(const BatchProgress& progress, std::int64_t dataloader_idx,
                                                         const std::string& call) {
  if (progress.loaders.empty()) {
    throw MisuseError(call + ": no data is being read here. Call it in a hook of a batch, or of an epoch's start or end.");
  }
  const std::int64_t index = progress.in_work ? progress.dataloader_idx : dataloader_idx;
  const auto loaders = static_cast<std::int64_t>(progress.loaders.size());
  if (index < 0 || index >= loaders) {
    throw MisuseError(format("{}: dataloader_idx is {}, but there {}.", call, index,
                             loaders == 1 ? "is 1 loader" : format("are {} loaders", loaders)));
  }
  const LoaderProgress& loader = progress.loaders[static_cast<std::size_t>(index)];
  auto samples = loader.loader->epoch_samples(loader.batches);
  const std::int64_t before = progress.in_work ? std::max<std::int64_t>(0, loader.batches - 1) : loader.skipped;
  if (samples && before > 0) {
    const auto earlier = loader.loader->epoch_samples(before);
    if (earlier) samples->erase(samples->begin(), samples->begin() + static_cast<std::ptrdiff_t>(earlier->size()));
  }
  return samples;
}

Rows own_rows(const BatchProgress& progress, const std::vector<at::Tensor>& batches, std::int64_t dataloader_idx,
              const std::string& call) {
  Rows rows{joined(batches, call), samples_in_work(progress, dataloader_idx, call)};
  if (rows.samples && static_cast<std::int64_t>(rows.samples->size()) != rows.count()) {
    throw MisuseError(format(
        "{} got {} rows, but this rank has seen {} samples in this {}: it needs one row for each sample, collected since the "
        "epoch began.",
        call, rows.count(), rows.samples->size(), progress.in_work ? "batch" : "epoch"));
  }
  return rows;
}

/// Throws the same error on every rank when rows do not fit together. Gives the kind that all have.
Header common_kind(const std::vector<Header>& headers, const std::string& call) {
  const auto has_rows = [](const Header& header) { return header.rows > 0; };
  const auto first = std::find_if(headers.begin(), headers.end(), has_rows);
  if (first == headers.end()) return headers.front();
  for (auto other = first; other != headers.end(); ++other) {
    if (!has_rows(*other) || other->same_kind(*first)) continue;
    throw DesyncError(format("{}: ranks collected different tensors: {} on rank {}, {} on rank {}.", call, first->str(),
                             first - headers.begin(), other->str(), other - headers.begin()));
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

Rows rows_of(const Header& header, const std::byte* message) {
  Rows rows;
  rows.values = at::empty(header.shape(), header.tensor_options());
  const auto bytes = static_cast<std::size_t>(header.rows * header.row_bytes);
  if (bytes > 0) std::memcpy(rows.values.mutable_data_ptr(), message, bytes);
  if (header.indexed == 0) return rows;
  rows.samples.emplace(static_cast<std::size_t>(header.rows));
  if (header.rows > 0) std::memcpy(rows.samples->data(), message + bytes, rows.samples->size() * sizeof(std::int64_t));
  return rows;
}

/// Every rank's rows, on every rank; those that have any.
std::vector<Rows> exchanged(RankExchange exchange, const Rows& mine, const std::string& call) {
  Header header = header_of(mine.values);
  header.indexed = mine.samples ? 1 : 0;
  const Meeting meeting(call, "it is for all ranks to call, at one place");
  const std::vector<Header> headers = exchange.gather_values(header, meeting);
  const Header kind = common_kind(headers, call);
  std::int64_t longest = 0;
  for (const Header& one : headers) longest = std::max(longest, one.message_bytes());
  const std::vector<std::byte> message = message_of(mine, header, longest);
  const std::vector<std::byte> messages = exchange.gather_bytes(message, meeting);

  std::vector<Rows> by_rank;
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    if (headers[rank].rows > 0) by_rank.push_back(rows_of(headers[rank], messages.data() + rank * message.size()));
  }
  if (by_rank.empty()) by_rank.push_back(rows_of(kind, messages.data()));
  return by_rank;
}

/// Which of the joined rows to take, so that samples come in order and once; all of them as they are when not every rank knows
/// its samples.
std::vector<std::int64_t> order_of(const std::vector<Rows>& by_rank) {
  std::vector<std::int64_t> samples;
  std::int64_t rows = 0;
  for (const Rows& part : by_rank) {
    rows += part.count();
    if (part.samples) samples.insert(samples.end(), part.samples->begin(), part.samples->end());
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  if (static_cast<std::int64_t>(samples.size()) != rows) return order;
  const auto sample = [&](std::int64_t row) { return samples[static_cast<std::size_t>(row)]; };
  std::erase_if(order, [&](std::int64_t row) { return sample(row) < 0; });
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t left, std::int64_t right) { return sample(left) < sample(right); });
  const auto same = [&](std::int64_t left, std::int64_t right) { return sample(left) == sample(right); };
  order.erase(std::unique(order.begin(), order.end(), same), order.end());
  return order;
}

}  // namespace

std::optional<std::vector<std::int64_t>> samples_of_batch(const Trainer& trainer) {
  return samples_in_work(TrainerState::of(trainer).progress.batch, trainer.dataloader_idx(), "samples_of_batch");
}

at::Tensor gather_samples(Strategy& strategy, const BatchProgress& progress, const std::vector<at::Tensor>& batches,
                          std::int64_t dataloader_idx, SourceLocation where) {
  const std::string call = "gather_for_metrics at " + CallSite(where).str();
  const Rows mine = own_rows(progress, batches, dataloader_idx, call);
  const std::vector<Rows> by_rank = exchanged(RankExchange(strategy.control_group()), mine, call);
  std::vector<at::Tensor> values;
  for (const Rows& part : by_rank) values.push_back(part.values);
  return at::cat(values).index_select(0, at::tensor(order_of(by_rank), at::kLong)).to(strategy.device());
}

}  // namespace levin
