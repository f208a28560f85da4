#include "levin/strategies/store/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/terminal.h"
#include "levin/strategies/failure/failure.h"
#include "levin/strategies/host/shared_file.h"

namespace levin {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNow = std::chrono::milliseconds(0);
constexpr auto kLongestPoll = std::chrono::milliseconds(60'000);
constexpr auto kPauseWithoutResources = std::chrono::milliseconds(100);
constexpr auto kNotifyTimeout = std::chrono::seconds(1);

/// Takes as long whatever differs.
bool same_token(const std::string& left, const std::string& right) {
  if (left.size() != right.size()) return false;
  unsigned char different = 0;
  for (std::size_t i = 0; i < left.size(); ++i) different |= static_cast<unsigned char>(left[i] ^ right[i]);
  return different == 0;
}

}  // namespace

struct StoreServer::Connection {
  Descriptor socket;
  std::string peer;
  std::optional<int> rank;  ///< once it has identified itself
  Deadline deadline;        ///< to identify itself; of its wait
  StoreMessageReader reader{};
  std::string rest{};  ///< of an answer, which the peer has not taken yet
  std::optional<StoreMessage> wait{};
  std::size_t keys_seen = 0;  ///< of the wait
  bool closing = false;       ///< when the rest is sent
};

StoreServer::StoreServer(Settings settings, std::vector<Descriptor> listeners, Descriptor inherited)
    : settings_(std::move(settings)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      process_of_(static_cast<std::size_t>(settings_.world_size)) {
  auto [own, own_clients] = connected_sockets(SOCK_SEQPACKET);
  if (!wake_.is_open() || !own.is_open())
    throw IoError("the run's store cannot start: " + std::generic_category().message(errno));
  own_clients_ = std::move(own_clients);
  doors_.push_back({std::move(own), /*hands_over=*/true});
  doors_.push_back({std::move(inherited), /*hands_over=*/true});
  for (Descriptor& listener : listeners) doors_.push_back({std::move(listener)});
  thread_ = quiet_thread([this] { run(); });
}

StoreServer::~StoreServer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void StoreServer::wake() const { eventfd_write(wake_.number(), 1); }

void StoreServer::end(const std::string& reason) {
  std::unique_lock lock(mutex_);
  end_reason_ = reason;
  wake();
  notified_.wait_for(lock, kNotifyTimeout, [this] { return all_notified_; });
}

void StoreServer::run() {
  while (true) {
    poll_once();
    const std::lock_guard lock(mutex_);
    if (stop_) return;
  }
}

Deadline StoreServer::next_deadline() const {
  Deadline next = Clock::now() + kLongestPoll;
  for (const Connection& connection : connections_) {
    if (!connection.rank || connection.wait) next = std::min(next, connection.deadline);
  }
  return next;
}

void StoreServer::poll_once() {
  std::vector<pollfd> entries = {{wake_.number(), POLLIN, 0}};
  for (const Door& door : doors_) entries.push_back({door.socket.number(), POLLIN, 0});
  for (const Connection& connection : connections_) {
    // A client that does not read an answer is not polled. A client that waits for one is, because it may close its connection.
    const short events = connection.rest.empty() ? POLLIN : POLLOUT;
    entries.push_back({connection.socket.number(), events, 0});
  }
  const Deadline deadline = next_deadline();
  const auto left = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()), kNow, kLongestPoll);
  if (poll(entries.data(), entries.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) {
    // Out of memory in the kernel: a moment later there may be some.
    std::this_thread::sleep_for(kPauseWithoutResources);
    return;
  }

  std::size_t index = 1 + doors_.size();
  std::erase_if(connections_, [&](Connection& connection) { return !serve(connection, entries[index++].revents); });
  answer_waits();
  eventfd_t count = 0;
  eventfd_read(wake_.number(), &count);
  notify_end();
  for (std::size_t i = 0; i < doors_.size(); ++i) {
    if (entries[1 + i].revents != 0) accept_new(doors_[i]);
  }
}

void StoreServer::notify_end() {
  const std::lock_guard lock(mutex_);
  // A notified client closes its connection. A rank between two calls has yet to call.
  const bool left = std::none_of(connections_.begin(), connections_.end(),
                                 [](const Connection& connection) { return connection.rank.value_or(0) != 0; });
  if (end_reason_.empty() || !left || all_notified_) return;
  all_notified_ = true;
  notified_.notify_all();
}

void StoreServer::accept_new(Door& door) {
  const int socket = door.socket.number();
  Descriptor connection =
      door.hands_over ? take_handed_over(socket) : Descriptor(accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection.is_open()) return welcome(std::move(connection));
  char byte = 0;
  if (!door.hands_over) {
    // No descriptors are left, perhaps.
    if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) std::this_thread::sleep_for(kPauseWithoutResources);
  } else if (recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
    // The launcher and all other ranks are gone, and with them their end; otherwise there would be a byte, or an error.
    door.socket = Descriptor();
  }
}

