#include "levin/strategies/transport/gloo.h"

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <span>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/strategies/host/status_board.h"
#include "levin/strategies/transport/shared_memory_backend.h"

namespace levin {

namespace {

/// exit() waits for the call: LibTorch keeps a list of those that are under way, which goes with its static objects.
template <class Call>
c10::intrusive_ptr<c10d::Work> start(Call call) {
  const auto exit_guard = std::make_shared<ExitGuard>();
  const auto future = call_gloo(call)->getFuture();
  return c10::make_intrusive<FutureWork>(future->then(
      [exit_guard](c10::ivalue::Future& done) { return call_gloo([&] { return done.value(); }); }, future->elementType()));
}

/// How many bytes fit: a multiple of those of a number. Each rank gets the frames of all: with many of them a frame has room
/// for a boundary with few metrics only.
std::size_t room_in_frame(std::size_t ranks) {
  constexpr std::size_t kLeast = 512;
  constexpr std::size_t kMost = 3072;
  constexpr std::size_t kOfAll = 64 * kMost;
  return std::clamp(kOfAll / ranks / sizeof(std::uint64_t) * sizeof(std::uint64_t), kLeast, kMost);
}

/// Which call a rank is in, and behind that the bytes that it contributes, where they fit.
std::vector<std::byte> frame_of(const GroupCall& call, std::span<const std::byte> mine, std::size_t room) {
  CallHeader head{};
  head.set(call);
  std::vector<std::byte> frame(sizeof head + room);
  std::memcpy(frame.data(), &head, sizeof head);
  if (mine.size() <= room) std::copy(mine.begin(), mine.end(), frame.begin() + sizeof head);
  return frame;
}

/// Between looks for a failure, while waiting for other ranks.
constexpr auto kBetweenFailureLooks = std::chrono::milliseconds(20);
/// Seconds between reads of their posts.
constexpr double kSecondsBetweenLooks = 1.0;
/// How long messages of a rank that has failed may still arrive.
constexpr auto kLastMessages = std::chrono::milliseconds(200);

at::Tensor bytes_tensor(std::size_t bytes) { return torch::empty({static_cast<std::int64_t>(bytes)}, torch::kUInt8); }

at::Tensor tensor_of(std::span<const std::byte> bytes) {
  at::Tensor tensor = bytes_tensor(bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(tensor.mutable_data_ptr()));
  return tensor;
}

}  // namespace

void await(c10d::Work& work, const std::function<void()>& look) {
  const auto ended = std::make_shared<std::promise<void>>();
  const std::future<void> end = ended->get_future();
  work.getFuture()->addCallback([ended](c10::ivalue::Future&) { ended->set_value(); });
  while (end.wait_for(kBetweenFailureLooks) == std::future_status::timeout) look();
}

void rethrow_from_gloo() {
  try {
    throw;
  } catch (const Error&) {
    throw;  // the run's store, say, knows better what has happened
  } catch (const c10::DistError& error) {
    throw ConnectionLost(error.what_without_backtrace());
  } catch (const c10::Error&) {
    throw;  // LibTorch refuses the call
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw ConnectionLost(error.what());
  }
}

GlooBackend::GlooBackend(c10::intrusive_ptr<c10d::Backend> gloo)
    : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}

GlooBackend::Work GlooBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return start([&] { return gloo_->broadcast(tensors, options); });
}

GlooBackend::Work GlooBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return start([&] { return gloo_->allreduce(tensors, options); });
}

GlooBackend::Work GlooBackend::allgather(std::vector<Tensors>& all, Tensors& mine, const c10d::AllgatherOptions& options) {
  return start([&] { return gloo_->allgather(all, mine, options); });
}

GlooBackend::Work GlooBackend::alltoall_base(at::Tensor& received, at::Tensor& sent, std::vector<std::int64_t>& received_sizes,
                                             std::vector<std::int64_t>& sent_sizes, const c10d::AllToAllOptions& options) {
  return start([&] { return gloo_->alltoall_base(received, sent, received_sizes, sent_sizes, options); });
}

GlooControlGroup::GlooControlGroup(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<StatusBoard> board,
                                   double timeout_seconds)
    : gloo_(std::move(gloo)), board_(std::move(board)), timeout_seconds_(timeout_seconds) {}

