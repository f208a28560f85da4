#include "levin/strategies/distributed/process_world.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "levin/core/accelerator.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"
#include "levin/strategies/distributed/bucket_vote_channel.h"
#include "levin/strategies/distributed/failure_report.h"
#include "levin/strategies/distributed/gloo_control_group.h"
#include "levin/strategies/distributed/rendezvous.h"
#include "levin/strategies/distributed/store_status_board.h"
#include "levin/strategies/distributed/store_text.h"
#include "levin/strategies/processes/attempt_notes.h"
#include "levin/strategies/processes/shared_memory_group.h"
#include "levin/strategies/processes/shared_memory_vote_channel.h"
#include "levin/strategies/store/store_server.h"

namespace levin {

namespace {

constexpr const char* kNotesKey = "notes";

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

/// Of the ranks that share this memory one shows a warning.
void warn_once_in(const std::shared_ptr<RunSegment>& segment) {
  Console::instance().ask_before_warning(
      [segment](std::string_view key) { return segment->header().warnings.insert(std::hash<std::string_view>{}(key)); });
}

/// Memory for ranks that nobody launched together: rank 0 makes it, the others open it by the name it left in the store, and
/// the name is gone as soon as all have it. Null on every rank when one of them could not open it.
std::shared_ptr<RunSegment> meet_in_named_segment(c10d::Store& store, const ClusterEnvironment& environment) {
  std::shared_ptr<RunSegment> segment;
  std::string name;
  try {
    if (environment.rank == 0) {
      name = format("/levin-{}-{}", getpid(), std::random_device()());
      segment = RunSegment::create_named(name, environment.world_size);
      set_text(store, "segment", name);
    } else {
      segment = RunSegment::attach_named(get_text(store, "segment"));
    }
  } catch (const IoError&) {
    if (environment.rank == 0) set_text(store, "segment", "/levin-none");
  }
  set_text(store, format("attached/{}", environment.rank), segment ? "yes" : "no");
  std::vector<std::string> keys;
  for (int rank = 0; rank < environment.world_size; ++rank) keys.push_back(format("attached/{}", rank));
  bool all = true;
  for (const auto& answer : store.multiGet(keys)) all &= std::string(answer.begin(), answer.end()) == "yes";
  if (environment.rank == 0 && !name.empty()) RunSegment::remove_name(name);
  return all ? segment : nullptr;
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
  if (environment.world_size > 1) ignore_broken_pipes();
  times_ = {.connect_seconds = std::min(options.connect_timeout_seconds, options.timeouts.timeout_seconds),
            .wait_seconds = options.timeouts.timeout_seconds};
  try {
    if (environment.shared_memory_fd) join_launcher(RunSegment::attach(*environment.shared_memory_fd), options);
    JoinedStore joined = join_store(environment, times_.connect_seconds);
    store_server_ = joined.server;
    store_ = joined.store;
    notes_ = joined.notes;
    const bool meets_on_one_host = environment.world_size == 1 || board_ != nullptr || all_on_one_host(*store_, environment);
    // Launchers of several hosts may as well share one machine.
    const bool one_host = meets_on_one_host && host_board_ == nullptr;
    if (options.control_group == ControlTransport::kSharedMemory && !one_host) {
      throw ConfigError("strategy ddp: control_group: shared_memory needs all ranks on one host; leave it out, or use gloo");
    }
    join_control_group(options, one_host);
    join_process_group(options, one_host);
  } catch (const std::exception& error) {
    // Who waits in the store learns why it ends, before this host's launcher ends its ranks.
    const std::shared_ptr<StatusBoard> board = board_ ? board_ : host_board_;
    if (!board_ && store_server_) store_server_->end(error_text(error));
    const auto consequence = board ? report_own_failure(*board, kBeforeFirstHook, std::current_exception()) : std::nullopt;
    if (consequence) {
      board->post_explained();
      throw DesyncError(*consequence);
    }
    throw;
  }
}

void ProcessWorld::join_launcher(const std::shared_ptr<RunSegment>& segment, const Options& options) {
  if (segment->ranks() == environment_.world_size) return meet_in_segment(segment, options);
  host_board_ = std::make_shared<SharedMemoryStatusBoard>(segment, environment_.rank);
  warn_once_in(segment);
}

std::string ProcessWorld::kept_for_restarts() const {
  if (environment_.notes_fd) return AttemptNotes(*environment_.notes_fd).read();
  return notes_ && notes_->check({kNotesKey}) ? get_text(*notes_, kNotesKey) : "";
}

void ProcessWorld::keep_for_restarts(const std::string& text) const {
  if (environment_.notes_fd) return AttemptNotes(*environment_.notes_fd).write(text);
  if (notes_) set_text(*notes_, kNotesKey, text);
}

void ProcessWorld::meet_in_segment(const std::shared_ptr<RunSegment>& segment, const Options& options) {
  warn_once_in(segment);
  const auto board = std::make_shared<SharedMemoryStatusBoard>(segment, environment_.rank);
  board_ = board;
  watch_ = std::make_unique<FailureWatch>(board_,
                                          FailureWatch::Settings{.timeouts = options.timeouts, .print = {}, .end_process = {}});
  control_group_ = std::make_unique<SharedMemoryGroup>(segment, board, options.timeouts.timeout_seconds);
  vote_channel_ = std::make_unique<SharedMemoryVoteChannel>(segment, board);
  transports_ = "metrics over shared memory";
  // Here a rank that does not come is found and named; in what follows it would only be missing.
  control_group_->all_gather({}, {}, "joining the run");
}

void ProcessWorld::join_control_group(const Options& options, bool one_host) {
  if (!board_ && one_host && options.control_group != ControlTransport::kGloo) {
    const auto segment = environment_.world_size == 1 ? RunSegment::create(1) : meet_in_named_segment(*store_, environment_);
    if (segment) meet_in_segment(segment, options);
  }
  if (control_group_ && options.control_group != ControlTransport::kGloo) return;
  if (options.control_group == ControlTransport::kSharedMemory)
    throw ConfigError("strategy ddp: the ranks cannot share memory (/dev/shm)");
  join_over_network(options, one_host);
}

void ProcessWorld::join_process_group(const Options& options, bool one_host) {
  const std::string backend = options.own_backend ? options.own_backend->backend_name() : "gloo";
  transports_ += ", gradients over " + backend;
  process_group_ = c10::make_intrusive<c10d::ProcessGroup>(store_, environment_.rank, environment_.world_size);
  process_group_->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                             make_gloo_backend(store_, "gradients", environment_, one_host, times_));
  if (!options.own_backend) return;
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>(backend, store_);
  process_group_->setBackend(
      options.own_backend->device_type(), c10d::ProcessGroup::strToBackendType(backend),
      options.own_backend->make_backend(own_store, environment_.rank, environment_.world_size, times_.wait_seconds));
}

void ProcessWorld::join_over_network(const Options& options, bool one_host) {
  if (!board_) {
    board_ = std::make_shared<StoreStatusBoard>(store_, environment_.rank, environment_.world_size,
                                                /*rank_zero_serves=*/!environment_.agent_store_key, host_board_);
    watch_ = std::make_unique<FailureWatch>(
        board_, FailureWatch::Settings{.timeouts = options.timeouts, .print = {}, .end_process = {}});
  }
  control_group_ = std::make_unique<GlooControlGroup>(make_gloo_backend(store_, "control", environment_, one_host, times_),
                                                      board_, times_.wait_seconds);
  transports_ = "metrics over gloo";
  if (options.own_backend) {
    // Gradients are on devices: to read votes out of a bucket would wait for them.
    vote_channel_ =
        std::make_unique<GlooVoteChannel>(make_gloo_backend(store_, "votes", environment_, one_host, times_), board_);
  } else {
    auto votes = std::make_unique<BucketVoteChannel>(board_);
    bucket_votes_ = votes.get();
    vote_channel_ = std::move(votes);
  }
}

}  // namespace levin
