#include "levin/core/optimizers/optimizer_access.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"

namespace {

std::vector<at::Tensor> one_parameter() { return {torch::zeros({2}, torch::requires_grad())}; }

namespace mine {
class Lion final : public torch::optim::SGD {
 public:
  using SGD::SGD;
};
}  // namespace mine

template <class Tag>
class Tagged final : public torch::optim::SGD {
 public:
  using SGD::SGD;
};

}  // namespace

TEST_CASE("the class name of an optimizer is PyTorch's, or the user's, without namespaces") {
  CHECK(levin::optimizer_class_name(torch::optim::SGD(one_parameter(), 0.1)) == "SGD");
  CHECK(levin::optimizer_class_name(torch::optim::Adam(one_parameter())) == "Adam");
  CHECK(levin::optimizer_class_name(torch::optim::AdamW(one_parameter())) == "AdamW");
  CHECK(levin::optimizer_class_name(torch::optim::RMSprop(one_parameter())) == "RMSprop");
  CHECK(levin::optimizer_class_name(torch::optim::Adagrad(one_parameter())) == "Adagrad");
  CHECK(levin::optimizer_class_name(torch::optim::LBFGS(one_parameter())) == "LBFGS");
  CHECK(levin::optimizer_class_name(mine::Lion(one_parameter(), 0.1)) == "Lion");
  CHECK(levin::optimizer_class_name(Tagged<std::string>(one_parameter(), 0.1)).starts_with("Tagged<"));
}

TEST_CASE("rates, momenta and betas are read and set where an optimizer has them") {
  torch::optim::SGD sgd(one_parameter(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::AdamW adamw(one_parameter(), torch::optim::AdamWOptions(0.2));
  torch::optim::LBFGS lbfgs(one_parameter());
  torch::optim::Adagrad adagrad(one_parameter());
  for (torch::optim::Optimizer* optimizer : std::initializer_list<torch::optim::Optimizer*>{&sgd, &adamw, &lbfgs, &adagrad}) {
    levin::set_lr(optimizer->param_groups()[0], 0.25);
    CHECK(levin::get_lrs(*optimizer) == std::vector<double>{0.25});
  }
  levin::set_momentum(sgd.param_groups()[0], 0.5);
  CHECK(levin::get_momentum(sgd.param_groups()[0]) == 0.5);
  CHECK_FALSE(levin::get_betas(sgd.param_groups()[0]));
  levin::set_betas(adamw.param_groups()[0], {0.7, 0.8});
  CHECK(levin::get_betas(adamw.param_groups()[0]) == std::pair(0.7, 0.8));
  CHECK_FALSE(levin::get_momentum(adamw.param_groups()[0]));
  CHECK_THROWS_AS(levin::set_momentum(adagrad.param_groups()[0], 0.5), levin::MisuseError);
  CHECK_THROWS_AS(levin::set_betas(lbfgs.param_groups()[0], {0.5, 0.5}), levin::MisuseError);
}

TEST_CASE("zero_grad works on gradients that are views into a bucket, and on those with a graph") {
  at::Tensor weight = torch::ones({2, 2}, torch::requires_grad());
  at::Tensor without_grad = torch::ones({1}, torch::requires_grad());
  torch::optim::SGD sgd({weight, without_grad}, 0.1);
  at::Tensor bucket = torch::ones({10});
  weight.mutable_grad() = bucket.narrow(0, 2, 4).view({2, 2});

  levin::zero_grad(sgd, false);
  CHECK(bucket.sum().item<double>() == 6.0);
  CHECK(weight.grad().data_ptr() == bucket.data_ptr<float>() + 2);
  CHECK(weight.grad().sum().item<double>() == 0.0);

  levin::zero_grad(sgd);
  CHECK_FALSE(weight.grad().defined());
  CHECK(bucket.sum().item<double>() == 6.0);

  const auto loss = weight.pow(3).sum();
  loss.backward({}, true, true);
  REQUIRE(weight.grad().grad_fn());
  levin::zero_grad(sgd, false);
  CHECK_FALSE(weight.grad().requires_grad());
  CHECK(weight.grad().sum().item<double>() == 0.0);
}
