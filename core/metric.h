#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/protocol/metric_state.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

class Metric;

/// The result of a metric: one number, or an array of them in row-major order.
struct LEVIN_API MetricValue {
  std::vector<double> values;
  std::vector<std::int64_t> shape{};  ///< empty: one number

  MetricValue(double value) : values{value} {}
  MetricValue(std::vector<double> list) : values(std::move(list)), shape{static_cast<std::int64_t>(values.size())} {}
  MetricValue(std::vector<double> list, std::vector<std::int64_t> its_shape)
      : values(std::move(list)), shape(std::move(its_shape)) {}
  /// A tensor of any real type.
  MetricValue(const at::Tensor& value);

  /// The number. Throws MisuseError when there are several.
  double item() const;
  /// The numbers as a tensor of doubles on the CPU: for Figure::heat_map(metric.compute()), say.
  operator at::Tensor() const;
};

/// A part of a metric's state that does not grow: numbers, all with one reduction. The metric owns the data.
class LEVIN_API MetricNumbers {
 public:
  /// Takes one value for each number: adds it, or stores the smaller or the larger (NaN wins), as the reduction says. A tensor
  /// may be on any device; the call does not wait for it. Throws MisuseError for a wrong count.
  void take(const at::Tensor& values);
  void take(std::span<const double> values);
  void take(double value) { take(std::span<const double>(&value, 1)); }

  /// The reduced values of one rank or of all ranks, as Metric::compute() sees them: 0 (or the infinity that every value
  /// replaces) before the first one.
  std::span<const double> values() const;
  double value() const { return values().front(); }

 private:
  friend class Metric;
  MetricNumbers(Metric& metric, std::size_t index) : metric_(&metric), index_(index) {}

  Metric* metric_;
  std::size_t index_;
};

/// A part of a metric's state that grows with the data: rows, such as one for each sample. The metric owns the data.
class LEVIN_API MetricSamples {
 public:
  /// Adds rows: a tensor of the shape [rows, …], the rest as declared, which is converted to the declared type. It may be on
  /// any device; the call does not wait for it. Throws MisuseError for another shape.
  void append(const at::Tensor& rows);
  /// All rows, on the CPU: [rows, …]. Rows of several ranks are in the order of ranks.
  at::Tensor tensor() const;

 private:
  friend class Metric;
  MetricSamples(Metric& metric, std::size_t index) : metric_(&metric), index_(index) {}

  Metric* metric_;
  std::size_t index_;
};

/// A metric that is more than a mean of its batches: it accumulates a state over an epoch, which ranks merge exactly.
///
///     class HitRate : public levin::Metric {
///      public:
///       void update(const at::Tensor& predictions, const at::Tensor& targets) override {
///         hits_.take(predictions.sub(targets).abs().lt(0.5).sum());
///         seen_.take(static_cast<double>(targets.numel()));
///       }
///       levin::MetricValue compute() const override { return hits_.value() / seen_.value(); }
///
///      private:
///       levin::MetricNumbers hits_ = add_numbers("hits");
///       levin::MetricNumbers seen_ = add_numbers("seen");
///     };
///
/// A module holds it as a member, made by Module::add_metric(), updates it in its steps, and logs it: `log("val_hits", hits_)`.
/// The boundary then merges its state over ranks, with all other metrics, and resets it after the epoch.
///
/// Threading: one thread.
class LEVIN_API Metric : public MetricObject {
 public:
  Metric();
  ~Metric() override;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  /// Takes a batch. Each class documents its tensors. Does not communicate or wait for a device.
  virtual void update(const at::Tensor& predictions, const at::Tensor& targets) = 0;
  /// The value over all updates since the last reset: of this rank, or, for a logged metric in the hooks of an epoch's end, of
  /// all ranks. Does not communicate. Returns as many values as for an empty state.
  virtual MetricValue compute() const = 0;
  /// Discards all updates.
  void reset() override;

