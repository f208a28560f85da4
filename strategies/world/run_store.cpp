#include "levin/strategies/world/run_store.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

using Bytes = std::vector<std::uint8_t>;
using Clock = std::chrono::steady_clock;

/// The server ends a wait in time, unless it cannot do anything any more.
constexpr auto kServerGrace = std::chrono::seconds(2);
constexpr auto kForEver = std::chrono::hours(24 * 30);

std::string to_text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
Bytes to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// c10d's way to say that there is no limit.
std::chrono::milliseconds limit_of(std::chrono::milliseconds timeout) {
  return timeout == c10d::Store::kNoTimeout ? kForEver : timeout;
}

}  // namespace

RunStore::RunStore(StoreAddress address, StoreMember member, std::shared_ptr<StoreServer> server,
                   std::chrono::milliseconds timeout)
    : Store(timeout),
      server_(std::move(server)),
      client_(std::move(address), std::move(member), Clock::now() + limit_of(timeout)) {}

c10::intrusive_ptr<c10d::Store> RunStore::clone() {
  return c10::make_intrusive<RunStore>(client_.address(), client_.member(), server_, timeout_);
}

StoreMessage RunStore::ask(const StoreMessage& request) { return client_.ask(request, Clock::now() + limit_of(timeout_)); }

StoreMessage RunStore::wait_for(StoreCall call, const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
  const auto limit = limit_of(timeout);
  StoreMessage answer = client_.ask({call, limit.count(), keys, {}}, Clock::now() + limit + kServerGrace);
  if (answer.call != StoreCall::kMissing) return answer;
  std::string text = format("waited {} s in the run's store for", limit.count() / 1000);
  for (std::size_t i = 0; i < answer.keys.size() && i < 3; ++i) text += format(" '{}'", answer.keys[i]);
  if (answer.keys.size() > 3) text += format(" and {} more", answer.keys.size() - 3);
  throw DesyncError(text);
}

void RunStore::set(const std::string& key, const Bytes& value) { ask({StoreCall::kSet, 0, {key}, {to_text(value)}}); }

Bytes RunStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& wanted) {
  return to_bytes(ask({StoreCall::kCompareSet, 0, {key}, {to_text(expected), to_text(wanted)}}).values.at(0));
}

Bytes RunStore::get(const std::string& key) { return multiGet({key}).at(0); }

std::int64_t RunStore::add(const std::string& key, std::int64_t number) {
  return ask({StoreCall::kAdd, number, {key}, {}}).number;
}

bool RunStore::deleteKey(const std::string& key) { return ask({StoreCall::kRemove, 0, {key}, {}}).number != 0; }
bool RunStore::check(const std::vector<std::string>& keys) { return ask({StoreCall::kCheck, 0, keys, {}}).number != 0; }
std::int64_t RunStore::getNumKeys() { return ask({StoreCall::kCount}).number; }

void RunStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  wait_for(StoreCall::kWait, keys, timeout);
}

void RunStore::append(const std::string& key, const Bytes& value) { ask({StoreCall::kAppend, 0, {key}, {to_text(value)}}); }

std::vector<Bytes> RunStore::multiGet(const std::vector<std::string>& keys) {
  const StoreMessage answer = wait_for(StoreCall::kGet, keys, timeout_);
  if (answer.values.size() != keys.size()) {
    throw DesyncError(format("the run's store answered with {} values for {} keys: do all ranks run the same build of levin?",
                             answer.values.size(), keys.size()));
  }
  std::vector<Bytes> values;
  values.reserve(keys.size());
  for (const std::string& value : answer.values) values.push_back(to_bytes(value));
  return values;
}

void RunStore::multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) {
  StoreMessage request{StoreCall::kSet, 0, keys, {}};
  for (const Bytes& value : values) request.values.push_back(to_text(value));
  ask(request);
}

}  // namespace levin
