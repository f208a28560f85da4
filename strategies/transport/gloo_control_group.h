#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <exception>
#include <memory>
#include <string>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/failure/status_board.h"

namespace levin {

/// The control group of ranks on several hosts. Every call begins with an all-gather of as many bytes, by which ranks know that
/// all are in the same one: what each contributes travels in it where it is up to 3 KiB (0.5 KiB on many ranks). What is longer
/// follows, to those alone that get it. Errors are those of SharedMemoryGroup, but that a rank which is gone shows by its
/// closed connection.
class GlooControlGroup final : public ControlGroup {
 public:
  /// `gloo`: one whose errors are typed (see GlooBackend). `timeout_seconds`: how long a wait may take.
  GlooControlGroup(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<StatusBoard> board, double timeout_seconds);
  int rank() const override { return board_->rank(); }
  int size() const override { return board_->size(); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override;
  std::vector<std::string> gather(std::string_view mine, std::uint64_t longest, const char* what) override;
  std::string broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) override;

 private:
  class Frames;
  /// Tells all ranks this one's call, with its bytes where they fit, and waits for theirs.
  Frames meet(const GroupCall& call, std::span<const std::byte> mine, std::uint64_t longest, const char* what);
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all, const char* what);
  /// The parts of these sizes, one after another, on rank 0.
  at::Tensor send_to_rank_zero(const at::Tensor& mine, const std::vector<std::int64_t>& sizes, const char* what);
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

}  // namespace levin
