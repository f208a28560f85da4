#pragma once

#include <memory>
#include <span>
#include <vector>

#include "levin/core/protocol/log_options.h"

namespace levin {

/// A value that is still on its way, such as one on a GPU. It is added up where it is, and read at a boundary, or when somebody
/// looks at it.
class DeferredValue {
 public:
  virtual ~DeferredValue() = default;
  /// Waits for the value, the first time, and gives it.
  virtual double read() = 0;
  /// Gives `total` with this value taken in: total + weight * value for a mean, total + value for a sum, the smaller or larger
  /// of both for min and max (NaN wins). A null total is the first. Computes where the values are and waits for none, so that
  /// an epoch costs one read(), however many steps it has. `total` stays as it is.
  virtual std::shared_ptr<DeferredValue> added_to(const std::shared_ptr<DeferredValue>& total, Reduce reduce,
                                                  double weight) = 0;
  /// The value is looked at after log() has returned, when whoever logged it may have changed what it was made of.
  virtual void keep() {}
  /// Waits once for all those of `values`, this one among them, that it can read together; their read() does not wait then.
  virtual void read_with(std::span<DeferredValue* const> values);
};

/// Values that are read with one wait, where that is possible.
class DeferredValues {
 public:
  /// Null: none.
  void add(const std::shared_ptr<DeferredValue>& value) {
    if (value) values_.push_back(value.get());
  }
  /// Waits for them; read() of each gives it then.
  void read();

 private:
  std::vector<DeferredValue*> values_;
};

}  // namespace levin
