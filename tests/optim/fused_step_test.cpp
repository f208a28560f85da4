#include <ATen/record_function.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cctype>
#include <functional>
#include <map>

#include "levin/core/base/text.h"
#include "levin/optim/fused_optimizers.h"
#include "support/test_device.h"

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Groups = std::vector<OptimizerParamGroup>;
/// Makes an optimizer of two groups.
using Make = std::function<std::shared_ptr<Optimizer>(const std::vector<at::Tensor>&, const std::vector<at::Tensor>&)>;

/// One optimizer class with options of both groups: LibTorch's, and levin's.
struct Kind {
  std::string name;
  std::string kernel;
  Make plain, fused;
};

template <class Plain, class Fused, class Options>
Kind kind(const std::string& option, Options options) {
  const std::string name = levin::class_name_of(typeid(Fused));
  std::string kernel = "aten::_fused_" + name + "_";
  std::transform(kernel.begin(), kernel.end(), kernel.begin(), [](unsigned char letter) { return std::tolower(letter); });
  const auto groups = [options](const std::vector<at::Tensor>& first, const std::vector<at::Tensor>& second) {
    auto other = std::make_unique<Options>(options);
    other->lr(options.lr() * 0.25);
    Groups made;
    made.emplace_back(first, std::make_unique<Options>(options));
    made.emplace_back(second, std::move(other));
    return made;
  };
  return {name + " " + option, kernel,
          [=](const auto& first, const auto& second) { return std::make_shared<Plain>(groups(first, second), options); },
          [=](const auto& first, const auto& second) { return std::make_shared<Fused>(groups(first, second), options); }};
}

std::vector<Kind> kinds() {
  namespace optim = torch::optim;
  constexpr auto sgd = kind<optim::SGD, levin::SGD, optim::SGDOptions>;
  constexpr auto adam = kind<optim::Adam, levin::Adam, optim::AdamOptions>;
  constexpr auto adamw = kind<optim::AdamW, levin::AdamW, optim::AdamWOptions>;
  constexpr auto adagrad = kind<optim::Adagrad, levin::Adagrad, optim::AdagradOptions>;
  return {sgd("", optim::SGDOptions(0.05)),
          sgd("weight_decay", optim::SGDOptions(0.05).weight_decay(0.1)),
          sgd("momentum", optim::SGDOptions(0.05).momentum(0.9)),
          sgd("dampening", optim::SGDOptions(0.05).momentum(0.9).dampening(0.3).weight_decay(0.1)),
          sgd("nesterov", optim::SGDOptions(0.05).momentum(0.8).nesterov(true).weight_decay(0.01)),
          adam("", optim::AdamOptions(0.01)),
          adam("betas", optim::AdamOptions(0.01).betas({0.4, 0.95}).eps(1e-4)),
          adam("weight_decay", optim::AdamOptions(0.01).weight_decay(0.1)),
          adam("amsgrad", optim::AdamOptions(0.01).amsgrad(true).weight_decay(0.1)),
          adamw("", optim::AdamWOptions(0.01)),
          adamw("no decay", optim::AdamWOptions(0.01).weight_decay(0)),
          adamw("amsgrad", optim::AdamWOptions(0.01).amsgrad(true).weight_decay(0.5).betas({0.8, 0.9})),
          adagrad("", optim::AdagradOptions(0.05)),
          adagrad("all", optim::AdagradOptions(0.05).lr_decay(0.1).weight_decay(0.1).initial_accumulator_value(0.3).eps(1e-3))};
}

/// Parameters of every form of memory, and an optimizer of them.
struct Trained {
  std::vector<at::Tensor> parameters;
  std::shared_ptr<Optimizer> optimizer;
};

