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

/// What a metric computes: one number, or an array of them, in the order of C.
struct LEVIN_API MetricValue {
  std::vector<double> values;
  std::vector<std::int64_t> shape{};  ///< of one number: empty

  MetricValue(double value) : values{value} {}
  MetricValue(std::vector<double> list) : values(std::move(list)), shape{static_cast<std::int64_t>(values.size())} {}
  MetricValue(std::vector<double> list, std::vector<std::int64_t> its_shape)
      : values(std::move(list)), shape(std::move(its_shape)) {}
  /// Of any type that is real.
  MetricValue(const at::Tensor& value);

  /// The number. Throws MisuseError when there are several.
  double item() const;
  /// The numbers as a tensor of doubles on the CPU: for Figure::heat_map(metric.compute()), say.
  operator at::Tensor() const;
};

/// A part of a metric's state that does not grow: numbers, all with one reduction. Its metric owns what it holds.
class LEVIN_API MetricNumbers {
 public:
  /// Takes one value for each number in: adds it, or keeps the smaller or the larger (NaN wins), as the reduction says. A
  /// tensor may be on any device, and is not waited for. Throws MisuseError when the count is another.
  void take(const at::Tensor& values);
  void take(std::span<const double> values);
  void take(double value) { take(std::span<const double>(&value, 1)); }

  /// What has been taken in, one rank's or all ranks', as Metric::compute() is to see it: 0 (or the infinity that every value
  /// replaces) when nothing has.
  std::span<const double> values() const;
  double value() const { return values().front(); }

 private:
  friend class Metric;
  MetricNumbers(Metric& metric, std::size_t index) : metric_(&metric), index_(index) {}

  Metric* metric_;
  std::size_t index_;
};

/// A part of a metric's state that grows with the data: rows, such as one for each sample. Its metric owns what it holds.
class LEVIN_API MetricSamples {
 public:
  /// Adds rows: a tensor of the shape [rows, …] with the rest as it was asked for, converted to the type asked for. It may be
  /// on any device, and is not waited for. Throws MisuseError when the shape is another.
  void append(const at::Tensor& rows);
  /// All rows, on the CPU: [rows, …]. Those of several ranks come in the order of ranks.
  at::Tensor tensor() const;

 private:
  friend class Metric;
  MetricSamples(Metric& metric, std::size_t index) : metric_(&metric), index_(index) {}

  Metric* metric_;
  std::size_t index_;
};

/// A metric that is more than a mean of its batches: what it has seen of an epoch is kept as a state, which ranks merge
/// exactly.
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
/// A module has it as a member, made by Module::add_metric(), updates it in its steps, and logs it: `log("val_hits", hits_)`.
/// Its state then travels with the metrics of the boundary, is merged over ranks, and is reset after the epoch.
///
/// Threading: one thread.
class LEVIN_API Metric : public MetricObject {
 public:
  Metric();
  ~Metric() override;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  /// Takes a batch in. What the tensors have to be, each class says. Communicates nothing, and waits for no device.
  virtual void update(const at::Tensor& predictions, const at::Tensor& targets) = 0;
  /// The value of all that has been taken in since the last reset: by this rank, or, in the hooks of an epoch's end of a metric
  /// that is logged, by all ranks. Communicates nothing. As many values as of an empty state.
  virtual MetricValue compute() const = 0;
  /// Forgets what has been taken in.
  void reset() override;

  /// What this rank has taken in since the last reset. Waits for what is on a device.
  void send() const override;
  const MetricState& state() const override;
  /// Of a metric that has taken in nothing.
  MetricState empty_state() const override;
  /// Replaces what has been taken in. Throws MisuseError when the state is none of such a metric.
  void set_state(MetricState state) override;
  /// Takes into `total` what `more` has seen after it. Both are states of such a metric.
  void merge(MetricState& total, const MetricState& more) const override;
  /// compute() of that state.
  MetricValue compute(const MetricState& state) const;
  /// compute() of what `holder`, a metric of the same state_kind(), computes of.
  MetricValue compute_from(const Metric& holder) const { return compute(holder.readable()); }
  /// What the state of such a metric says, in words: metrics that say the same have the same state after the same updates, so
  /// that one of them can be updated for all. Empty: no other has the same.
  virtual std::string state_kind() const { return ""; }

  // For levin itself.
  std::vector<double> values_of(const MetricState& state) const override;
  std::vector<std::string> value_names(const std::string& name) const override;
  std::shared_ptr<MetricStateReader> batch_state() override;
  std::int64_t changes() const override { return changes_; }
  void show_all_ranks(std::shared_ptr<const MetricState> state) override { all_ranks_ = std::move(state); }
  std::shared_ptr<const MetricState> all_ranks() const override { return all_ranks_; }

 protected:
  /// Declares a part of the state: `shape` numbers, one for {}. For members' initializers, so that ranks declare the same.
  MetricNumbers add_numbers(std::string name, const std::vector<std::int64_t>& shape = {}, Reduce reduce = Reduce::kSum);
  /// Declares a part that grows with the data. All of it is gathered on every rank when an epoch ends.
  MetricSamples add_samples(std::string name, at::ScalarType type, std::vector<std::int64_t> shape = {});

  /// Takes into `total` the numbers `more`, for a state that is not merged number by number, such as a mean and a variance.
  virtual void merge_numbers(std::span<double> total, std::span<const double> more) const;
  /// Takes a batch's numbers in with merge_numbers(): as many as the whole state has, of kDouble, on any device.
  void take_numbers(const at::Tensor& numbers);
  /// Takes the numbers of a batch into `total`, for a state that adds a batch in another way than it merges those of ranks.
  /// `first`: nothing has been taken in before.
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

  /// How many numbers a state has.
  std::size_t state_size() const { return numbers_.empty() ? 0 : numbers_.back().begin + numbers_.back().count; }
  /// The accumulators that take a batch: the state, and that of the batch in work where somebody asks for it.
  template <class Take>
  void take_in(const Take& take);
  /// What compute() sees of all ranks is out of date.
  void note_change();
  /// What a part reads: the state that compute() is asked of.
  const MetricState& readable() const;

  std::vector<NumbersPart> numbers_;
  std::vector<RowsPart> rows_;
  std::shared_ptr<Accumulator> total_;
  std::shared_ptr<Accumulator> batch_;  ///< null: nobody has asked for batches
  bool batch_is_taken_ = false;         ///< and the next one begins with what comes next
  std::int64_t changes_ = 0;
  std::shared_ptr<const MetricState> all_ranks_;
  mutable const MetricState* reading_ = nullptr;
};

/// The share of samples whose label is the class with the highest score, or one of the `top_k` highest: a tensor of one number,
/// for log(). `scores`: [samples, classes, …], any numbers that grow with the class's chance; `labels`: [samples, …], the
/// classes' numbers. Throws MisuseError for other shapes, which would be compared with one another.
///
///     log("val_acc", levin::accuracy(net_->forward(batch["image"]), batch["label"]));
LEVIN_API at::Tensor accuracy(const at::Tensor& scores, const at::Tensor& labels, std::int64_t top_k = 1);

/// The same of two classes: the share of samples that are labelled 1 and have a score above `threshold`, or 0 and have not.
/// `scores` and `labels`: of one shape. Scores before a sigmoid have the threshold 0.
LEVIN_API at::Tensor binary_accuracy(const at::Tensor& scores, const at::Tensor& labels, double threshold = 0.5);

}  // namespace levin
