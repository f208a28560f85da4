#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "levin/callbacks/weight_averaging.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/options/registry.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// A running mean or variance of a layer's inputs, as BatchNorm has them: known by the names of buffers.
struct Statistic {
  at::Tensor running;
  at::Tensor batches;   ///< their number, where the layer counts them
  at::Tensor sum;       ///< over all samples
  double momentum = 0;  ///< how much a batch counts in `running`

  /// As if no batch had been seen.
  void begin_at(double value) const {
    running.fill_(value);
    if (batches.defined()) batches.zero_();
  }
  /// LibTorch's modules do not tell their momentum: it is what a forward pass takes from a number far above its inputs.
  double far_above() const { return running.scalar_type() == at::kHalf ? 3e4 : 1e30; }
};

std::vector<Statistic> statistics_of(const Module& module) {
  std::vector<Statistic> found;
  for (const auto& layer : module.modules(/*include_self=*/false)) {
    const auto buffers = layer->named_buffers(/*recurse=*/false);
    const at::Tensor* const batches = buffers.find("num_batches_tracked");
    for (const char* name : {"running_mean", "running_var"}) {
      const at::Tensor* const running = buffers.find(name);
      // Frozen layers keep what they have.
      if (running == nullptr || !running->defined() || !layer->is_training()) continue;
      found.push_back({*running, batches == nullptr ? at::Tensor() : *batches, at::zeros_like(*running, at::kDouble)});
    }
  }
  return found;
}

}  // namespace

LEVIN_REGISTER_CALLBACK(StochasticWeightAveraging, "Average weights of the last epochs, at a constant learning rate");

void StochasticWeightAveragingOptions::declare(OptionList<StochasticWeightAveragingOptions>& options) {
  using O = StochasticWeightAveragingOptions;
  options.add(&O::swa_lrs, "Learning rate while weights are averaged; a list gives one for each parameter group").required();
  options.add(&O::swa_epoch_start, "The epoch to begin at, from 1, or a share of max_epochs from 0 to 1");
  options.add(&O::annealing_epochs, "Epochs in which the rate comes to swa_lrs").min(0);
  options.add(&O::annealing_strategy, "Shape of the change").choices({"cos", "linear"});
  options.add(&O::device, "Where averages are kept; null: where the module is");
  options.rule({"swa_lrs"}, [](const O& swa) {
    const Value::List one = {swa.swa_lrs};
    const Value::List& rates = swa.swa_lrs.is_list() ? swa.swa_lrs.as_list() : one;
    const auto is_rate = [](const Value& rate) { return rate.is_number() && rate.as_double() > 0; };
    return std::all_of(rates.begin(), rates.end(), is_rate) ? "" : "swa_lrs must be a number above 0, or a list of such";
  });
  options.rule({"swa_epoch_start"}, [](const O& swa) {
    const Limit& start = swa.swa_epoch_start;
    const bool fits = start.is_share() ? start.share() >= 0 && start.share() <= 1 : start.batches() >= 1;
    return fits ? "" : "swa_epoch_start must be an integer above 0, or a float from 0 to 1";
  });
}

StochasticWeightAveraging::StochasticWeightAveraging(const Options& options)
    : WeightAveraging({.device = options.device}), swa_(checked("StochasticWeightAveraging", options)) {}

// An epoch ends with what the next one begins with. Weights that nothing has trained are not averaged.
bool StochasticWeightAveraging::should_update(std::optional<std::int64_t>, std::optional<std::int64_t> epoch) const {
  return epoch && *epoch >= first_epoch_ - 1;
}

Value StochasticWeightAveraging::state_dict() const {
  Value state = WeightAveraging::state_dict();
  state["has_taken_over"] = has_taken_over_;
  state["statistics_of"] = statistics_of_;
  return state;
}

void StochasticWeightAveraging::load_state_dict(const Value& state) {
  WeightAveraging::load_state_dict(state);
  has_taken_over_ = state.at("has_taken_over").as_bool();
  statistics_of_ = state.at("statistics_of").as_int();
}

void StochasticWeightAveraging::setup(Trainer& trainer, Module& module, Stage stage) {
  WeightAveraging::setup(trainer, module, stage);
  if (!trainer.fitting()) return;
  has_taken_over_ = false;
  statistics_of_ = 0;
}

