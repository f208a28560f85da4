#include "levin/strategies/world/process_world.h"

#include <signal.h>
#include <unistd.h>

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/signal_handlers.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal_guard.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/strategies/failure/children.h"
#include "levin/strategies/host/shared_memory_collectives.h"
#include "levin/strategies/host/shared_memory_group.h"
#include "levin/strategies/store/store_server.h"
#include "levin/strategies/transport/gloo.h"
#include "levin/strategies/transport/host_copy_backend.h"
#include "levin/strategies/world/collective_arguments.h"
#include "levin/strategies/world/failure_report.h"
#include "levin/strategies/world/store_status_board.h"

namespace levin {

namespace {

constexpr const char* kNotesKey = "notes";
constexpr const char* kGloo = "gloo";

constexpr std::size_t kMostDimensions = 16;
/// Of what a rank says of its tensor: with so many dimensions the sizes, and no more than 100 bytes.
constexpr std::size_t kDescriptionBytes = 22 * kMostDimensions + 100;

/// While this lives, the rank is in an exchange over the process group, which cannot end without the others.
class InExchange {
 public:
  InExchange(StatusBoard& board, const std::string& what) : board_(board) {
    board_.begin_reduction();
    board_.post_waiting(what.c_str());
  }
  ~InExchange() { board_.end_reduction(); }
  InExchange(const InExchange&) = delete;
  InExchange& operator=(const InExchange&) = delete;

 private:
  StatusBoard& board_;
};

c10d::ReduceOp reduce_op(Reduce op) {
  return op == Reduce::kMin ? c10d::ReduceOp::MIN : op == Reduce::kMax ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
}

/// The type in which values are combined, which process groups support, so that large and small tensors give the same: the mean
/// of 16-bit numbers is computed from their sum in 32 bits, and small integers wrap around in the same way.
at::ScalarType combined_in(at::ScalarType type) {
  if (type == at::kHalf || type == at::kBFloat16) return at::kFloat;
  return c10::isIntegralType(type, /*includeBool=*/true) && c10::elementSize(type) < sizeof(std::int32_t) ? at::kInt : type;
}

at::Tensor reduce_rows(const at::Tensor& rows, Reduce op) {
  if (op == Reduce::kMean) return rows.mean(0);
  if (op == Reduce::kMin) return std::get<0>(rows.min(0));
  if (op == Reduce::kMax) return std::get<0>(rows.max(0));
  return rows.sum(0, /*keepdim=*/false, rows.scalar_type());
}

/// The values as memory holds them: not strided, and not conjugated or negated.
at::Tensor plain(const at::Tensor& tensor) { return tensor.detach().resolve_conj().resolve_neg().contiguous(); }

/// As process groups send any type; some know few.
at::Tensor sent_bytes(const at::Tensor& tensor) { return tensor.view(-1).view(at::kByte); }

bool is_small(const at::Tensor& tensor) { return tensor.nbytes() <= kSmallTensorBytes; }

/// Of the ranks that share this memory one shows a warning.
void warn_once_in(const std::shared_ptr<RunSegment>& segment) {
  Console::instance().ask_before_warning(
      [segment](std::string_view key) { return segment->header().warnings.insert(std::hash<std::string_view>{}(key)); });
}

/// Memory for ranks that have no common launcher. Null on every rank when one of them cannot have it.
std::shared_ptr<RunSegment> meet_in_segment_of_rank_zero(c10d::Store& store, const ClusterEnvironment& environment) {
  const auto gather = [&, calls = 0](const std::string& mine) mutable {
    return gather_in_store(store, environment, format("segment/{}", calls++), mine);
  };
  std::string failure;
  return share_segment({environment.rank, gather}, /*maker=*/0, environment.world_size, nullptr, failure);
}

}  // namespace

std::shared_ptr<ProcessWorld>& ProcessWorld::membership() {
  // Never destroyed: threads of the groups may still run while the program's static objects go.
  static auto* const world = new std::shared_ptr<ProcessWorld>;
  return *world;
}

std::shared_ptr<ProcessWorld> ProcessWorld::join(const ClusterEnvironment& environment, const Options& options) {
  if (membership()) {
    membership()->add_device(options);
  } else {
    membership().reset(new ProcessWorld(environment, options));
  }
  return membership();
}

std::shared_ptr<ProcessWorld> ProcessWorld::current() {
  if (!membership()) throw MisuseError("this process has not joined a run: call join_ranks() first");
  return membership();
}

ProcessWorld::ProcessWorld(const ClusterEnvironment& environment, const Options& options)
    : environment_(environment), options_(options) {
  // A connection to a rank that is gone must be an error, not the silent end of this process.
  const BlockedSignals in_new_threads({SIGPIPE});  // such as Gloo's
  if (environment.world_size > 1 && OwnProcess::is_one()) ignore_broken_pipes();
  times_ = {.connect_seconds = std::min(options.connect_timeout_seconds, options.timeouts.timeout_seconds),
            .wait_seconds = options.timeouts.timeout_seconds};
  try {
    if (environment.shared_memory_fd) join_launcher(RunSegment::attach(*environment.shared_memory_fd));
    joined_ = join_store(environment, times_.connect_seconds);
    const bool has_met = environment.world_size == 1 || board_ != nullptr;
    if (!has_met) host_layout_ = host_layout(hosts_of_ranks(*joined_.store, environment, launched_.get()));
    one_host_ = has_met || (host_layout_ && host_layout_->hosts == 1);
    if (options.control_group == ControlTransport::kSharedMemory && !one_host_) {
      throw ConfigError("strategy ddp: control_group: shared_memory needs all ranks on one host; leave it out, or use gloo");
    }
    join_control_group();
    gathered_votes_ = std::make_unique<GatheredVoteChannel>(*control_group_);
    join_process_group();
    learn_cores();
  } catch (const std::exception& error) {
    // Ranks that wait in the store learn why it ends before this host's launcher ends its ranks.
    const std::shared_ptr<StatusBoard> board = board_ ? board_ : host_board_;
    if (!board_ && joined_.server) joined_.server->end(error_text(error));
    const auto consequence = board ? report_own_failure(*board, kBeforeFirstHook, std::current_exception()) : std::nullopt;
    if (consequence) {
      board->post_explained();
      throw DesyncError(*consequence, exit_code_of(error));
    }
    throw;
  }
}

void ProcessWorld::learn_cores() {
  std::vector<RankCores> by_rank(static_cast<std::size_t>(environment_.world_size));
  const RankCores own = RankCores::own();
  control_group_->all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(by_rank)), "joining the run");
  host_cores_ = levin::cores_of_host(by_rank, environment_.rank);
}

