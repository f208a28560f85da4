#include "levin/strategies/ddp.h"

#include "levin/core/error.h"
#include "levin/core/module.h"
#include "levin/strategies/accelerator.h"
#include "levin/strategies/distributed/failure_report.h"
#include "levin/strategies/distributed/module_synchronizer.h"
#include "levin/strategies/distributed/process_world.h"
#include "levin/strategies/distributed/user_collectives.h"
#include "levin/strategies/processes/fork_server.h"
#include "levin/strategies/processes/launcher.h"

namespace levin {

namespace {

/// Starts the ranks when nobody else did; comes back in a rank only.
void start_ranks_if_needed(const ClusterEnvironment& environment, const LaunchRequest& request) {
  if (environment.kind == ClusterKind::kLevin || environment.world_size > 1) return;
  if (request.num_nodes > 1) {
    throw ConfigError("num_nodes: " + std::to_string(request.num_nodes) +
                      " hosts need a launcher on each of them: start the program with torchrun, srun or mpirun");
  }
  const int ranks = ranks_per_host(request);
  if (ranks == 1) return;
  if (environment.kind == ClusterKind::kTorchrun) {
    throw ConfigError("devices: " + std::to_string(ranks) + " asked for, but torchrun started 1 rank (WORLD_SIZE=1): give it " +
                      "--nproc-per-node=" + std::to_string(ranks) + ", or start without it");
  }
  launch_ranks(ranks);
}

void check_request(const ClusterEnvironment& environment, const LaunchRequest& request) {
  const int ranks = ranks_per_host(request) * request.num_nodes;
  if (request.devices.is_auto() || request.devices.is_all() || ranks == environment.world_size) return;
  throw ConfigError("devices and num_nodes ask for " + std::to_string(ranks) + " ranks, but this process is rank " +
                    std::to_string(environment.rank) + " of " + std::to_string(environment.world_size) + " (started by " +
                    cluster_kind_name(environment.kind) + "): make both the same, or leave devices out");
}

}  // namespace

void DdpOptions::declare(OptionList<DdpOptions>& options) {
  options.add("process_group_backend", &DdpOptions::process_group_backend,
              "What gradients travel over; auto: gloo on the CPU, nccl on GPUs");
  options.add("control_group", &DdpOptions::control_group,
              "What metrics and decisions travel over; auto: shared_memory when all ranks are on one host, else gloo");
  options.add("find_unused_parameters", &DdpOptions::find_unused_parameters,
              "Let a loss leave parameters unused; costs a walk through the graph at each step");
  options.add("gradient_as_bucket_view", &DdpOptions::gradient_as_bucket_view,
              "Let gradients share memory with the messages; then Optimizer::zero_grad() cannot be used");
  options.add("bucket_cap_mb", &DdpOptions::bucket_cap_mb, "Size of the messages in which gradients travel, in MB").min(0.001);
  options.add("broadcast_buffers", &DdpOptions::broadcast_buffers,
              "Make buffers, such as running statistics, equal to rank 0's before each training step");
  options.add("timeout", &DdpOptions::timeout, "Seconds that ranks wait for one another; null: the Trainer's timeout_seconds")
      .min(0.1);
}

/// The world's votes, read only when the gradients that they belong to were reduced.
class DdpStrategy::ReducedVotes final : public VoteBoard {
 public:
  explicit ReducedVotes(State& state) : state_(state) {}
  void publish(std::int64_t sequence, const Votes& votes) override;
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  State& state_;
};

struct DdpStrategy::State {
  std::shared_ptr<ProcessWorld> world;
  UserCollectives collectives;
  std::unique_ptr<ModuleSynchronizer> module;  ///< set between setup_module and teardown
  ReducedVotes votes{*this};
  std::optional<std::string> consequence;  ///< what this rank says when another was first to fail

