#include "levin/cli/sweep/optuna_sampler.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "levin/cli/embedded_file.h"
#include "levin/cli/sweep/child_process.h"
#include "levin/core/base/environment.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/value_json.h"

namespace levin::cli {
namespace {

constexpr EmbeddedFile kSampler[] = {
#include "sweep_sampler.inc"
};

std::string python() { return environment_or("PYTHON", "python3"); }

}  // namespace

Value OptunaSampler::settings(const SearchSpace& space, std::uint64_t seed) {
  return Value::Map{{"optuna", space.written()}, {"seed", static_cast<std::int64_t>(seed & 0x7fffffff)}};
}

OptunaSampler::OptunaSampler(const SweepState& sweep, const AwaitedSignals& signals, std::chrono::milliseconds patience)
    : signals_(signals), patience_(patience) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw IoError(format("cannot make a connection to {}: {}", python(), std::strerror(errno)));
  stream_ = Descriptor(ends[0]);
  {
    const Descriptor other(ends[1]);
    const std::vector<std::string> words = {"/usr/bin/env", python(), "-c", std::string(kSampler[0].text)};
    process_ = start_child(words, other.number(), other.number(), STDERR_FILENO);
  }
  try {
    write(Value::Map{{"space", sweep.sampler.at("optuna")}, {"seed", sweep.sampler.at("seed")}, {"maximize", sweep.maximize}});
    read();
    for (const Trial& trial : sweep.trials) {
      if (trial.has_failed() || !trial.scores.empty()) tell(trial);
    }
  } catch (...) {
    end();
    throw;
  }
}

OptunaSampler::~OptunaSampler() { end(); }

void OptunaSampler::end() {
  constexpr std::chrono::milliseconds kTimeToEnd(2000), kBetweenLooks(5);
  stream_ = Descriptor();  // it has nothing more to read
  const auto deadline = std::chrono::steady_clock::now() + std::min(kTimeToEnd, patience_);
  while (waitpid(process_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kBetweenLooks);
      continue;
    }
    kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    return;
  }
}

void OptunaSampler::wait_for(short events, std::chrono::steady_clock::time_point deadline) const {
  constexpr std::chrono::milliseconds kBetweenLooks(100);
  while (true) {
    if (const int signal = signals_.pending_except(SIGCHLD); signal != 0)
      throw Interrupted(signal, format("while {} chose values", python()));
    const auto now = std::chrono::steady_clock::now();
    if (is_ready_by(std::min(deadline, now + kBetweenLooks), stream_.number(), events)) return;
    if (now < deadline) continue;
    throw IoError(format("--sampler optuna: {} has not answered for {} s. Continue the sweep with --resume", python(),
                         std::chrono::duration<double>(patience_).count()));
  }
}

Assignment OptunaSampler::ask(const Trial& trial) {
  write(Value::Map{{"ask", static_cast<std::int64_t>(trial.number)}});
  const Value answer = read();
  Assignment values;
  for (const auto& [key, text] : answer.at("values").as_map()) values.emplace_back(key, text.as_string());
  return values;
}

void OptunaSampler::tell(const Trial& trial) {
  Value values(Value::Map{});
  for (const auto& [key, text] : trial.values) values[key] = text;
  const std::optional<double> score = trial.has_failed() ? std::nullopt : trial.score();
  write(Value::Map{{"tell", static_cast<std::int64_t>(trial.number)},
                   {"values", std::move(values)},
                   {"score", score ? Value(*score) : Value()}});
}

void OptunaSampler::write(const Value& message) {
  const std::string line = to_json(message) + "\n";
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  for (std::size_t sent = 0; sent < line.size();) {
    wait_for(POLLOUT, deadline);
    const ssize_t count = send(stream_.number(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EINTR && errno != EAGAIN) return;  // what it says before it ends is read next
    sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
}

Value OptunaSampler::read() {
  std::size_t end = 0;
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  while ((end = unread_.find('\n')) == std::string::npos) {
    std::array<char, 4096> part{};
    wait_for(POLLIN, deadline);
    const ssize_t count = recv(stream_.number(), part.data(), part.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) throw IoError(format("--sampler optuna: {} has ended, see above", python()));
    unread_.append(part.data(), static_cast<std::size_t>(count));
  }
  Value answer = parse_json(unread_.substr(0, end));
  unread_.erase(0, end + 1);
  if (const Value* const error = answer.find("error"))
    throw IoError(
        format("--sampler optuna: {}. Install it with `{} -m pip install optuna`, or name with the environment variable "
               "PYTHON a Python that has it.",
               error->as_string(), python()));
  return answer;
}

}  // namespace levin::cli
