#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "levin/core/protocol/metric_table.h"

namespace levin {

/// The number in a CPU tensor of one element. Reads common types in place, without the dispatcher.
double scalar_value(const at::Tensor& value);

/// Reused tensors of one number on a device: a step that logs the same metrics as earlier steps allocates no memory. Threading:
/// any.
class ScalarMemory {
 public:
  /// A tensor for the device work that the calling thread queues from now on.
  at::Tensor take(const at::Device& device, at::ScalarType type);
  /// Returns a tensor, for reuse after the calling thread's queued device work.
  void give(at::Tensor scalar);

 private:
  using Key = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::StreamId, at::ScalarType>;
  static Key key_of(const at::Device& device, at::ScalarType type);

  std::mutex mutex_;
  std::map<Key, std::vector<at::Tensor>> unused_;
};

/// A number that is still on a GPU.
class DeferredScalar final : public DeferredValue {
 public:
  /// `value` has one element.
  DeferredScalar(const at::Tensor& value, std::shared_ptr<ScalarMemory> memory)
      : value_(value.detach().reshape({})), memory_(std::move(memory)) {}
  ~DeferredScalar() override;
  DeferredScalar(const DeferredScalar&) = delete;
  DeferredScalar& operator=(const DeferredScalar&) = delete;

  double read() override;
  std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>& total, Reduce reduce, double weight,
                                          double so_far) override;
  // The user's tensor may be changed in place before it is read.
  void keep() override;
  void read_with(std::span<DeferredValue* const> values) override;
  void send_for(std::span<DeferredValue* const> values) override;
  std::optional<double> known() override;

 private:
  struct Arrival;

  /// The unknown ones of `values` on this one's device.
  std::vector<DeferredScalar*> unread(std::span<DeferredValue* const> values) const;
  /// In one tensor, on their device.
  static at::Tensor numbers_of(const std::vector<DeferredScalar*>& scalars);

  at::Tensor value_;
  std::shared_ptr<ScalarMemory> memory_;
  bool is_of_memory_ = false;
  std::shared_ptr<Arrival> arrival_;  ///< once a copy was started
  std::int64_t place_ = 0;            ///< in the copy
  std::optional<double> number_;      ///< once it has been read
};

}  // namespace levin
