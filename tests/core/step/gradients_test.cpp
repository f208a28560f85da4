#include "levin/core/step/gradients.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <limits>

#include "levin/core/optimizers/optimizer_access.h"
#include "support/recording.h"
#include "support/scripted_line.h"

namespace levin {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors with_gradients(const std::vector<at::ScalarType>& types, double scale) {
  torch::manual_seed(7);
  Tensors parameters;
  for (const at::ScalarType type : types) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{13, 7}, {}, {0, 2}, {64}}) {
      at::Tensor parameter = torch::zeros(sizes, type).requires_grad_();
      parameter.mutable_grad() = (torch::randn(sizes, torch::kDouble) * scale).to(type);
      parameters.push_back(parameter);
    }
  }
  parameters.push_back(torch::zeros({3}).requires_grad_());  // has none
  return parameters;
}

torch::optim::SGD optimizer_of(const Tensors& parameters) { return torch::optim::SGD(parameters, 0.1); }

Tensors gradients(const Tensors& parameters) {
  Tensors all;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined())
      all.push_back(parameter.grad().is_sparse() ? parameter.grad().to_dense() : parameter.grad());
  }
  return all;
}

/// The largest difference, NaN and infinity equal to themselves.
void check_same(const Tensors& one, const Tensors& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    INFO(i);
    CHECK(at::allclose(one[i], other[i], /*rtol=*/1e-6, /*atol=*/1e-9, /*equal_nan=*/true));
  }
}

const std::vector<std::vector<at::ScalarType>> kTypes = {{torch::kFloat},
                                                         {torch::kDouble},
                                                         {torch::kFloat, torch::kDouble},
                                                         {torch::kBFloat16, torch::kFloat},
                                                         {torch::kComplexFloat}};

}  // namespace

TEST_CASE("gradients are clipped as torch clips them: of any type, sparse ones among dense ones, NaN and infinite ones") {
  const auto check = [](const std::function<Tensors()>& made, double bound, GradientClipAlgorithm algorithm) {
    const Tensors ours = made();
    const Tensors theirs = made();
    torch::optim::SGD optimizer = optimizer_of(ours);
    clip_gradients(optimizer, bound, algorithm);
    if (algorithm == GradientClipAlgorithm::kNorm) torch::nn::utils::clip_grad_norm_(theirs, bound);
    if (algorithm == GradientClipAlgorithm::kValue) torch::nn::utils::clip_grad_value_(theirs, bound);
    check_same(gradients(ours), gradients(theirs));
    return ours;
  };
  for (const auto& types : kTypes) {
    for (const double scale : {0.001, 1.0, 50.0}) {
      INFO(types.front() << " " << scale);
      check([&] { return with_gradients(types, scale); }, 1.5, GradientClipAlgorithm::kNorm);
    }
  }
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto made = [&] {
      Tensors parameters = with_gradients({torch::kFloat}, 1.0);
      parameters.front().mutable_grad().view(-1)[3] = bad;
      return parameters;
    };
    for (const auto algorithm : {GradientClipAlgorithm::kNorm, GradientClipAlgorithm::kValue}) check(made, 0.5, algorithm);
  }
  const auto with_sparse = [] {
    Tensors parameters = with_gradients({torch::kFloat}, 1.0);
    at::Tensor table = torch::zeros({5, 2}).requires_grad_();
    table.mutable_grad() = torch::sparse_coo_tensor(torch::tensor({{1, 3}}), torch::tensor({{3.F, 4.F}, {5.F, 6.F}}), {5, 2});
    parameters.push_back(table);
    return parameters;
  };
  const Tensors clipped = check(with_sparse, 1.0, GradientClipAlgorithm::kNorm);
  const at::Tensor before = clipped.back().grad().to_dense().clone();
  torch::optim::SGD optimizer = optimizer_of(clipped);
  scale_gradients(optimizer, 2.0);
  CHECK(at::allclose(clipped.back().grad().to_dense(), before * 2));
}

TEST_CASE("gradients are clipped to values, and scaled, whatever their types") {
  for (const auto& types : kTypes) {
    INFO(types.front());
    const Tensors scaled = with_gradients(types, 3.0);
    const Tensors before = with_gradients(types, 3.0);
    torch::optim::SGD optimizer = optimizer_of(scaled);
    scale_gradients(optimizer, 0.25);
    for (std::size_t i = 0; i + 1 < scaled.size(); ++i) CHECK(scaled[i].grad().equal(before[i].grad() * 0.25));
    if (types.front() == torch::kComplexFloat) continue;  // has no order
    clip_gradients(optimizer, 0.5, GradientClipAlgorithm::kValue);
    for (std::size_t i = 0; i + 1 < scaled.size(); ++i)
      CHECK(scaled[i].grad().equal((before[i].grad() * 0.25).clamp(-0.5, 0.5)));
  }
}

