#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "levin/callbacks/builtin_callbacks.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch_loader.h"
#include "levin/core/config/registry.h"
#include "levin/core/fit_preview.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/run_check.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {
/// A call of one of LibTorch's operators, which no other one has made.
struct OperatorCall {
  std::string name;  ///< "aten::linear"
  std::vector<c10::IValue> inputs;
  at::Tensor output;  ///< the first; undefined while the call lasts, and where it gives none
};

struct CrossEntropy {
  std::int64_t classes = 0;
  at::Tensor targets;  ///< integers
  std::int64_t ignored = -100;
  bool is_mean = true;
};

/// Options and decisions that checks have in common.
template <class O>
class CheckWithOptions : public WithOptions<RunCheck, O> {
 protected:
  using WithOptions<RunCheck, O>::WithOptions;
  bool finding_is_error() const override { return this->options_.fail == OnDifference::kError; }
  bool is_ignored(const std::string& name) const {
    return std::ranges::any_of(this->options_.ignore, [&](const std::string& part) { return name.starts_with(part); });
  }
};
struct ObservedStep {
  const std::function<void(const OperatorCall&)>& observe;
  int depth = 0;
  OperatorCall call{};

  void tell() const {
    const at::RecordFunctionGuard unobserved(/*is_enabled=*/false);
    observe(call);
  }
};
thread_local ObservedStep* observed_step = nullptr;

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
  if (observed_step == nullptr || observed_step->depth++ > 0) return nullptr;
  const auto inputs = function.inputs();
  observed_step->call = {function.name(), std::vector<c10::IValue>(inputs.begin(), inputs.end()), {}};
  observed_step->tell();
  return nullptr;
}

void operator_ends(const at::RecordFunction& function, at::ObserverContext*) {
  if (observed_step == nullptr || --observed_step->depth > 0) return;
  const auto& outputs = function.outputs();
  if (!outputs.empty() && outputs[0].isTensor()) observed_step->call.output = outputs[0].toTensor();
  observed_step->tell();
  observed_step->call = {};
}

/// The loss; `observe` is told of each call before it begins and when it is done. LibTorch's modules have no hooks that see
/// activations.
at::Tensor observed_loss(FitPreview& preview, const std::function<void(const OperatorCall&)>& observe) {
  ObservedStep step{observe};
  observed_step = &step;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                                     .needsInputs(true)
                                                     .needsOutputs(true)
                                                     .scopes({at::RecordScope::FUNCTION}));
  const auto end = c10::make_scope_exit([&] {
    at::removeCallback(handle);
    observed_step = nullptr;
  });
  return preview.loss();
}

/// Unset for other operators, and for targets that are probabilities.
std::optional<CrossEntropy> cross_entropy_of(const OperatorCall& call) {
  if (call.name != "aten::cross_entropy_loss" && !call.name.starts_with("aten::nll_loss")) return std::nullopt;
  const at::Tensor& scores = call.inputs[0].toTensor();
  const at::Tensor& targets = call.inputs[1].toTensor();
  if (!at::isIntegralType(targets.scalar_type(), /*includeBool=*/false)) return std::nullopt;
  return CrossEntropy{scores.size(scores.dim() == 1 ? 0 : 1), targets, call.inputs[4].toInt(), call.inputs[3].toInt() == 1};
}

at::Tensor out_of_range(const at::Tensor& labels, std::int64_t classes, std::int64_t ignored) {
  return labels.lt(0).logical_or(labels.ge(classes)).logical_and(labels.ne(ignored));
}

bool are_equal(const Batch& left, const Batch& right) {
  return std::ranges::equal(left.items(), right.items(), [](const Batch::Item& one, const Batch::Item& other) {
    return one.second.sizes() == other.second.sizes() && at::equal(one.second, other.second);
  });
}

/// A row that was read, and its sample of the dataset: -1 where it is there to make ranks even.
struct SampleRead {
  std::int64_t sample = -1;
  std::int64_t rank = 0;
  std::int64_t batch = 0;
  std::int64_t row = 0;
};

struct CheckDataOptions {
  OnDifference fail = OnDifference::kError;
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::string label;
  bool repeats = false;

  static void declare(OptionList<CheckDataOptions>& options) {
    using O = CheckDataOptions;
    options.add(&O::fail, "When data is wrong: warn, or end the run");
    options.add(&O::num_classes, "Labels are below it; null: as many as the module's cross entropy has scores").min(1);
    options.add(&O::label, "The tensor of a batch with labels; empty: the one that the module's cross entropy takes");
    options.add(&O::repeats, "A sample may come several times, as where it is drawn with replacement");
  }
};