  explicit State(std::shared_ptr<ProcessWorld> joined) : world(std::move(joined)), collectives(*world) {}
};

void DdpStrategy::ReducedVotes::publish(std::int64_t sequence, const Votes& votes) {
  state_.world->vote_board().publish(sequence, votes);
}

std::vector<Votes> DdpStrategy::ReducedVotes::read(std::int64_t sequence) {
  if (state_.module) state_.module->check_reduced();
  return state_.world->vote_board().read(sequence);
}

DdpStrategy::DdpStrategy(Options options) : options_(checked("strategy ddp", options)) {}
DdpStrategy::~DdpStrategy() = default;

DdpStrategy::State& DdpStrategy::joined() const {
  if (!state_) throw MisuseError("strategy ddp: used before launch(), which the Trainer calls");
  return *state_;
}

void DdpStrategy::launch(const LaunchRequest& request) {
  const ClusterEnvironment environment = detect_cluster_environment();
  if (options_.process_group_backend == GradientTransport::kNccl && !wants_gpu(request)) {
    throw ConfigError("strategy ddp: process_group_backend: nccl needs GPUs; use gloo, or leave it out");
  }
  start_ranks_if_needed(environment, request);
  ForkServer::instance().end();
  check_request(environment, request);
  device_ = select_device(request, environment.local_rank);
  ProcessWorld::Options options;
  options.control_group = options_.control_group;
  options.use_cuda = device_.is_cuda() && options_.process_group_backend != GradientTransport::kGloo;
  options.limits.stall_report_seconds = request.stall_report_seconds;
  options.limits.timeout_seconds = options_.timeout.value_or(request.timeout_seconds);
  state_ = std::make_unique<State>(ProcessWorld::join(environment, options));
}

int DdpStrategy::rank() const { return joined().world->environment().rank; }
int DdpStrategy::world_size() const { return joined().world->environment().world_size; }
int DdpStrategy::local_rank() const { return joined().world->environment().local_rank; }
int DdpStrategy::node_rank() const { return joined().world->environment().node_rank; }
std::string DdpStrategy::description() const {
  return world_size() == 1 ? name() : name() + ", " + joined().world->transports();
}

ControlGroup& DdpStrategy::control_group() { return joined().world->control_group(); }
VoteBoard& DdpStrategy::vote_board() { return joined().votes; }

void DdpStrategy::setup_module(Module& module, bool training) {
  State& state = joined();
  state.module.reset();
  state.module = std::make_unique<ModuleSynchronizer>(
      *state.world, module, training,
      GradientReducer::Options{options_.find_unused_parameters, options_.gradient_as_bucket_view, options_.bucket_cap_mb});
}

ModuleSynchronizer& DdpStrategy::synchronizer() const {
  if (!joined().module) throw MisuseError("strategy ddp: setup_module must come before training steps");
  return *state_->module;
}

void DdpStrategy::before_backward(const at::Tensor& loss, bool synchronize) {
  if (synchronize) synchronizer().before_backward(loss);
}

void DdpStrategy::backward_without_batch(Module&) { synchronizer().backward_without_batch(); }

void DdpStrategy::synchronize_buffers(Module&) {
  if (options_.broadcast_buffers) synchronizer().synchronize_buffers();
}

void DdpStrategy::post_whereabouts(const Whereabouts& whereabouts) {
  RunBoard& board = joined().world->board();
  // A reduction runs inside backward; every other hook comes after its end.
  if (whereabouts.hook != Hook::kBackward && whereabouts.hook != Hook::kOnBeforeBackward) board.end_reduction();
  board.post_whereabouts(whereabouts);
  // The first hook of every entry point: from here to teardown(), a process that ends has failed.
  if (whereabouts.hook == Hook::kConfigureCallbacks) board.post_busy(true);
}

at::Tensor DdpStrategy::all_gather(const at::Tensor& tensor, SourceLocation where) {
  return joined().collectives.all_gather(tensor, where);
}
at::Tensor DdpStrategy::all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) {
  return joined().collectives.all_reduce(tensor, op, where);
}
at::Tensor DdpStrategy::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  return joined().collectives.broadcast(tensor, source_rank, where);
}
void DdpStrategy::barrier(const std::string& what, SourceLocation where) { joined().collectives.barrier(what, where); }

void DdpStrategy::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept {
  if (state_) state_->consequence = report_own_failure(state_->world->board(), whereabouts, error);
}

std::optional<std::string> DdpStrategy::failure_elsewhere() const { return state_ ? state_->consequence : std::nullopt; }

void DdpStrategy::teardown() noexcept {
  if (!state_) return;
  state_->module.reset();
  state_->world->board().end_reduction();
  state_->world->board().post_busy(false);
}

}  // namespace levin
