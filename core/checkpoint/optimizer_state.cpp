#include "levin/core/checkpoint/optimizer_state.h"

#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <cstring>
#include <deque>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

constexpr std::string_view kIndices = ".sparse_indices";
constexpr std::string_view kValues = ".sparse_values";

}  // namespace

void save_tensor(Checkpoint& checkpoint, const std::string& name, const at::Tensor& tensor) {
  if (!tensor.is_sparse()) {
    checkpoint.tensors[name] = tensor.detach();
    return;
  }
  checkpoint.tensors[name + std::string(kIndices)] = tensor._indices();
  checkpoint.tensors[name + std::string(kValues)] = tensor._values().detach();
}

at::Tensor saved_sparse_tensor(const Checkpoint& checkpoint, const std::string& name, at::IntArrayRef sizes) {
  const auto indices = checkpoint.tensors.find(name + std::string(kIndices));
  const auto values = checkpoint.tensors.find(name + std::string(kValues));
  if (indices == checkpoint.tensors.end() || values == checkpoint.tensors.end()) return {};
  try {
    at::_validate_sparse_coo_tensor_args(indices->second, values->second, sizes);
    return at::sparse_coo_tensor(indices->second, values->second, sizes);
  } catch (const c10::Error& error) {
    throw ConfigError(format("The checkpoint's sparse '{}' does not fit its parameter of shape {}: {}", name, c10::str(sizes),
                             error.what_without_backtrace()));
  }
}

std::optional<std::string> name_of_sparse_tensor(std::string_view part) {
  if (!part.ends_with(kIndices)) return std::nullopt;
  return std::string(part.substr(0, part.size() - kIndices.size()));
}

bool is_of_sparse_values(std::string_view part) { return part.ends_with(kValues); }

namespace {

namespace optim = torch::optim;
using optim::Optimizer;
using optim::OptimizerOptions;
using optim::OptimizerParamState;

/// The state of a parameter, under PyTorch's names, for LibTorch's optimizers and each DescribedOptimizer. Empty for others.
StateFields state_fields(OptimizerParamState& state) {
  const auto adam_fields = [](auto& adam) {
    return StateFields{{"step", &adam.step()},
                       {"exp_avg", &adam.exp_avg()},
                       {"exp_avg_sq", &adam.exp_avg_sq()},
                       {"max_exp_avg_sq", &adam.max_exp_avg_sq()}};
  };
  if (auto* described = dynamic_cast<ParameterState*>(&state)) return described->fields();
  if (auto* sgd = dynamic_cast<optim::SGDParamState*>(&state)) return {{"momentum_buffer", &sgd->momentum_buffer()}};
  if (auto* adam = dynamic_cast<optim::AdamParamState*>(&state)) return adam_fields(*adam);
  if (auto* adamw = dynamic_cast<optim::AdamWParamState*>(&state)) return adam_fields(*adamw);
  if (auto* rmsprop = dynamic_cast<optim::RMSpropParamState*>(&state)) {
    return {{"step", &rmsprop->step()},
            {"square_avg", &rmsprop->square_avg()},
            {"momentum_buffer", &rmsprop->momentum_buffer()},
            {"grad_avg", &rmsprop->grad_avg()}};
  }
  if (auto* adagrad = dynamic_cast<optim::AdagradParamState*>(&state)) {
    return {{"step", &adagrad->step()}, {"sum", &adagrad->sum()}};
  }
  if (auto* lbfgs = dynamic_cast<optim::LBFGSParamState*>(&state)) {
    // Without `al`, which each step writes before it reads it.
    return {{"func_evals", &lbfgs->func_evals()},
            {"n_iter", &lbfgs->n_iter()},
            {"t", &lbfgs->t()},
            {"prev_loss", &lbfgs->prev_loss()},
            {"d", OwnShape{&lbfgs->d()}},
            {"H_diag", OwnShape{&lbfgs->H_diag()}},
            {"prev_flat_grad", OwnShape{&lbfgs->prev_flat_grad()}},
            {"old_dirs", &lbfgs->old_dirs()},
            {"old_stps", &lbfgs->old_stps()},
            {"ro", &lbfgs->ro()}};
  }
  return {};
}

/// An empty state to load a checkpoint's into; nullptr for an optimizer whose state is not accessible.
std::unique_ptr<OptimizerParamState> make_state(const Optimizer& optimizer) {
  std::unique_ptr<OptimizerParamState> state;
  const auto attempt = [&]<class Class, class State>() {
    if (dynamic_cast<const Class*>(&optimizer) != nullptr) state = std::make_unique<State>();
  };
  if (const auto* described = dynamic_cast<const DescribedOptimizer*>(&optimizer)) return described->make_state();
  attempt.operator()<optim::SGD, optim::SGDParamState>();
  attempt.operator()<optim::Adam, optim::AdamParamState>();
  attempt.operator()<optim::AdamW, optim::AdamWParamState>();
  attempt.operator()<optim::RMSprop, optim::RMSpropParamState>();
  attempt.operator()<optim::Adagrad, optim::AdagradParamState>();
  attempt.operator()<optim::LBFGS, optim::LBFGSParamState>();
  return state;
}

/// Writes a part of a parameter's state: tensors into the checkpoint under `prefix`, the rest into `numbers`. For a list of
/// tensors, `numbers` lists which elements exist.
struct FieldWriter {
  const std::string& prefix;
  Value& numbers;
  Checkpoint& checkpoint;
  const std::string& name;

