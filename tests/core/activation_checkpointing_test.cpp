#include "levin/core/activation_checkpointing.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/random/rng_state.h"
#include "support/error_of.h"

namespace levin {
namespace {

using Tensors = std::vector<at::Tensor>;

/// With statistics, random numbers, and a layer that has no bias.
torch::nn::Sequential network() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU(), torch::nn::Dropout(0.4),
                               torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)), torch::nn::Tanh(),
                               torch::nn::Dropout(0.2), torch::nn::Linear(8, 3));
}

at::Tensor rows() {
  torch::manual_seed(5);
  return torch::randn({16, 6}).requires_grad_();
}

/// All results of a step: its output, gradients of input and parameters, buffers, and the next random numbers.
using Forward = std::function<at::Tensor(torch::nn::Sequential&, const at::Tensor&)>;
Tensors step(const Forward& forward) {
  torch::nn::Sequential net = network();
  const at::Tensor input = rows();
  torch::manual_seed(11);
  const at::Tensor output = forward(net, input);
  (output * output).sum().backward();
  Tensors left{output.detach(), input.grad()};
  for (const at::Tensor& parameter : net->parameters()) left.push_back(parameter.grad());
  for (const at::Tensor& buffer : net->buffers()) left.push_back(buffer);
  left.push_back(torch::rand({4}));
  return left;
}

void check_same_bits(const Tensors& ours, const Tensors& theirs) {
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t index = 0; index < ours.size(); ++index) {
    INFO(index);
    CHECK(ours[index].equal(theirs[index]));
  }
}

at::Tensor plain(torch::nn::Sequential& net, const at::Tensor& input) { return net->forward(input); }

struct AutocastOn {
  AutocastOn() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastOn() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

}  // namespace

TEST_CASE("a checkpointed part has the results, gradients, statistics and random numbers of one that is not, to the bit") {
  const Tensors expected = step(plain);
  SECTION("a module") {
    check_same_bits(step([](auto& net, const auto& input) { return checkpointed(net, input); }), expected);
  }
  SECTION("one in another, as a function") {
    check_same_bits(step([](torch::nn::Sequential& net, const at::Tensor& input) {
                      torch::nn::Sequential statistics(*net->begin(), *(net->begin() + 1));
                      torch::nn::Sequential rest;
                      for (auto layer = net->begin() + 2; layer != net->end(); ++layer) rest->push_back(*layer);
                      const at::Tensor hidden = checkpointed(statistics, input);
                      return checkpointed([rest](const at::Tensor& x) mutable { return checkpointed_sequential(rest, 3, x); },
                                          hidden);
                    }),
                    expected);
  }
  SECTION("in segments of any number") {
    const std::int64_t segments = GENERATE(1, 2, 3, 5, 8);
    check_same_bits(step([&](auto& net, const auto& input) { return checkpointed_sequential(net, segments, input); }),
                    expected);
  }
}

TEST_CASE("a checkpointed part computes in the format of the forward pass") {
  const auto in_bfloat16 = [](const Forward& forward) {
    return [forward](torch::nn::Sequential& net, const at::Tensor& input) {
      const AutocastOn on;
      // The region caches the cast of this weight.
      const at::Tensor before = net->ptr<torch::nn::LinearImpl>(0)->forward(input);
      return forward(net, input).to(at::kFloat) + 0 * before.sum().to(at::kFloat);
    };
  };
  const Tensors expected = step(in_bfloat16(plain));
  CHECK_FALSE(expected.front().equal(step(plain).front()));
  check_same_bits(step(in_bfloat16([](auto& net, const auto& input) { return checkpointed(net, input); })), expected);
}

TEST_CASE("a checkpointed part draws levin's own random numbers again") {
  seed_generators(4);
  const at::Tensor input = torch::ones({3}).requires_grad_();
  at::Tensor drawn;
  const at::Tensor output = checkpointed(
      [&](const at::Tensor& x) {
        drawn = torch::rand({3}, stream_generator(kSharedStream));
        return x * x * drawn;
      },
      input);
  const at::Tensor first = drawn;
  output.sum().backward();
  CHECK(drawn.equal(first));
  CHECK(input.grad().equal(2 * first));
  seed_generators(4);
  torch::rand({3}, stream_generator(kSharedStream));
  const at::Tensor next = torch::rand({3}, stream_generator(kSharedStream));
  seed_generators(4);
  checkpointed([](const at::Tensor& x) { return x * torch::rand({3}, stream_generator(kSharedStream)); }, input)
      .sum()
      .backward();
  CHECK(torch::rand({3}, stream_generator(kSharedStream)).equal(next));
}

