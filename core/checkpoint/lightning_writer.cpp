#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <map>

#include "levin/core/base/format.h"
#include "levin/core/checkpoint/lightning_checkpoint.h"
#include "levin/core/checkpoint/sparse_tensor.h"
#include "levin/core/checkpoint/torch_writer.h"
#include "levin/core/error.h"
#include "levin/core/resume/loop_position.h"

namespace levin {
namespace {

/// The Lightning whose format this is: it tells a newer one what to change.
constexpr const char* kFormatVersion = "2.6.0";

std::int64_t number_or_zero(const Value& map, const char* key) {
  const Value* number = map.find(key);
  return number != nullptr && number->is_int() ? number->as_int() : 0;
}

/// Lightning counts what it has begun with, and what of that is done.
Value progress(std::int64_t ready, std::int64_t processed, std::int64_t completed) {
  return Value(Value::Map{
      {"ready", Value(ready)}, {"started", Value(ready)}, {"processed", Value(processed)}, {"completed", Value(completed)}});
}
Value both(const Value& total, const Value& current) { return Value(Value::Map{{"total", total}, {"current", current}}); }

Value batch_progress(std::int64_t total, std::int64_t current, bool is_last) {
  Value both_spans = both(progress(total, total, total), progress(current, current, current));
  both_spans["is_last_batch"] = is_last;
  return both_spans;
}

Value evaluation_loop(bool has_last_batch) {
  Value batches = batch_progress(0, 0, false);
  if (!has_last_batch) batches = both(progress(0, 0, 0), progress(0, 0, 0));
  return Value(Value::Map{{"state_dict", Value(Value::Map{})}, {"batch_progress", batches}});
}

/// Steps of an optimizer, and how often its gradients were set to zero.
Value optimizer_progress(std::int64_t steps) {
  const auto short_progress = [](std::int64_t count) {
    return Value(Value::Map{{"ready", Value(count)}, {"completed", Value(count)}});
  };
  const auto long_progress = [](std::int64_t count) {
    return Value(Value::Map{{"ready", Value(count)}, {"started", Value(count)}, {"completed", Value(count)}});
  };
  return Value(Value::Map{{"optimizer", Value(Value::Map{{"step", both(short_progress(steps), short_progress(0))},
                                                         {"zero_grad", both(long_progress(steps), long_progress(0))}})}});
}

Value lightning_loops(const Value& manifest) {
  const Value* own = manifest.find("loops");
  const Value loops = own == nullptr ? Value(Value::Map{}) : *own;
  const Value* place = loops.find("place");
  const bool is_at_end = place != nullptr && *place == Value(place_name(Place::kEpochEnd));
  const bool is_within = place != nullptr && number_or_zero(loops, "batches_done") > 0 && !is_at_end &&
                         *place != Value(place_name(Place::kEpochStart)) && *place != Value(place_name(Place::kEpochDone));
  // Saved in the validation at an epoch's end.
  const bool had_last = is_within && loops.at("turn").at("is_last") == Value(true);
  const std::int64_t done = number_or_zero(loops, "epochs_done") + (is_at_end ? 1 : 0);
  const std::int64_t begun = done + (is_within ? 1 : 0);
  const std::int64_t steps = number_or_zero(manifest, "global_step");
  const std::int64_t batches = number_or_zero(loops, "total_batches_done");
  const std::int64_t in_epoch = number_or_zero(loops, "batches_done");
  const Value epochs = progress(begun, done, done);
  const Value no_steps = both(Value(Value::Map{{"ready", Value(0)}, {"completed", Value(0)}}),
                              Value(Value::Map{{"ready", Value(0)}, {"completed", Value(0)}}));
  const Value empty(Value::Map{});
  const Value fit_loop(
      Value::Map{{"state_dict", empty},
                 {"epoch_loop.state_dict", Value(Value::Map{{"_batches_that_stepped", Value(steps)}})},
                 {"epoch_loop.batch_progress", batch_progress(batches, in_epoch, is_within ? had_last : done > 0)},
                 {"epoch_loop.scheduler_progress", no_steps},
                 {"epoch_loop.automatic_optimization.state_dict", empty},
                 {"epoch_loop.automatic_optimization.optim_progress", optimizer_progress(steps)},
                 {"epoch_loop.manual_optimization.state_dict", empty},
                 {"epoch_loop.manual_optimization.optim_step_progress", no_steps},
                 {"epoch_loop.val_loop.state_dict", empty},
                 {"epoch_loop.val_loop.batch_progress", batch_progress(0, 0, false)},
                 {"epoch_progress", both(epochs, epochs)}});
  return Value(Value::Map{{"fit_loop", fit_loop},
                          {"validate_loop", evaluation_loop(true)},
                          {"test_loop", evaluation_loop(true)},
                          {"predict_loop", evaluation_loop(false)}});
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
    for (auto entry = checkpoint.tensors.lower_bound(prefix);
         entry != checkpoint.tensors.end() && entry->first.starts_with(prefix); ++entry) {
      if (const auto sparse = name_of_sparse_tensor(entry->first)) {
        throw ConfigError(
            format("'{}' is sparse, which no Lightning checkpoint of levin's can hold: export the weights alone "
                   "(--to state_dict).",
                   *sparse));
      }
      state.items.emplace_back(tree.add(entry->first.substr(prefix.size())), writer.add(entry->second));
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
  PickleDict both_parts;
  both_parts.items.emplace_back(tree.add(std::string("state")), tree.add(std::move(states)));
  both_parts.items.emplace_back(tree.add(std::string("param_groups")), tree.add(std::move(groups)));
  return tree.add(std::move(both_parts));
}

PickleValue* counts(const Value::List& numbers, PickleTree& tree) {
  std::map<std::int64_t, std::int64_t> times;
  for (const Value& number : numbers) ++times[number.as_int()];
  PickleDict dict;
  for (const auto& [number, count] : times) dict.items.emplace_back(tree.add(number), tree.add(count));
  return tree.add(std::move(dict));
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
      made = tree.add(PickleObject{.class_name = "collections.Counter", .arguments = {counts(value.as_list(), tree)}});
    }
    state.items.emplace_back(tree.add(name), made);
  }
  return tree.add(std::move(state));
}

}  // namespace

PickleValue* lightning_checkpoint(const Checkpoint& checkpoint, PickleValue* state_dict, TorchWriter& writer) {
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
