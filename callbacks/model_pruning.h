#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/trainer_values.h"

namespace levin {

/// What is pruned: the smallest weights or any, single ones or whole channels.
enum class PruningFunction : std::uint8_t { kL1Unstructured, kLnStructured, kRandomUnstructured, kRandomStructured };
template <>
inline constexpr std::array kChoices<PruningFunction> = {Choice{PruningFunction::kL1Unstructured, "l1_unstructured"},
                                                         Choice{PruningFunction::kLnStructured, "ln_structured"},
                                                         Choice{PruningFunction::kRandomUnstructured, "random_unstructured"},
                                                         Choice{PruningFunction::kRandomStructured, "random_structured"}};

struct LEVIN_API ModelPruningOptions {
  PruningFunction pruning_fn = PruningFunction::kL1Unstructured;
  std::vector<std::string> parameters_to_prune = {};  ///< "head.weight"; empty: those of all layers called as below
  std::vector<std::string> parameter_names = {"weight", "bias"};
  bool use_global_unstructured = true;  ///< choose among all of them together, not in each by itself
  Limit amount = 0.5;                   ///< of what is left each time: a share, or so many weights or channels
  bool apply_pruning = true;
  bool make_pruning_permanent = true;                       ///< false is refused: weights themselves are pruned here
  bool use_lottery_ticket_hypothesis = true;                ///< the rest goes back to the weights that training began with
  bool resample_parameters = false;                         ///< or is drawn again, where a layer has weights of two dimensions
  std::optional<std::int64_t> pruning_dim = std::nullopt;   ///< of channels; -1 is the last
  std::optional<std::int64_t> pruning_norm = std::nullopt;  ///< by which channels are compared
  std::int64_t verbose = 0;                                 ///< 1: report how much is pruned; 2: of each parameter, too
  bool prune_on_train_epoch_end = true;                     ///< else where a validation ends

  static void declare(OptionList<ModelPruningOptions>& options);
};

/// Sets weights to zero after each epoch, where they stay: their gradients are zero, and so are they after each batch.
/// Checkpoints have the pruned weights, and which these are. To choose by epoch, which counts from 0, derive; all ranks have to
/// choose alike.
class LEVIN_API ModelPruning : public WithOptions<Callback, ModelPruningOptions> {
 public:
  explicit ModelPruning(Options options);

  /// So that it acts on a rank without a batch, too.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }

  virtual Limit amount(std::int64_t /*epoch*/) const { return options_.amount; }
  /// Asked with apply_pruning and use_lottery_ticket_hypothesis.
  virtual bool prunes_in(std::int64_t /*epoch*/) const { return true; }
  virtual bool goes_back_in(std::int64_t /*epoch*/) const { return true; }

  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void on_fit_start(Trainer& trainer, Module& module) override;
  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_train_end(Trainer& trainer, Module& module) override;
  void on_validation_end(Trainer& trainer, Module& module) override;
  void on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) override;
  void on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) override;

 private:
  struct Target {
    std::string name;
    at::Tensor parameter;
    at::Tensor pruned;   ///< true for each weight that is
    at::Tensor initial;  ///< undefined without use_lottery_ticket_hypothesis
  };
  void find_targets(const Module& module);
  /// What other ModelPrunings of the run have pruned of the same parameters is pruned here, too.
  void take_in_others(const Trainer& trainer);
  void prune(Trainer& trainer, const Module& module);
  void prune_weights(Trainer& trainer, const Limit& amount, std::span<Target> together);
  void prune_channels(Trainer& trainer, const Limit& amount, Target& target);
  void go_back(Trainer& trainer, const Module& module);
  void apply();
  /// "20/49 (40.82%)", and the same of each parameter with `verbose` 2.
  std::string pruned_text() const;

  std::vector<Target> targets_;
  bool has_pruned_ = false;
};

}  // namespace levin