  void operator()(const std::int64_t* field) const { numbers[name] = *field; }
  void operator()(const double* field) const { numbers[name] = *field; }
  void operator()(const at::Tensor* field) const { write(name, *field); }
  void operator()(OwnShape field) const { write(name, *field.tensor); }
  void operator()(const std::deque<at::Tensor>* field) const {
    Value exists(Value::List{});
    for (const at::Tensor& tensor : *field) {
      write(format("{}.{}", name, exists.size()), tensor);
      exists.push_back(tensor.defined());
    }
    numbers[name] = std::move(exists);
  }

 private:
  void write(const std::string& tensor_name, const at::Tensor& tensor) const {
    if (tensor.defined()) save_tensor(checkpoint, prefix + tensor_name, tensor);
  }
};

/// The reverse. Tensors are copied to the parameter's device, so that the file need not stay mapped.
struct FieldReader {
  const std::string& prefix;
  const Value& numbers;
  const Checkpoint& checkpoint;
  const at::Tensor& parameter;
  const std::string& name;

  void operator()(std::int64_t* field) const { *field = numbers.at(name).as_int(); }
  void operator()(double* field) const {
    // PyTorch stores some numbers in tensors of one element.
    const auto tensor = checkpoint.tensors.find(prefix + name);
    *field = tensor == checkpoint.tensors.end() ? numbers.at(name).as_double() : tensor->second.item<double>();
  }
  void operator()(at::Tensor* field) const {
    const auto saved = checkpoint.tensors.find(prefix + name);
    if (saved == checkpoint.tensors.end()) {
      *field = saved_sparse_tensor(checkpoint, prefix + name, parameter.sizes());
      if (field->defined()) *field = field->to(parameter.device(), field->scalar_type(), /*non_blocking=*/false, /*copy=*/true);
      return;
    }
    if (saved->second.sizes() != parameter.sizes()) {
      throw ConfigError(c10::str("The checkpoint's '", prefix, name, "' has shape ", saved->second.sizes(),
                                 ", but its parameter has ", parameter.sizes(),
                                 ": was it made by another module, or other options?"));
    }
    // In the parameter's memory order, which fused kernels use for both.
    *field = at::empty_like(parameter, parameter.options().dtype(saved->second.scalar_type())).copy_(saved->second);
  }
  void operator()(OwnShape field) const { *field.tensor = read(name); }
  void operator()(std::deque<at::Tensor>* field) const {
    field->clear();
    for (const Value& exists : numbers.at(name).as_list()) {
      const std::string element = format("{}.{}", name, field->size());
      field->push_back(read(element));
      if (exists.as_bool() && !field->back().defined()) throw ConfigError("The checkpoint lacks '" + prefix + element + "'.");
    }
  }