  /// Gives this rank's updates since the last reset. Waits for values on a device.
  void send() const override;
  const MetricState& state() const override;
  /// The state before any update.
  MetricState empty_state() const override;
  /// Replaces the state. Throws MisuseError when it does not fit this metric.
  void set_state(MetricState state) override;
  /// Merges `more`, the later one, into `total`. Both are states of such a metric.
  void merge(MetricState& total, const MetricState& more) const override;
  /// compute() of that state.
  MetricValue compute(const MetricState& state) const;
  /// compute() of the state that `holder`, a metric of the same state_kind(), computes from.
  MetricValue compute_from(const Metric& holder) const { return compute(holder.readable()); }
  /// A key of the state: metrics with equal keys have equal states after equal updates, so that one of them can be updated for
  /// all. Empty: the metric shares its state with no other.
  virtual std::string state_kind() const { return ""; }

  // For levin itself.
  std::vector<double> values_of(const MetricState& state) const override;
  std::vector<std::string> value_names(const std::string& name) const override;
  std::shared_ptr<MetricStateReader> batch_state() override;
  std::int64_t changes() const override { return changes_; }
  void show_all_ranks(std::shared_ptr<const MetricState> state) override { all_ranks_ = std::move(state); }
  std::shared_ptr<const MetricState> all_ranks() const override { return all_ranks_; }

 protected:
  /// Declares a part of the state: `shape` numbers, one for {}. Call it in members' initializers, so that ranks declare the
  /// same.
  MetricNumbers add_numbers(std::string name, const std::vector<std::int64_t>& shape = {}, Reduce reduce = Reduce::kSum);
  /// Declares a part that grows with the data. Every rank gathers all of it when an epoch ends.
  MetricSamples add_samples(std::string name, at::ScalarType type, std::vector<std::int64_t> shape = {});

  /// Merges the numbers `more` into `total`, for a state that is not merged number by number, such as a mean and a variance.
  virtual void merge_numbers(std::span<double> total, std::span<const double> more) const;
  /// Merges a batch's numbers with merge_numbers(): as many as the whole state has, of kDouble, on any device.
  void take_numbers(const at::Tensor& numbers);
  /// Adds the numbers of a batch to `total`, for a state that adds batches in another way than it merges ranks. `first`: there
  /// was no update before.
  virtual void take_batch(std::span<double> total, std::span<const double> batch, bool first) const;

 private:
  friend class MetricNumbers;
  friend class MetricSamples;

  struct NumbersPart {
    std::string name;
    Reduce reduce = Reduce::kSum;
    std::size_t begin = 0;
    std::size_t count = 1;
  };
  struct RowsPart {
    std::string name;
    std::vector<std::int64_t> shape;
    at::ScalarType type = at::kFloat;
  };
  class Accumulator;

  /// The number of numbers in a state.
  std::size_t state_size() const { return numbers_.empty() ? 0 : numbers_.back().begin + numbers_.back().count; }
  /// The accumulators that take a batch: the state, and that of the current batch where it is logged.
  template <class Take>
  void take_in(const Take& take);
  /// Marks the state of all ranks as out of date.
  void note_change();
  /// The state that parts read in compute().
  const MetricState& readable() const;

  std::vector<NumbersPart> numbers_;
  std::vector<RowsPart> rows_;
  std::shared_ptr<Accumulator> total_;
  std::shared_ptr<Accumulator> batch_;  ///< null: batches are not logged
  bool batch_is_taken_ = false;         ///< and the next update begins another
  std::int64_t changes_ = 0;
  std::shared_ptr<const MetricState> all_ranks_;
  mutable const MetricState* reading_ = nullptr;
};

/// The share of samples whose label is the class with the highest score, or one of the `top_k` highest: a tensor of one number,
/// for log(). `scores`: [samples, classes, …], any numbers that grow with the class's probability; `labels`: [samples, …], the
/// classes' indices. Throws MisuseError for shapes that do not match.
///
///     log("val_acc", levin::accuracy(net_->forward(batch["image"]), batch["label"]));
LEVIN_API at::Tensor accuracy(const at::Tensor& scores, const at::Tensor& labels, std::int64_t top_k = 1);

/// The same for two classes: the share of samples that are labelled 1 and score above `threshold`, or are labelled 0 and do
/// not. `scores` and `labels`: of one shape. Scores before a sigmoid have the threshold 0.
LEVIN_API at::Tensor binary_accuracy(const at::Tensor& scores, const at::Tensor& labels, double threshold = 0.5);

}  // namespace levin
