#include "levin/strategies/world/process_world.h"

#include <signal.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string_view>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/strategies/host/run_segment.h"
#include "levin/strategies/host/shared_memory_collectives.h"
#include "levin/strategies/host/shared_memory_group.h"
#include "levin/strategies/store/store_server.h"
#include "levin/strategies/transport/gloo.h"
#include "levin/strategies/transport/hosts_backend.h"
#include "levin/strategies/world/rank_groups.h"
#include "levin/strategies/world/rendezvous.h"
#include "levin/strategies/world/store_status_board.h"

namespace levin {

namespace {

constexpr const char* kNotesKey = "notes";
constexpr const char* kGloo = "gloo";

void ignore_broken_pipes() {
  struct sigaction action {};
  sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  // A handler that does nothing, since an ignored signal stays ignored in programs that this one starts.
  action = {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
}

/// While it lives, its thread takes no SIGPIPE, and neither do those that it starts, such as Gloo's.
class WithoutBrokenPipes {
 public:
  WithoutBrokenPipes() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~WithoutBrokenPipes() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutBrokenPipes(const WithoutBrokenPipes&) = delete;
  WithoutBrokenPipes& operator=(const WithoutBrokenPipes&) = delete;

 private:
  sigset_t before_{};
};

/// Of the ranks that share this memory one shows a warning.
void warn_once_in(const std::shared_ptr<RunSegment>& segment) {
  Console::instance().ask_before_warning(
      [segment](std::string_view key) { return segment->header().warnings.insert(std::hash<std::string_view>{}(key)); });
}

/// Memory for ranks that nobody launched together: rank 0 makes it, and tells in the store where the others find it. Null on
/// every rank when one of them could not open it.
std::shared_ptr<RunSegment> meet_in_segment_of_rank_zero(c10d::Store& store, const ClusterEnvironment& environment) {
  std::shared_ptr<RunSegment> segment;
  try {
    if (environment.rank == 0) {
      segment = RunSegment::create(environment.world_size);
      const SharedFilePlace place = segment->place();
      store.set("segment", format("{} {} {}", place.process, place.descriptor, place.inode));
    } else {
      std::istringstream text(store.get_to_str("segment"));
      SharedFilePlace place;
      if (text >> place.process >> place.descriptor >> place.inode) segment = RunSegment::open_at(place);
    }
  } catch (const IoError&) {
    if (environment.rank == 0) store.set("segment", std::string("none"));
  }
  store.set(format("attached/{}", environment.rank), std::string(segment ? "yes" : "no"));
  std::vector<std::string> keys;
  for (int rank = 0; rank < environment.world_size; ++rank) keys.push_back(format("attached/{}", rank));
  const auto answers = store.multiGet(keys);
  const auto is_yes = [](const auto& answer) { return std::string(answer.begin(), answer.end()) == "yes"; };
  return std::all_of(answers.begin(), answers.end(), is_yes) ? segment : nullptr;
}

}  // namespace

std::shared_ptr<ProcessWorld>& ProcessWorld::membership() {
  // Never destroyed: threads of the groups may still run while the program's static objects go.
  static auto* const world = new std::shared_ptr<ProcessWorld>;
  return *world;
}

std::shared_ptr<ProcessWorld> ProcessWorld::join(const ClusterEnvironment& environment, const Options& options) {
  if (!membership()) membership().reset(new ProcessWorld(environment, options));
  return membership();
}

std::shared_ptr<ProcessWorld> ProcessWorld::current() {
  if (!membership()) throw MisuseError("this process has joined no run: join_ranks() comes first");
  return membership();
}

ProcessWorld::ProcessWorld(const ClusterEnvironment& environment, const Options& options) : environment_(environment) {
  // A connection to a rank that is gone shall be an error, not the end of this process without a word.
  const WithoutBrokenPipes in_new_threads;
  if (environment.world_size > 1 && OwnProcess::is_one()) ignore_broken_pipes();
  times_ = {.connect_seconds = std::min(options.connect_timeout_seconds, options.timeouts.timeout_seconds),
            .wait_seconds = options.timeouts.timeout_seconds};
  try {
    if (environment.shared_memory_fd) join_launcher(RunSegment::attach(*environment.shared_memory_fd), options);
    JoinedStore joined = join_store(environment, times_.connect_seconds);
    store_server_ = joined.server;
    store_ = joined.store;
    notes_ = joined.notes;
    const bool has_met = environment.world_size == 1 || board_ != nullptr;
    if (!has_met) host_layout_ = host_layout(hosts_of_ranks(*store_, environment, launched_.get()));
    const bool one_host = has_met || (host_layout_ && host_layout_->hosts == 1);
    if (options.control_group == ControlTransport::kSharedMemory && !one_host) {
      throw ConfigError("strategy ddp: control_group: shared_memory needs all ranks on one host; leave it out, or use gloo");
    }
    join_control_group(options, one_host);
    join_process_group(options, one_host);
    learn_cores();
  } catch (const std::exception& error) {
    // Who waits in the store learns why it ends, before this host's launcher ends its ranks.
    const std::shared_ptr<StatusBoard> board = board_ ? board_ : host_board_;
    if (!board_ && store_server_) store_server_->end(error_text(error));
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
  host_cores_ = cores_of_host(by_rank, environment_.rank);
}

void ProcessWorld::join_launcher(const std::shared_ptr<RunSegment>& segment, const Options& options) {
  launched_ = segment;
  if (segment->ranks() == environment_.world_size) return meet_in_segment(segment, options);
  host_board_ = std::make_shared<SharedMemoryStatusBoard>(segment, environment_.rank);
  warn_once_in(segment);
}

c10::intrusive_ptr<GlooBackend> ProcessWorld::make_gloo(const std::string& name, bool one_host) const {
  return make_gloo_backend(store_, name, environment_, one_host, times_);
}

c10::intrusive_ptr<c10d::ProcessGroup> ProcessWorld::make_gloo_group(const std::string& name) const {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store_, environment_.rank, environment_.world_size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, make_gloo(name, segment_ != nullptr));
  return group;
}

std::string ProcessWorld::kept_for_restarts() const {
  if (launched_) return launched_->header().kept.read();
  return notes_ && notes_->check({kNotesKey}) ? notes_->get_to_str(kNotesKey) : "";
}

void ProcessWorld::keep_for_restarts(const std::string& text) const {
  if (launched_) return launched_->header().kept.write(text);
  if (notes_) notes_->set(kNotesKey, text);
}

void ProcessWorld::meet_in_segment(const std::shared_ptr<RunSegment>& segment, const Options& options) {
  warn_once_in(segment);
  segment_ = segment;
  const auto board = std::make_shared<SharedMemoryStatusBoard>(segment, environment_.rank);
  board_ = board;
  watch_ = std::make_unique<FailureWatch>(board_, FailureWatch::Settings{.timeouts = options.timeouts});
  control_group_ = std::make_unique<SharedMemoryGroup>(segment, board, options.timeouts.timeout_seconds);
  vote_channel_ = std::make_unique<SharedMemoryVoteChannel>(segment, board);
  transports_ = "metrics over shared memory";
  // Here a rank that does not come is found and named; in what follows it would only be missing.
  control_group_->all_gather({}, {}, "joining the run");
}

void ProcessWorld::join_control_group(const Options& options, bool one_host) {
  if (!board_ && one_host && options.control_group != ControlTransport::kGloo) {
    const auto segment =
        environment_.world_size == 1 ? RunSegment::create(1) : meet_in_segment_of_rank_zero(*store_, environment_);
    if (segment) meet_in_segment(segment, options);
  }
  if (control_group_ && options.control_group != ControlTransport::kGloo) return;
  if (options.control_group == ControlTransport::kSharedMemory)
    throw ConfigError("strategy ddp: the ranks cannot share memory");
  join_over_network(options, one_host);
}

void ProcessWorld::join_process_group(const Options& options, bool one_host) {
  process_group_ = c10::make_intrusive<c10d::ProcessGroup>(store_, environment_.rank, environment_.world_size);
  const auto backend = make_gradient_backend(options, one_host);
  const bool is_gloo = gradient_transport_ == kGloo;
  process_group_->setBackend(
      c10::DeviceType::CPU, is_gloo ? c10d::ProcessGroup::BackendType::GLOO : c10d::ProcessGroup::BackendType::CUSTOM, backend);
  const std::string own_backend = options.own_backend ? options.own_backend->backend_name() : "";
  if (options.own_backend) gradient_transport_ = own_backend;
  transports_ += ", gradients over " + gradient_transport_;
  if (!options.own_backend) return;
  shared_gradients_ = nullptr;
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>(own_backend, store_);
  process_group_->setBackend(
      options.own_backend->device_type(), c10d::ProcessGroup::strToBackendType(own_backend),
      options.own_backend->make_backend(own_store, environment_.rank, environment_.world_size, times_.wait_seconds));
}

c10::intrusive_ptr<c10d::Backend> ProcessWorld::make_gradient_backend(const Options& options, bool one_host) {
  // With metrics over Gloo on one host somebody looks at what ranks on several do.
  const bool as_between_hosts = options.control_group == ControlTransport::kGloo;
  const bool may_share = options.gradients != GradientTransport::kGloo && !as_between_hosts;
  if (may_share || options.gradients == GradientTransport::kSharedMemory)
    shared_gradients_ = make_shared_memory_backend(options);
  if (shared_gradients_) {
    gradient_transport_ = "shared memory";
    return shared_gradients_;
  }
  const auto flat = make_gloo("gradients", one_host);
  if (const auto by_host = may_share && !options.own_backend ? make_hosts_backend(*flat) : nullptr) {
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
  const int ranks = host_layout_->ranks_per_host;
  std::string failure;
  const auto segment = share_segment(*control_group_, first_rank, ranks, launched_, failure);
  auto memory =
      segment ? share_memory(*control_group_, first_rank, SharedMemoryCollectives::memory_bytes(ranks), failure) : std::nullopt;
  if (!memory) {
    if (environment_.rank == 0) {
      Console::instance().warn(failure + ": gradients travel over gloo within hosts too, which is slower.");
    }
    return nullptr;
  }
  ClusterEnvironment at_place = environment_;
  at_place.rank = host;
  at_place.world_size = host_layout_->hosts;
  const std::string name = format("gradients between hosts {}", host_layout_->place_of(environment_.rank));
  HostsReduction::Links links{
      .within = std::make_unique<SharedMemoryCollectives>(std::move(*memory), segment, board_, times_.wait_seconds,
                                                          WaitingThread::kBeside),
      .between = make_gloo_backend(store_, name, at_place, /*one_host=*/false, times_),
      .board = board_,
  };
  return c10::make_intrusive<HostsBackend>(std::move(links), flat);
}

bool ProcessWorld::observe_reductions(const WaitObserver& observer) {
  if (!shared_gradients_) return false;
  shared_gradients_->observe(observer);
  return true;
}

c10::intrusive_ptr<SharedMemoryBackend> ProcessWorld::make_shared_memory_backend(const Options& options) {
  const bool is_asked_for = options.gradients == GradientTransport::kSharedMemory;
  const auto board = std::dynamic_pointer_cast<SharedMemoryStatusBoard>(board_);
  if (!segment_ || !board) {
    if (!is_asked_for) return nullptr;
    throw ConfigError(
        "process_group_backend: shared_memory needs all ranks on one host, which share memory; leave it out, or "
        "use gloo");
  }
  std::string failure;
  auto memory =
      share_memory(*control_group_, /*maker=*/0, SharedMemoryCollectives::memory_bytes(environment_.world_size), failure);
  if (memory) {
    return c10::make_intrusive<SharedMemoryBackend>(
        std::make_unique<SharedMemoryCollectives>(std::move(*memory), segment_, board, options.timeouts.timeout_seconds));
  }
  if (is_asked_for) throw IoError("process_group_backend: shared_memory: " + failure);
  if (environment_.rank == 0) Console::instance().warn(failure + ": gradients travel over gloo, which is slower.");
  return nullptr;
}

void ProcessWorld::join_over_network(const Options& options, bool one_host) {
  if (!board_) {
    board_ = std::make_shared<StoreStatusBoard>(store_, environment_.rank, environment_.world_size,
                                                /*rank_zero_serves=*/!environment_.agent_store_key, host_board_);
    watch_ = std::make_unique<FailureWatch>(board_, FailureWatch::Settings{.timeouts = options.timeouts});
  }
  control_group_ = std::make_unique<GlooControlGroup>(make_gloo("control", one_host), board_, times_.wait_seconds);
  transports_ = "metrics over gloo";
  if (options.own_backend) {
    // Gradients are on devices: to read votes out of a bucket would wait for them.
    vote_channel_ = std::make_unique<GlooVoteChannel>(make_gloo("votes", one_host), board_);
  } else {
    auto votes = std::make_unique<BucketVoteChannel>(board_);
    bucket_votes_ = votes.get();
    vote_channel_ = std::move(votes);
  }
}

void ProcessWorld::end_entry_point() noexcept {
  for (const auto& work : std::exchange(at_end_, {})) work();
}

}  // namespace levin
