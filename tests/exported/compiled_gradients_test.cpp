#include "levin/exported/compiled_gradients.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"

using namespace levin;

TEST_CASE("gradients of a compiled step become the parameters' own, once") {
  const at::Tensor parameter = torch::zeros({3}).requires_grad_();
  const at::Tensor gradient = torch::tensor({1.0f, 2.0f, 3.0f});
  const at::Tensor loss = with_gradients(torch::tensor(5.0f), {parameter}, {gradient.clone()});
  CHECK(loss.item<float>() == 5);
  (2 * loss).backward();
  CHECK(at::equal(parameter.grad(), 2 * gradient));
  CHECK_THROWS_WITH(loss.backward(), Catch::Contains("a second time"));
}

TEST_CASE("gradients of a compiled step are not copied") {
  const at::Tensor parameter = torch::zeros({3}).requires_grad_();
  at::Tensor gradient = torch::tensor({1.0f, 2.0f, 3.0f});
  const void* const place = gradient.const_data_ptr();
  std::vector<at::Tensor> gradients;
  gradients.push_back(std::move(gradient));
  with_gradients(torch::tensor(5.0f), {parameter}, std::move(gradients)).backward();
  CHECK(parameter.grad().const_data_ptr() == place);
}

TEST_CASE("gradients of a compiled step stay where the graph is") {
  const at::Tensor parameter = torch::zeros({3}).requires_grad_();
  const at::Tensor frozen = torch::zeros({3});
  const at::Tensor gradient = torch::tensor({1.0f, 2.0f, 3.0f});
  const at::Tensor loss = with_gradients(torch::tensor(5.0f), {frozen, parameter}, {torch::ones({3}), gradient.clone()});
  (3 * loss).backward({}, /*retain_graph=*/true);
  loss.backward();
  CHECK(at::equal(parameter.grad(), 4 * gradient));
  CHECK_FALSE(frozen.grad().defined());
}

TEST_CASE("without gradients, and where nothing is trained, the loss is a number") {
  const at::Tensor parameter = torch::zeros({3}).requires_grad_();
  CHECK_FALSE(with_gradients(torch::tensor(5.0f), {torch::zeros({3})}, {torch::ones({3})}).requires_grad());
  const at::NoGradGuard no_grad;
  CHECK_FALSE(with_gradients(torch::tensor(5.0f), {parameter}, {torch::ones({3})}).requires_grad());
}

TEST_CASE("gradients without the engine are those with it, in place of none and added to others") {
  const at::Tensor parameter = torch::zeros({3}).requires_grad_();
  at::Tensor gradient = torch::tensor({1.0f, 2.0f, 3.0f});
  const at::Tensor expected = gradient.clone();
  const void* const place = gradient.const_data_ptr();
  std::vector<at::Tensor> gradients;
  gradients.push_back(std::move(gradient));
  const at::Tensor loss = with_gradients(torch::tensor(5.0f), {parameter}, std::move(gradients));
  backward_of_compiled(loss);
  CHECK(at::equal(parameter.grad(), expected));
  CHECK(parameter.grad().const_data_ptr() == place);
  CHECK_FALSE(parameter.grad().requires_grad());
  CHECK_THROWS_WITH(backward_of_compiled(loss), Catch::Contains("a second time"));

  backward_of_compiled(with_gradients(torch::tensor(5.0f), {parameter}, {expected.clone()}));
  CHECK(at::equal(parameter.grad(), 2 * expected));
  CHECK(parameter.grad().const_data_ptr() == place);
  backward_of_compiled(3 * with_gradients(torch::tensor(5.0f), {parameter}, {expected.clone()}));
  CHECK(at::equal(parameter.grad(), 5 * expected));
}

TEST_CASE("two parameters do not share a gradient that a step gives both") {
  const at::Tensor first = torch::zeros({3}).requires_grad_();
  const at::Tensor second = torch::zeros({3}).requires_grad_();
  const at::Tensor gradient = torch::ones({3});
  backward_of_compiled(with_gradients(torch::tensor(5.0f), {first, second}, {gradient, gradient}));
  first.mutable_grad().zero_();
  CHECK(at::equal(second.grad(), torch::ones({3})));
}

TEST_CASE("hooks on the way of a compiled step's gradients are called") {
  const at::Tensor parameter = torch::zeros({3}).requires_grad_();
  const at::Tensor other = torch::zeros({3}).requires_grad_();
  const auto make_loss = [&] {
    return with_gradients(torch::tensor(5.0f), {parameter, other}, {torch::ones({3}), torch::ones({3})});
  };
  SECTION("of a parameter") {
    parameter.register_hook([](const at::Tensor& gradient) { return 3 * gradient; });
    backward_of_compiled(make_loss());
    CHECK(at::equal(parameter.grad(), torch::full({3}, 3.0f)));
    CHECK(at::equal(other.grad(), torch::ones({3})));
  }
  SECTION("of the loss") {
    const at::Tensor loss = make_loss();
    loss.register_hook([](const at::Tensor& gradient) { return 2 * gradient; });
    backward_of_compiled(loss);
    CHECK(at::equal(parameter.grad(), torch::full({3}, 2.0f)));
  }
  SECTION("the gradient of the loss is kept") {
    const at::Tensor loss = make_loss();
    loss.retain_grad();
    backward_of_compiled(loss);
    CHECK(loss.grad().item<float>() == 1);
  }
}

TEST_CASE("a gradient of another type is the parameter's after the pass, as the engine makes it") {
  const at::Tensor parameter = torch::zeros({3}).requires_grad_();
  backward_of_compiled(with_gradients(torch::tensor(5.0f), {parameter}, {torch::ones({3}, torch::kDouble)}));
  CHECK(parameter.grad().scalar_type() == torch::kFloat);
}
