#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"

namespace levin {

/// Which devices: "auto", a count, or indices ("0,3").
class LEVIN_API Devices {
 public:
  Devices() = default;  ///< auto
  Devices(int count) : count_(count) {}
  Devices(const char* text) : Devices(parse(text)) {}
  Devices(std::vector<int> indices) : indices_(std::move(indices)) {}
  /// "auto", "4", "0,3", "-1" (all). Throws ConfigError on anything else.
  static Devices parse(const std::string& text);
  bool is_auto() const { return !count_ && indices_.empty(); }
  bool is_all() const { return count_ == -1; }
  /// The number of devices; 0 for auto and all.
  int count() const { return count_ ? (*count_ > 0 ? *count_ : 0) : static_cast<int>(indices_.size()); }
  const std::vector<int>& indices() const { return indices_; }
  std::string str() const;

 private:
  std::optional<int> count_;
  std::vector<int> indices_;
};

template <>
struct LEVIN_API OptionType<Devices> {
  static Devices read(const Value& value);
  static Value write(const Devices& devices);
  static std::string name() { return "int, string or list of int"; }
  static Value schema();
};

/// A number of batches, or a share of them: 1 is one batch, 1.0 is all.
class LEVIN_API Limit {
 public:
  Limit(int batches) : value_(static_cast<std::int64_t>(batches)) {}
  Limit(std::int64_t batches) : value_(batches) {}
  Limit(double share) : value_(share) {}
  bool is_share() const { return std::holds_alternative<double>(value_); }
  std::int64_t batches() const { return std::get<std::int64_t>(value_); }
  double share() const { return std::get<double>(value_); }
  /// The number out of `total` batches: min(batches, total), or the share rounded down. Throws a ConfigError with the option's
  /// name when a share above 0 leaves no batch of a loader that has some.
  std::int64_t of(std::int64_t total, const std::string& option_name) const;
  friend bool operator==(const Limit&, const Limit&) = default;

 private:
  std::variant<std::int64_t, double> value_;
};

/// When validation runs in training: after a number of batches, a share of an epoch, or a time since the last validation.
class LEVIN_API CheckInterval {
 public:
  CheckInterval(int batches) : interval_(Limit(batches)) {}
  CheckInterval(std::int64_t batches) : interval_(Limit(batches)) {}
  CheckInterval(double share) : interval_(Limit(share)) {}
  CheckInterval(const Limit& limit) : interval_(limit) {}
  template <class Rep, class Period>
  CheckInterval(std::chrono::duration<Rep, Period> time) : interval_(Duration(time)) {}

  bool is_time() const { return std::holds_alternative<Duration>(interval_); }
  Duration time() const { return std::get<Duration>(interval_); }
  /// Called: when it is not a time.
  const Limit& limit() const { return std::get<Limit>(interval_); }

 private:
  std::variant<Limit, Duration> interval_;
};

/// fast_dev_run: `true` for one batch of each stage, or a number of batches; false or 0 for a normal run.
class LEVIN_API FastDevRun {
 public:
  FastDevRun(bool enabled = false) : batches_(enabled ? 1 : 0) {}
  FastDevRun(int batches) : batches_(batches) {}
  FastDevRun(std::int64_t batches) : batches_(batches) {}
  std::int64_t batches() const { return batches_; }
  explicit operator bool() const { return batches_ > 0; }

 private:
  std::int64_t batches_;
};

/// deterministic: true, false, or "warn": operations without a deterministic algorithm warn, and still compute.
class LEVIN_API Deterministic {
 public:
  enum Warn { kWarn };
  Deterministic(bool enabled = false) : enabled_(enabled) {}
  Deterministic(Warn) : enabled_(true), only_warns_(true) {}
  bool only_warns() const { return only_warns_; }
  explicit operator bool() const { return enabled_; }

 private:
  bool enabled_ = false;
  bool only_warns_ = false;
};

template <>
struct LEVIN_API OptionType<Deterministic> {
  static Deterministic read(const Value& value);
  static Value write(const Deterministic& deterministic);
  static std::string name() { return "bool or \"warn\""; }
  static Value schema();
};

template <>
struct LEVIN_API OptionType<Limit> {
  static Limit read(const Value& value);
  static Value write(const Limit& limit);
  static std::string name() { return "int or float"; }
  static Value schema();
};

template <>
struct LEVIN_API OptionType<CheckInterval> {
  static CheckInterval read(const Value& value);
  static Value write(const CheckInterval& interval);
  static std::string name() { return "int, float or DD:HH:MM:SS"; }
  static Value schema();
};

template <>
struct LEVIN_API OptionType<FastDevRun> {
  static FastDevRun read(const Value& value);
  static Value write(const FastDevRun& run);
  static std::string name() { return "bool or int"; }
  static Value schema();
};

}  // namespace levin
