#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/weights.h"

namespace levin {

class Checkpoint;

/// What stands before the names of weights in a checkpoint.
inline constexpr std::string_view kWeightsPrefix = "state_dict.";
/// What stands before the names of weights that are trained where `state_dict` has others, which are to be evaluated.
inline constexpr std::string_view kTrainedWeightsPrefix = "current_model_state.";
/// What stands before those of averages, where `state_dict` has the trained ones: see take_trained_weights().
inline constexpr std::string_view kAveragesPrefix = "averaged_model_state.";
/// Where a checkpoint's manifest has the name of the module's class. Files of an earlier levin lack it.
inline constexpr const char* kModuleClass = "module_class";
// The same of the data module: its class, its options, and what it does to batches (DataModule::preparations()).
inline constexpr const char* kDataModuleClass = "datamodule_class";
inline constexpr const char* kDataModuleOptions = "datamodule_hyper_parameters";
inline constexpr const char* kPreparations = "datamodule_preparations";
// The run's, with which a Predictor computes.
inline constexpr const char* kPrecision = "precision";
inline constexpr const char* kChannelsLast = "channels_last";

/// Puts a module's parameters and buffers into a checkpoint, as `state_dict.<name>`. They share memory with the module: save
/// the checkpoint before the next step. A tensor that the module holds under two names is saved under both.
void save_module(const torch::nn::Module& module, Checkpoint& checkpoint);

/// The weights of a file by their names in the saved module: those under `state_dict.`; all tensors of a file that is not a
/// checkpoint and has no such names.
std::map<std::string, at::Tensor> saved_weights(const Checkpoint& checkpoint);

/// Tensors with the names of a module's parameters and buffers, next to these.
class WeightsMatch {
 public:
  /// A tensor that the module holds under two names is there when one of them is. Throws ConfigError when both are, and differ.
  WeightsMatch(const torch::nn::Module& module, const std::map<std::string, at::Tensor>& saved);

  const WeightsReport& names() const { return names_; }
  /// Every tensor has its counterpart, of the same shape.
  bool is_whole() const { return names_.missing.empty() && names_.unexpected.empty() && names_.misshaped.empty(); }
  /// A line for each kind of difference, with every name; empty when there are none.
  std::string differences() const;
  /// What would make names fit that differ in a part of theirs alone, for WeightsOptions::rename: {"module.": ""} where all of
  /// the file's begin with that, {"": "net."} where those of the module do, {"net._orig_mod.": "net."} for one within. Empty:
  /// nothing so simple.
  std::map<std::string, std::string> renaming() const;
  /// Copies what fits into the module, converted to its dtypes and device.
  void copy() const;

 private:
  WeightsReport names_;
  std::vector<std::string> shapes_;  ///< of those that are misshaped: "bias ([9] saved, [4] in the module)"
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  ///< the module's, and what it gets
};

/// Copies a checkpoint's weights into the module that it was made of. Throws ConfigError that lists every name that is missing,
/// not expected, or of another shape; the module is then unchanged.
void load_module(torch::nn::Module& module, const Checkpoint& checkpoint);

/// Lightning's weight averaging saves the averages as weights, and the optimizer's weights separately. Removes the latter, and
/// on request replaces the averages by them; the averages are then under `averaged_model_state.`, for a callback that continues
/// averaging. False where there are none.
bool take_trained_weights(Checkpoint& checkpoint, bool in_place_of_averages);

}  // namespace levin
