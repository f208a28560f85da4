#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// The state of a metric object, in memory, between ranks and in checkpoints.
struct MetricState {
  std::vector<double> numbers{};    ///< of all add_numbers(), one after another
  std::vector<std::string> rows{};  ///< of each add_rows(): the bytes of its rows, one after another
  std::int64_t updates = 0;         ///< the number of updates

  bool empty() const { return updates == 0; }
};

/// A state of which parts may still be on a device.
class LEVIN_API MetricStateReader {
 public:
  virtual ~MetricStateReader();
  /// Starts copies from the device. With several readers, call it for all before read(): then only one read() waits.
  virtual void send() {}
  /// False while read() would wait.
  virtual bool is_there() { return true; }
  /// Waits for the copies, the first time.
  virtual const MetricState& read() = 0;
};

/// A metric object as the protocol sees it. Levin's own; users derive from Metric.
class LEVIN_API MetricObject {
 public:
  virtual ~MetricObject();

  /// The name that its module gave it: the same on all ranks, like all of the following.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  virtual MetricState empty_state() const = 0;
  /// Merges `more`, the later one, into `total`.
  virtual void merge(MetricState& total, const MetricState& more) const = 0;
  /// The values of a state; their number is fixed.
  virtual std::vector<double> values_of(const MetricState& state) const = 0;
  /// The key of each value when logged under this name: the name for a single one, "NAME_0", "NAME_1", … for several,
  /// "NAME_0_1" for two dimensions.
  virtual std::vector<std::string> value_names(const std::string& name) const = 0;

  /// As MetricStateReader::send(), for state().
  virtual void send() const {}
  /// This rank's state since the last reset. Waits for values on a device.
  virtual const MetricState& state() const = 0;
  virtual void set_state(MetricState state) = 0;
  virtual void reset() = 0;
  /// Counts changes of state(): updates, set_state() and resets. Never decreases.
  virtual std::int64_t changes() const = 0;
  /// The state of the updates between the last two calls; the first time, since the last reset. Does not wait.
  virtual std::shared_ptr<MetricStateReader> batch_state() = 0;
  /// Sets the state of all ranks, which compute() uses until the next update. Null: this rank's own.
  virtual void show_all_ranks(std::shared_ptr<const MetricState> state) = 0;
  /// The state from show_all_ranks(); null after the next update.
  virtual std::shared_ptr<const MetricState> all_ranks() const = 0;

 private:
  std::string name_;
};

}  // namespace levin