void ProcessWorld::join_launcher(const std::shared_ptr<RunSegment>& segment) {
  launched_ = segment;
  Keys::come_from(segment->header().keys);
  if (segment->ranks() == environment_.world_size) return meet_in_segment(segment);
  host_board_ = std::make_shared<SharedMemoryStatusBoard>(segment, environment_.rank);
  warn_once_in(segment);
}

c10::intrusive_ptr<GlooBackend> ProcessWorld::make_gloo(const std::string& name) const {
  return make_gloo_backend(joined_.store, name, environment_, one_host_, times_);
}

c10::intrusive_ptr<c10d::ProcessGroup> ProcessWorld::make_gloo_group(const std::string& name) const {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(joined_.store, environment_.rank, environment_.world_size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, make_gloo(name));
  return group;
}

std::string ProcessWorld::restart_state() const {
  if (launched_) return launched_->header().restart_state.read();
  return joined_.notes && joined_.notes->check({kNotesKey}) ? joined_.notes->get_to_str(kNotesKey) : "";
}

bool ProcessWorld::store_restart_state(const std::string& text) {
  if (launched_) return launched_->header().restart_state.write(text);
  if (joined_.notes) joined_.notes->set(kNotesKey, text);
  return true;
}

void ProcessWorld::meet_in_segment(const std::shared_ptr<RunSegment>& segment) {
  warn_once_in(segment);
  segment_ = segment;
  const auto board = std::make_shared<SharedMemoryStatusBoard>(segment, environment_.rank);
  board_ = board;
  watch_ = std::make_unique<FailureWatch>(board_, FailureWatch::Settings{.timeouts = options_.timeouts});
  control_group_ = std::make_unique<SharedMemoryGroup>(segment, board, times_.wait_seconds);
  vote_channel_ = std::make_unique<SharedMemoryVoteChannel>(segment, board);
  transports_ = "metrics over shared memory";
  // Here a missing rank is found and named; later calls could not name it.
  control_group_->all_gather({}, {}, "joining the run");
}

