#include "levin/strategies/gradients/power_sgd.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

/// A column that is shorter than this part of what it was before others were taken out of it is nothing but rounding errors.
constexpr double kRoundingErrors = 1e-6;

/// Makes the columns orthogonal and of length 1 (Gram-Schmidt), in place; those that depend on others become zero, or, with
/// `replace`, a column of the identity.
void orthogonalize(const at::Tensor& columns, bool replace) {
  const at::Tensor lengths = columns.norm(2, /*dim=*/0);
  for (std::int64_t index = 0; index < columns.size(1); ++index) {
    const at::Tensor column = columns.select(1, index);
    const at::Tensor length = column.norm();
    const at::Tensor depends = length <= lengths[index] * kRoundingErrors;
    at::Tensor instead = torch::zeros_like(column);
    if (replace) instead[index % columns.size(0)] = 1;
    column.copy_(torch::where(depends, instead, column / length));
    if (index + 1 == columns.size(1)) continue;
    const at::Tensor rest = columns.slice(1, index + 1);
    rest.sub_(torch::outer(column, torch::mv(rest.t(), column)));
  }
}

at::Tensor flattened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return torch::cat(flat);
}

/// Copies the parts of `flat` into tensors; gives what is left.
at::Tensor copy_parts(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  std::int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
  return flat.narrow(0, at, flat.numel() - at);
}

std::string error_name(int rank, const std::string& parameter) { return format("error.{}.{}", rank, parameter); }

}  // namespace

bool PowerSgd::is_worth_it(const at::Tensor& gradient) const {
  if (gradient.dim() == 0 || gradient.numel() == 0) return false;
  const std::int64_t rows = gradient.size(0);
  const std::int64_t columns = gradient.numel() / rows;
  const std::int64_t rank = std::min({rows, columns, options_.matrix_approximation_rank});
  return static_cast<double>((rows + columns) * rank) * options_.min_compression_rate < static_cast<double>(rows * columns);
}

PowerSgd::Compressed PowerSgd::begin(const at::Tensor& parameter, const at::Tensor& gradient, const at::Generator& random) {
  OfParameter& state = now_.states[parameter.unsafeGetTensorImpl()];
  state.parameter = parameter;
  Compressed begun{.state = &state, .matrix = gradient.view({gradient.size(0), -1}), .before = {}, .p = {}};
  if (options_.use_error_feedback) {
    if (state.error.defined()) begun.matrix.add_(state.error.view_as(begun.matrix));
    begun.before = begun.matrix.clone();
  }
  const std::int64_t columns = begun.matrix.size(1);
  const std::int64_t rank = std::min({begun.matrix.size(0), columns, options_.matrix_approximation_rank});
  const bool is_new = !options_.warm_start || !state.q.defined();
  state.q = is_new ? torch::randn({columns, rank}, random).to(begun.matrix.options()) : state.q.clone();
  orthogonalize(state.q, /*replace=*/true);
  return begun;
}

void PowerSgd::approximate(std::vector<Compressed>& gradients, int ranks, const Sum& sum) const {
  std::vector<at::Tensor> parts;
  for (Compressed& gradient : gradients) parts.push_back(gradient.p = torch::mm(gradient.matrix, gradient.state->q));
  at::Tensor all = flattened(parts);
  sum(all);
  copy_parts(all, parts);
  parts.clear();
  for (const Compressed& gradient : gradients) {
    orthogonalize(gradient.p, /*replace=*/false);
    parts.push_back(gradient.state->q = torch::mm(gradient.matrix.t(), gradient.p));
  }
  all = flattened(parts).div_(ranks);
  sum(all);
  copy_parts(all, parts);
  for (const Compressed& gradient : gradients) {
    gradient.matrix.copy_(torch::mm(gradient.p, gradient.state->q.t()));
    if (options_.use_error_feedback) gradient.state->error = gradient.before - gradient.matrix;
  }
}

at::Tensor PowerSgd::reduce(c10d::GradBucket& bucket, int ranks, const Sum& sum, const at::Tensor& along) {
  const at::NoGradGuard no_grad;
  if (!before_step_) before_step_ = now_;
  // Other numbers at each step, and the same on all ranks.
  const at::Generator random = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(now_.step));
  const std::vector<at::Tensor> gradients = bucket.getGradients();
  const std::vector<at::Tensor> parameters = bucket.getParameters();
  std::vector<at::Tensor> whole;
  std::vector<Compressed> compressed;
  for (std::size_t index = 0; index < gradients.size(); ++index) {
    if (now_.step >= options_.start_power_sgd_iter && is_worth_it(gradients[index])) {
      compressed.push_back(begin(parameters[index], gradients[index], random));
    } else {
      whole.push_back(gradients[index].div_(ranks));
    }
  }
  at::Tensor rest;
  if (!whole.empty() || along.defined()) {
    std::vector<at::Tensor> parts = whole;
    if (along.defined()) parts.push_back(along);
    at::Tensor all = flattened(parts);
    sum(all);
    rest = copy_parts(all, whole);
  }
  if (!compressed.empty()) approximate(compressed, ranks, sum);
  if (bucket.isLast()) ++now_.step;
  return rest;
}

void PowerSgd::name_parameters(const torch::nn::Module& module) {
  named_.clear();
  for (auto& [name, parameter] : distinct_parameters(module)) named_[name] = std::move(parameter);
}

std::map<std::string, at::Tensor> PowerSgd::state(const Gather& gather) const {
  const Moment& moment = before_step_ ? *before_step_ : now_;
  std::map<std::string, at::Tensor> state = {{"step", torch::tensor(moment.step)}};
  for (const auto& [name, parameter] : named_) {
    const auto found = moment.states.find(parameter.unsafeGetTensorImpl());
    if (found == moment.states.end()) continue;
    state["q." + name] = found->second.q;
    if (!found->second.error.defined()) continue;
    const at::Tensor errors = gather(found->second.error);
    for (std::int64_t rank = 0; rank < errors.size(0); ++rank) {
      state[error_name(static_cast<int>(rank), name)] = errors[rank].clone();
    }
  }
  return state;
}

void PowerSgd::load(const std::map<std::string, at::Tensor>& state, int rank, int ranks) {
  now_ = {};
  end_step();
  const auto step = state.find("step");
  now_.step = step == state.end() ? 0 : step->second.item<std::int64_t>();
  for (const auto& [name, parameter] : named_) {
    const auto q = state.find("q." + name);
    if (q == state.end()) continue;
    OfParameter& own = now_.states[parameter.unsafeGetTensorImpl()];
    own.parameter = parameter;
    own.q = q->second.to(parameter.options().requires_grad(false), /*non_blocking=*/false, /*copy=*/true);
    int earlier_ranks = 0;
    for (auto error = state.find(error_name(0, name)); error != state.end();
         error = state.find(error_name(++earlier_ranks, name))) {
      if (earlier_ranks % ranks != rank) continue;
      const at::Tensor more = error->second.to(parameter.options().requires_grad(false), /*non_blocking=*/false, /*copy=*/true);
      own.error = own.error.defined() ? own.error + more : more;
    }
    // Errors are averaged over ranks, as gradients are.
    if (own.error.defined()) own.error.mul_(static_cast<double>(ranks) / earlier_ranks);
  }
}

}  // namespace levin
