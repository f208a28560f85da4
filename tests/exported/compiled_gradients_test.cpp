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
