#include "levin/loggers/wandb/core_connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "levin/core/base/environment.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/file_bytes.h"
#include "levin/loggers/wandb/account.h"
#include "levin/loggers/wandb/records.h"
#include "wandb/messages.pb.h"

namespace levin::wandb {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

/// Seconds to wait for W&B at a run's start, as its own clients do.
double init_timeout() {
  const double wanted = std::atof(environment("WANDB_INIT_TIMEOUT").c_str());
  return wanted > 0 ? wanted : 90;
}

constexpr std::size_t kMostBytesWaiting = std::size_t{256} << 20U;
/// Before each message: "W" and the length in four bytes.
constexpr std::size_t kFrame = 5;

/// Starts a program in another session, so that Ctrl-C at the terminal goes to the run alone. It prints to `output`.
pid_t spawn(std::vector<std::string> words, const fs::path& output) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t process = -1;
  const int error = posix_spawn(&process, words[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw IoError(format("cannot start {}: {}", words[0], std::strerror(error)));
  return process;
}

/// True when a child process has ended; reaps it.
bool has_ended(pid_t process) { return waitpid(process, nullptr, WNOHANG) != 0; }

Settings settings_of(const Account& account, const CoreConnection::Run& run) {
  Settings settings;
  settings.mutable_api_key()->set_value(account.api_key);
  settings.mutable_base_url()->set_value(account.base_url);
  settings.mutable_console()->set_value("off");
  settings.mutable_disable_git()->set_value(true);
  settings.mutable_disable_job_creation()->set_value(true);
  if (!run.identity.entity.empty()) settings.mutable_entity()->set_value(run.identity.entity);
  settings.mutable_host()->set_value(host_name());
  settings.mutable_init_timeout()->set_value(init_timeout());
  settings.mutable_log_dir()->set_value((run.folder / "logs").string());
  settings.mutable_log_internal()->set_value((run.folder / "logs" / "debug-internal.log").string());
  settings.mutable_mode()->set_value("online");
  settings.mutable_project()->set_value(run.identity.project);
  if (run.resumes) settings.mutable_resume()->set_value("allow");
  settings.mutable_root_dir()->set_value(run.folder.parent_path().parent_path().string());
  settings.mutable_run_id()->set_value(run.identity.id);
  settings.mutable_run_name()->set_value(run.identity.name);
  settings.mutable_silent()->set_value(true);
  settings.mutable_sync_dir()->set_value(run.folder.string());
  settings.mutable_sync_file()->set_value((run.folder / "logs" / "wandb-core.wandb").string());
  settings.mutable_wandb_dir()->set_value(run.folder.parent_path().string());
  settings.mutable_x_stats_pid()->set_value(getpid());
  settings.mutable_x_start_time()->set_value(run.start_time);
  settings.mutable_x_primary()->set_value(true);
  settings.mutable_x_update_finish_state()->set_value(true);
  // levin writes the run file, which is complete even if wandb-core fails; an old wandb-core writes another one elsewhere.
  settings.mutable_x_skip_transaction_log()->set_value(true);
  return settings;
}

}  // namespace

CoreConnection::CoreConnection(const fs::path& core, const Account& account, const Run& run, const Record& record)
    : stream_(run.identity.id) {
  try {
    start(core, run.folder / "logs");
    begin(account, run, record);
  } catch (...) {
    fail("it did not start");
    if (process_ > 0) kill(process_, SIGKILL), waitpid(process_, nullptr, 0);
    throw;
  }
}

CoreConnection::~CoreConnection() {
  const bool is_given_up = !failure().empty();
  fail("the run is over");
  worker_.wait();
  // It has uploaded everything, or will not: without its connection it ends by itself, soon.
  for (const Patience patience(seconds(is_given_up ? 1 : 10)); process_ > 0 && !has_ended(process_);) {
    if (patience.is_over()) kill(process_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void CoreConnection::start(const fs::path& core, const fs::path& logs) {
  const fs::path port_file = logs / "wandb-core-port.txt";
  const fs::path output = logs / "wandb-core.log";
  process_ = spawn(
      {core.string(), "--no-observability", "--port-filename", port_file.string(), "--pid", std::to_string(getpid())}, output);
  std::string text;
  for (const Patience patience(seconds(30)); !(text = file_bytes(port_file).value_or("")).ends_with("EOF");) {
    if (has_ended(process_)) {
      process_ = -1;
      throw IoError(format("{} has ended at once: see {}", core, output));
    }
    if (HeededSignals::is_pending()) throw IoError("a signal came while wandb-core was starting");
    if (patience.is_over()) throw IoError(format("{} did not say where it listens: see {}", core, output));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  fs::remove(port_file);
  connect_to(split(text, "\n").front());
}

void CoreConnection::connect_to(const std::string& address) {
  const std::size_t equals = address.find('=');
  const std::string value = address.substr(equals + 1);
  const bool is_unix = address.starts_with("unix=");
  socket_ = Descriptor(socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int error = 0;
  if (is_unix) {
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    value.copy(&name.sun_path[0], sizeof(name.sun_path) - 1);
    error = connect(socket_.number(), reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  } else {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<std::uint16_t>(std::strtoul(value.c_str(), nullptr, 10)));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    error = connect(socket_.number(), reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  }
  if (error != 0) throw IoError(format("cannot reach wandb-core at {}: {}", address, std::strerror(errno)));
}

void CoreConnection::begin(const Account& account, const Run& run, const Record& record) {
  ServerRequest init;
  init.set_request_id("init");
  *init.mutable_inform_init()->mutable_settings() = settings_of(account, run);
  init.mutable_inform_init()->mutable_info()->set_stream_id(stream_);
  queue(init);
  send(record, "run");
  std::optional<ServerResponse> answer;
  const Patience patience(std::chrono::duration<double>(init_timeout() + 10));
  while (!answer || !answer->result_communicate().has_run_result()) {  // an old wandb-core gives no answer to the first
    answer = receive(patience.next_look());
    if (answer && answer->has_error_response()) throw IoError(answer->error_response().message());
    if (answer) continue;
    if (HeededSignals::is_pending()) throw IoError("a signal came while wandb-core was asked for the run");
    if (patience.is_over() || !failure().empty())
      throw IoError(format("wandb-core gave no answer: see {}", run.folder / "logs"));
  }
  const Result::RunResult& result = answer->result_communicate().run_result();
  if (result.has_error()) throw IoError(result.error().message());
  entity_ = result.run().entity();
  project_ = result.run().project();
  first_row_ = result.run().starting_step();
  Record run_start;
  *run_start.mutable_request()->mutable_run_start()->mutable_run() = result.run();
  send(run_start);
}

void CoreConnection::send(const Record& record, const std::string& question) {
  ServerRequest request;
  *request.mutable_record_publish() = record;
  if (!question.empty()) {
    request.set_request_id(question);
    request.mutable_record_publish()->mutable_control()->set_mailbox_slot(question);  // for an old wandb-core
  }
  request.mutable_record_publish()->mutable_info()->set_stream_id(stream_);
  queue(request);
}

void CoreConnection::queue(const ServerRequest& request) {
  const std::string bytes = request.SerializeAsString();
  std::string message = "W";
  for (std::size_t byte = 0; byte + 1 < kFrame; ++byte) message += static_cast<char>(bytes.size() >> (8 * byte) & 0xffU);
  message += bytes;
  bool is_too_much = false;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    waiting_bytes_ += message.size();
    is_too_much = waiting_bytes_ > kMostBytesWaiting;
  }
  if (is_too_much) return fail("it has read nothing for too long");
  worker_.add([this, message = std::move(message)] { send_bytes(message); });
}

void CoreConnection::send_bytes(const std::string& message) {
  for (std::string_view rest = message; !rest.empty();) {
    if (!failure().empty()) return;
    const ssize_t sent = ::send(socket_.number(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return fail("it is gone");
    if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  const std::lock_guard lock(mutex_);
  waiting_bytes_ -= message.size();
}

void CoreConnection::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = why;
  // Ends the waits of other threads for it.
  if (socket_.is_open()) shutdown(socket_.number(), SHUT_RDWR);
}

std::string CoreConnection::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<ServerResponse> CoreConnection::receive(Clock::time_point deadline) {
  constexpr const char* kNonsense = "its answer is malformed";
  while (true) {
    std::uint32_t size = 0;
    if (received_.size() >= kFrame) std::memcpy(&size, &received_[1], sizeof(size));
    if (received_.size() >= kFrame && received_.size() - kFrame >= size) {
      ServerResponse response;
      const bool is_one = response.ParseFromString(received_.substr(kFrame, size));
      received_.erase(0, kFrame + size);
      if (is_one) return response;
      fail(kNonsense);
      return std::nullopt;
    }
    if (!received_.empty() && (received_[0] != 'W' || size > kMostBytesWaiting)) {
      fail(kNonsense);
      return std::nullopt;
    }
    const std::size_t before = received_.size();
    fill(deadline);
    if (received_.size() == before) return std::nullopt;
  }
}

void CoreConnection::fill(Clock::time_point deadline) {
  std::array<char, 4096> bytes{};
  if (!is_ready_by(deadline, socket_.number(), POLLIN)) return;
  const ssize_t got = recv(socket_.number(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0) received_.append(bytes.data(), static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) fail("it has ended");
}

namespace {

/// A text that changes with the progress of an upload. The duration of an operation always grows, so it is left out.
std::string progress_of(const Response::PollExit& state) {
  std::string text = format("{} {}", state.pusher_stats().uploaded_bytes(), state.operation_stats().total_operations());
  for (const Operation& operation : state.operation_stats().operations()) text += operation.SerializeAsString();
  return text;
}

}  // namespace

void CoreConnection::finish(const Record& exit, std::chrono::duration<double> time, const std::string& if_it_takes_long) {
  constexpr seconds kBetweenQuestions(1), kLong(10);
  Record how_far;
  how_far.mutable_request()->mutable_poll_exit();
  send(exit, "exit");
  Patience patience(time);
  std::string progress;
  const auto begin = Clock::now();
  auto asks_at = begin;
  bool has_reported = false, is_done = false;
  while (!is_done) {
    if (!failure().empty()) return fail("it has ended before all was uploaded");
    if (HeededSignals::is_pending()) return fail("a signal came before all was uploaded");
    if (patience.is_over()) return fail(format("it has uploaded nothing more for {:g} s", time.count()));
    const auto now = Clock::now();
    if (!has_reported && now - begin >= kLong) {
      has_reported = true;
      Console::instance().info(if_it_takes_long);
    }
    if (now >= asks_at) {
      asks_at = now + kBetweenQuestions;
      send(how_far, "poll_exit");
    }
    const std::optional<ServerResponse> response = receive(patience.next_look());
    if (!response) continue;
    const Result& result = response->result_communicate();
    is_done = result.has_exit_result();
    if (!result.response().has_poll_exit_response()) continue;
    std::string so_far = progress_of(result.response().poll_exit_response());
    if (so_far != progress) patience.renew();
    progress = std::move(so_far);
  }
  ServerRequest teardown;
  teardown.mutable_inform_teardown();
  queue(teardown);
  while (!patience.is_over() && !worker_.wait_until(patience.next_look())) {
  }
}

}  // namespace levin::wandb
