#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/value.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

/// A step or function of a package, with its inputs and results.
struct LEVIN_API PackageEntry {
  struct Input {
    enum class Kind : std::uint8_t { kParameter, kBuffer, kBatch, kNumber };
    Kind kind = Kind::kBatch;
    std::string name;
    at::ScalarType dtype = at::kFloat;    ///< of kBatch
    std::vector<std::int64_t> sizes;      ///< of kBatch; -1: a size that varies
    std::vector<std::string> dimensions;  ///< of kBatch: the names of sizes that vary, else ""
  };
  struct Output {
    enum class Kind : std::uint8_t { kLoss, kLog, kMetric, kWeight, kExtra, kCondition, kBuffer, kGradient };
    Kind kind = Kind::kExtra;
    std::string name;
    LogOptions options = {};  ///< of kLog and kMetric
    Value metric = {};        ///< of kMetric: "class_path", "init_args" and "attribute"
    bool taken = true;        ///< of kCondition: the branch that the package takes
    std::string where = {};   ///< of kCondition: the line of the Python source
  };
  std::string name;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::map<std::string, std::int64_t> smallest;  ///< minimum of dimensions that vary, by name, where above 1
};

/// A package, as Python's levin_train.export() writes it: compiled steps of a module and its weights (docs/from-python.md).
/// Reading one runs none of its code.
struct LEVIN_API PackageFile {
  struct Weight {
    std::string name;
    std::vector<std::string> aliases;  ///< other names of the same tensor
    at::Tensor tensor;
    bool is_parameter = true;
    bool is_trained = true;  ///< the package computes a gradient for it, if the loss depends on it
    bool is_saved = true;    ///< it is in the module's state_dict
  };
  std::filesystem::path path;
  Value description = {};  ///< levin.json
  std::string precision = "32-true";
  std::vector<Weight> weights;
  std::vector<PackageEntry> entries;

  /// Throws an IoError that names the file when it is damaged, truncated, or not a package.
  static PackageFile open(const std::filesystem::path& path);
  /// nullptr without an entry of that name.
  const PackageEntry* find(std::string_view entry) const;
  /// Throws a ConfigError that names what the package requires and what this machine has, unless its code runs with this
  /// LibTorch, system and processor.
  void check_fits() const;
  /// Lines about its requirements and the inputs, results and logged values of its entries, for `levin inspect`.
  std::string summary() const;
};

}  // namespace levin