TEST_CASE("what lies between inputs and results is not kept") {
  c10::weak_intrusive_ptr<c10::StorageImpl> between(c10::intrusive_ptr<c10::StorageImpl>{});
  int computed = 0;
  const at::Tensor input = torch::full({4}, 0.5).requires_grad_();
  const at::Tensor output = checkpointed(
      [&](const at::Tensor& x) {
        const at::Tensor middle = x.sin();
        between = c10::weak_intrusive_ptr<c10::StorageImpl>(middle.storage().getWeakStorageImpl());
        ++computed;
        return middle * middle;
      },
      input);
  CHECK(between.expired());
  CHECK(computed == 1);
  output.sum().backward();
  CHECK(computed == 2);
  CHECK(input.grad().allclose(2 * input.detach().sin() * input.detach().cos()));
  {
    const at::NoGradGuard no_grad;
    CHECK_FALSE(checkpointed([](const at::Tensor& x) { return x * 2; }, input).requires_grad());
  }
}

TEST_CASE("a checkpointed function gives one tensor or several, and takes any") {
  const at::Tensor weight = torch::tensor({2., 3.}).requires_grad_();
  const at::Tensor data = torch::tensor({5., 7.});
  const auto [product, indices, weighed] = checkpointed(
      [&](const at::Tensor& x, const at::Tensor& w) { return std::tuple(x * w, x.argsort(), w * w * weight); }, data, weight);
  CHECK_FALSE(indices.requires_grad());
  (product.sum() + weighed.sum()).backward();
  // Once as an input, and once as a parameter that the function uses.
  CHECK(weight.grad().equal(data + 3 * weight.detach() * weight.detach()));
  const Tensors listed = checkpointed([](const at::Tensor& x) { return Tensors{x, x + 1}; }, data);
  CHECK(listed.at(1).equal(data + 1));
  const at::Tensor undefined_way =
      std::get<1>(checkpointed([](const at::Tensor& x) { return std::pair(x * 2, x * 3); }, weight));
  weight.mutable_grad() = at::Tensor();
  undefined_way.sum().backward();
  CHECK(weight.grad().equal(torch::full({2}, 3.)));
}

TEST_CASE("a parameter of several checkpointed parts gets its whole gradient at once, and its hooks see that") {
  const at::Tensor weight = torch::tensor({2., 3.}).requires_grad_();
  Tensors seen;
  weight.register_hook([&](const at::Tensor& gradient) { seen.push_back(gradient.clone()); });
  const auto times = [&](const at::Tensor& x) { return x * weight; };
  at::Tensor output = checkpointed(times, torch::tensor({1., 1.}));
  output = checkpointed(times, output);
  output.sum().backward({}, /*retain_graph=*/true);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].equal(2 * weight.detach()));
  output.sum().backward();
  CHECK(weight.grad().equal(4 * weight.detach()));
}

TEST_CASE("what checkpointed() cannot do is an error that says what to do") {
  const at::Tensor input = torch::ones({2}).requires_grad_();
  const at::Tensor outside = input.exp();
  const auto error = [](auto&& action) { return test::error_of<MisuseError>(action); };
  CHECK_THAT(error([&] { checkpointed([&](const at::Tensor& x) { return x * outside; }, input); }),
             Catch::Contains("computed outside of it, by ExpBackward0") && Catch::Contains("Make it an input"));
  CHECK_THAT(
      error([&] { checkpointed([](const at::Tensor& x, at::Tensor y) { return x * y.mul_(2); }, input, torch::ones({2})); }),
      Catch::Contains("changes its input 1 in place"));
  CHECK_THAT(error([&] { checkpointed([](const at::Tensor& x) { return x; }, at::Tensor()); }), Catch::Contains("undefined"));
  CHECK_THAT(error([&] {
               const at::Tensor output = checkpointed([](const at::Tensor& x) { return x * x; }, input);
               torch::autograd::grad({output.sum()}, {input}, {}, /*retain_graph=*/true, /*create_graph=*/true);
             }),
             Catch::Contains("gradients of gradients"));
  bool again = false;
  const Tensors outputs = checkpointed(
      [&](const at::Tensor& x) {
        return std::exchange(again, true) ? Tensors{x * 2} : Tensors{x * 2, x * 3};
      },
      input);
  CHECK_THAT(error([&] { (outputs[0] + outputs[1]).sum().backward(); }),
             Catch::Contains("2 tensors in the forward pass and 1"));
  CHECK_THAT(error([&] { checkpointed_sequential(network(), 9, input); }), Catch::Contains("9 segments for 8 layers"));
}

}  // namespace levin
