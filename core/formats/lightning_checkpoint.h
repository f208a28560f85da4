#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"

namespace levin {

class TorchFile;
class TorchWriter;
struct PickleValue;

/// The key of a manifest that was a Lightning checkpoint's: the version of Lightning.
inline constexpr std::string_view kLightningVersion = "pytorch-lightning_version";

/// Whether what torch.save() was given is what Lightning gives it.
bool is_lightning_checkpoint(const PickleValue& root);

/// Converts a Lightning checkpoint to levin's: weights, optimizers without their class, which Lightning does not store,
/// schedulers, hyper-parameters, and the loops at the beginning of an epoch. Other content that cannot be read is skipped, and
/// listed under "not_read" in the manifest. `names` gets the names of the tensors in order. Throws IoError when weights cannot
/// be read.
Checkpoint read_lightning_checkpoint(TorchFile& file, std::vector<std::string>& names);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
/// The reverse, with these weights, and the trained ones if they differ. Lightning can load the result, and resume from it if
/// the checkpoint has optimizers. Throws ConfigError for an optimizer that does not name its state.
PickleValue* lightning_checkpoint(const Checkpoint& checkpoint, PickleValue* state_dict, const NamedTensors& trained,
                                  TorchWriter& writer);

}  // namespace levin
