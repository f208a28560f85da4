#include "levin/core/formats/lightning_checkpoint.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <initializer_list>
#include <map>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/loop_position.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/checkpoint/tensor_range.h"
#include "levin/core/config/value_json.h"
#include "levin/core/formats/torch_file.h"

namespace levin {
namespace {

/// Where Lightning's WeightAveraging keeps the weights that are trained: its state_dict has the averages.
constexpr std::string_view kTrainedWeights = "current_model_state";
/// And where the averages are then, for a callback that continues averaging.

/// A part of a map; null where it, or the map, is missing.
const Value& part(const Value& map, std::string_view key) {
  static const Value kNull;
  const Value* const found = map.find(key);
  return found == nullptr ? kNull : *found;
}

std::int64_t number_or_zero(const Value& value) { return value.is_int() ? value.as_int() : 0; }
std::int64_t number_or_zero(const Value& map, std::string_view key) { return number_or_zero(part(map, key)); }

/// Where training resumes. An unfinished epoch starts again, because its order of samples differs from Lightning's.
Value loops_of(const Value& manifest, const PickleValue* lightning_loops, PlainValues& plain) {
  const PickleValue* fit_loop = lightning_loops == nullptr ? nullptr : lightning_loops->find("fit_loop");
  const Value loops = fit_loop == nullptr ? Value(Value::Map{}) : plain.of(*fit_loop);
  const Value& epochs = part(part(loops, "epoch_progress"), "current");
  const Value& batches = part(loops, "epoch_loop.batch_progress");
  const bool had_last_batch = part(batches, "is_last_batch") == Value(true);
  const std::int64_t ready = number_or_zero(epochs, "ready");
  const std::int64_t processed = number_or_zero(epochs, "processed");
  const bool is_under_way = ready > processed && !had_last_batch;
  Value own = parse_json(R"({
    "batches_done": 0, "samples_done": null, "completed": true, "stop_agreed": false,
    "iteration": {"iteration": 0, "ends_window": true, "is_last": false, "end_epoch": false, "is_finished": true,
                  "row_is_left": false, "validation_is_left": false},
    "reading": null, "window_open": false, "window_scale": 1, "accumulate_grad_batches": null, "world_size": 1, "batch_size": 0})");
  own["place"] = choice_name(Place::kEpochStart);
  own["epochs_done"] =
      fit_loop == nullptr ? manifest.at("epoch") : Value(ready > processed && had_last_batch ? ready : processed);
  own["total_batches_done"] = number_or_zero(part(batches, "total"), "processed");
  own["logging_step"] = manifest.at("global_step");
  own["begins_epoch_again"] = is_under_way && number_or_zero(part(batches, "current"), "ready") > 0;
  return own;
}

/// What one optimizer keeps of one parameter: tensors into the checkpoint, numbers as a map.
Value parameter_state(const PickleValue& state, const std::string& prefix, TorchFile& file, TorchFile::Tensors& tensors) {
  Value numbers(Value::Map{});
  file.plain().charge(1, prefix.size());
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
  if (!options.is_map()) throw IoError("a group of an optimizer is not a dict");
  for (const auto& [name, tensor] : file.tensors(group)) {
    if (tensor.numel() != 1) continue;
    options[name] = tensor.is_floating_point() ? Value(tensor.item<double>()) : Value(tensor.item<std::int64_t>());
  }
  return options;
}

Value optimizer_state(const PickleValue& saved, std::size_t index, TorchFile& file, TorchFile::Tensors& tensors) {
  const auto check = [&](bool holds) {
    if (!holds) throw IoError(format("the state of optimizer {} is not torch's", index));
  };
  const PickleValue* const states = saved.find("state");
  const PickleValue* const groups = saved.find("param_groups");
  check(states != nullptr && states->items() != nullptr && groups != nullptr && groups->elements() != nullptr);
  Value optimizer(Value::Map{});
  optimizer["class"] = Value();  // Lightning does not keep it.
  optimizer["state"] = Value(Value::Map{});
  for (const auto& [key, state] : *states->items()) {
    const auto* parameter = key->as<std::int64_t>();
    check(parameter != nullptr && state->items() != nullptr);
    const std::string prefix = format("optimizer_states.{}.state.{}.", index, *parameter);
    optimizer["state"][std::to_string(*parameter)] = parameter_state(*state, prefix, file, tensors);
  }
  optimizer["param_groups"] = Value(Value::List{});
  for (const PickleValue* group : *groups->elements()) optimizer["param_groups"].push_back(group_options(*group, file));
  return optimizer;
}

/// A scheduler's state as levin's: MultiStepLR of PyTorch counts how often each milestone occurs.
Value scheduler_state(const PickleValue& saved, PlainValues& plain) {
  Value state = plain.of(saved);
  if (!state.is_map()) throw IoError("the state of a scheduler is not a dict");
  const PickleValue* const milestones = saved.find("milestones");
  if (milestones != nullptr && milestones->as<PickleDict>() != nullptr) {
    Value::List list;
    for (const auto& [key, value] : *milestones->items()) {
      const auto* milestone = key->as<std::int64_t>();
      const auto* times = value->as<std::int64_t>();
      if (milestone == nullptr || times == nullptr || *times < 0) throw IoError("milestones are not numbers of steps");
      plain.charge(static_cast<std::size_t>(*times));
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

/// The state that fit() needs to resume. Throws IoError for an unexpected form.
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

bool is_lightning_checkpoint(const PickleValue& root) {
  return root.find("state_dict") != nullptr && root.find(kLightningVersion) != nullptr;
}

Checkpoint read_lightning_checkpoint(TorchFile& file, std::vector<std::string>& names) {
  const PickleValue& root = file.root();
  TorchFile::Tensors tensors;
  for (const auto& [key, prefix] :
       {std::pair(std::string_view("state_dict"), kWeightsPrefix), std::pair(kTrainedWeights, kTrainedWeightsPrefix),
        std::pair(std::string_view("averaging_state"), std::string_view("averaging_state."))}) {
    const PickleValue* const weights = root.find(key);
    if (weights == nullptr) continue;
    if (weights->items() == nullptr) throw IoError(format("its {} is not a dict", key));
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

namespace {

/// The Lightning version of this format: newer ones migrate from it.
constexpr const char* kFormatVersion = "2.6.0";

using Map = Value::Map;

/// Lightning counts what it has begun with, and what of that is done: here all of it.
Value progress(std::initializer_list<const char*> keys, std::int64_t total, std::int64_t current) {
  Value counts = Map{{"total", Map{}}, {"current", Map{}}};
  for (const char* key : keys) {
    counts["total"][key] = total;
    counts["current"][key] = current;
  }
  return counts;
}

Value batch_progress(std::int64_t total, std::int64_t current) {
  return progress({"ready", "started", "processed", "completed"}, total, current);
}
Value step_progress(std::int64_t steps) { return progress({"ready", "completed"}, steps, 0); }

/// Steps of an optimizer, and how often its gradients were set to zero.
Value optimizer_progress(std::int64_t steps) {
  const Value zero_grad = progress({"ready", "started", "completed"}, steps, 0);
  return Map{{"optimizer", Map{{"step", step_progress(steps)}, {"zero_grad", zero_grad}}}};
}

Value lightning_loops(const Value& manifest) {
  const Value& loops = part(manifest, "loops");
  const Value& place = part(loops, "place");
  const auto is_at = [&](Place known) { return place == Value(choice_name(known)); };
  const bool is_within =
      !place.is_null() && number_or_zero(loops, "batches_done") > 0 && !is_at(Place::kEpochEnd) && !is_at(Place::kEpochStart);
  const Value* iteration = loops.find("iteration");
  // Saved in the validation at an epoch's end.
  const bool had_last = is_within && iteration != nullptr && iteration->at("is_last") == Value(true);
  const std::int64_t done = number_or_zero(loops, "epochs_done") + (is_at(Place::kEpochEnd) ? 1 : 0);
  const std::int64_t begun = done + (is_within ? 1 : 0);
  const std::int64_t steps = number_or_zero(manifest, "global_step");
  const Value epochs = Map{{"ready", begun}, {"started", begun}, {"processed", done}, {"completed", done}};
  Value batches = batch_progress(number_or_zero(loops, "total_batches_done"), number_or_zero(loops, "batches_done"));
  batches["is_last_batch"] = is_within ? had_last : done > 0;
  const Value no_batches = batch_progress(0, 0);
  Value evaluated = no_batches;
  evaluated["is_last_batch"] = false;
  const Value empty(Map{});
  const Value evaluation = Map{{"state_dict", empty}, {"batch_progress", evaluated}};
  const Value fit_loop = Map{{"state_dict", empty},
                             {"epoch_loop.state_dict", Map{{"_batches_that_stepped", steps}}},
                             {"epoch_loop.batch_progress", batches},
                             {"epoch_loop.scheduler_progress", step_progress(0)},
                             {"epoch_loop.automatic_optimization.state_dict", empty},
                             {"epoch_loop.automatic_optimization.optim_progress", optimizer_progress(steps)},
                             {"epoch_loop.manual_optimization.state_dict", empty},
                             {"epoch_loop.manual_optimization.optim_step_progress", step_progress(0)},
                             {"epoch_loop.val_loop.state_dict", empty},
                             {"epoch_loop.val_loop.batch_progress", evaluated},
                             {"epoch_progress", Map{{"total", epochs}, {"current", epochs}}}};
  return Map{{"fit_loop", fit_loop},
             {"validate_loop", evaluation},
             {"test_loop", evaluation},
             {"predict_loop", Map{{"state_dict", empty}, {"batch_progress", no_batches}}}};
}

/// One optimizer's state by the numbers of its parameters.
PickleValue* torch_optimizer_state(const Checkpoint& checkpoint, const Value& saved, std::size_t index, TorchWriter& writer) {
  PickleTree& tree = writer.tree;
  PickleDict states;
  for (const auto& [parameter, numbers] : saved.at("state").as_map()) {
    PickleDict state;
    for (const auto& [name, number] : numbers.as_map()) {
      PickleValue* const value =
          name == "step" ? writer.add(at::scalar_tensor(number.as_double(), at::kFloat)) : tree.add_plain(number);
      state.items.emplace_back(tree.add(name), value);
    }
    const std::string prefix = format("optimizer_states.{}.state.{}.", index, parameter);
    for (const auto& [name, tensor] : tensors_with_prefix(checkpoint, prefix)) {
      if (const auto sparse = name_of_sparse_tensor(name)) {
        throw ConfigError(format(
            "'{}' is sparse, which levin cannot write to a Lightning checkpoint: export only the weights (--to state_dict).",
            *sparse));
      }
      state.items.emplace_back(tree.add(name.substr(prefix.size())), writer.add(tensor));
    }
    states.items.emplace_back(tree.add(std::int64_t{std::stoll(parameter)}), tree.add(std::move(state)));
  }
  PickleList groups;
  for (Value group : saved.at("param_groups").as_list()) {
    const Value& class_name = saved.at("class");
    if (class_name == Value("AdamW") || class_name == Value("Adam"))
      group["decoupled_weight_decay"] = class_name == Value("AdamW");
    PickleDict options;
    for (const auto& [name, option] : group.as_map()) {
      PickleValue* value = tree.add_plain(option);
      if (name != "params" && option.is_list()) value = tree.add(PickleTuple{value->as<PickleList>()->items});
      options.items.emplace_back(tree.add(name), value);
    }
    groups.items.push_back(tree.add(std::move(options)));
  }
  return tree.add(PickleDict{{{tree.add(std::string("state")), tree.add(std::move(states))},
                              {tree.add(std::string("param_groups")), tree.add(std::move(groups))}}});
}

/// Which optimizer a scheduler is of, which a checkpoint does not say: one that has the rates it has set; of several that have
/// them, and of none, the one in its place.
std::size_t optimizer_of(const Value& scheduler, std::size_t place, const Value::List& optimizers) {
  const auto has_rates = [&](const Value& optimizer) {
    const Value* const groups = optimizer.find("param_groups");
    const Value* const set = scheduler.find("_last_lr");
    if (groups == nullptr || set == nullptr) return false;
    Value::List rates;
    for (const Value& group : groups->as_list()) rates.push_back(group.at("lr"));
    return *set == Value(std::move(rates));
  };
  if (place < optimizers.size() && has_rates(optimizers[place])) return place;
  const auto found = std::find_if(optimizers.begin(), optimizers.end(), has_rates);
  if (found != optimizers.end()) return static_cast<std::size_t>(found - optimizers.begin());
  return std::min(place, optimizers.size() - 1);
}

/// PyTorch's schedulers keep in the optimizer's groups what they begin with: an optimizer that is loaded has the file's groups
/// only.
void add_schedule(const Value& scheduler, Value::List& groups) {
  if (const Value* members = scheduler.find("_schedulers"); members != nullptr && members->is_list()) {
    for (const Value& member : members->as_list()) add_schedule(member, groups);
  }
  const Value* const base_lrs = scheduler.find("base_lrs");
  if (base_lrs == nullptr || !base_lrs->is_list()) return;
  const bool is_one_cycle = scheduler.contains("final_div_factor");
  for (std::size_t index = 0; index < std::min(groups.size(), base_lrs->size()); ++index) {
    const auto of_group = [&](const char* option) {
      const Value& value = scheduler.at(option);
      return value.is_list() ? value.as_list().at(index) : value;
    };
    Value& group = groups[index];
    group["initial_lr"] = base_lrs->as_list()[index];
    if (scheduler.contains("swa_lr")) group["swa_lr"] = of_group("swa_lr");
    if (!is_one_cycle) continue;
    group["max_lr"] = of_group("max_lr");
    group["min_lr"] = group.at("initial_lr").as_double() / scheduler.at("final_div_factor").as_double();
    if (scheduler.at("cycle_momentum") != Value(true)) continue;
    group["max_momentum"] = of_group("max_momentum");
    group["base_momentum"] = of_group("base_momentum");
  }
}

/// PyTorch's keys are levin's, but for the number of calls, for milestones, which are counted, and for a length that PyTorch
/// has multiplied.
PickleValue* scheduler_state_of_torch(Value saved, PickleTree& tree) {
  PickleDict state;
  if (const Value* steps = saved.find("total_steps");
      steps != nullptr && steps->is_null() && saved.contains("steps_per_epoch")) {
    saved["total_steps"] = saved.at("epochs").as_int() * saved.at("steps_per_epoch").as_int();
  }
  saved["_step_count"] = number_or_zero(saved, "last_epoch") + 1;
  for (const auto& [name, value] : saved.as_map()) {
    PickleValue* made = tree.add_plain(value);
    if (name == "_schedulers" && value.is_list()) {
      PickleList members;
      for (const Value& member : value.as_list()) members.items.push_back(scheduler_state_of_torch(member, tree));
      made = tree.add(std::move(members));
    }
    if (name == "milestones" && value.is_list()) {
      std::map<std::int64_t, std::int64_t> times;
      for (const Value& milestone : value.as_list()) ++times[milestone.as_int()];
      PickleDict counts;
      for (const auto& [milestone, count] : times) counts.items.emplace_back(tree.add(milestone), tree.add(count));
      made = tree.add(PickleObject{.class_name = "collections.Counter", .arguments = {tree.add(std::move(counts))}});
    }
    state.items.emplace_back(tree.add(name), made);
  }
  return tree.add(std::move(state));
}

}  // namespace

PickleValue* lightning_checkpoint(const Checkpoint& checkpoint, PickleValue* state_dict, const NamedTensors& trained,
                                  TorchWriter& writer) {
  PickleTree& tree = writer.tree;
  const Value& manifest = checkpoint.manifest;
  PickleDict root;
  const auto put = [&](std::string_view key, PickleValue* value) {
    root.items.emplace_back(tree.add(std::string(key)), value);
  };
  const Value loops = lightning_loops(manifest);
  put("epoch", tree.add_plain(loops.at("fit_loop").at("epoch_progress").at("current").at("completed")));
  put("global_step", tree.add(number_or_zero(manifest, "global_step")));
  put(kLightningVersion, tree.add(std::string(kFormatVersion)));
  put("state_dict", state_dict);
  PickleDict trained_dict;
  for (const auto& [name, tensor] : trained) trained_dict.items.emplace_back(tree.add(name), writer.add(tensor));
  if (!trained.empty()) put(kTrainedWeights, tree.add(std::move(trained_dict)));
  if (const auto count = checkpoint.tensors.find("averaging_state.n_averaged"); count != checkpoint.tensors.end())
    put("averaging_state", tree.add(PickleDict{{{tree.add(std::string("n_averaged")), writer.add(count->second)}}}));
  put("loops", tree.add_plain(loops));
  put("callbacks", tree.add(PickleDict()));
  if (const Value* optimizers = manifest.find("optimizer_states")) {
    const Value::List& schedulers = manifest.at("lr_schedulers").as_list();
    PickleList list;
    Value::List with_schedules = optimizers->as_list();
    for (std::size_t place = 0; place < schedulers.size() && !with_schedules.empty(); ++place) {
      Value& optimizer = with_schedules.at(optimizer_of(schedulers[place], place, with_schedules));
      if (optimizer.contains("param_groups")) add_schedule(schedulers[place], optimizer["param_groups"].as_list());
    }
    for (const Value& saved : with_schedules) {
      if (saved.find("state") == nullptr) {
        throw ConfigError(
            format("Optimizer {} is {}, which does not name its state: it cannot be written for Lightning. Derive it from "
                   "levin::OptimizerOf.",
                   list.items.size(), saved.at("class").as_string()));
      }
      list.items.push_back(torch_optimizer_state(checkpoint, saved, list.items.size(), writer));
    }
    put("optimizer_states", tree.add(std::move(list)));
    PickleList states;
    for (const Value& saved : schedulers) states.items.push_back(scheduler_state_of_torch(saved, tree));
    put("lr_schedulers", tree.add(std::move(states)));
  }
  for (const auto& [key, name_key] :
       {std::pair("hyper_parameters", "hparams_name"), std::pair("datamodule_hyper_parameters", "datamodule_hparams_name")}) {
    const Value* hyper_parameters = manifest.find(key);
    if (hyper_parameters == nullptr || !hyper_parameters->is_map()) continue;
    put(name_key, tree.add(std::string("kwargs")));
    put(key, tree.add_plain(*hyper_parameters));
  }
  return tree.add(std::move(root));
}

}  // namespace levin
