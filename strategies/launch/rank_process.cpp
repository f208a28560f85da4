#include "levin/strategies/launch/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/process_id.h"
#include "levin/strategies/failure/children.h"
#include "levin/strategies/host/shared_file.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/launch/run_inputs.h"

namespace levin {

namespace {

/// A variable that holds nothing is as one that is not set.
std::string with_descriptor(const char* name, int number) {
  return format("{}={}", name, number >= 0 ? std::to_string(number) : "");
}

[[noreturn]] void throw_not_started(const std::string& what) {
  throw IoError(format("the ranks cannot be started: {} failed: {}", what, std::strerror(errno)));
}

/// What the environment of a rank of `launcher` adds to or replaces in this process's: "NAME=value" each.
std::vector<std::string> rank_environment(const RankSpec& spec, pid_t launcher, const InheritedFiles& files) {
  std::vector<std::string> changes = {format("RANK={}", spec.rank()),
                                      format("LOCAL_RANK={}", spec.local_rank),
                                      format("WORLD_SIZE={}", spec.world_size()),
                                      format("LOCAL_WORLD_SIZE={}", spec.local_ranks),
                                      format("GROUP_RANK={}", spec.host),
                                      format("LEVIN_LAUNCHED={}", launcher),
                                      format("LEVIN_DEVICE={}", spec.device),
                                      format("LEVIN_RESTARTS={}", spec.restarts),
                                      format("LEVIN_LAUNCH_CALL={}", spec.call),
                                      format("LEVIN_SHM_FD={}", files.segment),
                                      with_descriptor("LEVIN_STORE_FD", files.store),
                                      with_descriptor("LEVIN_INPUTS_FD", files.inputs)};
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    changes.push_back(format("OMP_NUM_THREADS={}", std::max(1, usable_cores() / spec.local_ranks)));
  }
  if (!has_openmp_waits()) changes.push_back(format("{}={}", kOpenMpSpinsVariable, kOpenMpSpins));
  return changes;
}

/// Makes the calling process, a child of `launcher`, end with it, in its own process group and with an empty standard input.
/// False when the launcher is gone already. Threading: async-signal-safe.
bool tie_to_launcher(pid_t launcher) noexcept {
  // When it died before this call, the parent has changed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) return false;
  // Its own group: Ctrl-C in the terminal reaches only the launcher, which passes it on once.
  setpgid(0, 0);
  // A background group must not read from the terminal: it would be stopped.
  Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.number() == STDIN_FILENO) {
    nothing.release();
  } else {
    dup2(nothing.number(), STDIN_FILENO);
  }
  return true;
}

/// The running program's file. Its link in /proc still works when the file has been replaced or removed.
std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && std::filesystem::exists(path, error) ? path.string() : "/proc/self/exe";
}

std::vector<std::string> with_changes(std::vector<std::string> changes) {
  const auto name_of = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  std::set<std::string> names;
  for (const std::string& change : changes) names.insert(name_of(change));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!names.contains(name_of(*entry))) changes.emplace_back(*entry);
  }
  return changes;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// In a child: becomes the program again, with this environment, or ends. Only async-signal-safe calls are allowed.
[[noreturn]] void become_rank(const char* program, char* const* arguments, char* const* environment,
                              const InheritedFiles& files, const sigset_t& signal_mask) {
  for (const int file : {files.segment, files.store, files.inputs}) fcntl(file, F_SETFD, 0);
  // The launcher's handlers write into its pipe; between here and exec, which resets them, none may run.
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGTSTP, SIGCHLD}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::signal(signal, SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, &signal_mask, nullptr);
  execve(program, arguments, environment);
  constexpr char kMessage[] = "levin: a rank could not be started: exec failed\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(127);
}

