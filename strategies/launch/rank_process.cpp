#include "levin/strategies/launch/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/strategies/failure/process_state.h"
#include "levin/strategies/host/shared_file.h"
#include "levin/strategies/launch/fork_server.h"
#include "levin/strategies/launch/rank_start.h"

namespace levin {

namespace {

std::string with_descriptor(const char* name, int number) { return number >= 0 ? format("{}={}", name, number) : name; }

[[noreturn]] void throw_not_started(const std::string& what) {
  throw IoError(format("the ranks cannot be started: {} failed: {}", what, std::strerror(errno)));
}

/// The words of this process's command line, as the kernel has them.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.empty()) throw_not_started("reading /proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    arguments.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

/// The running program's file. Its link in /proc still works when the file has been replaced or removed meanwhile.
std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && std::filesystem::exists(path, error) ? path.string() : "/proc/self/exe";
}

std::vector<std::string> with_changes(std::vector<std::string> changes) {
  const auto name_of = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = name_of(*entry);
    const bool replaced =
        std::any_of(changes.begin(), changes.end(), [&](const std::string& change) { return name_of(change) == name; });
    if (!replaced) entries.emplace_back(*entry);
  }
  std::erase_if(changes, [](const std::string& change) { return change.find('=') == std::string::npos; });
  entries.insert(entries.end(), std::make_move_iterator(changes.begin()), std::make_move_iterator(changes.end()));
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// What the child needs. All memory is made before fork(): after it, only async-signal-safe calls are allowed.
struct ChildPlan {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<char*> argument_pointers;
  std::vector<char*> environment_pointers;
  InheritedFiles files;
  pid_t launcher;
  sigset_t signal_mask;
};

[[noreturn]] void become_rank(const ChildPlan& plan) {
  if (!tie_to_launcher(plan.launcher)) _exit(1);
  for (const int file : {plan.files.segment, plan.files.store, plan.files.inputs}) fcntl(file, F_SETFD, 0);
  // The launcher's handlers write into its pipe; between here and exec, which resets them, none may run.
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGTSTP, SIGCHLD}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::signal(signal, SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr);
  execve(plan.program.c_str(), plan.argument_pointers.data(), plan.environment_pointers.data());
  constexpr char kMessage[] = "levin: a rank could not be started: exec failed\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(127);
}

/// Starts the program anew for each rank. Throws IoError; `processes` are those that it has started until then.
void exec_ranks(const std::vector<RankPlace>& places, const std::function<InheritedFiles(const RankPlace&)>& files_of,
                const sigset_t& signal_mask, std::vector<pid_t>& processes) {
  ChildPlan plan;
  plan.program = own_program();
  plan.arguments = own_arguments();
  plan.argument_pointers = pointers_to(plan.arguments);
  plan.launcher = getpid();
  plan.signal_mask = signal_mask;
  for (const RankPlace& place : places) {
    plan.files = files_of(place);
    plan.environment = with_changes(rank_environment(place, plan.launcher, plan.files));
    plan.environment_pointers = pointers_to(plan.environment);
    processes.push_back(0);
    processes.back() = fork();
    if (processes.back() == 0) become_rank(plan);
    if (processes.back() < 0) throw_not_started("fork");
  }
}

/// While this lives, no signal comes: whoever is told to stop stops a run whose ranks are known.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

}  // namespace

std::vector<std::string> rank_environment(const RankPlace& place, pid_t launcher, const InheritedFiles& files) {
  std::vector<std::string> changes = {format("RANK={}", place.rank()),
                                      format("LOCAL_RANK={}", place.local_rank),
                                      format("WORLD_SIZE={}", place.world_size()),
                                      format("LOCAL_WORLD_SIZE={}", place.local_ranks),
                                      format("GROUP_RANK={}", place.host),
                                      format("LEVIN_LAUNCHED={}", launcher),
                                      format("LEVIN_DEVICE={}", place.device),
                                      format("LEVIN_RESTARTS={}", place.restarts),
                                      format("LEVIN_MAX_RESTARTS={}", place.max_restarts),
                                      format("LEVIN_LAUNCH_CALL={}", place.call),
                                      format("LEVIN_SHM_FD={}", files.segment),
                                      with_descriptor("LEVIN_STORE_FD", files.store),
                                      with_descriptor("LEVIN_INPUTS_FD", files.inputs)};
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    changes.push_back(format("OMP_NUM_THREADS={}", std::max(1, usable_cores() / place.local_ranks)));
  }
  if (!has_openmp_waits()) changes.push_back(format("{}={}", kOpenMpSpinsVariable, kOpenMpSpins));
  return changes;
}

bool tie_to_launcher(pid_t launcher) noexcept {
  // When it died before this call, the parent has changed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) return false;
  // A group of its own: Ctrl-C in the terminal reaches the launcher alone, which passes it on, once.
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

StartedRanks start_ranks(const std::vector<RankPlace>& places, std::string_view kept) {
  StartedRanks started{RunSegment::create(static_cast<int>(places.size()), places.front().rank()), {}};
  started.segment->set_launcher(ProcessId::self());
  started.segment->header().kept.write(kept);
  // Ranks of several hosts meet at a port.
  const bool one_host = places.front().hosts == 1;
  const auto [server, clients] = one_host ? connected_sockets(SOCK_SEQPACKET) : std::pair<Descriptor, Descriptor>();
  if (one_host && !server.is_open()) throw_not_started("socketpair");
  const Descriptor inputs(RunInputs::instance().to_file().value_or(-1));
  const auto files_of = [&, store_of_zero = server.number(), store = clients.number()](const RankPlace& place) {
    return InheritedFiles{.segment = started.segment->descriptor(),
                          .store = place.rank() == 0 ? store_of_zero : store,
                          .inputs = inputs.number()};
  };
  const BlockedSignals blocked;
  try {
    if (auto processes = ForkServer::instance().make_ranks(places, files_of)) {
      started.processes = std::move(*processes);
    } else {
      exec_ranks(places, files_of, blocked.before(), started.processes);
    }
  } catch (...) {
    kill_processes(started.processes);
    throw;
  }
  return started;
}

}  // namespace levin
