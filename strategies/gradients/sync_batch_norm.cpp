#include "levin/strategies/gradients/sync_batch_norm.h"

#include <ATen/ops/batch_norm_native.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <ostream>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/protocol/control_group.h"
#include "levin/strategies/gradients/module_synchronizer.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

namespace {

std::atomic<bool> took_forward = false;

bool are_several() { return ProcessWorld::is_joined() && ProcessWorld::current()->world_size() > 1; }

/// Every rank's numbers, one row each: those of `mine`, a row on the CPU.
at::Tensor gather_rows(const at::Tensor& mine, const std::string& what) {
  const std::span own(static_cast<const std::byte*>(mine.const_data_ptr()), mine.nbytes());
  const std::vector<std::byte> all = RankExchange(ProcessWorld::current()->control_group())
                                         .gather_bytes(own, {what, "the batches of all ranks go through the same layers"});
  at::Tensor rows = torch::empty({ProcessWorld::current()->world_size(), mine.size(0)}, mine.options());
  std::memcpy(rows.mutable_data_ptr(), all.data(), all.size());
  return rows;
}

/// All dimensions but the channels'.
std::vector<std::int64_t> other_dimensions(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t dimension = 2; dimension < input.dim(); ++dimension) dimensions.push_back(dimension);
  return dimensions;
}

/// A value for each channel, shaped to go with `input`, and of its kind.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  const bool is_small = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
  return values.to(input.device(), is_small ? at::kFloat : input.scalar_type()).view(shape);
}

struct Statistics {
  double count = 0;    ///< values a channel
  at::Tensor mean;     ///< by channel, as double on the CPU
  at::Tensor squares;  ///< sums of squared deviations from it, likewise
};

Statistics statistics_of(const at::Tensor& input, const std::string& layer) {
  const std::int64_t channels = input.size(1);
  const at::Tensor own = torch::zeros({1 + 2 * channels}, torch::kDouble);
  if (input.numel() > 0) {
    const double count = static_cast<double>(input.numel()) / static_cast<double>(channels);
    const auto [variance, mean] = torch::var_mean(input.to(torch::kDouble), other_dimensions(input), /*correction=*/0);
    own[0] = count;
    own.narrow(0, 1, channels).copy_(mean);
    own.narrow(0, 1 + channels, channels).copy_(variance * count);
  }
  const at::Tensor rows = gather_rows(own, layer);
  const at::Tensor counts = rows.narrow(1, 0, 1);
  const at::Tensor means = rows.narrow(1, 1, channels);
  Statistics all;
  all.count = counts.sum().item<double>();
  all.mean = (counts * means).sum(0) / all.count;
  all.squares = (rows.narrow(1, 1 + channels, channels) + counts * (means - all.mean).square()).sum(0);
  if (all.count < 2) {
    throw MisuseError(format("{}: the batches of all ranks together have {} values per channel; training needs two.", layer,
                             static_cast<int>(all.count)));
  }
  return all;
}

void update(const at::Tensor& running, const at::Tensor& value, double momentum) {
  if (running.defined()) running.mul_(1 - momentum).add_(value.to(running.options()), momentum);
}

/// What backward works with of a forward pass.
class Normalization final : public torch::autograd::Function<Normalization> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const Statistics& all, double eps, const std::string& layer) {
    const at::Tensor scale = (all.squares / all.count + eps).rsqrt();
    context->save_for_backward({input, weight, all.mean, scale});
    context->saved_data["count"] = all.count;
    context->saved_data["layer"] = layer;
    at::Tensor output = (input - by_channel(all.mean, input)) * by_channel(scale, input);
    if (weight.defined()) output = output * by_channel(weight, input) + by_channel(bias, input);
    return output.to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& scale = saved[3];
    const at::Tensor& gradient = gradients[0];
    const at::Tensor centered = input - by_channel(saved[2], input);
    const std::int64_t channels = input.size(1);
    const at::Tensor own = torch::zeros({2 * channels}, torch::kDouble);
    const auto dimensions = other_dimensions(input);
    own.narrow(0, 0, channels).copy_(gradient.sum(dimensions, /*keepdim=*/false, torch::kDouble));
    own.narrow(0, channels, channels).copy_((gradient * centered).sum(dimensions, /*keepdim=*/false, torch::kDouble));
    const std::string layer = context->saved_data["layer"].toStringRef();
    const at::Tensor all = gather_rows(own, layer + " in backward").sum(0) / context->saved_data["count"].toDouble();
    const at::Tensor factor = weight.defined() ? scale * weight.to(scale.options()) : scale;
    const at::Tensor of_mean = by_channel(all.narrow(0, 0, channels), input);
    const at::Tensor of_variance = by_channel(all.narrow(0, channels, channels) * scale.square(), input);
    at::Tensor of_input = (gradient - of_mean - centered * of_variance) * by_channel(factor, input);
    at::Tensor of_weight;
    at::Tensor of_bias;
    if (weight.defined()) {
      of_weight = (own.narrow(0, channels, channels) * scale).to(weight.options().requires_grad(false));
      of_bias = own.narrow(0, 0, channels).to(weight.options().requires_grad(false));
    }
    return {of_input.to(input.scalar_type()), of_weight, of_bias, {}, {}, {}};
  }
};