/// Starts the program again for each rank. Throws IoError; `processes` are those started until then.
void exec_ranks(const std::vector<RankSpec>& specs, const std::function<InheritedFiles(const RankSpec&)>& files_of,
                const sigset_t& signal_mask, std::vector<pid_t>& processes) {
  const std::string program = own_program();
  std::vector<std::string> arguments = own_command_line();
  if (arguments.empty()) throw_not_started("reading /proc/self/cmdline");
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const pid_t launcher = getpid();
  for (const RankSpec& spec : specs) {
    // All memory is made before fork().
    const InheritedFiles files = files_of(spec);
    std::vector<std::string> environment = with_changes(rank_environment(spec, launcher, files));
    const std::vector<char*> environment_pointers = pointers_to(environment);
    processes.push_back(0);
    processes.back() = fork();
    if (processes.back() == 0) {
      if (!tie_to_launcher(launcher)) _exit(1);
      become_rank(program.c_str(), argument_pointers.data(), environment_pointers.data(), files, signal_mask);
    }
    if (processes.back() < 0) throw_not_started("fork");
  }
}

constexpr auto kRankPatience = std::chrono::seconds(10);  // until the next rank has reported

/// The description of a rank to start. Its files come with it: the segment, and those of store and inputs, if any.
struct Request {
  RankSpec spec;
  std::int32_t launcher = 0;
  bool has_store = false;
  bool has_inputs = false;
};

/// The report of a rank that has started.
struct Arrival {
  std::int32_t local_rank = 0;
  std::int32_t process = 0;
};

bool has_one_thread() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && std::distance(begin(threads), end(threads)) == 1;
}

bool is_started_by_a_person() {
  const auto environment = find_cluster_environment();
  return environment && environment->kind == ClusterKind::kNone;
}

/// In a process that the server has made: becomes a rank, or ends.
void become_forked_rank(int socket, pid_t maker, const Request& request, std::vector<Descriptor>& files) {
  // Its maker ends at once, and it becomes the launcher's child.
  while (getppid() == maker) usleep(100);
  if (!tie_to_launcher(request.launcher)) _exit(1);
  auto next = files.begin();
  const auto take = [&](bool has) { return has ? (next++)->release() : -1; };
  const InheritedFiles inherited{.segment = take(true), .store = take(request.has_store), .inputs = take(request.has_inputs)};
  for (const std::string& change : rank_environment(request.spec, request.launcher, inherited)) {
    const std::size_t equals = change.find('=');
    setenv(change.substr(0, equals).c_str(), change.c_str() + equals + 1, /*overwrite=*/1);
  }
  const Arrival arrival{request.spec.local_rank, getpid()};
  if (send(socket, &arrival, sizeof(arrival), MSG_NOSIGNAL) != sizeof(arrival)) _exit(1);
}

/// False when no more requests come.
bool receive_request(int socket, Request& request, std::vector<Descriptor>& files) {
  ssize_t received = 0;
  do {
    received = receive_descriptors(socket, std::as_writable_bytes(std::span(&request, 1)), files, 0);
  } while (received < 0 && errno == EINTR);
  const int expected = 1 + request.has_store + request.has_inputs;
  return received == sizeof(request) && files.size() == static_cast<std::size_t>(expected);
}

/// Starts ranks until no more are requested, and then ends the process; returns in each rank.
void serve(int socket, pid_t program) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != program) _exit(0);
  // What is typed in the terminal is for the program.
  setpgid(0, 0);
  while (true) {
    Request request;
    std::vector<Descriptor> files;
    if (!receive_request(socket, request, files)) _exit(0);
    // A child of this process that ends at once leaves its own child to the launcher, which adopts orphans.
    const pid_t maker = fork();
    if (maker == 0) {
      const pid_t self = getpid();
      const pid_t rank = fork();
      if (rank == 0) return become_forked_rank(socket, self, request, files);
      _exit(rank > 0 ? 0 : 1);
    }
    int status = 1;
    while (maker > 0 && waitpid(maker, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) _exit(1);
  }
}

bool ask_for(int socket, const RankSpec& spec, const InheritedFiles& inherited) {
  std::vector<int> files = {inherited.segment, inherited.store, inherited.inputs};
  std::erase(files, -1);
  const Request request{spec, getpid(), inherited.store >= 0, inherited.inputs >= 0};
  return send_descriptors(socket, std::as_bytes(std::span(&request, 1)), files, 0) == sizeof(request);
}