void ProcessWorld::join_control_group() {
  if (!board_ && one_host_ && options_.control_group != ControlTransport::kGloo) {
    const auto segment =
        environment_.world_size == 1 ? RunSegment::create(1) : meet_in_segment_of_rank_zero(*joined_.store, environment_);
    if (segment) meet_in_segment(segment);
  }
  if (control_group_ && options_.control_group != ControlTransport::kGloo) return;
  if (options_.control_group == ControlTransport::kSharedMemory)
    throw ConfigError("strategy ddp: the ranks cannot share memory");
  join_over_network();
}

void ProcessWorld::join_process_group() {
  process_group_ = c10::make_intrusive<c10d::ProcessGroup>(joined_.store, environment_.rank, environment_.world_size);
  cpu_backend_ = make_gradient_backend();
  has_gloo_ = gradient_transport_ == kGloo;
  process_group_->setBackend(
      at::kCPU, has_gloo_ ? c10d::ProcessGroup::BackendType::GLOO : c10d::ProcessGroup::BackendType::CUSTOM, cpu_backend_);
  metrics_transport_ = transports_;
  transports_ += ", gradients over " + gradient_transport_;
  add_device(options_);
}

void ProcessWorld::add_device(const Options& options) {
  if (options.device_type == at::kCPU || has_device_) return;
  has_device_ = true;
  // A process group keeps one backend of each type, and the CPU's may be a custom one.
  auto type = c10d::ProcessGroup::BackendType::UNDEFINED;
  c10::intrusive_ptr<c10d::Backend> of_device;
  if (options.own_backend) {
    gradient_transport_ = options.own_backend->backend_name();
    const auto own_store = c10::make_intrusive<c10d::PrefixStore>(gradient_transport_, joined_.store);
    of_device = options.own_backend->make_backend(own_store, environment_.rank, environment_.world_size, times_.wait_seconds);
    if (gradient_transport_ == "nccl") type = c10d::ProcessGroup::BackendType::NCCL;
    // Before what the device's library does at the end of the process, which it has asked for by now.
    std::atexit([] {
      if (membership()) membership()->end_own_backend();
    });
    own_backend_ = of_device;
    // The host continues before a device's reduction has ended, when other ranks may not have published their votes.
    if (segment_) vote_channel_ = std::make_unique<GatheredVoteChannel>(*control_group_);
  } else if (has_gloo_ && options.device_type == at::kCUDA) {
    // LibTorch's Gloo takes a GPU's tensors too.
    of_device = cpu_backend_;
    type = c10d::ProcessGroup::BackendType::GLOO;
  } else {
    of_device = c10::make_intrusive<HostCopyBackend>(cpu_backend_);
  }
  process_group_->setBackend(options.device_type, type, of_device);
  shared_gradients_ = nullptr;  // it combines what lies on the CPU
  transports_ = metrics_transport_ + ", gradients over " + gradient_transport_;
}

void ProcessWorld::end_own_backend() noexcept {
  try {
    // After a failure there is no wait.
    board_->failure() ? own_backend_->abort() : own_backend_->shutdown();
  } catch (const std::exception& error) {
    Console::instance().warn(format("{} failed to shut down: {}", gradient_transport_, error_text(error)));
  }
}

c10::intrusive_ptr<c10d::Backend> ProcessWorld::make_gradient_backend() {
  // Metrics over Gloo on one host are a test of ranks on several.
  const bool as_between_hosts = options_.control_group == ControlTransport::kGloo;
  const bool may_share = options_.gradients != GradientTransport::kGloo && !as_between_hosts;
  if (may_share || options_.gradients == GradientTransport::kSharedMemory) shared_gradients_ = make_shared_memory_backend();
  if (shared_gradients_) {
    gradient_transport_ = "shared memory";
    return shared_gradients_;
  }
  const auto flat = make_gloo("gradients");
  if (const auto by_host = may_share && !options_.own_backend ? make_hosts_backend(*flat) : nullptr) {
    gradient_transport_ = "shared memory within hosts and gloo between";
    return by_host;
  }
  gradient_transport_ = kGloo;
  return flat;
}

