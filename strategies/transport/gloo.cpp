#include "levin/strategies/transport/gloo.h"

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <future>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/unfinished_work.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/strategies/failure/failure_record.h"

namespace levin {

namespace {

/// A call of Gloo's that is under way.
class GlooWork final : public c10d::Work {
 public:
  explicit GlooWork(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  bool wait(std::chrono::milliseconds timeout) override {
    return call_gloo([&] { return work_->wait(timeout); });
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const auto future = work_->getFuture();
    return future->then([](c10::ivalue::Future& done) { return call_gloo([&] { return done.value(); }); },
                        future->elementType());
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

/// exit() waits for the call: LibTorch keeps a list of those that are under way, which goes with its static objects.
template <class Call>
c10::intrusive_ptr<c10d::Work> start(Call call) {
  const auto unfinished = std::make_shared<UnfinishedWork>();
  const c10::intrusive_ptr<c10d::Work> work = call_gloo(call);
  work->getFuture()->addCallback([unfinished](c10::ivalue::Future&) {});
  return c10::make_intrusive<GlooWork>(work);
}

/// Gloo makes it of other calls, and gives no future: it has ended for exit() when somebody has waited for it, or nobody will.
class GlooReduceScatter final : public c10d::Work {
 public:
  template <class Call>
  explicit GlooReduceScatter(Call call) : unfinished_(std::make_unique<UnfinishedWork>()), work_(call_gloo(call)) {}

  bool wait(std::chrono::milliseconds timeout) override {
    const bool is_done = call_gloo([&] { return work_->wait(timeout); });
    unfinished_.reset();
    return is_done;
  }

 private:
  std::unique_ptr<UnfinishedWork> unfinished_;
  c10::intrusive_ptr<c10d::Work> work_;
};

/// The first part of a rank's frame: which call it is in. Behind it stand the bytes that it contributes, where they fit.
struct FrameHead {
  std::uint64_t total_bytes = 0;
  std::uint32_t operation = 0;  ///< a GroupOperation
  std::int32_t root = 0;
  std::array<char, 192> what{};
};

/// How many bytes fit. Each rank gets the frames of all: with many of them a frame has room for a boundary with few metrics
/// only.
std::size_t room_in_frame(std::size_t ranks) {
  constexpr std::size_t kLeast = 512;
  constexpr std::size_t kMost = 3072;
  constexpr std::size_t kOfAll = 64 * kMost;
  return std::clamp(kOfAll / ranks, kLeast, kMost);
}

/// Of an all_gather, where all know the length.
constexpr std::uint64_t kAnyLength = std::numeric_limits<std::uint64_t>::max();

/// Between looks for a failure, while waiting for other ranks.
constexpr auto kBetweenFailureLooks = std::chrono::milliseconds(20);
/// Seconds between looks at what they have posted.
constexpr double kSecondsBetweenLooks = 1.0;
/// How long messages of a rank that has failed meanwhile may still arrive.
constexpr auto kLastMessages = std::chrono::milliseconds(200);

at::Tensor bytes_tensor(std::size_t bytes) { return torch::empty({static_cast<std::int64_t>(bytes)}, torch::kUInt8); }

at::Tensor tensor_of(std::string_view bytes) {
  at::Tensor tensor = bytes_tensor(bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tensor.mutable_data_ptr()));
  return tensor;
}

std::string text_of(const at::Tensor& bytes) { return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}; }

}  // namespace

std::future<void> end_of(c10d::Work& work) {
  const auto ended = std::make_shared<std::promise<void>>();
  std::future<void> end = ended->get_future();
  work.getFuture()->addCallback([ended](c10::ivalue::Future&) { ended->set_value(); });
  return end;
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

GlooBackend::Work GlooBackend::broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) {
  return start([&] { return gloo_->broadcast(tensors, options); });
}

GlooBackend::Work GlooBackend::allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  return start([&] { return gloo_->allreduce(tensors, options); });
}

GlooBackend::Work GlooBackend::allgather(std::vector<std::vector<at::Tensor>>& all, std::vector<at::Tensor>& mine,
                                         const c10d::AllgatherOptions& options) {
  return start([&] { return gloo_->allgather(all, mine, options); });
}

GlooBackend::Work GlooBackend::alltoall_base(at::Tensor& received, at::Tensor& sent, std::vector<std::int64_t>& received_sizes,
                                             std::vector<std::int64_t>& sent_sizes, const c10d::AllToAllOptions& options) {
  return start([&] { return gloo_->alltoall_base(received, sent, received_sizes, sent_sizes, options); });
}

GlooBackend::Work GlooBackend::reduce_scatter(std::vector<at::Tensor>& mine, std::vector<std::vector<at::Tensor>>& all,
                                              const c10d::ReduceScatterOptions& options) {
  return c10::make_intrusive<GlooReduceScatter>([&] { return gloo_->reduce_scatter(mine, all, options); });
}

/// The frames of all ranks in one call.
class GlooControlGroup::Frames {
 public:
  explicit Frames(std::size_t ranks)
      : frame_(sizeof(FrameHead) + room_in_frame(ranks)), bytes_(ranks * frame_), sizes_(ranks) {}