TEST_CASE("the norm of gradients is torch's, of whatever types they are") {
  // g = [((torch.arange(n, dtype=torch.float64) * 0.37 + i).sin() * (i + 1)).to(type) for i, n in enumerate((91, 1, 64))]
  // torch.nn.utils.get_total_norm(g, norm_type); of bfloat16 in double, where torch rounds each norm to 8 bits
  const double infinity = std::numeric_limits<double>::infinity();
  const auto [type, norm_type, expected] =
      GENERATE_COPY(table<at::ScalarType, double, double>({{torch::kFloat, 1, 179.63385009765625},
                                                           {torch::kFloat, 2, 18.15542221069336},
                                                           {torch::kFloat, 3, 9.11024284362793},
                                                           {torch::kFloat, infinity, 2.993464708328247},
                                                           {torch::kDouble, 2, 18.155423127879708},
                                                           {torch::kBFloat16, 1, 179.64175415039062},
                                                           {torch::kBFloat16, 2, 18.15682602258871},
                                                           {torch::kBFloat16, infinity, 3.0}}));
  INFO(type << " " << norm_type);
  Tensors parameters;
  for (const std::int64_t size : {91, 1, 64}) {
    const auto index = static_cast<double>(parameters.size());
    parameters.push_back(torch::zeros({size}, type).requires_grad_());
    parameters.back().mutable_grad() = ((torch::arange(size, torch::kDouble) * 0.37 + index).sin() * (index + 1)).to(type);
  }
  parameters.insert(parameters.begin() + 1, torch::zeros({3}).requires_grad_());  // has none
  const Tensors norms = norms_of_gradients(parameters, norm_type);
  REQUIRE(norms.size() == 4);
  CHECK(!norms[1].defined());
  CHECK(total_norm(norms, norm_type).value() == Approx(expected).epsilon(2e-7));
  CHECK(total_norm({norms.begin() + 1, norms.begin() + 3}, norm_type).value() == Approx(1.682941913604736).epsilon(3e-3));
  CHECK(!total_norm({norms[1]}, norm_type));
}

TEST_CASE("norms are computed once for callbacks and for clipping, and again when gradients change") {
  std::int64_t passes = 0;
  const Tensors parameters = with_gradients({torch::kFloat}, 5.0);
  torch::optim::SGD optimizer = optimizer_of(parameters);
  GradientNorms norms;
  const auto total = [&] { return total_norm(norms.before_clipping(optimizer)).value(); };
  static thread_local std::int64_t* counted = nullptr;
  counted = &passes;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& call) {
                                                   if (std::string(call.name()) == "aten::_foreach_norm") ++*counted;
                                                   return std::unique_ptr<at::ObserverContext>();
                                                 }).scopes({at::RecordScope::FUNCTION}));
  const double before = total();
  clip_gradients(optimizer, 1.0, GradientClipAlgorithm::kNorm, &norms);
  CHECK(passes == 1);
  CHECK(total() == before);
  CHECK(passes == 1);
  CHECK(total_norm(norms_of_gradients(parameters, 2)).value() == Approx(1.0));
  clip_gradients(optimizer, 0.5, GradientClipAlgorithm::kNorm, &norms);
  CHECK(total() == Approx(1.0));
  norms.forget();
  CHECK(total() == Approx(0.5));
  parameters.front().mutable_grad().mul_(100);
  CHECK(total() > 10);
  zero_grad(optimizer);
  CHECK(!total_norm(norms.before_clipping(optimizer)));
  at::removeCallback(handle);
}

TEST_CASE("0 clips nothing, as in Lightning, and what is no bound is refused") {
  const auto algorithm = GENERATE(GradientClipAlgorithm::kNorm, GradientClipAlgorithm::kValue);
  for (const auto& types : kTypes) {
    INFO(types.front());
    const Tensors clipped = with_gradients(types, 3.0);
    const Tensors before = with_gradients(types, 3.0);
    torch::optim::SGD optimizer = optimizer_of(clipped);
    clip_gradients(optimizer, 0.0, algorithm);
    for (std::size_t i = 0; i + 1 < clipped.size(); ++i) CHECK(clipped[i].grad().equal(before[i].grad()));
    for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
      CHECK_THROWS_WITH(clip_gradients(optimizer, wrong, algorithm), Catch::Contains("0 clips nothing"));
    }
  }
}

TEST_CASE("norms before clipping are those of each step, also where the module calls backward() itself") {
  test::ScriptedLine module;
  module.set_automatic_optimization(false);
  module.step = [](auto& self, const Batch& batch, auto) -> StepOutput {
    self.optimizer().zero_grad();
    self.loss_of(batch).backward();
    self.clip_gradients(self.optimizer(), 0.5);
    self.step_optimizer();
    return {};
  };
  std::vector<double> norms, clipped;
  module.on["on_before_optimizer_step"] = [&](auto& self, auto) {
    norms.push_back(total_norm(gradient_norms(self.trainer(), self.optimizer())).value());
    clipped.push_back(self.weight.grad().template item<double>());
  };
  Trainer(test::quiet_options(1)).fit(module, test::numbered({1, 8, 4, 16, 2}));
  CHECK(norms == std::vector<double>{1, 8, 4, 16, 2});
  for (const double gradient : clipped) CHECK(gradient == Approx(0.5).epsilon(1e-5));
}

TEST_CASE("without gradients nothing is clipped, scaled or set to zero") {
  torch::optim::SGD optimizer({torch::zeros({2}).requires_grad_()}, 0.1);
  clip_gradients(optimizer, 1.0, GradientClipAlgorithm::kNorm);
  clip_gradients(optimizer, 1.0, GradientClipAlgorithm::kValue);
  scale_gradients(optimizer, 2.0);
  zero_grad(optimizer, /*set_to_none=*/false);
  CHECK_FALSE(optimizer.param_groups()[0].params()[0].grad().defined());
}

}  // namespace levin