c10::intrusive_ptr<c10d::Backend> ProcessWorld::make_hosts_backend(const GlooBackend& flat) {
  if (!host_layout_ || host_layout_->hosts == 1 || host_layout_->ranks_per_host == 1) return nullptr;
  const int host = host_layout_->host_of(environment_.rank);
  const int first_rank = host_layout_->first_rank_of(host);
  std::string failure;
  const auto segment = share_segment(*control_group_, first_rank, host_layout_->ranks_per_host, launched_, failure);
  auto within = segment ? share_collectives(segment, WaitingThread::kHelper, failure) : nullptr;
  if (!within) {
    if (environment_.rank == 0) {
      Console::instance().warn(failure + ": gradients travel over gloo within hosts too, which is slower.");
    }
    return nullptr;
  }
  ClusterEnvironment at_place = environment_;
  at_place.rank = host;
  at_place.world_size = host_layout_->hosts;
  const std::string name = format("gradients between hosts {}", host_layout_->place_of(environment_.rank));
  HostsBackend::Links links{
      .within = std::move(within),
      .between = make_gloo_backend(joined_.store, name, at_place, /*one_host=*/false, times_),
      .board = board_,
  };
  return c10::make_intrusive<HostsBackend>(std::move(links), flat);
}

c10::intrusive_ptr<SharedMemoryBackend> ProcessWorld::make_shared_memory_backend() {
  const bool is_asked_for = options_.gradients == GradientTransport::kSharedMemory;
  if (!segment_) {
    if (!is_asked_for) return nullptr;
    throw ConfigError(
        "process_group_backend: shared_memory needs all ranks on one host, which share memory; leave it out, or "
        "use gloo");
  }
  std::string failure;
  if (auto collectives = share_collectives(segment_, WaitingThread::kOwn, failure)) {
    return c10::make_intrusive<SharedMemoryBackend>(std::move(collectives));
  }
  if (is_asked_for) throw IoError("process_group_backend: shared_memory: " + failure);
  if (environment_.rank == 0) Console::instance().warn(failure + ": gradients travel over gloo, which is slower.");
  return nullptr;
}

std::unique_ptr<SharedMemoryCollectives> ProcessWorld::share_collectives(const std::shared_ptr<RunSegment>& segment,
                                                                         WaitingThread thread, std::string& failure) {
  auto memory =
      share_memory(*control_group_, segment->first_rank(), SharedMemoryCollectives::memory_bytes(segment->ranks()), failure);
  if (!memory) return nullptr;
  return std::make_unique<SharedMemoryCollectives>(std::move(*memory), segment, board_, times_.wait_seconds, thread);
}

void ProcessWorld::join_over_network() {
  if (!board_) {
    board_ = std::make_shared<StoreStatusBoard>(joined_.store, environment_.rank, environment_.world_size,
                                                /*rank_zero_serves=*/!environment_.agent_store_key, launched_);
    watch_ = std::make_unique<FailureWatch>(board_, FailureWatch::Settings{.timeouts = options_.timeouts});
  }
  control_group_ = std::make_unique<GlooControlGroup>(make_gloo("control"), board_, times_.wait_seconds);
  transports_ = "metrics over gloo";
  if (options_.own_backend) {
    // Gradients are on devices: to read votes out of a bucket would wait for them.
    vote_channel_ = std::make_unique<GlooVoteChannel>(make_gloo("votes"), board_);
  } else {
    auto votes = std::make_unique<BucketVoteChannel>(board_);
    bucket_votes_ = votes.get();
    vote_channel_ = std::move(votes);
  }
}

void ProcessWorld::end_entry_point() noexcept {
  for (const auto& work : std::exchange(at_end_, {})) work();
  board_->end_reduction();
  board_->post_busy(false);
}

void ProcessWorld::agree(const at::Tensor& tensor, const std::string& what, const std::string& detail) {
  if (static_cast<std::size_t>(tensor.dim()) > kMostDimensions) {
    throw MisuseError(format("{}: tensors of more than {} dimensions cannot be exchanged", what, kMostDimensions));
  }
  // The device too: small tensors travel from any; large ones would wait in different groups.
  const std::string description = c10::str(tensor.scalar_type(), " ", tensor.sizes(), " on ",
                                           c10::DeviceTypeName(tensor.device().type(), /*lower_case=*/true), detail);
  std::array<char, kDescriptionBytes> mine{};
  description.copy(mine.data(), mine.size() - 1);
  std::vector<std::array<char, kDescriptionBytes>> all(static_cast<std::size_t>(world_size()));
  control_group_->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), what.c_str());
  if (std::all_of(all.begin(), all.end(), [&](const auto& other) { return other == mine; })) return;
  std::string tensors;
  for (std::size_t rank = 0; rank < all.size(); ++rank) tensors += format("\n  rank {}: {}", rank, text_in(all[rank]));
  throw DesyncError(format("ranks came to {} with different tensors or arguments:{}", what, tensors));
}