std::vector<at::Tensor> forms(at::ScalarType type) {
  torch::manual_seed(3);
  const auto random = [&](at::IntArrayRef sizes) { return torch::randn(sizes, torch::kDouble).to(type); };
  std::vector<at::Tensor> made = {random({17, 9}),
                                  random({37}),
                                  random({}),
                                  torch::zeros({0, 3}, type),
                                  random({6, 10}).t(),                 // no gaps, in another order
                                  random({8, 12}).slice(1, 0, 12, 2),  // gaps
                                  random({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast),
                                  random({33, 1}),
                                  random({5})};
  for (at::Tensor& parameter : made) parameter = parameter.to(levin::test::test_device()).requires_grad_();
  return made;
}

Trained trained(const Make& make, std::vector<at::Tensor> parameters) {
  const auto half = parameters.begin() + static_cast<std::ptrdiff_t>(parameters.size() / 2);
  auto optimizer = make({parameters.begin(), half}, {half, parameters.end()});
  return {std::move(parameters), std::move(optimizer)};
}

/// Gradients that are not in the order of every parameter's memory, and that some parameters lack in some steps.
void give_gradients(Trained& trained, int step) {
  torch::manual_seed(100 + step);
  for (std::size_t i = 0; i < trained.parameters.size(); ++i) {
    at::Tensor& parameter = trained.parameters[i];
    const at::Tensor noise = torch::randn(parameter.sizes(), torch::kDouble).to(parameter.device());
    parameter.mutable_grad() = at::Tensor();
    if (i == 7 && step < 5) continue;       // begins later
    if (i == 8 && step % 3 == 1) continue;  // has one now and then
    const at::Tensor values = (parameter.detach().to(torch::kDouble) * 0.5 + noise).to(parameter.scalar_type());
    parameter.mutable_grad() = step % 2 == 0 ? torch::empty_like(parameter.detach()).copy_(values) : values;
  }
}

/// Steps both with the same gradients.
void step_both(Trained& plain, Trained& fused, int step) {
  give_gradients(plain, step);
  for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
    const at::Tensor& gradient = plain.parameters[i].grad();
    fused.parameters[i].mutable_grad() = gradient.defined() ? gradient.clone() : at::Tensor();
  }
  plain.optimizer->step();
  fused.optimizer->step();
}

double distance(const at::Tensor& one, const at::Tensor& other) {
  return one.numel() == 0 ? 0.0
                          : (one.detach().to(torch::kDouble) - other.detach().to(torch::kDouble)).abs().max().item<double>();
}
double distance(const Trained& one, const Trained& other) {
  double largest = 0;
  for (std::size_t i = 0; i < one.parameters.size(); ++i)
    largest = std::max(largest, distance(one.parameters[i], other.parameters[i]));
  return largest;
}

/// How often each operation is called while it lives.
class CallCounter {
 public:
  CallCounter() {
    calls().clear();
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) {
      ++calls()[function.name()];
      return std::unique_ptr<at::ObserverContext>();
    }));
  }
  ~CallCounter() { at::removeCallback(handle_); }
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;
  int of(const std::string& name) const { return calls()[name]; }

 private:
  static std::map<std::string, int>& calls() {
    static std::map<std::string, int> counted;
    return counted;
  }
  at::CallbackHandle handle_ = 0;
};

std::vector<at::Tensor> network() {
  torch::manual_seed(1);
  std::vector<at::Tensor> made;
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{256, 64}, {256}, {256, 256}, {256}, {10, 256}, {10}}) {
    made.push_back(torch::randn(sizes).to(levin::test::test_device()).requires_grad_());
  }
  return made;
}

}  // namespace

TEST_CASE("a fused step has the numbers of LibTorch's own, for every option, form of memory and type") {
  const auto type = GENERATE(torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf);
  for (const Kind& kind : kinds()) {
    INFO(kind.name << " " << type);
    Trained plain = trained(kind.plain, forms(type));
    Trained fused = trained(kind.fused, forms(type));
    for (int step = 0; step < 40; ++step) step_both(plain, fused, step);
    // A GPU's kernels round once where LibTorch's steps round twice.
    const double close = levin::test::test_device().is_cpu() ? 1e-6 : 1e-5;
    CHECK(distance(plain, fused) < (type == torch::kDouble ? 1e-12 : close));
    CHECK(plain.optimizer->state().size() == fused.optimizer->state().size());
  }
}

TEST_CASE(
    "tensors of one group, device and type are stepped by one call of the kernel, by several threads those that are large") {
  const int threads = at::get_num_threads();
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    for (const int count : {1, 2}) {
      at::set_num_threads(count);
      Trained fused = trained(kind.fused, network());
      for (at::Tensor& parameter : fused.parameters) parameter.mutable_grad() = torch::ones_like(parameter);
      fused.optimizer->step();
      const CallCounter calls;
      fused.optimizer->step();
      CHECK(calls.of(kind.kernel) == (count == 1 ? 2 : 3));
      CHECK(calls.of("aten::mul_") == 0);
    }
  }
  at::set_num_threads(threads);
}

TEST_CASE("parameters of several types are stepped in one call each") {
  std::vector<at::Tensor> parameters = {torch::ones({3}), torch::ones({4}, torch::kDouble), torch::ones({2}),
                                        torch::ones({2}, torch::kHalf)};
  for (at::Tensor& parameter : parameters) parameter.mutable_grad() = torch::ones_like(parameter);
  levin::AdamW optimizer(parameters, levin::AdamWOptions(0.1).weight_decay(0));
  optimizer.step();
  const CallCounter calls;
  optimizer.step();
  CHECK(calls.of("aten::_fused_adamw_") == 2);
  for (const at::Tensor& parameter : parameters) CHECK(distance(parameter, torch::full_like(parameter, 0.8)) < 2e-3);
}

