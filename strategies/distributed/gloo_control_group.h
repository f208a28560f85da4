#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <exception>
#include <memory>
#include <string>

#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/vote_channel.h"
#include "levin/strategies/processes/status_board.h"

namespace levin {

/// The control group of ranks on several hosts. One all-gather an exchange of up to 3 KiB (0.5 KiB on many ranks), two for
/// more. Errors are those of SharedMemoryGroup, but that a rank which is gone shows by its closed connection.
class GlooControlGroup final : public ControlGroup {
 public:
  /// `gloo`: one whose errors are typed (see GlooBackend). `timeout_seconds`: how long a wait may take.
  GlooControlGroup(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<StatusBoard> board, double timeout_seconds);
  int rank() const override { return board_->rank(); }
  int size() const override { return board_->size(); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override;

 private:
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all, const char* what);
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

}  // namespace levin