/// One forward pass of a layer in training, over the batches of all ranks. `layer`: "SyncBatchNorm of 64 features".
at::Tensor synchronized_batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                   const at::Tensor& running_mean, const at::Tensor& running_var, double momentum, double eps,
                                   const std::string& layer) {
  took_forward = true;
  Statistics all;
  {
    const at::NoGradGuard no_grad;
    all = statistics_of(input, layer);
    update(running_mean, all.mean, momentum);
    update(running_var, all.squares / (all.count - 1), momentum);
  }
  return Normalization::apply(input, weight, bias, all, eps, layer);
}

/// The user's layers that work as SyncBatchNorm. LibTorch's layers have no extension point, but the operator that they all call
/// can find the layer of a call: by the layer's tensors.
class Layers {
 public:
  static Layers& instance() {
    static auto* const layers = new Layers;
    return *layers;
  }

  void set(std::unordered_map<const at::TensorImpl*, std::pair<at::Tensor, std::string>> layers) {
    static const Registration registration;
    const std::lock_guard lock(mutex_);
    layers_ = std::move(layers);
    any_ = !layers_.empty();
  }
  bool any() const { return any_; }

 private:
  using Optional = std::optional<at::Tensor>;

  std::optional<std::string> name_of(const Optional& tensor) {
    if (!any_ || !tensor || !tensor->defined()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto layer = layers_.find(tensor->unsafeGetTensorImpl());
    return layer == layers_.end() ? std::nullopt : std::optional(layer->second.second);
  }

  static at::Tensor batch_norm(const at::Tensor& input, const Optional& weight, const Optional& bias, const Optional& mean,
                               const Optional& variance, bool training, double momentum, double eps, bool cudnn_enabled) {
    if (training) {
      auto name = instance().name_of(weight);
      if (!name) name = instance().name_of(mean);
      const at::Tensor none;
      if (name) {
        return synchronized_batch_norm(input, weight.value_or(none), bias.value_or(none), mean.value_or(none),
                                       variance.value_or(none), momentum, eps, *name);
      }
    }
    return at::native::batch_norm(input, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled);
  }

  /// Replaces the operator where a training step calls it, for good: it could be restored, but not while others run it.
  struct Registration {
    Registration() {
      for (torch::Library* library : {&cpu, &cuda}) library->impl("batch_norm", TORCH_FN(&Layers::batch_norm));
    }
    torch::Library cpu{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__, __LINE__};
    torch::Library cuda{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCUDA, __FILE__, __LINE__};
  };

  std::mutex mutex_;
  std::atomic<bool> any_ = false;
  std::unordered_map<const at::TensorImpl*, std::pair<at::Tensor, std::string>> layers_;
};

/// Calls visit(name, layer) for LibTorch's BatchNorm layers below a module.
template <class Visit>
void each_batch_norm(const torch::nn::Module& module, const Visit& visit) {
  for (const auto& entry : module.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const torch::nn::Module* const layer = entry.value().get();
    const auto attempt = [&](const auto* batch_norm) {
      if (batch_norm != nullptr) visit(entry.key(), *batch_norm);
    };
    attempt(dynamic_cast<const torch::nn::BatchNorm1dImpl*>(layer));
    attempt(dynamic_cast<const torch::nn::BatchNorm2dImpl*>(layer));
    attempt(dynamic_cast<const torch::nn::BatchNorm3dImpl*>(layer));
  }
}

}  // namespace

bool has_synchronized_layers(const torch::nn::Module& module) {
  if (Layers::instance().any()) return true;
  for (const auto& layer : module.modules(/*include_self=*/false)) {
    if (dynamic_cast<const SyncBatchNormImpl*>(layer.get()) != nullptr) return true;
  }
  return false;
}

bool took_synchronized_forward() { return took_forward.exchange(false); }

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features()) return;
  throw MisuseError(
      format("SyncBatchNorm of {} features got an input of the shape {}: its second dimension must be the features.",
             options.num_features(), c10::str(input.sizes())));
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  const bool takes_statistics = is_training() || !options.track_running_stats();
  double momentum = options.momentum().value_or(0.0);
  if (is_training() && options.track_running_stats()) {
    num_batches_tracked += 1;
    if (!options.momentum()) momentum = 1.0 / num_batches_tracked.item<double>();
  }
  if (is_training() && are_several()) {
    return synchronized_batch_norm(input, weight, bias, running_mean, running_var, momentum, options.eps(),
                                   format("SyncBatchNorm of {} features", options.num_features()));
  }
  return torch::nn::functional::detail::batch_norm(input, running_mean, running_var, weight, bias, takes_statistics, momentum,
                                                   options.eps());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "levin::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

void synchronize_batch_norms(const torch::nn::Module& module) {
  if (!are_several()) return;
  std::unordered_map<const at::TensorImpl*, std::pair<at::Tensor, std::string>> layers;
  each_batch_norm(module, [&](const std::string& name, const auto& layer) {
    const at::Tensor& known_by = layer.weight.defined() ? layer.weight : layer.running_mean;
    if (!known_by.defined()) {
      throw ConfigError(
          format("sync_batchnorm: the layer '{}' has neither affine nor track_running_stats, so it cannot be distinguished "
                 "from others. Use levin::SyncBatchNorm instead.",
                 name));
    }
    layers[known_by.unsafeGetTensorImpl()] = {known_by, format("the BatchNorm layer '{}'", name)};
  });
  if (!Layers::instance().any()) ProcessWorld::current()->when_entry_point_ends([] { Layers::instance().set({}); });
  Layers::instance().set(std::move(layers));
}

}  // namespace levin
