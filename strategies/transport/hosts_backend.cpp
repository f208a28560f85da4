#include "levin/strategies/transport/hosts_backend.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/strategies/failure/failure.h"
#include "levin/strategies/transport/shared_memory_backend.h"

namespace levin {

namespace {

/// Up to here every rank of a host exchanges everything with other hosts: the waits of shares would take longer.
constexpr std::size_t kWholeBytes = std::size_t{4} << 10;
/// Up to here every host combines a share by itself, which is one exchange instead of two.
constexpr std::size_t kAtOnceBytes = std::size_t{16} << 10;

std::size_t parts_of(std::size_t whole, std::size_t part) { return (whole + part - 1) / part; }

/// At least so many bytes; what it held is lost when it grows.
std::byte* room(at::Tensor& buffer, std::size_t bytes) {
  const auto length = static_cast<std::int64_t>(bytes);
  if (!buffer.defined() || buffer.numel() < length) buffer = torch::empty({length}, torch::kUInt8);
  return static_cast<std::byte*>(buffer.mutable_data_ptr());
}

at::Tensor front(const at::Tensor& buffer, std::size_t bytes) { return buffer.narrow(0, 0, static_cast<std::int64_t>(bytes)); }

/// Gloo's destructor waits for calls that are under way, and those for other hosts.
void keep_to_the_end(c10::intrusive_ptr<c10d::Backend> backend) {
  static auto& kept = *new std::vector<c10::intrusive_ptr<c10d::Backend>>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(backend));
}

}  // namespace

std::optional<HostLayout> host_layout(const std::vector<std::string>& host_of_rank) {
  const int ranks = static_cast<int>(host_of_rank.size());
  const std::set<std::string> names(host_of_rank.begin(), host_of_rank.end());
  const int hosts = static_cast<int>(names.size());
  if (ranks == 0 || ranks % hosts != 0) return std::nullopt;
  const HostLayout layout{.hosts = hosts, .ranks_per_host = ranks / hosts};
  // As many blocks as names: where each block has one name, no two have the same.
  for (int rank = 0; rank < ranks; ++rank) {
    const int first = layout.first_rank_of(layout.host_of(rank));
    if (host_of_rank[static_cast<std::size_t>(rank)] != host_of_rank[static_cast<std::size_t>(first)]) return std::nullopt;
  }
  return layout;
}

void HostsBackend::reduce_by_host(const Values& values, const std::string& what) {
  const std::size_t bytes = values.bytes.size();
  if (bytes > kWholeBytes) return reduce_by_shares(values, what.c_str());
  links_.within->all_reduce(values, what.c_str());
  if (bytes == 0) return;
  std::memcpy(room(share_, bytes), values.bytes.data(), bytes);
  exchange_with_hosts(bytes);
  values.combine(values.bytes.data(), by_host_, bytes / values.element_bytes);
}

void HostsBackend::reduce_by_shares(const Values& values, const char* what) {
  const auto places = static_cast<std::size_t>(links_.within->size());
  const auto pieces = static_cast<std::size_t>(hosts());
  // Each host may have to combine a piece of it.
  const std::size_t unit = pieces * values.element_bytes;
  const std::size_t share_bytes = parts_of(parts_of(values.bytes.size(), places), unit) * unit;
  const std::span<std::byte> mine(room(share_, share_bytes), share_bytes);
  links_.within->reduce_scatter(values.bytes, {mine, values.element_bytes, values.combine}, what);
  links_.within->all_gather_shares(combine_shares(share_bytes, values), values.bytes, what);
}

std::span<std::byte> HostsBackend::combine_shares(std::size_t bytes, const Values& values) {
  if (hosts() > 2 && bytes > kAtOnceBytes) return combine_by_pieces(bytes, values);
  exchange_with_hosts(bytes);
  std::byte* const result = room(combined_, bytes);
  values.combine(result, by_host_, bytes / values.element_bytes);
  return {result, bytes};
}

