#include "levin/strategies/distributed/gradient_reducer.h"

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <limits>
#include <sstream>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "levin/core/error.h"

namespace levin {

namespace {

constexpr double kBytesPerMb = 1024.0 * 1024.0;

struct Buckets {
  std::vector<std::vector<std::size_t>> indices;
  std::vector<std::int64_t> size_limits;
};

/// Buckets in the reverse order of parameters, which is about the order in which backward makes gradients ready. The first is
/// small, so that communication starts early.
Buckets assign_buckets(const std::vector<at::Tensor>& parameters, std::int64_t cap_bytes) {
  const std::vector<std::size_t> limits = {
      static_cast<std::size_t>(std::min<std::int64_t>(c10d::kDefaultFirstBucketBytes, cap_bytes)),
      static_cast<std::size_t>(cap_bytes)};
  auto [indices, size_limits] = c10d::compute_bucket_assignment_by_size(parameters, limits);
  std::reverse(indices.begin(), indices.end());
  std::reverse(size_limits.begin(), size_limits.end());
  return {std::move(indices), {size_limits.begin(), size_limits.end()}};
}

/// The constructor takes the size limits of buckets from LibTorch 2.13 on.
template <class Reducer, class... Arguments>
std::unique_ptr<Reducer> make_reducer(std::vector<std::int64_t> size_limits, Arguments... arguments) {
  if constexpr (std::is_constructible_v<Reducer, Arguments..., std::vector<std::int64_t>>) {
    return std::make_unique<Reducer>(std::move(arguments)..., std::move(size_limits));
  } else {
    return std::make_unique<Reducer>(std::move(arguments)...);
  }
}

}  // namespace

GradientReducer::GradientReducer(const torch::nn::Module& module, const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                 const Options& options)
    : options_(options) {
  std::unordered_map<std::size_t, std::string> names;
  for (const auto& entry : module.named_parameters()) {
    if (!entry.value().requires_grad()) continue;
    names.emplace(parameters_.size(), entry.key());
    names_.push_back(entry.key());
    parameters_.push_back(entry.value());
  }
  const auto cap_bytes = static_cast<std::int64_t>(options.bucket_cap_mb * kBytesPerMb);
  Buckets buckets = assign_buckets(parameters_, cap_bytes);
  reducer_ = make_reducer<c10d::Reducer>(std::move(buckets.size_limits), parameters_, std::move(buckets.indices), process_group,
                                         std::vector<bool>(parameters_.size(), false), cap_bytes,
                                         options.find_unused_parameters, options.gradient_as_bucket_view, std::move(names),
                                         std::min<std::int64_t>(c10d::kDefaultFirstBucketBytes, cap_bytes),
                                         /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false);
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::prepare(const at::Tensor& loss) {
  try {
    reducer_->rebuild_buckets();
    reducer_->prepare_for_backward(options_.find_unused_parameters ? std::vector<at::Tensor>{loss} : std::vector<at::Tensor>{});
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("finished reduction in the prior iteration") == std::string::npos) throw;
    throw MisuseError(
        "strategy ddp: the last backward pass gave no gradient to " + names_in(text) +
        ", so its reduction could not end. Use every parameter in the loss, freeze those that are not used "
        "(requires_grad_(false)), or set the strategy to {class_path: ddp, init_args: {find_unused_parameters: true}}.");
  }
}

std::string GradientReducer::names_in(const std::string& text) const {
  // LibTorch lists indices: "… which did not receive grad for rank 0: 2 3".
  std::istringstream indices(text.substr(std::min(text.size(), text.rfind("for rank"))));
  indices.ignore(std::numeric_limits<std::streamsize>::max(), ':');
  std::string names;
  for (std::size_t index = 0; indices >> index && index < names_.size();) names += (names.empty() ? "" : ", ") + names_[index];
  return names.empty() ? "some parameters" : names;
}

void GradientReducer::reduce_zeros() {
  // A loss that needs every parameter and gives each a gradient of exactly zero, whatever its value: the gradient is 0 * 1.
  at::Tensor loss = torch::zeros({}, parameters_[0].options().requires_grad(false));
  for (const at::Tensor& parameter : parameters_) loss = loss + parameter.sum().to(loss.options()) * 0;
  prepare(loss);
  loss.backward();
}

}  // namespace levin
