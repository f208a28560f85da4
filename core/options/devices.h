#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/options/option_type.h"

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
  /// How many; 0 for auto and all.
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

}  // namespace levin
