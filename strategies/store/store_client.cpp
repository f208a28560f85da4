#include "levin/strategies/store/store_client.h"

#include <algorithm>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/strategies/failure/peer_errors.h"
#include "levin/strategies/store/store_limits.h"

namespace levin {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kFirstPause = std::chrono::milliseconds(5);
constexpr auto kLongestPause = std::chrono::milliseconds(250);

std::string seconds_text(Clock::duration time) {
  const auto tenths = std::chrono::round<std::chrono::milliseconds>(time).count() / 100;
  return format("{}{} s", tenths / 10, tenths % 10 == 0 ? "" : format(".{}", tenths % 10));
}

}  // namespace

StoreClient::StoreClient(StoreAddress address, StoreMember member, Deadline deadline)
    : address_(std::move(address)), member_(std::move(member)) {
  const auto begin = Clock::now();
  std::string problem;
  for (auto pause = kFirstPause; !join_once(deadline, problem); pause = std::min(2 * pause, kLongestPause)) {
    if (Clock::now() + pause > deadline) {
      throw DesyncError(format("nobody answers there for {} ({}): is rank 0 running, and can this host reach it?",
                               seconds_text(deadline - begin), problem));
    }
    std::this_thread::sleep_for(pause);
  }
}

bool StoreClient::join_once(Deadline deadline, std::string& problem) {
  const auto begin = Clock::now();
  try {
    reader_ = {};
    connection_ = address_.connect(deadline);
    const auto answer = exchange({StoreCall::kHello,
                                  member_.rank,
                                  {std::to_string(member_.world_size), std::to_string(member_.attempt)},
                                  {member_.token, member_.build, member_.process}},
                                 deadline);
    if (!answer) {
      throw DesyncError(format("who listens there did not answer within {}: another program may have the port",
                               seconds_text(deadline - begin)));
    }
    if (answer->call == StoreCall::kDone) return true;
    const std::string refusal = "rank 0 refused: " + (answer->values.empty() ? "it does not say why" : answer->values.front());
    if (answer->number != 1) throw DesyncError(refusal);
    problem = refusal;
    return false;
  } catch (const LostConnection& error) {
    // What the last, hurried try says is of less use than what was wrong before.
    if (problem.empty() || Clock::now() < deadline) problem = error.what();
    return false;
  }
}

StoreClient::Turn::Turn(StoreClient& client, Deadline deadline) : client_(client) {
  std::unique_lock lock(client_.mutex_);
  if (!client_.free_.wait_until(lock, deadline, [this] { return !client_.busy_; })) {
    throw DesyncError(client_.at_store("another call of this rank, which waits, takes too long"));
  }
  client_.busy_ = true;
}

StoreClient::Turn::~Turn() {
  {
    const std::lock_guard lock(client_.mutex_);
    client_.busy_ = false;
  }
  client_.free_.notify_one();
}

StoreMessage StoreClient::ask(const StoreMessage& request, Deadline deadline) {
  const Turn turn(*this, deadline);
  if (broken_) std::rethrow_exception(broken_);
  try {
    auto answer = exchange(request, deadline);
    if (!answer) give_up(DesyncError(at_store("rank 0 does not answer any more: it is stopped, or the network is cut")));
    if (answer->call == StoreCall::kRefused) {
      give_up(DesyncError(at_store(answer->values.empty() ? "rank 0 has ended it" : answer->values.front())));
    }
    return *std::move(answer);
  } catch (const LostConnection& error) {
    give_up(ConnectionLost(at_store(format("the connection to rank 0 is lost: {}", error.what())), /*closed_by_peer=*/true));
  }
}

std::string StoreClient::at_store(const std::string& text) const { return "the run's store at " + address_.text + ": " + text; }

std::optional<StoreMessage> StoreClient::exchange(const StoreMessage& request, Deadline deadline) {
  const std::string bytes = encode(request);
  if (bytes.size() > largest_answer(member_.world_size)) {
    throw DesyncError(format("the run's store takes no message of {} bytes", bytes.size()));
  }
  if (!send_until(connection_.number(), bytes, deadline)) return std::nullopt;
  while (true) {
    try {
      if (auto answer = reader_.next(largest_answer(member_.world_size))) return answer;
    } catch (const DesyncError& error) {
      throw DesyncError(format("who listens there is no rank of levin: {}", error.what()));
    }
    const std::string part = receive_until(connection_.number(), deadline);
    if (part.empty()) return std::nullopt;
    reader_.add(part);
  }
}

}  // namespace levin