  std::vector<std::byte> make(const GroupCall& call, std::span<const std::byte> mine) const {
    FrameHead head{.total_bytes = call.bytes, .operation = static_cast<std::uint32_t>(call.operation), .root = call.root};
    call.what.copy(head.what.data(), head.what.size() - 1);
    std::vector<std::byte> frame(frame_);
    std::memcpy(frame.data(), &head, sizeof head);
    if (mine.size() <= room()) std::copy(mine.begin(), mine.end(), frame.begin() + sizeof head);
    return frame;
  }
  std::span<std::byte> all() { return bytes_; }
  FrameHead head(std::size_t rank) const {
    FrameHead head;
    std::memcpy(&head, bytes_.data() + rank * frame_, sizeof head);
    return head;
  }
  void set_sizes(std::vector<std::int64_t> sizes) { sizes_ = std::move(sizes); }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }

  /// Whether what every rank contributes came with the frames.
  bool have_all() const { return static_cast<std::size_t>(*std::max_element(sizes_.begin(), sizes_.end())) <= room(); }
  /// What a rank contributes, when they have.
  std::string_view part(std::size_t rank) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + rank * frame_ + sizeof(FrameHead),
            static_cast<std::size_t>(sizes_[rank])};
  }

 private:
  std::size_t room() const { return frame_ - sizeof(FrameHead); }

  std::size_t frame_;
  std::vector<std::byte> bytes_;
  std::vector<std::int64_t> sizes_;
};

GlooControlGroup::GlooControlGroup(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<StatusBoard> board,
                                   double timeout_seconds)
    : gloo_(std::move(gloo)), board_(std::move(board)), timeout_seconds_(timeout_seconds) {}

void GlooControlGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  check_sizes(mine, all, what);
  const Frames frames = meet({GroupOperation::kAllGather, what, mine.size()}, mine, kAnyLength, what);
  if (!frames.have_all()) {
    exchange(mine, all, what);
  } else {
    for (std::size_t peer = 0; peer * mine.size() < all.size(); ++peer) {
      const auto part = std::as_bytes(std::span(frames.part(peer)));
      std::copy(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(peer * mine.size()));
    }
  }
  board_->post_waiting(nullptr);
}

std::vector<std::string> GlooControlGroup::gather(std::string_view mine, std::uint64_t longest, const char* what) {
  const Frames frames = meet({GroupOperation::kGather, what, mine.size()}, std::as_bytes(std::span(mine)), longest, what);
  const at::Tensor all = frames.have_all() ? at::Tensor() : send_to_rank_zero(tensor_of(mine), frames.sizes(), what);
  board_->post_waiting(nullptr);
  std::vector<std::string> parts;
  std::int64_t offset = 0;
  for (std::size_t peer = 0; rank() == 0 && peer < frames.sizes().size(); ++peer) {
    const std::int64_t length = frames.sizes()[peer];
    parts.push_back(all.defined() ? text_of(all.narrow(0, offset, length)) : std::string(frames.part(peer)));
    offset += length;
  }
  return parts;
}

