#include "levin/strategies/world/limited_store.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

using Bytes = std::vector<std::uint8_t>;

/// What the store's own limits, which say more, get to be first.
constexpr auto kStoreGrace = std::chrono::seconds(1);

}  // namespace

template <class Call>
auto LimitedStore::limited(std::chrono::milliseconds limit, const Call& call) const {
  if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
    limited(limit, [call] {
      call();
      return true;
    });
  } else {
    auto result = thread_->call_until(std::chrono::steady_clock::now() + limit + kStoreGrace, std::move(call));
    if (!result) {
      throw DesyncError(format("who listens at {} did not answer within {} s: it is stopped, or another program has the port",
                               place_, limit.count() / 1000));
    }
    return *std::move(result);
  }
}

LimitedStore::LimitedStore(const Connect& connect, std::string place, std::chrono::milliseconds timeout)
    : Store(timeout), place_(std::move(place)), store_(limited(timeout, connect)) {}

c10::intrusive_ptr<c10d::Store> LimitedStore::clone() {
  return c10::make_intrusive<LimitedStore>([store = store_] { return store->clone(); }, place_, timeout_);
}

void LimitedStore::setTimeout(const std::chrono::milliseconds& timeout) {
  Store::setTimeout(timeout);
  store_->setTimeout(timeout);
}

void LimitedStore::set(const std::string& key, const Bytes& value) {
  limited(timeout_, [=, store = store_] { store->set(key, value); });
}

Bytes LimitedStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& wanted) {
  return limited(timeout_, [=, store = store_] { return store->compareSet(key, expected, wanted); });
}

Bytes LimitedStore::get(const std::string& key) {
  return limited(timeout_, [=, store = store_] { return store->get(key); });
}

std::int64_t LimitedStore::add(const std::string& key, std::int64_t number) {
  return limited(timeout_, [=, store = store_] { return store->add(key, number); });
}

bool LimitedStore::deleteKey(const std::string& key) {
  return limited(timeout_, [=, store = store_] { return store->deleteKey(key); });
}

bool LimitedStore::check(const std::vector<std::string>& keys) {
  return limited(timeout_, [=, store = store_] { return store->check(keys); });
}

std::int64_t LimitedStore::getNumKeys() {
  return limited(timeout_, [store = store_] { return store->getNumKeys(); });
}

void LimitedStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  limited(timeout, [=, store = store_] { store->wait(keys, timeout); });
}

void LimitedStore::append(const std::string& key, const Bytes& value) {
  limited(timeout_, [=, store = store_] { store->append(key, value); });
}

std::vector<Bytes> LimitedStore::multiGet(const std::vector<std::string>& keys) {
  return limited(timeout_, [=, store = store_] { return store->multiGet(keys); });
}

void LimitedStore::multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) {
  limited(timeout_, [=, store = store_] { store->multiSet(keys, values); });
}

}  // namespace levin