void GlooControlGroup::perform(const Call& call, const Take& take) {
  if (broken_) std::rethrow_exception(broken_);
  board_->end_reduction();
  board_->post_waiting(call.what);
  const std::size_t room = room_in_frame(static_cast<std::size_t>(size()));
  const at::Tensor frames = exchange(frame_of(call.announced(), call.mine, room), call.what);
  const auto* const begin = static_cast<const std::byte*>(frames.const_data_ptr());
  const auto frame = [&](int peer) { return begin + static_cast<std::size_t>(peer) * (sizeof(CallHeader) + room); };
  std::vector<GroupCall> calls;
  std::vector<std::int64_t> sizes;
  for (int peer = 0; peer < size(); ++peer) {
    calls.push_back(reinterpret_cast<const CallHeader*>(frame(peer))->call());
    sizes.push_back(static_cast<std::int64_t>(calls.back().bytes));
  }
  if (const std::string different = describe_different_calls(calls); !different.empty()) fail(different);
  if (const std::string too_long = describe_too_long(calls, call.longest); !too_long.empty()) fail(too_long);
  const bool came_with_frames = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end())) <= room;
  const at::Tensor parts = came_with_frames ? at::Tensor() : send(call, sizes);
  std::size_t offset = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const auto bytes = static_cast<std::size_t>(sizes[static_cast<std::size_t>(peer)]);
    const std::byte* const part = came_with_frames  ? frame(peer) + sizeof(CallHeader)
                                  : parts.defined() ? static_cast<const std::byte*>(parts.const_data_ptr()) + offset
                                                    : nullptr;
    if (bytes > 0 && part != nullptr) take(peer, bytes, 0, {part, bytes});
    offset += bytes;
  }
  board_->post_waiting(nullptr);
}

at::Tensor GlooControlGroup::exchange(std::span<const std::byte> mine, const char* what) {
  // Gloo's work keeps these tensors alive when this rank gives up waiting for it.
  const auto bytes = static_cast<std::int64_t>(mine.size());
  at::Tensor all = bytes_tensor(mine.size() * static_cast<std::size_t>(size()));
  std::vector<at::Tensor> input = {tensor_of(mine)};
  std::vector<std::vector<at::Tensor>> output(1);
  for (int peer = 0; peer < size(); ++peer) output[0].push_back(all.narrow(0, peer * bytes, bytes));
  finish(what, [&] { return gloo_->allgather(output, input); });
  return all;
}

at::Tensor GlooControlGroup::send(const Call& call, const std::vector<std::int64_t>& sizes) {
  if (call.operation == GroupOperation::kAllGather) return exchange(call.mine, call.what);
  if (call.operation == GroupOperation::kBroadcast) {
    std::vector<at::Tensor> bytes = {rank() == call.root
                                         ? tensor_of(call.mine)
                                         : bytes_tensor(static_cast<std::size_t>(sizes[static_cast<std::size_t>(call.root)]))};
    finish(call.what, [&] { return gloo_->broadcast(bytes, c10d::BroadcastOptions{.rootRank = call.root}); });
    return bytes[0];
  }
  // Gloo's gather would make all parts as long as the longest. Its all-to-all takes parts of any length, none at all too.
  std::vector<std::int64_t> sent(sizes.size());
  sent[0] = static_cast<std::int64_t>(call.mine.size());
  std::vector<std::int64_t> received = rank() == 0 ? sizes : std::vector<std::int64_t>(sizes.size());
  at::Tensor input = tensor_of(call.mine);
  at::Tensor output =
      bytes_tensor(static_cast<std::size_t>(std::accumulate(received.begin(), received.end(), std::int64_t{0})));
  finish(call.what, [&] { return gloo_->alltoall_base(output, input, received, sent); });
  return rank() == 0 ? output : at::Tensor();
}

void GlooControlGroup::finish(const char* what, const std::function<c10::intrusive_ptr<c10d::Work>()>& begin) {
  try {
    const auto work = begin();
    wait_for(*work, what);
    work->wait();
  } catch (const ConnectionLost& error) {
    // Not reported yet: its cause is looked for first (see report_own_failure).
    end_with(ConnectionLost(format("lost the other ranks in {}: {}", what, error.what())));
  }
}