/// False when none has arrived in time.
bool await_rank(int socket, std::vector<pid_t>& processes) {
  Arrival arrival;
  if (!is_ready_by(std::chrono::steady_clock::now() + kRankPatience, socket, POLLIN)) return false;
  if (recv(socket, &arrival, sizeof(arrival), 0) != sizeof(arrival)) return false;
  processes.at(static_cast<std::size_t>(arrival.local_rank)) = arrival.process;
  return true;
}

/// Takes in processes whose parent has ended.
class OrphanParent {
 public:
  OrphanParent() {
    prctl(PR_GET_CHILD_SUBREAPER, &before_);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~OrphanParent() { prctl(PR_SET_CHILD_SUBREAPER, static_cast<unsigned long>(before_)); }
  OrphanParent(const OrphanParent&) = delete;
  OrphanParent& operator=(const OrphanParent&) = delete;

 private:
  int before_ = 0;
};

}  // namespace

ForkServer& ForkServer::instance() {
  static ForkServer server;
  return server;
}

bool ForkServer::start() {
  if (socket_.is_open() || !is_started_by_a_person() || !has_one_thread()) return false;
  auto [mine, theirs] = connected_sockets(SOCK_SEQPACKET);
  if (!mine.is_open()) return false;
  const pid_t program = getpid();
  process_ = fork();
  if (process_ == 0) {
    mine = Descriptor();
    serve(theirs.number(), program);
    return true;
  }
  socket_ = std::move(mine);
  if (process_ < 0) end();
  return false;
}

std::optional<std::vector<pid_t>> ForkServer::make_ranks(const std::vector<RankSpec>& specs,
                                                         const std::function<InheritedFiles(const RankSpec&)>& files_of) {
  if (!socket_.is_open()) return std::nullopt;
  std::vector<pid_t> processes(specs.size(), 0);
  bool all = true;
  {
    const OrphanParent takes_in_orphans;
    for (std::size_t i = 0; i < specs.size() && all; ++i) all = ask_for(socket_.number(), specs[i], files_of(specs[i]));
    for (std::size_t i = 0; i < specs.size() && all; ++i) all = await_rank(socket_.number(), processes);
  }
  if (all) return processes;
  end();
  kill_processes(processes);
  return std::nullopt;
}

void ForkServer::end() {
  socket_ = Descriptor();
  // It has nothing that could be lost.
  kill_processes({process_});
  process_ = 0;
}

StartedRanks start_ranks(const std::vector<RankSpec>& specs, std::string_view restart_state) {
  StartedRanks started{RunSegment::create(static_cast<int>(specs.size()), specs.front().rank()), {}};
  started.segment->set_launcher(ProcessId::self());
  started.segment->header().restart_state.write(restart_state);
  // Ranks of several hosts meet at a port.
  const bool one_host = specs.front().hosts == 1;
  const auto [server, clients] = one_host ? connected_sockets(SOCK_SEQPACKET) : std::pair<Descriptor, Descriptor>();
  if (one_host && !server.is_open()) throw_not_started("socketpair");
  const Descriptor inputs(RunInputs::instance().to_file().value_or(-1));
  const auto files_of = [&, store_of_zero = server.number(), store = clients.number()](const RankSpec& spec) {
    return InheritedFiles{
        .segment = started.segment->descriptor(), .store = spec.rank() == 0 ? store_of_zero : store, .inputs = inputs.number()};
  };
  // A signal to stop then finds a run whose ranks are known.
  const BlockedSignals blocked;
  try {
    if (auto processes = ForkServer::instance().make_ranks(specs, files_of)) {
      started.processes = std::move(*processes);
    } else {
      exec_ranks(specs, files_of, blocked.before(), started.processes);
    }
  } catch (...) {
    kill_processes(started.processes);
    throw;
  }
  return started;
}

}  // namespace levin
