#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

#include "levin/strategies/store/store_client.h"
#include "levin/strategies/store/store_server.h"

namespace levin {

/// levin's own store, as LibTorch's groups use one. Every call ends by the timeout, also when rank 0 is stopped. Errors are
/// DesyncError.
class RunStore final : public c10d::Store {
 public:
  /// `server`: what serves the store, when this process does; it lives as long as this.
  RunStore(StoreAddress address, StoreMember member, std::shared_ptr<StoreServer> server, std::chrono::milliseconds timeout);

  /// Another connection.
  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& wanted) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t number) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<std::uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  StoreMessage ask(const StoreMessage& request);
  StoreMessage wait_for(StoreCall call, const std::vector<std::string>& keys, std::chrono::milliseconds timeout);

  std::shared_ptr<StoreServer> server_;
  StoreClient client_;
};

}  // namespace levin
