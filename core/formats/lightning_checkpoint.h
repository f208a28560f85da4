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
/// What stands before the names of weights that are trained where `state_dict` has others, which are to be evaluated.
inline constexpr std::string_view kTrainedWeightsPrefix = "current_model_state.";

/// Whether what torch.save() was given is what Lightning gives it.
bool is_lightning_checkpoint(const PickleValue& root);

/// A Lightning checkpoint as levin's: weights, optimizers without their class, which Lightning does not keep, schedulers,
/// hyper-parameters, and the loops at the beginning of an epoch. What cannot be read beside weights is left out, and told under
/// "not_read" in the manifest. `names` gets those of the tensors in order. Throws IoError when weights cannot be read.
Checkpoint read_lightning_checkpoint(TorchFile& file, std::vector<std::string>& names);

/// Lightning's weight averaging saves the averages as weights, and the weights that the optimizer belongs to beside them. Takes
/// the latter out, and puts them in the averages' place if so told; the averages then stand under `averaged_model_state.`, for
/// a callback that goes on averaging. False where there are none.
bool take_trained_weights(Checkpoint& checkpoint, bool in_place_of_averages);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
/// The other way round, with these weights, and with those that are trained where they are others: what Lightning loads, and,
/// where the checkpoint has optimizers, goes on from. Throws ConfigError for an optimizer that does not name its state.
PickleValue* lightning_checkpoint(const Checkpoint& checkpoint, PickleValue* state_dict, const NamedTensors& trained,
                                  TorchWriter& writer);

}  // namespace levin