at::Tensor ProcessWorld::gather(const at::Tensor& tensor, const std::string& what) {
  const at::Tensor mine = plain(tensor).to(at::kCPU);
  std::vector<std::int64_t> sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), world_size());
  const at::Tensor all = torch::empty(sizes, mine.options());
  const std::span own(static_cast<const std::byte*>(mine.const_data_ptr()), mine.nbytes());
  control_group_->all_gather(own, {static_cast<std::byte*>(all.mutable_data_ptr()), all.nbytes()}, what.c_str());
  return all.to(tensor.device());
}

at::Tensor ProcessWorld::all_gather(const at::Tensor& tensor, SourceLocation where) {
  const std::string what = "all_gather at " + call_site_text(where);
  agree(tensor, what);
  if (is_small(tensor)) return gather(tensor, what);
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), world_size());
  const at::Tensor own = plain(tensor);
  const at::Tensor result = torch::empty(sizes, own.options());
  std::vector<at::Tensor> mine = {sent_bytes(own)};
  std::vector<std::vector<at::Tensor>> all(1);
  for (const at::Tensor& row : result.unbind()) all[0].push_back(sent_bytes(row));
  const InExchange exchange(*board_, what);
  process_group_->allgather(all, mine)->wait();
  return result;
}

at::Tensor ProcessWorld::all_reduce(const at::Tensor& tensor, const std::string& op_name, SourceLocation where) {
  const Reduce op = parse_reduce_op(op_name, where);
  check_reducible(op, tensor, where);
  const std::string what = format("all_reduce({}) at {}", reduce_name(op), call_site_text(where));
  agree(tensor, what);
  if (is_small(tensor)) return reduce_rows(gather(tensor, what), op);
  const at::Tensor result =
      plain(tensor).to(combined_in(tensor.scalar_type()), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  std::vector<at::Tensor> values = {result.is_complex() ? torch::view_as_real(result) : result};
  c10d::AllreduceOptions options;
  options.reduceOp = reduce_op(op);
  const InExchange exchange(*board_, what);
  process_group_->allreduce(values, options)->wait();
  if (op == Reduce::kMean) result.div_(world_size());
  return result.to(tensor.scalar_type());
}

at::Tensor ProcessWorld::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  check_source_rank(source_rank, world_size(), where);
  const std::string what = "broadcast at " + call_site_text(where);
  agree(tensor, what, format(" from rank {}", source_rank));
  if (is_small(tensor)) {
    const at::Tensor own = plain(tensor).cpu();
    const std::string received = control_group_->broadcast({static_cast<const char*>(own.const_data_ptr()), own.nbytes()},
                                                           source_rank, own.nbytes(), what.c_str());
    const at::Tensor result = at::empty_like(own);
    received.copy(static_cast<char*>(result.mutable_data_ptr()), received.size());
    return result.to(tensor.device());
  }
  const at::Tensor result = plain(tensor).clone();
  std::vector<at::Tensor> values = {sent_bytes(result)};
  c10d::BroadcastOptions options;
  options.rootRank = source_rank;
  const InExchange exchange(*board_, what);
  process_group_->broadcast(values, options)->wait();
  return result;
}

void ProcessWorld::barrier(const std::string& what, SourceLocation where) {
  const std::string text = format("barrier{} at {}", what.empty() ? "" : format(" '{}'", what), call_site_text(where));
  control_group_->all_gather({}, {}, text.c_str());
}

void ProcessWorld::post_whereabouts(const Whereabouts& whereabouts) {
  // A reduction runs inside backward; every other hook comes after its end.
  if (whereabouts.hook != Hook::kBackward && whereabouts.hook != Hook::kOnBeforeBackward) board_->end_reduction();
  board_->post_whereabouts(whereabouts);
  // The first hook of every entry point: from here to its end, a process that ends has failed.
  if (whereabouts.hook == Hook::kConfigureCallbacks) board_->post_busy(true);
}

void ProcessWorld::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept {
  report_own_failure(*board_, whereabouts, error);
}

std::optional<std::string> ProcessWorld::failure_elsewhere() const {
  const std::optional<std::string> consequence = board_->explanation();
  // The caller exits with it. Until then the failure watch may end this process, and report it.
  if (consequence) board_->post_explained();
  return consequence;
}

std::optional<int> ProcessWorld::lost_rank() const {
  const auto failure = board_->failure();
  return failure && failure->is_lost ? std::optional(failure->rank) : std::nullopt;
}

}  // namespace levin