void StoreServer::welcome(Descriptor socket) {
  const auto unknown = [](const Connection& connection) { return !connection.rank; };
  if (static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(), unknown)) >= kMostUnknown) {
    const auto oldest = std::find_if(connections_.begin(), connections_.end(), unknown);
    note_stranger(*oldest, "others came before it identified itself");
    connections_.erase(oldest);
  }
  const int number = socket.number();
  connections_.push_back({std::move(socket), peer_text(number), std::nullopt, Clock::now() + settings_.patience});
  // Data that came with it is read at once, before others can use its slot.
  if (!serve(connections_.back(), POLLIN)) connections_.pop_back();
}

bool StoreServer::serve(Connection& connection, short events) {
  try {
    if ((events & POLLOUT) != 0) send_rest(connection);
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && connection.rest.empty()) receive(connection);
    if (!connection.rank && !connection.closing && Clock::now() >= connection.deadline) {
      note_stranger(connection, format("it did not identify itself within {} s", settings_.patience.count() / 1000));
      return false;
    }
  } catch (const ConnectionLost&) {
    if (!connection.rank && !connection.closing) note_stranger(connection, "it left without identifying itself");
    return false;
  } catch (const DesyncError& error) {
    note_stranger(connection, error.what());
    if (!connection.rank) return false;
    connection.closing = true;
    answer(connection, {.call = StoreCall::kRefused, .values = {error.what()}});
  }
  return !connection.closing || !connection.rest.empty();
}

void StoreServer::receive(Connection& connection) {
  const std::string part = receive_until(connection.socket.number(), Clock::now());
  if (part.empty()) return;
  connection.reader.add(part);
  const std::size_t limit = connection.rank ? kLargestMessage : kLargestHello;
  // A rank asks one thing at a time, and waits for the answer.
  if (auto message = connection.reader.next(limit)) {
    if (connection.wait) throw DesyncError("it sent a request while it waited for an answer");
    handle(connection, *std::move(message));
    if (!connection.reader.is_empty()) throw DesyncError("it sent more than was requested");
  }
}

void StoreServer::handle(Connection& connection, StoreMessage message) {
  if (!connection.rank) return greet(connection, message);
  {
    const std::lock_guard lock(mutex_);
    if (!end_reason_.empty()) return answer(connection, {.call = StoreCall::kRefused, .values = {end_reason_}});
  }
  if (message.call != StoreCall::kGet && message.call != StoreCall::kWait) return answer(connection, table_.answer(message));
  constexpr std::int64_t kLongest = std::int64_t{1000} * 3600 * 24 * 30;
  connection.deadline = Clock::now() + std::chrono::milliseconds(std::clamp<std::int64_t>(message.number, 0, kLongest));
  connection.wait = std::move(message);
  connection.keys_seen = 0;
}

