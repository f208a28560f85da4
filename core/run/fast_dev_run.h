#pragma once

#include <cstdint>

#include "levin/core/options/option_type.h"

namespace levin {

/// fast_dev_run: `true` for one batch of each stage, or a number of batches; false or 0 for a normal run.
class FastDevRun {
 public:
  FastDevRun(bool enabled = false) : batches_(enabled ? 1 : 0) {}
  FastDevRun(int batches) : batches_(batches) {}
  FastDevRun(std::int64_t batches) : batches_(batches) {}
  std::int64_t batches() const { return batches_; }
  explicit operator bool() const { return batches_ > 0; }

 private:
  std::int64_t batches_;
};

template <>
struct OptionType<FastDevRun> {
  static FastDevRun read(const Value& value) {
    if (value.is_bool()) return FastDevRun(value.as_bool());
    if (!value.is_int()) detail::throw_wrong_type(value, name());
    return FastDevRun(value.as_int());
  }
  static Value write(const FastDevRun& run) {
    return run.batches() <= 1 ? Value(static_cast<bool>(run)) : Value(run.batches());
  }
  static std::string name() { return "bool or int"; }
  static Value schema() {
    Value either(Value::Map{});
    either["anyOf"] = Value(Value::List{detail::schema_of_type("boolean"), detail::schema_of_type("integer")});
    return either;
  }
};

}  // namespace levin