 private:
  at::Tensor read(const std::string& tensor_name) const {
    const auto saved = checkpoint.tensors.find(prefix + tensor_name);
    if (saved == checkpoint.tensors.end()) return {};
    return saved->second.to(parameter.device(), saved->second.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  }
};

std::string state_prefix(std::size_t index, std::string_view parameter) {
  return format("optimizer_states.{}.state.{}.", index, parameter);
}

Value saved_state(const Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint) {
  Value states(Value::Map{});
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto state = optimizer.state().find(parameters[i].unsafeGetTensorImpl());
    if (state == optimizer.state().end()) continue;
    const std::string prefix = state_prefix(index, std::to_string(i));
    Value numbers(Value::Map{});
    for (const auto& [name, place] : state_fields(*state->second)) {
      std::visit(FieldWriter{prefix, numbers, checkpoint, name}, place);
    }
    states[std::to_string(i)] = std::move(numbers);
  }
  return states;
}

Value saved_groups(const Optimizer& optimizer) {
  Value groups(Value::List{});
  std::int64_t next_parameter = 0;
  for (const auto& group : optimizer.param_groups()) {
    Value saved = option_values(group.options());
    Value parameters(Value::List{});
    for (std::size_t i = 0; i < group.params().size(); ++i) parameters.push_back(next_parameter++);
    saved["params"] = std::move(parameters);
    groups.push_back(std::move(saved));
  }
  return groups;
}

using StateOfParameter = std::pair<at::TensorImpl*, std::unique_ptr<OptimizerParamState>>;

std::vector<StateOfParameter> loaded_state(const Optimizer& optimizer, std::size_t index, const Value& states,
                                           const Checkpoint& checkpoint) {
  std::vector<StateOfParameter> loaded;
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value* numbers = states.find(std::to_string(i));
    if (numbers == nullptr) continue;
    const std::string prefix = state_prefix(index, std::to_string(i));
    auto state = make_state(optimizer);
    for (const auto& [name, place] : state_fields(*state)) {
      std::visit(FieldReader{prefix, *numbers, checkpoint, parameters[i], name}, place);
    }
    loaded.emplace_back(parameters[i].unsafeGetTensorImpl(), std::move(state));
  }
  return loaded;
}

void check_groups(std::size_t saved, const Optimizer& optimizer) {
  const std::size_t own = optimizer.param_groups().size();
  if (saved == own) return;
  throw ConfigError(format("The checkpoint's optimizer has {} parameter groups, but this one has {}.", saved, own));
}

std::vector<std::unique_ptr<OptimizerOptions>> loaded_options(const Optimizer& optimizer, const Value& groups) {
  const auto& own_groups = optimizer.param_groups();
  check_groups(groups.as_list().size(), optimizer);
  std::vector<std::unique_ptr<OptimizerOptions>> loaded;
  for (std::size_t i = 0; i < own_groups.size(); ++i) {
    const Value& saved = groups.as_list()[i];
    const std::size_t saved_parameters = saved.at("params").as_list().size();
    if (saved_parameters != own_groups[i].params().size()) {
      throw ConfigError(format("Group {} of the checkpoint's optimizer has {} parameters, but this one has {}.", i,
                               saved_parameters, own_groups[i].params().size()));
    }
    auto options = own_groups[i].options().clone();
    set_option_values(*options, saved);
    loaded.push_back(std::move(options));
  }
  return loaded;
}

std::string archive_key(std::size_t index) { return format("optimizer_states.{}.archive", index); }

/// For a class that does not name its state: the bytes that its save() writes to LibTorch's archive. Throws MisuseError when it
/// has state that save() does not write.
void save_own_class(const Optimizer& optimizer, std::size_t index, Value& saved, Checkpoint& checkpoint) {
  torch::serialize::OutputArchive output;
  optimizer.save(output);
  std::ostringstream stream;
  output.save_to(stream);
  const std::string bytes = std::move(stream).str();
  torch::serialize::InputArchive written;
  written.load_from(bytes.data(), bytes.size());
  if (written.keys().empty() && !optimizer.state().empty()) {
    const std::string name = optimizer_class_name(optimizer);
    throw MisuseError("The optimizer " + name + " has state that a checkpoint does not store: override " + name +
                      "::save() and load(), or save weights only.");
  }
  at::Tensor& archive = checkpoint.tensors[archive_key(index)];
  archive = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(archive.mutable_data_ptr(), bytes.data(), bytes.size());
  saved["lrs"] = OptionType<std::vector<double>>::write(get_lrs(optimizer));
}

/// Passes such bytes to its load(). Throws ConfigError when they are not an archive, or load() refuses it.
void load_own_class(Optimizer& optimizer, std::size_t index, const Value& saved, const Checkpoint& checkpoint) {
  const Value::List& rates = saved.at("lrs").as_list();
  const auto archive = checkpoint.tensors.find(archive_key(index));
  if (archive == checkpoint.tensors.end()) throw ConfigError(format("The checkpoint lacks '{}'.", archive_key(index)));
  check_groups(rates.size(), optimizer);
  try {
    torch::serialize::InputArchive input;
    input.load_from(static_cast<const char*>(archive->second.const_data_ptr()), archive->second.nbytes());
    optimizer.load(input);
  } catch (const c10::Error& error) {
    throw ConfigError("The checkpoint's optimizer " + optimizer_class_name(optimizer) +
                      " cannot be loaded: " + error.what_without_backtrace());
  }
  for (std::size_t i = 0; i < rates.size(); ++i) set_lr(optimizer.param_groups()[i], rates[i].as_double());
}

