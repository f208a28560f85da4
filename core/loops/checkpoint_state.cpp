#include "levin/core/loops/checkpoint_state.h"

#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/loops/checkpoint_lookup.h"
#include "levin/core/loops/hook_runner.h"
#include "levin/core/loops/optimizer_config.h"
#include "levin/core/loops/rank_state.h"
#include "levin/core/version.h"

namespace levin {

namespace {

Value loops_state(const LoopState& state) {
  Value loops(Value::Map{});
  // Between on_train_epoch_end and the next epoch the epoch under way is over.
  const bool epoch_over = state.epoch_ending || !state.fitting;
  loops["epochs_done"] = state.epoch_ending ? state.epoch + 1 : state.epoch;
  loops["batches_done"] = epoch_over ? std::int64_t{0} : state.batch_idx + 1;
  loops["total_batches_done"] = state.total_batch_idx;
  loops["logging_step"] = state.logging_step + (state.step_unfinished ? 1 : 0);
  return loops;
}

/// Everything of a run that one file keeps, and that all ranks have alike.
Checkpoint collect(Trainer::Runtime& runtime, bool weights_only) {
  Checkpoint checkpoint;
  Value& manifest = checkpoint.manifest;
  const LoopState& state = runtime.state;
  manifest["levin_version"] = kVersion;
  manifest["epoch"] = state.epoch;
  manifest["global_step"] = state.global_step;
  manifest["loops"] = loops_state(state);
  manifest["hyper_parameters"] = merged_hyperparams(runtime);
  save_module(*runtime.module, checkpoint);
  if (!weights_only) {
    Value callbacks(Value::Map{});
    {
      HookScope scope(runtime, Hook::kStateDict);
      for (const auto& callback : runtime.callbacks) {
        if (Value saved = callback->state_dict(); !saved.is_null()) callbacks[callback->state_key()] = std::move(saved);
      }
      if (runtime.data != nullptr) manifest["datamodule"] = runtime.data->state_dict();
    }
    manifest["callbacks"] = std::move(callbacks);
    manifest["optimizer_states"] = Value(Value::List{});
    for (std::size_t index = 0; index < runtime.optimizers.size(); ++index) {
      save_optimizer(*runtime.optimizers[index], index, checkpoint);
    }
    manifest["lr_schedulers"] = Value(Value::List{});
    for (const SchedulerConfig& config : runtime.schedulers)
      manifest["lr_schedulers"].push_back(config.scheduler->state_dict());
  }
  HookRunner hooks(runtime);
  HookScope scope(runtime, Hook::kOnSaveCheckpoint);
  for (const auto& callback : runtime.callbacks) callback->on_save_checkpoint(runtime.trainer, *runtime.module, checkpoint);
  runtime.module->on_save_checkpoint(checkpoint);
  return checkpoint;
}

void save_rank_states(const std::vector<RankState>& states, Checkpoint& checkpoint) {
  for (std::size_t rank = 0; rank < states.size(); ++rank) save_rank_state(static_cast<int>(rank), states[rank], checkpoint);
}

}  // namespace

void save_run(Trainer::Runtime& runtime, const std::filesystem::path& file, bool weights_only) {
  if (runtime.module == nullptr) {
    throw MisuseError("save_checkpoint needs a module: call it inside or after fit, validate, test or predict.");
  }
  if (runtime.failing) {
    if (!runtime.is_global_zero()) return;
    Checkpoint checkpoint = collect(runtime, weights_only);
    const bool alone = runtime.rank_states_at_end.empty();
    if (!weights_only) save_rank_states(alone ? std::vector{own_rank_state(runtime)} : runtime.rank_states_at_end, checkpoint);
    checkpoint.save(file);
    return;
  }
  runtime.meet(BoundaryKind::kCheckpoint);
  Checkpoint checkpoint = collect(runtime, weights_only);
  if (!weights_only) save_rank_states(gather_rank_states(runtime), checkpoint);
  std::string problem;
  if (runtime.is_global_zero()) {
    try {
      checkpoint.save(file);
    } catch (const IoError& error) {
      problem = error.what();
    }
  }
  const std::vector<std::string> problems = all_gather_text(runtime.strategy->control_group(), problem, "writing a checkpoint");
  if (!problems.front().empty()) throw IoError(problems.front());
}

std::filesystem::path resolve_checkpoint(const Trainer::Runtime& runtime, const std::string& ckpt_path) {
  if (ckpt_path != "best" && ckpt_path != "last") {
    if (!std::filesystem::exists(ckpt_path)) throw ConfigError("ckpt_path: there is no file '" + ckpt_path + "'.");
    return ckpt_path;
  }
  const auto found = runtime.checkpoint_aliases.find(ckpt_path);
  if (found != runtime.checkpoint_aliases.end()) return found->second;
  return find_checkpoint(runtime.trainer.default_root_dir(), ckpt_path);
}

void restore_module(Trainer::Runtime& runtime, const Checkpoint& checkpoint) {
  HookRunner hooks(runtime);
  hooks.module(Hook::kOnLoadCheckpoint, &Module::on_load_checkpoint, checkpoint);
  load_module(*runtime.module, checkpoint);
  HookScope scope(runtime, Hook::kLoadStateDict);
  if (const Value* saved = checkpoint.manifest.find("datamodule"); saved != nullptr && runtime.data != nullptr) {
    runtime.data->load_state_dict(*saved);
  }
  hooks.callbacks(Hook::kOnLoadCheckpoint, &Callback::on_load_checkpoint, checkpoint);
  // What callbacks remember is of training: an evaluation neither needs it nor may be warned about it.
  const Value* states = runtime.state.fitting ? checkpoint.manifest.find("callbacks") : nullptr;
  if (states == nullptr) return;
  for (const auto& callback : runtime.callbacks) {
    if (const Value* saved = states->find(callback->state_key())) callback->load_state_dict(*saved);
  }
}

ResumePoint restore_training(Trainer::Runtime& runtime, const Checkpoint& checkpoint) {
  const Value& manifest = checkpoint.manifest;
  const Value* optimizers = manifest.find("optimizer_states");
  if (optimizers == nullptr) {
    throw ConfigError(
        "ckpt_path: the checkpoint holds weights only, so training cannot resume from it. Start a new fit and load "
        "the weights in the module's setup(), or resume from a full checkpoint.");
  }
  if (optimizers->size() != runtime.optimizers.size()) {
    throw ConfigError("ckpt_path: the checkpoint has " + std::to_string(optimizers->size()) + " optimizers, the module " +
                      std::to_string(runtime.optimizers.size()) + ".");
  }
  for (std::size_t index = 0; index < runtime.optimizers.size(); ++index) {
    load_optimizer(*runtime.optimizers[index], index, checkpoint);
  }
  const Value& schedulers = manifest.at("lr_schedulers");
  if (schedulers.size() != runtime.schedulers.size()) {
    throw ConfigError("ckpt_path: the checkpoint has " + std::to_string(schedulers.size()) +
                      " learning-rate schedulers, the module " + std::to_string(runtime.schedulers.size()) + ".");
  }
  for (std::size_t index = 0; index < runtime.schedulers.size(); ++index) {
    runtime.schedulers[index].scheduler->load_state_dict(schedulers.as_list()[index]);
  }
  restore_random_state(runtime, checkpoint);
  LoopState& state = runtime.state;
  const Value& loops = manifest.at("loops");
  state.epoch = loops.at("epochs_done").as_int();
  state.global_step = manifest.at("global_step").as_int();
  state.logging_step = loops.at("logging_step").as_int();
  state.total_batch_idx = loops.at("total_batches_done").as_int();
  return {loops.at("batches_done").as_int(), saved_metrics(runtime, checkpoint)};
}

std::int64_t logging_step_of(const Checkpoint& checkpoint) {
  const Value* loops = checkpoint.manifest.find("loops");
  return loops == nullptr ? 0 : loops->at("logging_step").as_int();
}

}  // namespace levin
