#pragma once

#include <string>

#include "levin/core/export.h"
#include "levin/core/strategy.h"

namespace levin {

/// One process on one device: every collective is with oneself. The name in YAML is "single_device".
class LEVIN_API SingleDeviceStrategy : public Strategy {
 public:
  /// Throws ConfigError when several devices or hosts are asked for, or when a launcher made this process one of several ranks.
  void launch(const LaunchRequest& request) override;

  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  int local_rank() const override { return 0; }
  int node_rank() const override { return 0; }
  at::Device device() const override { return device_; }
  std::string name() const override { return "single_device"; }

  ControlGroup& control_group() override { return group_; }
  VoteBoard& vote_board() override { return votes_; }

  void setup_module(Module& module, bool training) override;
  void before_backward(const at::Tensor& loss, bool synchronize) override;
  void backward_without_batch(Module& module) override;
  void synchronize_buffers(Module& module) override;
  void post_whereabouts(const Whereabouts& whereabouts) override;

  at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where) override;
  at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) override;
  at::Tensor broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) override;
  void barrier(const std::string& what, SourceLocation where) override;

  void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept override;
  void teardown() noexcept override;

 private:
  SingleProcessGroup group_;
  SingleProcessVoteBoard votes_;
  at::Device device_{at::kCPU};
};

}  // namespace levin