/// Reads an epoch of the fit's loaders on every rank, and finds samples that come twice over all ranks, or not at all; values
/// that are NaN or infinite; labels out of range; batches that are empty, or all alike.
class CheckData final : public CheckWithOptions<CheckDataOptions> {
 public:
  explicit CheckData(const Options& options) : CheckWithOptions("CheckData", options) {}

 protected:
  void look(Trainer& trainer, Module&) override {
    FitPreview preview(trainer);
    find_cross_entropy(preview);
    for (const FitLoader& loader : preview.loaders()) {
      if (loader.loader->is_interactive()) {
        add_note(loader.name + ": not read, as its batches come of what the run does");
      } else {
        compare_samples(trainer, loader, read(trainer, preview, loader));
      }
    }
    if (!label_) add_note("no labels known: num_classes and label say where they are");
  }

 private:
  void find_cross_entropy(FitPreview& preview) {
    entropy_ = {};
    label_.reset();
    if (!preview.has_loss()) return;
    const auto look_at = [&](const OperatorCall& call) {
      const auto entropy = cross_entropy_of(call);
      if (!entropy || entropy_.classes != 0) return;
      entropy_ = *entropy;
      entropy_.targets = entropy->targets.to(at::kCPU, at::kLong, /*non_blocking=*/false, /*copy=*/true);
      // So that the step works; and a GPU that meets such a label is lost to the process.
      entropy->targets.masked_fill_(out_of_range(entropy->targets, entropy->classes, entropy->ignored), 0);
    };
    observed_loss(preview, look_at);
  }

  bool is_label(const Batch& batch, std::size_t index) {
    const auto& [name, tensor] = batch.items()[index];
    if (!at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) return false;
    const bool is_named = !options_.label.empty() && name == options_.label;
    const bool is_target = options_.label.empty() && !label_ && entropy_.classes != 0 &&
                           tensor.sizes() == entropy_.targets.sizes() &&
                           at::equal(tensor.cpu().to(at::kLong), entropy_.targets);
    if (is_named || is_target) label_ = index;
    return label_ == index && options_.num_classes.value_or(entropy_.classes) > 0;
  }

