#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <string>

#include "levin/strategies/store/call_thread.h"

namespace levin {

/// A store of another program, such as torchrun's agent, whose calls may wait for ever for an answer: here each ends by the
/// timeout and a little, with a DesyncError that names the place. A call that was given up keeps later ones waiting, each until
/// its own limit.
class LimitedStore final : public c10d::Store {
 public:
  using Connect = std::function<c10::intrusive_ptr<c10d::Store>()>;
  /// `place`: "127.0.0.1:29500".
  LimitedStore(const Connect& connect, std::string place, std::chrono::milliseconds timeout);

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
  bool hasExtendedApi() const override { return store_->hasExtendedApi(); }
  void setTimeout(const std::chrono::milliseconds& timeout) override;

 private:
  template <class Call>
  auto limited(std::chrono::milliseconds limit, const Call& call) const;

  std::string place_;
  std::unique_ptr<CallThread> thread_ = std::make_unique<CallThread>();  ///< makes every call to store_
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace levin
