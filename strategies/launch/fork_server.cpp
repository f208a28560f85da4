#include "levin/strategies/launch/fork_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "levin/strategies/failure/process_state.h"
#include "levin/strategies/host/shared_file.h"
#include "levin/strategies/launch/cluster_environment.h"

namespace levin {

namespace {

constexpr auto kRankPatience = std::chrono::seconds(10);  // until the next rank has said that it is there

/// What a rank is to become. Its files come with it: the segment, and those of store and inputs that there are.
struct Request {
  RankPlace place;
  std::int32_t launcher = 0;
  bool has_store = false;
  bool has_inputs = false;
};

/// What a rank says when it is there.
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
  for (const std::string& change : rank_environment(request.place, request.launcher, inherited)) {
    const std::size_t equals = change.find('=');
    if (equals == std::string::npos) {
      unsetenv(change.c_str());
    } else {
      setenv(change.substr(0, equals).c_str(), change.c_str() + equals + 1, /*overwrite=*/1);
    }
  }
  const Arrival arrival{request.place.local_rank, getpid()};
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

/// Makes ranks until none is asked for any more, and then ends the process; comes back in each rank.
void serve(int socket, pid_t program) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != program) _exit(0);
  // What is typed in the terminal is for the program.
  setpgid(0, 0);
  while (true) {
    Request request;
    std::vector<Descriptor> files;
    if (!receive_request(socket, request, files)) _exit(0);
    // A child of this process that ends at once leaves its own child to the launcher, which takes in orphans meanwhile.
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

bool ask_for(int socket, const RankPlace& place, const InheritedFiles& inherited) {
  std::vector<int> files = {inherited.segment, inherited.store, inherited.inputs};
  std::erase(files, -1);
  const Request request{place, getpid(), inherited.store >= 0, inherited.inputs >= 0};
  return send_descriptors(socket, std::as_bytes(std::span(&request, 1)), files, 0) == sizeof(request);
}

/// False when none has come in time.
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

std::optional<std::vector<pid_t>> ForkServer::make_ranks(const std::vector<RankPlace>& places,
                                                         const std::function<InheritedFiles(const RankPlace&)>& files_of) {
  if (!socket_.is_open()) return std::nullopt;
  std::vector<pid_t> processes(places.size(), 0);
  bool all = true;
  {
    const OrphanParent takes_in_orphans;
    for (std::size_t i = 0; i < places.size() && all; ++i) all = ask_for(socket_.number(), places[i], files_of(places[i]));
    for (std::size_t i = 0; i < places.size() && all; ++i) all = await_rank(socket_.number(), processes);
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

}  // namespace levin