std::string GlooControlGroup::broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) {
  check_root(root, what);
  if (rank() != root) mine = {};
  const Frames frames =
      meet({GroupOperation::kBroadcast, what, mine.size(), root}, std::as_bytes(std::span(mine)), longest, what);
  const auto sender = static_cast<std::size_t>(root);
  std::string received;
  if (frames.have_all()) {
    received = frames.part(sender);
  } else {
    std::vector<at::Tensor> bytes = {rank() == root ? tensor_of(mine)
                                                    : bytes_tensor(static_cast<std::size_t>(frames.sizes()[sender]))};
    finish(what, [&] { return gloo_->broadcast(bytes, c10d::BroadcastOptions{.rootRank = root}); });
    received = text_of(bytes[0]);
  }
  board_->post_waiting(nullptr);
  return received;
}

GlooControlGroup::Frames GlooControlGroup::meet(const GroupCall& call, std::span<const std::byte> mine, std::uint64_t longest,
                                                const char* what) {
  if (broken_) std::rethrow_exception(broken_);
  const auto ranks = static_cast<std::size_t>(size());
  board_->end_reduction();
  board_->post_waiting(what);
  Frames frames(ranks);
  exchange(frames.make(call, mine), frames.all(), what);
  std::vector<FrameHead> heads(ranks);
  std::vector<GroupCall> calls;
  std::vector<std::int64_t> sizes;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    heads[peer] = frames.head(peer);
    calls.push_back({static_cast<GroupOperation>(heads[peer].operation), text_in(heads[peer].what), heads[peer].total_bytes,
                     heads[peer].root});
    sizes.push_back(static_cast<std::int64_t>(heads[peer].total_bytes));
  }
  if (const std::string different = describe_different_calls(calls); !different.empty()) fail(different);
  if (const std::string too_long = describe_too_long(calls, longest); !too_long.empty()) fail(too_long);
  frames.set_sizes(std::move(sizes));
  return frames;
}

void GlooControlGroup::exchange(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  // Gloo's work keeps these tensors alive when this rank gives up waiting for it.
  std::vector<at::Tensor> input = {bytes_tensor(mine.size())};
  std::memcpy(input[0].data_ptr(), mine.data(), mine.size());
  std::vector<std::vector<at::Tensor>> output(1);
  for (int peer = 0; peer < size(); ++peer) output[0].push_back(bytes_tensor(mine.size()));
  finish(what, [&] { return gloo_->allgather(output, input); });
  for (std::size_t peer = 0; peer < output[0].size(); ++peer) {
    std::memcpy(all.data() + peer * mine.size(), output[0][peer].const_data_ptr(), mine.size());
  }
}

at::Tensor GlooControlGroup::send_to_rank_zero(const at::Tensor& mine, const std::vector<std::int64_t>& sizes,
                                               const char* what) {
  // Gloo's gather would make all parts as long as the longest. Its all-to-all takes parts of any length, none at all too.
  std::vector<std::int64_t> sent(sizes.size());
  sent[0] = mine.numel();
  std::vector<std::int64_t> received = rank() == 0 ? sizes : std::vector<std::int64_t>(sizes.size());
  at::Tensor input = mine;
  at::Tensor output =
      bytes_tensor(static_cast<std::size_t>(std::accumulate(received.begin(), received.end(), std::int64_t{0})));
  finish(what, [&] { return gloo_->alltoall_base(output, input, received, sent); });
  return output;
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
  const std::future<void> end = end_of(work);
  double next_look = kSecondsBetweenLooks;
  std::chrono::steady_clock::time_point failed_since{};
  while (end.wait_for(kBetweenFailureLooks) == std::future_status::timeout) {
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
  }
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