  std::optional<std::vector<SampleRead>> read(const Trainer& trainer, const FitPreview& preview, const FitLoader& from) {
    BatchLoader& loader = *from.loader;
    std::vector<SampleRead> rows;
    std::optional<Batch> first;
    bool all_alike = true;
    std::int64_t batches = 0;
    loader.start_epoch(trainer.current_epoch());
    for (; (!from.batches || batches < *from.batches) && !preview.interrupted(); ++batches) {
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      const std::int64_t size = batch->batch_size();
      if (size == 0) add_finding(format("{}: batch {} is empty", from.name, batches));
      if (first) all_alike = all_alike && are_equal(*batch, *first);
      if (!first) first = batch;
      look_at_values(from, *batch, batches, std::ssize(rows));
      for (std::int64_t row = 0; row < size; ++row) rows.push_back({-1, trainer.rank(), batches, row});
    }
    if (batches > 1 && all_alike) add_finding(format("{}: all {} batches are alike", from.name, batches));
    const auto samples = loader.epoch_samples(batches);
    if (!samples || samples->size() != rows.size()) return std::nullopt;
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row].sample = (*samples)[row];
    return rows;
  }

  void look_at_values(const FitLoader& from, const Batch& batch, std::int64_t batch_idx, std::int64_t rows_before) {
    for (std::size_t index = 0; index < batch.size(); ++index) {
      const auto& [name, tensor] = batch.items()[index];
      if (tensor.numel() == 0) continue;
      const std::int64_t classes = options_.num_classes.value_or(entropy_.classes);
      const bool has_labels = is_label(batch, index);
      const at::Tensor wrong = has_labels ? out_of_range(tensor, classes, entropy_.ignored) : tensor.isfinite().logical_not();
      if (!wrong.any().item<bool>()) continue;
      const at::Tensor places = at::atleast_1d(wrong).nonzero().select(1, 0).cpu();
      const auto row = places[0].item<std::int64_t>();
      const auto samples = from.loader->epoch_samples(batch_idx + 1);
      const auto place = static_cast<std::size_t>(rows_before + row);
      const std::string sample = samples && place < samples->size() ? format(", sample {}", (*samples)[place]) : "";
      const std::string what = has_labels
                                   ? format("is {} of {} classes", tensor.masked_select(wrong)[0].item<std::int64_t>(), classes)
                                   : "holds NaN or an infinity";
      add_finding(format("{}: batch {}, row {}{}: {} {}", from.name, batch_idx, row, sample,
                         name.empty() ? format("tensor {}", index) : name, what));
    }
  }

  /// Each sample once, over the ranks that divide them. `mine`: unset when the loader cannot tell. Ranks: all.
  void compare_samples(const Trainer& trainer, const FitLoader& from, std::optional<std::vector<SampleRead>> mine) {
    const auto share = from.loader->sample_share();
    // A batch that is not full may be left out.
    if (share && mine && !from.batches && std::abs(share->mine - std::ssize(*mine)) >= from.loader->batch_size().value_or(1))
      add_finding(format("{}: gives {} samples, but says {}", from.name, mine->size(), share->mine));
    if (!mine) add_note(from.name + ": cannot tell which samples it gives (BatchLoader::epoch_samples)");
    std::vector<SampleRead> all = mine.value_or(std::vector<SampleRead>());
    RankExchange ranks_exchange(trainer.strategy().control_group());
    const ExchangeSite site("CheckData", "all ranks have this callback, and as many loaders");
    const bool divides = trainer.options().use_distributed_sampler;
    constexpr std::uint64_t kLongest = std::numeric_limits<std::uint32_t>::max();
    if (divides) {
      const std::string bytes(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(SampleRead));
      const std::string of_all = join(ranks_exchange.gather_text_to_rank_zero(bytes, site, kLongest), "");
      all.resize(of_all.size() / sizeof(SampleRead));
      std::memcpy(all.data(), of_all.data(), of_all.size());
    }
    std::erase_if(all, [](const SampleRead& read) { return read.sample < 0; });
    std::ranges::stable_sort(all, {}, &SampleRead::sample);
    const auto place = [&](const SampleRead& read) {
      return format("batch {}, row {}{}", read.batch, read.row,
                    trainer.world_size() > 1 ? format(" of rank {}", read.rank) : "");
    };
    std::vector<std::string> twice;
    for (std::size_t index = 1; index < all.size() && !options_.repeats && twice.size() < kMostFindings; ++index) {
      if (all[index].sample != all[index - 1].sample) continue;
      twice.push_back(format("{}: sample {} comes in {} and in {}", from.name, all[index].sample, place(all[index - 1]),
                             place(all[index])));
    }
    const std::string text = divides ? ranks_exchange.broadcast_text(join(twice, "\n"), site, kLongest) : join(twice, "\n");
    if (!text.empty()) std::ranges::for_each(split(text, "\n"), [&](const std::string& line) { add_finding(line); });
  }

  CrossEntropy entropy_;              ///< of the module's first; no classes: it has none
  std::optional<std::size_t> label_;  ///< which tensor of a batch
};

LEVIN_REGISTER_CALLBACK(CheckData, "Read an epoch before training: samples once, NaN, labels in range");

bool is_finite(const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); }

/// All rows are the same; of a single row, all elements.
bool is_alike(const at::Tensor& tensor) {
  return tensor.eq(tensor.size(0) > 1 ? tensor[0] : tensor.flatten()[0]).all().item<bool>();
}

struct CheckInitOptions {
  OnDifference fail = OnDifference::kError;
  double scale_limit = 1000;
  std::vector<std::string> ignore = {};

  static void declare(OptionList<CheckInitOptions>& options) {
    using O = CheckInitOptions;
    options.add(&O::fail, "When a layer begins wrong: warn, or end the run");
    options.add(&O::scale_limit, "Activations may grow or shrink so many times from the first layer on").above(1);
    options.add(&O::ignore, "Beginnings of the names of layers and parameters that are left out");
  }
};

/// Looks at weights, and at what each layer makes of the first batch: numbers that are NaN; activations that are all zero, or
/// the same for every sample; their root mean square, which explodes or vanishes from the first layer on; units of a layer that
/// begin and learn alike; a cross entropy of more than twice that of guessing.
class CheckInit final : public CheckWithOptions<CheckInitOptions> {
 public:
  explicit CheckInit(const Options& options) : CheckWithOptions("CheckInit", options) {}

