#include "levin/core/checkpoint/lightning_checkpoint.h"

#include "levin/core/base/format.h"
#include "levin/core/base/join.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/torch_file.h"
#include "levin/core/error.h"
#include "levin/core/resume/loop_position.h"

namespace levin {
namespace {

/// Where Lightning's WeightAveraging keeps the weights that are trained: its state_dict has the averages.
constexpr std::string_view kTrainedWeights = "current_model_state";
constexpr std::string_view kTrainedWeightsPrefix = "current_model_state.";

/// "epoch_loop.batch_progress" and the like: numbers in Lightning's loops, 0 where there is none.
std::int64_t number_at(const Value& loops, const char* progress, const char* span, const char* what) {
  const Value* values = loops.find(progress);
  if (values != nullptr) values = values->find(span);
  if (values != nullptr) values = values->find(what);
  return values == nullptr || !values->is_int() ? 0 : values->as_int();
}

/// Where training goes on. An epoch that was under way begins again: its order of samples is not Lightning's.
Value loops_of(const Value& manifest, const PickleValue* lightning_loops, PlainValues& plain) {
  const PickleValue* fit_loop = lightning_loops == nullptr ? nullptr : lightning_loops->find("fit_loop");
  const Value loops = fit_loop == nullptr ? Value(Value::Map{}) : plain.of(*fit_loop);
  const Value* batches = loops.find("epoch_loop.batch_progress");
  const Value* last = batches == nullptr ? nullptr : batches->find("is_last_batch");
  const bool had_last_batch = last != nullptr && *last == Value(true);
  const std::int64_t ready = number_at(loops, "epoch_progress", "current", "ready");
  const std::int64_t processed = number_at(loops, "epoch_progress", "current", "processed");
  const bool is_under_way = ready > processed && !had_last_batch;
  Value own(Value::Map{});
  own["place"] = place_name(Place::kEpochStart);
  own["epochs_done"] =
      fit_loop == nullptr ? manifest.at("epoch") : Value(ready > processed && had_last_batch ? ready : processed);
  own["batches_done"] = 0;
  own["total_batches_done"] = number_at(loops, "epoch_loop.batch_progress", "total", "processed");
  own["logging_step"] = manifest.at("global_step");
  own["turn"] = Value(Value::Map{
      {"iteration", Value(0)}, {"ends_window", Value(true)}, {"is_last", Value(false)}, {"end_epoch", Value(false)}});
  own["completed"] = true;
  own["stop_agreed"] = false;
  own["hooks_done"] = 0;
  own["world_size"] = 1;
  own["batch_size"] = 0;
  own["samples_done"] = Value();
  own["window_open"] = false;
  own["window_scale"] = 1;
  own["accumulate_grad_batches"] = Value();
  own["begins_epoch_again"] = is_under_way && number_at(loops, "epoch_loop.batch_progress", "current", "ready") > 0;
  return own;
}

/// The number in a tensor of one: torch counts an optimizer's steps in those.
Value single_number(const at::Tensor& tensor) {
  return tensor.is_floating_point() ? Value(tensor.item<double>()) : Value(tensor.item<std::int64_t>());
}

/// What one optimizer keeps of one parameter: tensors into the checkpoint, numbers as a map.
Value parameter_state(const PickleValue& state, const std::string& prefix, TorchFile& file, TorchFile::Tensors& tensors) {
  Value numbers(Value::Map{});
  file.plain().pay(1, prefix.size());
  for (auto& [name, tensor] : file.tensors(state)) {
    if (name == "step" && tensor.numel() == 1) {
      numbers["step"] = static_cast<std::int64_t>(tensor.item<double>());
    } else {
      tensors.emplace_back(prefix + name, tensor);
    }
  }
  for (const auto& [key, value] : *state.items()) {
    const auto* name = key->as<std::string>();
    if (name != nullptr && (value->as<std::int64_t>() != nullptr || value->as<double>() != nullptr)) {
      numbers[*name] = file.plain().of(*value);
    }
  }
  return numbers;
}

/// A group's options; a learning rate may be a tensor.
Value group_options(const PickleValue& group, TorchFile& file) {
  Value options = file.plain().of(group);
  if (!options.is_map()) throw IoError("a group of an optimizer is no dict");
  for (const auto& [name, tensor] : file.tensors(group)) {
    if (tensor.numel() == 1) options[name] = single_number(tensor);
  }
  return options;
}

Value optimizer_state(const PickleValue& saved, std::size_t index, TorchFile& file, TorchFile::Tensors& tensors) {
  const PickleValue* const states = saved.find("state");
  const PickleValue* const groups = saved.find("param_groups");
  if (states == nullptr || states->items() == nullptr || groups == nullptr || groups->elements() == nullptr) {
    throw IoError(format("the state of optimizer {} is none of torch's", index));
  }
  Value optimizer(Value::Map{});
  optimizer["class"] = Value();  // Lightning does not keep it.
  optimizer["state"] = Value(Value::Map{});
  for (const auto& [key, state] : *states->items()) {
    const auto* parameter = key->as<std::int64_t>();
    if (parameter == nullptr || state->items() == nullptr) {
      throw IoError(format("the state of optimizer {} is none of torch's", index));
    }
    const std::string prefix = format("optimizer_states.{}.state.{}.", index, *parameter);
    optimizer["state"][std::to_string(*parameter)] = parameter_state(*state, prefix, file, tensors);
  }
  optimizer["param_groups"] = Value(Value::List{});
  for (const PickleValue* group : *groups->elements()) optimizer["param_groups"].push_back(group_options(*group, file));
  return optimizer;
}

/// A scheduler's state as levin's: MultiStepLR of PyTorch counts how often each milestone is there.
Value scheduler_state(const PickleValue& saved, PlainValues& plain) {
  Value state = plain.of(saved);
  if (!state.is_map()) throw IoError("the state of a scheduler is no dict");
  const PickleValue* const milestones = saved.find("milestones");
  if (milestones != nullptr && milestones->as<PickleDict>() != nullptr) {
    Value::List list;
    for (const auto& [key, value] : *milestones->items()) {
      const auto* milestone = key->as<std::int64_t>();
      const auto* times = value->as<std::int64_t>();
      if (milestone == nullptr || times == nullptr || *times < 0) throw IoError("milestones are no numbers of steps");
      plain.pay(static_cast<std::size_t>(*times));
      list.insert(list.end(), static_cast<std::size_t>(*times), Value(*milestone));
    }
    state["milestones"] = std::move(list);
  }
  if (const PickleValue* members = saved.find("_schedulers"); members != nullptr && members->elements() != nullptr) {
    state["_schedulers"] = Value(Value::List{});
    for (const PickleValue* member : *members->elements()) {
      if (member->find("_schedulers") != nullptr) throw IoError("a sequence of schedulers is in another one");
      state["_schedulers"].push_back(scheduler_state(*member, plain));
    }
  }
  return state;
}

/// What fit() needs to go on. Throws IoError for what is not as Lightning writes it.
void read_training(TorchFile& file, Value& manifest, TorchFile::Tensors& tensors) {
  const PickleValue* const optimizers = file.root().find("optimizer_states");
  const PickleValue* const schedulers = file.root().find("lr_schedulers");
  if (optimizers == nullptr || optimizers->elements() == nullptr) return;  // weights only
  TorchFile::Tensors states;
  Value list(Value::List{});
  for (const PickleValue* saved : *optimizers->elements()) {
    list.push_back(optimizer_state(*saved, list.size(), file, states));
  }
  Value scheduler_states(Value::List{});
  if (schedulers != nullptr && schedulers->elements() != nullptr) {
    for (const PickleValue* saved : *schedulers->elements()) scheduler_states.push_back(scheduler_state(*saved, file.plain()));
  }
  manifest["lr_schedulers"] = std::move(scheduler_states);
  manifest["loops"] = loops_of(manifest, file.root().find("loops"), file.plain());
  manifest["optimizer_states"] = std::move(list);
  tensors.insert(tensors.end(), states.begin(), states.end());
}

}  // namespace

bool take_trained_weights(Checkpoint& checkpoint, bool in_place_of_averages) {
  std::map<std::string, at::Tensor> trained;
  for (auto entry = checkpoint.tensors.lower_bound(std::string(kTrainedWeightsPrefix));
       entry != checkpoint.tensors.end() && entry->first.starts_with(kTrainedWeightsPrefix);) {
    trained.insert(checkpoint.tensors.extract(entry++));
  }
  if (in_place_of_averages) {
    for (auto& [name, tensor] : trained) {
      checkpoint.tensors[std::string(kWeightsPrefix) + name.substr(kTrainedWeightsPrefix.size())] = std::move(tensor);
    }
  }
  return !trained.empty();
}

bool is_lightning_checkpoint(const PickleValue& root) {
  return root.find("state_dict") != nullptr && root.find(kLightningVersion) != nullptr;
}

Checkpoint read_lightning_checkpoint(TorchFile& file, std::vector<std::string>& names) {
  const PickleValue& root = file.root();
  TorchFile::Tensors tensors;
  for (const auto& [key, prefix] :
       {std::pair(std::string_view("state_dict"), kWeightsPrefix), std::pair(kTrainedWeights, kTrainedWeightsPrefix)}) {
    const PickleValue* const weights = root.find(key);
    if (weights == nullptr) continue;
    if (weights->items() == nullptr) throw IoError(format("its {} is no dict", key));
    for (const auto& [name, tensor] : file.tensors(*weights)) tensors.emplace_back(std::string(prefix) + name, tensor);
  }

  Checkpoint checkpoint;
  Value& manifest = checkpoint.manifest;
  manifest[kLightningVersion] = Value();
  std::vector<std::string> not_read;
  const auto lenient = [&](const char* what, const auto& read) {
    try {
      read();
    } catch (const IoError& error) {
      not_read.push_back(format("{}: {}", what, error.what()));
    }
  };
  for (const std::string_view key : {kLightningVersion, std::string_view("epoch"), std::string_view("global_step")}) {
    const PickleValue* value = root.find(key);
    lenient("numbers", [&] { manifest[key] = value == nullptr ? Value(0) : file.plain().of(*value); });
  }
  for (const char* key : {"hyper_parameters", "datamodule_hyper_parameters"}) {
    const PickleValue* saved = root.find(key);
    if (saved != nullptr) lenient(key, [&] { manifest[key] = file.plain().of(*saved); });
  }
  lenient("what fit needs", [&] { read_training(file, manifest, tensors); });
  if (!not_read.empty()) manifest["not_read"] = join(not_read, "; ");

  for (auto& [name, tensor] : tensors) {
    if (checkpoint.tensors.emplace(name, tensor).second) names.push_back(name);
  }
  return checkpoint;
}

}  // namespace levin
