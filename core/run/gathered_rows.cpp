#include "levin/core/run/gathered_rows.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch_loader.h"
#include "levin/core/run/pickled_values.h"

namespace levin {

namespace {

struct Rows {
  at::Tensor values;
  std::optional<std::vector<std::int64_t>> samples;

  std::int64_t count() const { return values.size(0); }
};

/// "Float [*, 3]": the required form of all rows.
std::string kind_of_rows(const at::Tensor& rows) {
  return format("{} [*{}]", c10::toString(rows.scalar_type()),
                join(rows.sizes().slice(1), "", [](std::int64_t size) { return format(", {}", size); }));
}

at::Tensor joined(const std::vector<at::Tensor>& batches, const std::string& call) {
  std::vector<at::Tensor> parts;
  at::Tensor empty = at::empty({0}, at::kFloat);
  for (const at::Tensor& batch : batches) {
    if (!batch.defined()) throw MisuseError(call + ": one of the tensors is undefined.");
    if (batch.dim() == 0)
      throw MisuseError(call + ": takes tensors of 1 dimension or more, the first of which counts samples; one has 0.");
    // torch::empty({0}), from a rank without a batch, has no row shape.
    if (batch.size(0) == 0) {
      empty = batch.detach().to(at::kCPU);
      continue;
    }
    parts.push_back(batch.detach().to(at::kCPU));
    if (kind_of_rows(parts.back()) == kind_of_rows(parts.front())) continue;
    throw MisuseError(
        format("{}: all batches need rows of one type and shape, but they are {} and {}. Pad or convert them first.", call,
               kind_of_rows(parts.front()), kind_of_rows(parts.back())));
  }
  return parts.empty() ? empty.clone() : at::cat(parts).contiguous();
}

/// The non-empty rows of all ranks, on every rank. Throws the same error on every rank when they do not match.
std::vector<Rows> exchanged(RankExchange exchange, const Rows& mine, const std::string& call) {
  constexpr std::uint64_t kLongest = std::numeric_limits<std::uint32_t>::max();
  const ExchangeSite site(call, "all ranks must call it together");
  std::vector<Rows> by_rank;
  for (const std::string& bytes : exchange.gather_text(pickled({mine.values, mine.samples}), site, kLongest)) {
    const auto parts = unpickled(bytes);
    by_rank.push_back({parts[0].toTensor(), parts[1].toOptional<std::vector<std::int64_t>>()});
  }
  const auto is_empty = [](const Rows& rows) { return rows.count() == 0; };
  const auto first = std::ranges::find_if_not(by_rank, is_empty);
  if (first == by_rank.end()) return {by_rank.front()};
  for (auto rows = first; rows != by_rank.end(); ++rows) {
    if (is_empty(*rows) || kind_of_rows(rows->values) == kind_of_rows(first->values)) continue;
    throw DesyncError(format("{}: ranks collected different tensors: {} on rank {}, {} on rank {}.", call,
                             kind_of_rows(first->values), first - by_rank.begin(), kind_of_rows(rows->values),
                             rows - by_rank.begin()));
  }
  std::erase_if(by_rank, is_empty);
  return by_rank;
}

/// The joined rows to take, so that each sample comes once and in order; all rows unchanged when a rank does not know its
/// samples.
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
  std::ranges::stable_sort(order, [&](std::int64_t left, std::int64_t right) { return sample(left) < sample(right); });
  const auto same = [&](std::int64_t left, std::int64_t right) { return sample(left) == sample(right); };
  order.erase(std::unique(order.begin(), order.end(), same), order.end());
  return order;
}

}  // namespace

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

at::Tensor gather_rows(RankExchange exchange, const std::vector<at::Tensor>& batches, const BatchProgress& progress,
                       std::int64_t dataloader_idx, const std::string& call) {
  const Rows mine{joined(batches, call), samples_in_work(progress, dataloader_idx, call)};
  if (mine.samples && static_cast<std::int64_t>(mine.samples->size()) != mine.count()) {
    throw MisuseError(
        format("{} got {} rows, but this rank has seen {} samples in this {}: it needs one row for each sample since the start "
               "of the epoch.",
               call, mine.count(), mine.samples->size(), progress.in_work ? "batch" : "epoch"));
  }
  const std::vector<Rows> by_rank = exchanged(exchange, mine, call);
  std::vector<at::Tensor> values;
  for (const Rows& part : by_rank) values.push_back(part.values);
  return at::cat(values).index_select(0, at::tensor(order_of(by_rank), at::kLong));
}

}  // namespace levin
