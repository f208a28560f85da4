#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/shared_memory_group.h"
#include "levin/strategies/host/status_board.h"

namespace levin {

/// Another backend, Gloo's, whose errors say what they are: where a call ends because of a connection, it, its work and its
/// future throw ConnectionLost. What levin does not call is not handed on, and throws.
class GlooBackend : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  explicit GlooBackend(c10::intrusive_ptr<c10d::Backend> gloo);

  const std::string getBackendName() const override { return gloo_->getBackendName(); }
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allgather(std::vector<Tensors>& all, Tensors& mine, const c10d::AllgatherOptions& options) override;
  Work alltoall_base(at::Tensor& received, at::Tensor& sent, std::vector<std::int64_t>& received_sizes,
                     std::vector<std::int64_t>& sent_sizes, const c10d::AllToAllOptions& options) override;

 protected:
  /// Ends the connections of this group.
  void release() { gloo_.reset(); }

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
};

/// Waits until the running call has ended, well or not, and calls `look` every 20 ms, which throws to abort it.
void await(c10d::Work& work, const std::function<void()>& look);

/// Throws the exception that is being handled, as ConnectionLost where Gloo has thrown it because of a connection.
[[noreturn]] void rethrow_from_gloo();

/// Makes a call to Gloo; what it throws because of a connection becomes ConnectionLost.
template <class Call>
auto call_gloo(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    rethrow_from_gloo();
  }
}

/// The control group of ranks on several hosts. Every call begins with an all-gather of as many bytes, by which ranks know that
/// all are in the same one: what each contributes travels in it where it is up to 3 KiB (0.5 KiB on many ranks). What is longer
/// follows, to those alone that get it. Errors are those of SharedMemoryGroup, but that a rank which is gone shows by its
/// closed connection.
class GlooControlGroup final : public ExchangeGroup {
 public:
  /// `gloo`: one whose errors are typed (see GlooBackend). `timeout_seconds`: how long a wait may take.
  GlooControlGroup(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<StatusBoard> board, double timeout_seconds);
  int rank() const override { return board_->rank(); }
  int size() const override { return board_->size(); }

 private:
  void perform(const Call& call, const Take& take) override;
  /// What all ranks have, one after another.
  at::Tensor exchange(std::span<const std::byte> mine, const char* what);
  /// Sends what did not fit: the parts of these sizes, one after another. Undefined where this rank gets none.
  at::Tensor send(const Call& call, const std::vector<std::int64_t>& sizes);
  /// Begins a call of Gloo's, and waits until it is done.
  void finish(const char* what, const std::function<c10::intrusive_ptr<c10d::Work>()>& begin);
  void wait_for(c10d::Work& work, const char* what);
  /// Writes this rank's failure down, and throws it now and at every later call.
  [[noreturn]] void fail(const std::string& text);
  /// Throws the error, now and at every later call.
  template <class Failure>
  [[noreturn]] void end_with(const Failure& error) {
    board_->post_waiting(nullptr);
    broken_ = std::make_exception_ptr(error);
    std::rethrow_exception(broken_);
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::shared_ptr<StatusBoard> board_;
  double timeout_seconds_;
  std::exception_ptr broken_;
};

/// Votes between hosts when gradients are on GPUs: one asynchronous all-gather of a word a rank for each reduction, begun
/// before it and awaited after it, so that no rank waits for a GPU.
class GlooVoteChannel final : public VoteChannel {
 public:
  GlooVoteChannel(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<StatusBoard> board)
      : gloo_(std::move(gloo)), board_(std::move(board)) {}
  void publish(std::int64_t sequence, const Votes& votes) override;
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::shared_ptr<StatusBoard> board_;
  std::vector<at::Tensor> mine_;
  std::vector<std::vector<at::Tensor>> all_;
  c10::intrusive_ptr<c10d::Work> work_;
};

/// Votes between hosts: they travel as a few more elements of the first bucket of gradients, so they cost no message.
/// Each rank has 16 elements, the bytes of its sequence and of its votes, and contributes zeros to those of the others: the sum
/// that the reduction makes holds every rank's, exactly, in any floating-point type (no byte needs more than 8 bits).
class BucketVoteChannel final : public VoteChannel {
 public:
  explicit BucketVoteChannel(std::shared_ptr<StatusBoard> board) : board_(std::move(board)) {}

  void publish(std::int64_t sequence, const Votes& votes) override;
  /// Throws DesyncError when a rank was in another reduction.
  std::vector<Votes> read(std::int64_t sequence) override;

  /// What this rank adds to its bucket: elements like those of `bucket`.
  at::Tensor elements(const at::Tensor& bucket) const;
  /// The sum of all ranks' elements. Called by the thread that ends a reduction.
  void take(const at::Tensor& sum);
  /// Replaces a reduction when there is nothing to reduce. Ranks: all. One collective.
  void exchange(ControlGroup& group);

 private:
  std::shared_ptr<StatusBoard> board_;
  PublishedVotes mine_;
  mutable std::mutex mutex_;
  std::vector<PublishedVotes> all_;
};

}  // namespace levin