void GlooControlGroup::wait_for(c10d::Work& work, const char* what) {
  const auto begin = std::chrono::steady_clock::now();
  double next_look = kSecondsBetweenLooks;
  std::chrono::steady_clock::time_point failed_since{};
  await(work, [&] {
    if (const auto failure = board_->failure()) {
      // What the failed rank sent before may be on its way, and say more to this rank than the failure does.
      if (failed_since.time_since_epoch().count() == 0) failed_since = std::chrono::steady_clock::now();
      if (std::chrono::steady_clock::now() - failed_since > kLastMessages) end_with(RecordedFailure(failure->str()));
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds > next_look) {
      next_look = seconds + kSecondsBetweenLooks;
      if (const auto other = board_->rank_in_later_reduction()) {
        fail(different_calls(rank(), what, *other, format("a step that rank {} has not begun", rank())));
      }
    }
    if (seconds > timeout_seconds_) {
      board_->report_stall(format("waited {} s in {}", static_cast<int>(seconds), what));
      if (const auto failure = board_->failure()) end_with(RecordedFailure(failure->str()));
      fail("timeout_seconds");
    }
  });
}

void GlooControlGroup::fail(const std::string& text) {
  board_->report_failure({rank(), board_->own_whereabouts(), text});
  end_with(DesyncError(text));
}

void GlooVoteChannel::publish(std::int64_t sequence, const Votes& votes) {
  const auto options = torch::TensorOptions().dtype(torch::kInt64);
  mine_ = {torch::tensor({sequence, static_cast<std::int64_t>(pack(votes))}, options)};
  all_ = {{}};
  for (int rank = 0; rank < board_->size(); ++rank) all_[0].push_back(torch::empty({2}, options));
  work_ = gloo_->allgather(all_, mine_);
}

std::vector<Votes> GlooVoteChannel::read(std::int64_t sequence) {
  board_->end_reduction();
  if (!work_) throw MisuseError(format("votes of gradient reduction {} are read but were not published", sequence));
  work_->wait();
  work_.reset();
  std::vector<PublishedVotes> by_rank;
  for (const at::Tensor& words : all_[0]) {
    const auto* word = words.const_data_ptr<std::int64_t>();
    by_rank.push_back({word[0], static_cast<std::uint64_t>(word[1])});
  }
  return unpack_votes(by_rank, sequence, board_->rank());
}

void BucketVoteChannel::publish(std::int64_t sequence, const Votes& votes) {
  mine_ = {sequence, pack(votes)};
  const std::lock_guard lock(mutex_);
  all_.clear();
}

std::vector<Votes> BucketVoteChannel::read(std::int64_t sequence) {
  board_->end_reduction();
  const std::lock_guard lock(mutex_);
  if (all_.empty()) {
    throw MisuseError(
        format("votes of gradient reduction {} are read, but no reduction has ended since they were published", sequence));
  }
  return unpack_votes(all_, sequence, board_->rank());
}

at::Tensor BucketVoteChannel::elements(const at::Tensor& bucket) const {
  std::array<std::uint8_t, sizeof(PublishedVotes)> bytes{};
  std::memcpy(bytes.data(), &mine_, bytes.size());
  const auto width = static_cast<std::int64_t>(bytes.size());
  const at::Tensor own = torch::from_blob(bytes.data(), {width}, torch::kUInt8).to(bucket.scalar_type());
  at::Tensor elements = torch::zeros({board_->size() * width}, bucket.options());
  elements.narrow(0, board_->rank() * width, width).copy_(own);
  return elements;
}

void BucketVoteChannel::take(const at::Tensor& sum) {
  const at::Tensor bytes = sum.to(torch::kUInt8).contiguous();
  std::vector<PublishedVotes> all(static_cast<std::size_t>(board_->size()));
  std::memcpy(all.data(), bytes.const_data_ptr(), all.size() * sizeof(PublishedVotes));
  const std::lock_guard lock(mutex_);
  all_ = std::move(all);
}

void BucketVoteChannel::exchange(ControlGroup& group) {
  std::vector<PublishedVotes> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&mine_, 1)), std::as_writable_bytes(std::span(all)), "a step without gradients");
  const std::lock_guard lock(mutex_);
  all_ = std::move(all);
}

}  // namespace levin