 protected:
  void look(Trainer& trainer, Module& module) override {
    FitPreview preview(trainer);
    parameters_ = distinct_parameters(module);
    layer_.clear();
    first_layer_.clear();
    goes_wrong_ = false;
    if (preview.has_loss()) {
      const at::Tensor loss = observed_loss(preview, [&](const OperatorCall& call) { look_at(call); });
      if (!is_finite(loss)) add_finding(format("the loss of the first batch is {}", loss.item<double>()));
      preview.backward(loss);
    } else {
      add_note("weights only: the rest takes automatic optimization, and a batch on each rank");
    }
    for (const auto& [name, parameter] : parameters_) {
      if (is_ignored(name) || !parameter.is_floating_point() || parameter.numel() < 2) continue;
      if (!is_finite(parameter)) add_finding(name + " holds NaN or an infinity");
      const at::Tensor& gradient = parameter.grad();
      const bool learns_alike = gradient.defined() ? is_alike(gradient.to_dense()) : !preview.has_loss();
      if (parameter.dim() < 2 || !learns_alike || !is_alike(parameter)) continue;
      add_finding(format("{}: its rows are alike{}: its units learn the same", name,
                         gradient.defined() ? ", and their gradients" : ""));
    }
    parameters_.clear();
  }

 private:
  void look_at(const OperatorCall& call) {
    const at::Tensor& output = call.output;
    if (!output.defined() || !output.is_floating_point()) return;
    if (const auto entropy = cross_entropy_of(call); entropy && entropy->is_mean) {
      const double guessing = std::log(static_cast<double>(entropy->classes));
      if (const auto loss = output.item<double>(); loss > 2 * guessing)
        add_finding(format("cross entropy begins at {:.3g}; that of guessing among {} classes is {:.3g}", loss,
                           entropy->classes, guessing));
    }
    std::string layer;
    bool has_signal = false;
    const auto look_at_input = [&](const at::Tensor& input) {
      const auto known = std::ranges::find_if(parameters_, [&](const auto& each) { return each.second.is_same(input); });
      if (known != parameters_.end())
        layer = known->first.substr(0, known->first.rfind('.'));
      else
        has_signal = has_signal || (input.defined() && input.numel() > 0);
    };
    for (const c10::IValue& input : call.inputs) {
      if (input.isTensor()) look_at_input(input.toTensor());
      if (input.isTensorList()) std::ranges::for_each(input.toTensorVector(), look_at_input);
    }
    // What changes a parameter alone is no layer.
    if (!has_signal || output.dim() == 0 || output.numel() < 2) return;
    if (!layer.empty()) layer_ = layer;
    if (is_ignored(layer_) || (layer.empty() && (layer_.empty() || call.name.find("elu") == std::string::npos))) return;
    const std::string name = layer.empty() ? format("{} after {}", call.name, layer_) : layer;
    if (!output.any().item<bool>()) return add_finding(name + ": all activations are 0");
    if (layer.empty()) return;
    if (output.size(0) > 1 && is_alike(output)) return add_finding(name + ": activations are the same for every sample");
    const auto scale = output.to(at::kDouble).square().mean().sqrt().item<double>();
    if (first_layer_.empty()) {
      first_layer_ = name;
      first_scale_ = scale;
    }
    const double ratio = scale / first_scale_;
    if (goes_wrong_ || (ratio < options_.scale_limit && ratio > 1 / options_.scale_limit)) return;
    goes_wrong_ = true;
    add_finding(format("{}: activations {}: their root mean square is {:.3g}, after {:.3g} of {}", name,
                       ratio < 1              ? "vanish"
                       : std::isfinite(ratio) ? "explode"
                                              : "are no numbers",
                       scale, first_scale_, first_layer_));
  }

  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::string layer_;  ///< the last one
  std::string first_layer_;
  double first_scale_ = 0;
  bool goes_wrong_ = false;  ///< and so does all that follows
};

LEVIN_REGISTER_CALLBACK(CheckInit, "Look at weights and the first activations before training");

/// The element of this number, wherever it lies in memory, and its place: "[3, 4]".
std::pair<at::Tensor, std::string> element_of(const at::Tensor& tensor, std::int64_t number) {
  at::Tensor element = tensor.detach();
  std::vector<std::string> places;
  for (std::int64_t dimension = tensor.dim() - 1; dimension >= 0; --dimension) {
    const std::int64_t size = tensor.size(dimension);
    places.insert(places.begin(), std::to_string(number % size));
    element = element.select(dimension, number % size);
    number /= size;
  }
  return {element, format("[{}]", join(places))};
}

struct CheckGradientsOptions {
  OnDifference fail = OnDifference::kError;
  std::int64_t elements = 3;
  std::vector<std::string> ignore = {};

