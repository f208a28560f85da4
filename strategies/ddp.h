#pragma once

#include <memory>
#include <optional>
#include <string>

#include "levin/core/options/options.h"
#include "levin/core/strategy.h"
#include "levin/strategies/control_transport.h"

namespace levin {

class ModuleSynchronizer;

/// What gradients travel over. kAuto: gloo on the CPU, nccl on GPUs.
enum class GradientTransport : std::uint8_t { kAuto, kGloo, kNccl };
template <>
inline constexpr std::array kChoices<GradientTransport> = {Choice{GradientTransport::kAuto, "auto"},
                                                           Choice{GradientTransport::kGloo, "gloo"},
                                                           Choice{GradientTransport::kNccl, "nccl"}};

struct DdpOptions {
  GradientTransport process_group_backend = GradientTransport::kAuto;
  ControlTransport control_group = ControlTransport::kAuto;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  double bucket_cap_mb = 25;
  bool broadcast_buffers = true;
  std::optional<double> timeout = std::nullopt;  ///< seconds; unset: the Trainer's timeout_seconds

  static void declare(OptionList<DdpOptions>& options);
};

/// Data parallel training: every rank holds the whole module, works on its own batches, and gradients become their mean over
/// ranks while backward runs. The name in YAML is "ddp".
class DdpStrategy final : public Strategy {
 public:
  using Options = DdpOptions;
  explicit DdpStrategy(Options options = {});
  ~DdpStrategy() override;

  /// Also throws ConfigError when the devices asked for are not the ranks that a launcher started.
  void launch(const LaunchRequest& request) override;

  int rank() const override;
  int world_size() const override;
  int local_rank() const override;
  int node_rank() const override;
  at::Device device() const override { return device_; }
  std::string name() const override { return "ddp"; }
  /// "ddp, metrics over shared memory, gradients over gloo"
  std::string description() const override;

  ControlGroup& control_group() override;
  VoteBoard& vote_board() override;

  /// Throws DesyncError on every rank, naming the first difference, when the ranks' modules are not alike.
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
  std::optional<std::string> failure_elsewhere() const override;
  void teardown() noexcept override;

 private:
  struct State;
  class ReducedVotes;
  State& joined() const;
  ModuleSynchronizer& synchronizer() const;

  Options options_;
  at::Device device_{at::kCPU};
  std::unique_ptr<State> state_;
};

}  // namespace levin