const Value& saved_optimizer(const Checkpoint& checkpoint, std::size_t index, const std::string& class_name) {
  const Value* all = checkpoint.manifest.find("optimizer_states");
  if (all == nullptr || !all->is_list() || index >= all->size()) {
    throw ConfigError(format("The checkpoint has no state of optimizer {}: was it saved with weights only?", index));
  }
  const Value& saved = all->as_list()[index];
  if (saved.at("class").is_null()) return saved;  // another program's: its content decides
  const std::string& saved_class = saved.at("class").as_string();
  if (saved_class != class_name) {
    throw ConfigError(format(
        "The checkpoint's optimizer {} is {}, but the run uses {}: resume with the same optimizer, or load only the weights.",
        index, saved_class, class_name));
  }
  return saved;
}

[[noreturn]] void throw_other_class(const Optimizer& optimizer, std::size_t index, const std::string& what) {
  throw ConfigError(format(
      "The checkpoint's optimizer {} has {}, but the run uses {}: resume with the optimizer that it was saved with, or give "
      "the file as init_from for its weights only.",
      index, what, optimizer_class_name(optimizer)));
}

/// PyTorch's state of an optimizer does not name its class.
void check_is_kind(const Optimizer& optimizer, std::size_t index, const Value& saved, const Checkpoint& checkpoint) {
  const std::string own_class = optimizer_class_name(optimizer);
  const Value options = option_values(optimizer.defaults());
  for (const Value& group : saved.at("param_groups").as_list()) {
    for (const auto& [name, value] : options.as_map()) {
      if (!group.contains(name)) throw_other_class(optimizer, index, format("no option '{}'", name));
    }
    // Distinguishes AdamW from Adam.
    const Value* decoupled = group.find("decoupled_weight_decay");
    if (decoupled != nullptr && decoupled->is_bool() && own_class.starts_with("Adam") &&
        decoupled->as_bool() != (own_class == "AdamW")) {
      throw_other_class(optimizer, index, format("decoupled_weight_decay: {}", decoupled->as_bool()));
    }
    const Value* maximize = group.find("maximize");
    if (maximize != nullptr && *maximize == Value(true) && !options.contains("maximize")) {
      throw_other_class(optimizer, index, "maximize: true, which LibTorch's optimizers lack");
    }
  }
  const auto state = make_state(optimizer);
  for (const auto& [parameter, numbers] : saved.at("state").as_map()) {
    const std::string prefix = state_prefix(index, parameter);
    for (const auto& [name, place] : state_fields(*state)) {
      const bool is_number = std::holds_alternative<std::int64_t*>(place) || std::holds_alternative<double*>(place);
      if (is_number && !numbers.contains(name) && !checkpoint.tensors.contains(prefix + name)) {
        throw_other_class(optimizer, index, format("no '{}' of parameter {}", name, parameter));
      }
    }
  }
}

}  // namespace

void save_optimizer(const Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint) {
  Value& all = checkpoint.manifest["optimizer_states"];
  if (index != all.size()) throw MisuseError(format("Optimizers are saved in order: the next one is {}.", all.size()));
  Value saved(Value::Map{});
  saved["class"] = optimizer_class_name(optimizer);
  if (make_state(optimizer) != nullptr) {
    saved["state"] = saved_state(optimizer, index, checkpoint);
    saved["param_groups"] = saved_groups(optimizer);
  } else {
    save_own_class(optimizer, index, saved, checkpoint);
  }
  all.push_back(std::move(saved));
}

std::vector<at::Tensor> state_tensors(const Optimizer& optimizer) {
  Checkpoint named;
  saved_state(optimizer, 0, named);
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named.tensors) tensors.push_back(tensor);
  return tensors;
}

void load_optimizer(Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint) {
  const Value& saved = saved_optimizer(checkpoint, index, optimizer_class_name(optimizer));
  const bool is_foreign = saved.at("class").is_null();
  if (make_state(optimizer) == nullptr) {
    if (is_foreign) throw_other_class(optimizer, index, "nothing of this class");
    load_own_class(optimizer, index, saved, checkpoint);
    return;
  }
  if (is_foreign) check_is_kind(optimizer, index, saved, checkpoint);
  auto options = loaded_options(optimizer, saved.at("param_groups"));
  auto states = loaded_state(optimizer, index, saved.at("state"), checkpoint);
  for (std::size_t i = 0; i < options.size(); ++i) optimizer.param_groups()[i].set_options(std::move(options[i]));
  optimizer.state().clear();
  for (auto& [parameter, state] : states) optimizer.state()[parameter] = std::move(state);
}

}  // namespace levin