void StoreServer::greet(Connection& connection, const StoreMessage& hello) {
  const auto refuse = [&](const std::string& why, const std::string& advice, bool may_come_again = false) {
    if (!why.empty()) note_stranger(connection, why);
    answer(connection, {.call = StoreCall::kRefused, .number = may_come_again ? 1 : 0, .values = {advice}});
    connection.closing = true;
  };
  if (hello.call != StoreCall::kHello || hello.keys.size() != 2 || hello.values.size() != 3) {
    throw DesyncError("it did not begin by identifying itself");
  }
  if (!same_token(hello.values[0], settings_.token)) {
    return refuse("it does not know the run's token", "LEVIN_RUN_TOKEN is not the one that rank 0 has");
  }
  const std::string sender = format("rank {} of {}", hello.number, hello.keys[0].substr(0, 20));
  if (hello.keys[0] != std::to_string(settings_.world_size) || hello.number < 0 || hello.number >= settings_.world_size) {
    return refuse("it says that it is " + sender,
                  format("its run has {} ranks, and this is {}: do two runs use one MASTER_PORT, "
                         "or do hosts have different devices or num_nodes?",
                         settings_.world_size, sender));
  }
  if (hello.keys[1] != std::to_string(settings_.attempt)) {
    // The other host is about to start its ranks again, or has not noticed yet that it must.
    return refuse("", format("it is in attempt {} of the run, and this rank in another", settings_.attempt + 1),
                  /*may_come_again=*/true);
  }
  const auto rank = static_cast<std::size_t>(hello.number);
  // Other hosts print what is said here.
  const auto plain = [](const std::string& text) { return one_line(text).substr(0, 200); };
  const std::string process = plain(hello.values[2]);
  const std::string problem = contradiction(rank, connection.peer, plain(hello.values[1]), process);
  if (!problem.empty()) {
    refuse("it says that it is " + sender, problem);
    // While ranks gather, one that does not fit means that another one will not come.
    if (std::any_of(process_of_.begin(), process_of_.end(), [](const std::string& process) { return process.empty(); })) {
      const std::lock_guard lock(mutex_);
      if (end_reason_.empty()) end_reason_ = problem;
    }
    return;
  }
  process_of_[rank] = process;
  connection.rank = static_cast<int>(rank);
  answer(connection, {});
}

std::string StoreServer::contradiction(std::size_t rank, const std::string& peer, const std::string& build,
                                       const std::string& process) const {
  if (build != settings_.build) {
    return format("rank {} at {} runs {}, and rank 0 runs {}: install the same on all hosts", rank, peer, build,
                  settings_.build);
  }
  const std::string& first = process_of_[rank];
  if (first.empty() || first == process) return "";
  return format("two processes say that they are rank {}: {}, and {}: give each host its own NODE_RANK (or RANK)", rank, first,
                process);
}

void StoreServer::answer_waits() {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = end_reason_;
  }
  for (Connection& connection : connections_) {
    if (!connection.wait) continue;
    try {
      const auto reply =
          reason.empty() ? reply_to_wait(connection) : StoreMessage{.call = StoreCall::kRefused, .values = {reason}};
      if (!reply) continue;
      connection.wait.reset();
      answer(connection, *reply);
    } catch (const DesyncError& error) {
      note_stranger(connection, error.what());
      shutdown(connection.socket.number(), SHUT_RDWR);  // and is found closed
    }
  }
}

std::optional<StoreMessage> StoreServer::reply_to_wait(Connection& connection) const {
  const std::vector<std::string>& keys = connection.wait->keys;
  // Keys are hardly ever removed: one that was found is not searched again until all are.
  while (connection.keys_seen < keys.size() && table_.has(keys[connection.keys_seen])) ++connection.keys_seen;
  const bool is_over = Clock::now() >= connection.deadline;
  if (connection.keys_seen < keys.size() && !is_over) return std::nullopt;
  StoreMessage reply;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(reply.keys),
               [&](const std::string& key) { return !table_.has(key); });
  if (reply.keys.empty()) {
    if (connection.wait->call == StoreCall::kGet) reply.values = table_.values(keys);
    return reply;
  }
  connection.keys_seen = 0;
  if (!is_over) return std::nullopt;
  reply.call = StoreCall::kMissing;
  return reply;
}

void StoreServer::answer(Connection& connection, const StoreMessage& message) {
  connection.rest += encode(message);
  try {
    send_rest(connection);
  } catch (const ConnectionLost&) {
    connection.rest.clear();  // it is found closed when it is read
  }
}

void StoreServer::send_rest(Connection& connection) {
  const ssize_t sent =
      send(connection.socket.number(), connection.rest.data(), connection.rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) {
    connection.rest.erase(0, static_cast<std::size_t>(sent));
  } else if (errno != EAGAIN && errno != EINTR) {
    throw ConnectionLost(std::strerror(errno));
  }
}

void StoreServer::note_stranger(const Connection& connection, const std::string& why) {
  if (std::exchange(had_stranger_, true)) return;
  const std::string sender = connection.rank ? format("rank {}", *connection.rank) : connection.peer;
  settings_.print(format("levin: a connection from {} to the run's store was dropped: {}", sender, why));
}

}  // namespace levin
