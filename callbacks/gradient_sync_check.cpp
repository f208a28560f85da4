#include "levin/callbacks/gradient_sync_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

constexpr std::size_t kMostNamed = 10;
constexpr std::uint64_t kNoGradient = 0;

using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

at::Tensor on_cpu(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.is_sparse() ? tensor.to_dense() : tensor;
  return dense.detach().to(at::kCPU).contiguous();
}

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor here = on_cpu(tensor);
  return {static_cast<const char*>(here.const_data_ptr()), here.nbytes()};
}

/// Of all bits of a tensor; never kNoGradient.
std::uint64_t fingerprint(const at::Tensor& tensor) {
  const at::Tensor here = on_cpu(tensor);
  const auto* const data = static_cast<const char*>(here.const_data_ptr());
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t at = 0; at < here.nbytes(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min(sizeof word, here.nbytes() - at));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash == kNoGradient ? 1 : hash;
}

/// What a rank says of a parameter.
struct Fingerprints {
  std::uint64_t weights = 0;
  std::uint64_t gradient = kNoGradient;
  std::uint64_t of(bool is_gradient) const { return is_gradient ? gradient : weights; }
};

/// Something in which ranks differ.
struct Difference {
  std::size_t parameter = 0;
  bool is_gradient = false;
};

std::vector<Difference> find_differences(const std::vector<Fingerprints>& all, std::size_t parameters) {
  std::vector<Difference> differences;
  for (std::size_t index = 0; index < parameters; ++index) {
    for (const bool is_gradient : {false, true}) {
      std::size_t at = index;
      while (at < all.size() && all[at].of(is_gradient) == all[index].of(is_gradient)) at += parameters;
      if (at < all.size()) differences.push_back({index, is_gradient});
    }
  }
  return differences;
}

/// The largest difference of an element between this rank's tensor and rank 0's, whose bytes these are.
double largest_difference(const at::Tensor& own, std::string rank_zero) {
  if (rank_zero.size() != own.nbytes() || rank_zero.empty()) return 0;
  const at::Tensor other = at::from_blob(rank_zero.data(), own.sizes(), own.options());
  return (own.to(at::kDouble) - other.to(at::kDouble)).abs().max().item<double>();
}

/// "gradient of layer.bias: rank 1 by up to 3e-05, rank 2 has none". Ranks: all.
std::string describe(const Difference& difference, const Parameters& parameters, const std::vector<Fingerprints>& all,
                     ControlGroup& group) {
  const auto& [name, parameter] = parameters[difference.parameter];
  const at::Tensor own = difference.is_gradient ? parameter.grad() : parameter;
  const ExchangeSite site("comparing what differs between ranks", "all ranks know the same fingerprints of parameters");
  const std::string mine = own.defined() ? bytes_of(own) : "";
  RankExchange ranks_exchange(group);
  const std::string rank_zero = ranks_exchange.broadcast_text(mine, site, parameter.nbytes());
  const auto by_rank = ranks_exchange.gather_values(own.defined() ? largest_difference(on_cpu(own), rank_zero) : 0.0, site);
  std::vector<std::string> ranks;
  const std::uint64_t expected = all[difference.parameter].of(difference.is_gradient);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Fingerprints& other = all[rank * parameters.size() + difference.parameter];
    if (difference.is_gradient && other.gradient == kNoGradient) {
      ranks.push_back(format("rank {} has none", rank));
    } else if (expected != kNoGradient && other.of(difference.is_gradient) != expected) {
      ranks.push_back(format("rank {} by up to {:.3g}", rank, by_rank[rank]));
    }
  }
  return format("\n  {} of {}: {}", difference.is_gradient ? "gradient" : "weights", name, join(ranks));
}

void warn_without_gradient(const Parameters& parameters, const torch::optim::Optimizer& optimizer,
                           const std::vector<Fingerprints>& all) {
  const std::vector<at::Tensor> own = all_parameters(optimizer);
  std::vector<std::string> names;
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const auto& [name, parameter] = parameters[index];
    bool has_gradient = !parameter.requires_grad();
    for (std::size_t at = index; at < all.size(); at += parameters.size()) has_gradient |= all[at].gradient != kNoGradient;
    if (!has_gradient && is_one_of(parameter, own)) names.push_back(name);
  }
  if (names.empty()) return;
  const std::string text =
      format("GradientSyncCheck: {} steps without a gradient of {}.", optimizer_class_name(optimizer), join(names));
  Console::instance().warn_once(text, text, Speaker::kRun);
}

}  // namespace

LEVIN_REGISTER_CALLBACK(GradientSyncCheck, "Find weights and gradients that differ between ranks");

void GradientSyncCheckOptions::declare(OptionList<GradientSyncCheckOptions>& options) {
  using O = GradientSyncCheckOptions;
  options.add(&O::every_n_steps, "Check before every so many steps of an optimizer, the first included").min(1);
  options.add(&O::on_difference, "When ranks differ: warn, or end the run");
}

void GradientSyncCheck::on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) {
  if (steps_[&optimizer]++ % options_.every_n_steps != 0) return;
  const at::NoGradGuard no_grad;
  const Parameters parameters = distinct_parameters(module);
  std::vector<Fingerprints> mine;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& gradient = parameter.grad();
    mine.push_back({fingerprint(parameter), gradient.defined() ? fingerprint(gradient) : kNoGradient});
  }
  if (mine.empty()) return;
  ControlGroup& group = trainer.strategy().control_group();
  const ExchangeSite site("GradientSyncCheck", "all ranks have this callback, and step the same optimizers");
  const std::vector<std::byte> bytes = RankExchange(group).gather_bytes(std::as_bytes(std::span(mine)), site);
  std::vector<Fingerprints> all(bytes.size() / sizeof(Fingerprints));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  warn_without_gradient(parameters, optimizer, all);
  const std::vector<Difference> differences = find_differences(all, parameters.size());
  if (differences.empty()) return;
  std::string text =
      format("GradientSyncCheck: before step {} of {}, ranks do not have the same as rank 0:", steps_[&optimizer] - 1,
             optimizer_class_name(optimizer));
  for (std::size_t index = 0; index < std::min(differences.size(), kMostNamed); ++index) {
    text += describe(differences[index], parameters, all, group);
  }
  if (differences.size() > kMostNamed) text += format("\n  … and {} more", differences.size() - kMostNamed);
  text +=
      "\nWeights differ after changes that ranks make by themselves, such as learning rates; gradients after a backward pass "
      "without the Trainer's (manual_backward).";
  if (options_.on_difference == Severity::kError) throw DesyncError(text);
  rank_zero_warn(text);
}

}  // namespace levin