TEST_CASE("fused: false is LibTorch's own step, bit for bit") {
  levin::AdamW own(network(), levin::AdamWOptions(0.1), /*fused=*/false);
  torch::optim::AdamW plain(network(), torch::optim::AdamWOptions(0.1));
  for (Optimizer* optimizer : std::initializer_list<Optimizer*>{&own, &plain}) {
    for (at::Tensor& parameter : optimizer->param_groups()[0].params()) parameter.mutable_grad() = parameter.detach().sin();
    const CallCounter calls;
    optimizer->step();
    CHECK(calls.of("aten::_fused_adamw_") == 0);
  }
  for (std::size_t i = 0; i < 6; ++i) CHECK(own.param_groups()[0].params()[i].equal(plain.param_groups()[0].params()[i]));
}

TEST_CASE("sparse gradients are stepped by LibTorch's step, among dense ones") {
  const auto run = [](auto make) {
    torch::manual_seed(5);
    const at::Tensor table = torch::randn({10, 4}).requires_grad_(), dense = torch::randn({4}).requires_grad_();
    const auto optimizer = make(std::vector<at::Tensor>{table, dense});
    for (int step = 0; step < 20; ++step) {
      optimizer->zero_grad();
      const at::Tensor rows = torch::embedding(table, torch::tensor({1, 3, 3, step % 10}), -1, false, /*sparse=*/true);
      (rows * dense).pow(2).sum().backward();
      REQUIRE(table.grad().is_sparse());
      optimizer->step();
    }
    return torch::cat({table.detach().flatten(), dense.detach()});
  };
  const auto made = [](auto tag, auto options) {
    return [=](std::vector<at::Tensor> parameters) {
      return std::make_shared<typename decltype(tag)::type>(std::move(parameters), options);
    };
  };
  const torch::optim::SGDOptions sgd(0.01);
  const torch::optim::AdagradOptions adagrad(0.1);
  CHECK(distance(run(made(std::type_identity<levin::SGD>(), sgd)), run(made(std::type_identity<torch::optim::SGD>(), sgd))) <
        1e-6);
  CHECK(distance(run(made(std::type_identity<levin::Adagrad>(), adagrad)),
                 run(made(std::type_identity<torch::optim::Adagrad>(), adagrad))) < 1e-6);
}

TEST_CASE("parameters, gradients, state and groups may be replaced between steps") {
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    Trained plain = trained(kind.plain, forms(torch::kFloat));
    Trained fused = trained(kind.fused, forms(torch::kFloat));
    for (int step = 0; step < 40; ++step) {
      for (Trained* each : {&plain, &fused}) {
        at::Tensor& first = each->parameters[0];
        auto& state = each->optimizer->state();
        if (step == 10) first.set_data(first.detach().clone().mul_(2));
        // Adagrad's state is made by its constructor.
        if (step == 15 && !kind.name.starts_with("Adagrad")) state.erase(first.unsafeGetTensorImpl());
        if (step == 20) std::swap(each->optimizer->param_groups()[0], each->optimizer->param_groups()[1]);
        if (step == 25) each->optimizer->param_groups()[0].options().set_lr(0.001);
        if (step == 30) each->optimizer->param_groups()[1].params().erase(each->optimizer->param_groups()[1].params().begin());
      }
      step_both(plain, fused, step);
    }
    CHECK(distance(plain, fused) < 1e-6);
  }
}

TEST_CASE("a fused step keeps no gradient alive, and lets autograd know that weights have changed") {
  Trained fused = trained(kinds()[9].fused, network());
  for (at::Tensor& parameter : fused.parameters) parameter.mutable_grad() = torch::ones_like(parameter);
  const c10::weak_intrusive_ptr<at::TensorImpl> gradient(fused.parameters[0].grad().getIntrusivePtr());
  const at::Tensor product = (fused.parameters[0] * fused.parameters[0]).sum();
  fused.optimizer->step();
  for (at::Tensor& parameter : fused.parameters) parameter.mutable_grad() = at::Tensor();
  CHECK(gradient.expired());
  CHECK_THROWS_WITH(product.backward(), Catch::Contains("modified by an inplace operation"));
}

TEST_CASE("the closure of a fused step runs with gradients, and its loss is given back") {
  const at::Tensor weight = torch::ones({1}).requires_grad_();
  levin::SGD optimizer({weight}, levin::SGDOptions(0.5));
  const at::Tensor loss = optimizer.step([&] {
    const at::Tensor value = (weight * 3).sum();
    value.backward();
    return value;
  });
  CHECK(loss.item<double>() == 3.0);
  CHECK(weight.item<double>() == -0.5);
}