std::span<std::byte> HostsBackend::combine_by_pieces(std::size_t bytes, const Values& values) {
  const auto pieces = static_cast<std::size_t>(hosts());
  const std::size_t piece_bytes = bytes / pieces;
  const std::byte* const parts = room(received_, bytes);
  at::Tensor sent = front(share_, bytes);
  at::Tensor received = front(received_, bytes);
  std::vector<std::int64_t> equal;
  std::vector<std::int64_t> equal_too;
  finish(links_.between->alltoall_base(received, sent, equal, equal_too, {}));
  by_host_.resize(pieces);
  for (std::size_t host = 0; host < pieces; ++host) by_host_[host] = parts + host * piece_bytes;
  values.combine(room(share_, piece_bytes), by_host_, piece_bytes / values.element_bytes);
  exchange_with_hosts(piece_bytes);
  std::byte* const result = room(combined_, bytes);
  for (std::size_t host = 0; host < pieces; ++host) std::memcpy(result + host * piece_bytes, by_host_[host], piece_bytes);
  return {result, bytes};
}

void HostsBackend::exchange_with_hosts(std::size_t bytes) {
  const auto others = static_cast<std::size_t>(hosts() - 1);
  at::Tensor sent = front(share_, bytes);
  if (others > 1) sent = sent.repeat({static_cast<std::int64_t>(others)});
  const std::byte* part = room(received_, others * bytes);
  at::Tensor received = front(received_, others * bytes);
  std::vector<std::int64_t> sizes(others + 1, static_cast<std::int64_t>(bytes));
  sizes[static_cast<std::size_t>(host())] = 0;
  std::vector<std::int64_t> same_sizes = sizes;  // Gloo takes both away
  finish(links_.between->alltoall_base(received, sent, sizes, same_sizes, {}));
  by_host_.resize(others + 1);
  for (std::size_t index = 0; index < by_host_.size(); ++index) {
    const bool is_own = static_cast<int>(index) == host();
    by_host_[index] = is_own ? room(share_, bytes) : part;
    if (!is_own) part += bytes;
  }
}

void HostsBackend::finish(const c10::intrusive_ptr<c10d::Work>& work) {
  is_abandoned_ = true;
  await(*work, [this] {
    if (ends_) throw DesyncError("a gradient reduction was aborted");
    if (const auto failure = links_.board->failure()) throw RecordedFailure(failure->str());
  });
  is_abandoned_ = false;
  work->wait();
}

HostsBackend::HostsBackend(Links links, const GlooBackend& flat) : GlooBackend(flat), links_(std::move(links)) {}

HostsBackend::~HostsBackend() {
  ends_ = true;
  links_.within->give_up();
  worker_.reset();
  // First those that no all-reduce waits in: others may still be about to learn from the board why theirs end.
  release();
  if (is_abandoned_) keep_to_the_end(std::move(links_.between));
}

GlooBackend::Work HostsBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const bool is_dense = tensors.size() == 1 && tensors[0].layout() == at::kStrided && tensors[0].device().is_cpu();
  const auto combine = is_dense ? find_combine(options.reduceOp, tensors[0].scalar_type()) : nullptr;
  // What this one cannot do, that one does, or says why not.
  if (combine == nullptr) return GlooBackend::allreduce(tensors, options);
  const at::NoGradGuard no_grad;
  const ContiguousTensor tensor(tensors[0]);
  const SharedMemoryCollectives::Values values{bytes_of(tensor.get()), static_cast<std::size_t>(tensor.get().element_size()),
                                               combine};
  const std::string what = call_text("all_reduce", options.reduceOp, tensor.get());
  const auto future = FutureWork::make_future();
  worker_->add([this, tensors, tensor, values, what, future] {
    const at::NoGradGuard no_grad;
    try {
      if (ends_) throw DesyncError("the group of ranks has ended");
      if (broken_) std::rethrow_exception(broken_);
      reduce_by_host(values, what);
      tensor.write_back();
    } catch (...) {
      broken_ = std::current_exception();
    }
    try {
      if (broken_) return future->setError(broken_);
      future->markCompleted(tensors);
    } catch (...) {  // of what was called back
      broken_ = std::current_exception();
    }
  });
  return c10::make_intrusive<FutureWork>(future);
}

}  // namespace levin
