#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// What a metric object has taken in: how it is kept, how it travels and how a checkpoint holds it.
struct MetricState {
  std::vector<double> numbers{};    ///< of all add_numbers(), one after another
  std::vector<std::string> rows{};  ///< of each add_rows(): the bytes of its rows, one after another
  std::int64_t updates = 0;         ///< how often something has been taken in; 0: nothing yet

  bool empty() const { return updates == 0; }
};

/// A state of which parts may still be on a device.
class LEVIN_API MetricStateReader {
 public:
  virtual ~MetricStateReader();
  /// Sends for them, so that read() of several waits once: of the one that was sent for last.
  virtual void send() {}
  /// False while read() would wait.
  virtual bool is_there() { return true; }
  /// Waits for them, the first time.
  virtual const MetricState& read() = 0;
};

/// A metric object as the protocol sees it. Levin's own; users derive from Metric.
class LEVIN_API MetricObject {
 public:
  virtual ~MetricObject();

  /// As its module calls it: the same on all ranks, as is all that follows.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  virtual MetricState empty_state() const = 0;
  /// Takes into `total` what `more` has seen after it.
  virtual void merge(MetricState& total, const MetricState& more) const = 0;
  /// The values of that state, as many as of any other.
  virtual std::vector<double> values_of(const MetricState& state) const = 0;
  /// The key of each value when it is logged under this name: the name for the only one, "NAME_0", "NAME_1", … for several,
  /// "NAME_0_1" in a table.
  virtual std::vector<std::string> value_names(const std::string& name) const = 0;

  /// As MetricStateReader::send(), for state().
  virtual void send() const {}
  /// What this rank has taken in since the last reset. Waits for what is on a device.
  virtual const MetricState& state() const = 0;
  virtual void set_state(MetricState state) = 0;
  virtual void reset() = 0;
  /// Counts whatever has made state() another one: what was taken in, set and reset. Never goes back.
  virtual std::int64_t changes() const = 0;
  /// What has been taken in between the last two calls; the first time, since the last reset. Does not wait.
  virtual std::shared_ptr<MetricStateReader> batch_state() = 0;
  /// The state of all ranks, which compute() is to see until something more is taken in. Null: this rank's own.
  virtual void show_all_ranks(std::shared_ptr<const MetricState> state) = 0;
  /// What show_all_ranks() was given, until something more is taken in; null then.
  virtual std::shared_ptr<const MetricState> all_ranks() const = 0;

 private:
  std::string name_;
};

}  // namespace levin