  static void declare(OptionList<CheckGradientsOptions>& options) {
    using O = CheckGradientsOptions;
    options.add(&O::fail, "When a gradient is wrong: warn, or end the run");
    options.add(&O::elements, "Elements of each parameter that are tried, at random places").min(1);
    options.add(&O::ignore, "Beginnings of the names of parameters that are left out");
  }
};

/// Compares the gradients that backward gives for the first batch with finite differences of training_step, at some elements
/// of each parameter: in 64 bits where the module can, and with the same random numbers each time. At a kink, as of ReLU, what
/// lies between the slopes on both sides is right.
class CheckGradients final : public CheckWithOptions<CheckGradientsOptions> {
 public:
  explicit CheckGradients(const Options& options) : CheckWithOptions("CheckGradients", options) {}

 protected:
  void look(Trainer& trainer, Module& module) override {
    if (compare(trainer, module, kIn64Bits)) return;
    add_note("the module does not compute in 64 bits; in 32, errors below 5 % are not seen");
    compare(trainer, module, kIn32Bits);
  }

 private:
  struct Accuracy {
    double step;      ///< of a difference
    double relative;  ///< difference that is none
    double rounding;  ///< of a loss of 1
  };
  static constexpr Accuracy kIn64Bits{1e-6, 1e-4, 1e-14};
  static constexpr Accuracy kIn32Bits{1e-3, 0.05, 1e-6};

  /// False: some rank's module cannot. Ranks: all.
  bool compare(Trainer& trainer, Module& module, const Accuracy& accuracy) {
    const bool in_64_bits = &accuracy == &kIn64Bits;
    FitPreview preview(trainer, in_64_bits);
    if (!preview.has_loss()) {
      add_note("left out: it takes automatic optimization, and a batch on each rank");
      return true;
    }
    at::Tensor loss;
    try {
      loss = preview.loss();
      preview.backward(loss);
    } catch (const c10::Error&) {
      if (!in_64_bits) throw;
    }
    const int works = !in_64_bits || (loss.defined() && loss.scalar_type() == at::kDouble) ? 1 : 0;
    const ExchangeSite site("CheckGradients", "all ranks have this callback");
    if (std::ranges::count(RankExchange(trainer.strategy().control_group()).gather_values(works, site), 0) != 0) return false;
    const double middle = loss.item<double>();
    // A module with random numbers or a state of its own.
    const double noise = std::abs(preview.loss().item<double>() - middle);
    if (noise > 0) add_note(format("training_step gives another loss for the same batch, by {:.3g}", noise));
    const double rounding = (accuracy.rounding * std::max(1.0, std::abs(middle)) + noise) / accuracy.step;
    std::mt19937_64 random;  // the same places in each run and on each rank
    std::vector<std::string> without;
    for (const auto& [name, parameter] : distinct_parameters(module)) {
      if (!parameter.requires_grad() || !parameter.is_floating_point() || parameter.numel() == 0 || is_ignored(name)) continue;
      const bool has_gradient = parameter.grad().defined();
      if (!has_gradient) without.push_back(name);
      const at::Tensor gradients = has_gradient ? parameter.grad().to_dense() : at::zeros_like(parameter);
      for (std::int64_t tried = 0; tried < std::min(options_.elements, parameter.numel()); ++tried) {
        // Ranks that may communicate in a step take as many.
        if (preview.interrupted() && trainer.world_size() == 1) return true;
        const auto number = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(parameter.numel()));
        const auto [element, place] = element_of(parameter, number);
        const double value = element.item<double>();
        const double step = accuracy.step * std::max(1.0, std::abs(value));
        const auto loss_at = [&preview, &element = element](double shifted) {
          element.fill_(shifted);
          return preview.loss().item<double>();
        };
        const double above = (loss_at(value + step) - middle) / step;
        const double below = (middle - loss_at(value - step)) / step;
        element.fill_(value);
        const auto gradient = element_of(gradients, number).first.item<double>();
        const double allowed = accuracy.relative * std::max({std::abs(gradient), std::abs(above), std::abs(below)}) + rounding;
        if (gradient >= std::min(above, below) - allowed && gradient <= std::max(above, below) + allowed) continue;
        add_finding(
            format("{}{}: backward gives {:.6g}, finite differences {:.6g}", name, place, gradient, (above + below) / 2));
      }
    }
    if (!without.empty()) add_note("no gradient: " + join(without));
    return true;
  }
};

LEVIN_REGISTER_CALLBACK(CheckGradients, "Compare gradients with finite differences before training");

}  // namespace
}  // namespace levin