void StochasticWeightAveraging::on_fit_start(Trainer& trainer, Module& module) {
  if (trainer.optimizers().size() != 1 || !module.automatic_optimization()) {
    throw ConfigError(
        "StochasticWeightAveraging sets the learning rate of one optimizer, under automatic optimization. For several, or "
        "steps that training_step takes itself, use WeightAveraging, which leaves rates alone.");
  }
  const std::int64_t epochs = *trainer.options().max_epochs;
  if (swa_.swa_epoch_start.is_share() && epochs < 0) {
    throw ConfigError(
        "StochasticWeightAveraging: swa_epoch_start is a share of max_epochs, which is -1, no limit. Give it as an integer, or "
        "set max_epochs.");
  }
  const std::int64_t start = swa_.swa_epoch_start.is_share()
                                 ? static_cast<std::int64_t>(static_cast<double>(epochs) * swa_.swa_epoch_start.share())
                                 : swa_.swa_epoch_start.batches();
  first_epoch_ = std::max<std::int64_t>(start - 1, 0);
  if (has_taken_over_) replace_schedulers(trainer);
}

void StochasticWeightAveraging::replace_schedulers(Trainer& trainer) const {
  const Value arguments = Value::Map{
      {"swa_lr", swa_.swa_lrs}, {"anneal_epochs", swa_.annealing_epochs}, {"anneal_strategy", swa_.annealing_strategy}};
  const Component<LrSchedulerFactory> factory(Value("SWALR"), arguments);
  trainer.set_schedulers({{.scheduler = factory.get()->make(*trainer.optimizers().front())}});
}

void StochasticWeightAveraging::on_train_epoch_start(Trainer& trainer, Module&) {
  if (has_taken_over_ || trainer.current_epoch() < first_epoch_) return;
  rank_zero_info(trainer.scheduler_configs().empty() ? "StochasticWeightAveraging: SWALR sets the learning rate from here on."
                                                     : "StochasticWeightAveraging: SWALR takes the place of the schedulers.");
  replace_schedulers(trainer);
  has_taken_over_ = true;
}

// Before the epoch's validation, which sees what it has brought.
void StochasticWeightAveraging::on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&,
                                                   std::int64_t) {
  if (!trainer.is_last_batch()) return;
  on_train_epoch_end(trainer, module);
  if (trainer.current_epoch() + 1 == trainer.options().max_epochs) on_training_done(trainer, module);
}

void StochasticWeightAveraging::on_training_done(Trainer& trainer, Module& module) {
  if (statistics_of_ == averaged()) return;
  renew_statistics(trainer, module);
  statistics_of_ = averaged();
}

void StochasticWeightAveraging::renew_statistics(Trainer& trainer, Module& module) {
  std::vector<Statistic> statistics = statistics_of(module);
  if (statistics.empty()) return;
  double samples = 0;
  trainer.visit_training_data([&](const Batch& batch, std::int64_t batch_idx) {
    if (samples == 0) {
      for (const Statistic& one : statistics) one.begin_at(one.far_above());
      module.training_step(batch, batch_idx);
      for (Statistic& one : statistics) one.momentum = 1 - one.running.flatten()[0].item<double>() / one.far_above();
    }
    for (const Statistic& one : statistics) one.begin_at(0);
    module.training_step(batch, batch_idx);
    const auto size = static_cast<double>(batch.batch_size());
    samples += size;
    for (const Statistic& one : statistics) {
      if (one.momentum > 0) one.sum.add_(one.running, size / one.momentum);
    }
  });
  const at::NoGradGuard no_grad;
  for (const Statistic& one : statistics) {
    // A layer that is not used takes nothing.
    const at::Tensor count = at::full({1}, one.momentum > 0 ? samples : 0, one.sum.options());
    const at::Tensor own = at::cat({count, one.sum.flatten()}).to(at::kCPU);
    std::vector<std::byte> bytes =
        RankExchange(trainer.strategy().control_group())
            .gather_bytes({static_cast<const std::byte*>(own.const_data_ptr()), own.nbytes()},
                          {"statistics of StochasticWeightAveraging", "all train the same module, and end together"});
    const at::Tensor all = at::from_blob(bytes.data(), {trainer.world_size(), own.numel()}, own.options()).sum(0);
    if (all[0].item<double>() > 0) average_of(one.running).copy_((all.slice(0, 1) / all[0]).view_as(one.running));
  }
}

}  // namespace levin
