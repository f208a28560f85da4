#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/options/value_json.h"
#include "optim/builtin_optimizers.h"

namespace {

using levin::Value;
using Tensors = std::vector<at::Tensor>;

constexpr int kReferenceSteps = 40;

// What make_reference.py recorded of PyTorch's own optimizers.
const Value& recorded() {
  static const Value document = [] {
    std::ifstream file(std::string(LEVIN_SOURCE_DIR) + "/tests/optim/optimizer_reference.json");
    std::stringstream text;
    text << file.rdbuf();
    return levin::parse_json(text.str());
  }();
  return document;
}

/// As optimizer_parameters() there.
Tensors reference_parameters(const std::string& kind) {
  std::vector<std::vector<std::int64_t>> shapes = {{3, 4}, {6, 2}, {5}, {}, {2, 2, 3}};
  if (kind == "Muon") shapes.resize(2);
  Tensors parameters;
  std::int64_t first = 0;
  for (const auto& shape : shapes) {
    const std::int64_t count = c10::multiply_integers(shape);
    const at::Tensor values = torch::arange(first, first + count).remainder(17).to(torch::kDouble) / 8 - 1;
    parameters.push_back(values.to(torch::kFloat).reshape(shape).requires_grad_());
    first += count;
  }
  return parameters;
}

/// As optimizer_gradient() there.
at::Tensor reference_gradient(const at::Tensor& parameter, std::size_t number, int step) {
  if (number == 1 && step % 3 == 2) return {};
  const at::Tensor index = torch::arange(parameter.numel(), torch::kDouble);
  return (index * 1.3 + 0.9 * step + static_cast<double>(number)).sin().to(torch::kFloat).reshape(parameter.sizes());
}

void take_step(torch::optim::Optimizer& optimizer, int step) {
  auto& group = optimizer.param_groups()[0];
  if (step == kReferenceSteps / 2) levin::set_lr(group, levin::get_lr(group) * 0.5);
  for (std::size_t number = 0; number < group.params().size(); ++number) {
    at::Tensor& parameter = group.params()[number];
    parameter.mutable_grad() = reference_gradient(parameter, number, step);
  }
  optimizer.step();
}

double distance(const at::Tensor& tensor, const Value& numbers) {
  std::vector<double> expected;
  for (const Value& number : numbers.as_list()) expected.push_back(number.as_double());
  REQUIRE(tensor.numel() == static_cast<std::int64_t>(expected.size()));
  return (tensor.detach().flatten().to(torch::kDouble) - torch::tensor(expected, torch::kDouble)).abs().max().item<double>();
}

/// Muon multiplies matrices in bfloat16, whose last digit depends on the processor.
double tolerance(const std::string& kind) { return kind == "Muon" ? 1e-3 : 1e-6; }

std::shared_ptr<torch::optim::Optimizer> made(const Value& test, Tensors parameters) {
  return optimizer_factory(test.at("optimizer").as_string(), test.at("options"))->make(std::move(parameters));
}

std::string title_of(const Value& test) { return test.at("optimizer").as_string() + " " + levin::to_json(test.at("options")); }

}  // namespace

TEST_CASE("every optimizer that LibTorch lacks comes to PyTorch's weights and state") {
  REQUIRE(recorded().at("cases").size() >= 25);
  for (const Value& test : recorded().at("cases").as_list()) {
    INFO(title_of(test));
    const std::string kind = test.at("optimizer").as_string();
    const Tensors parameters = reference_parameters(kind);
    const auto optimizer = made(test, parameters);
    for (int step = 0; step < kReferenceSteps; ++step) {
      take_step(*optimizer, step);
      const Value* weights = test.at("weights").find(std::to_string(step));
      if (weights == nullptr) continue;
      for (std::size_t number = 0; number < parameters.size(); ++number) {
        INFO("parameter " << number << ", step " << step);
        CHECK(distance(parameters[number], weights->as_list()[number]) < tolerance(kind));
      }
    }
    levin::Checkpoint checkpoint;
    levin::save_optimizer(*optimizer, 0, checkpoint);
    const Value& saved = checkpoint.manifest.at("optimizer_states").as_list()[0].at("state");
    for (std::size_t number = 0; number < parameters.size(); ++number) {
      const Value& numbers = saved.at(std::to_string(number));
      for (const auto& [name, expected] : test.at("state").as_list()[number].as_map()) {
        INFO("state " << name << " of parameter " << number);
        if (const Value* own = numbers.find(name)) {
          CHECK(own->as_double() == Approx(expected.as_list().at(0).as_double()).epsilon(1e-5));
        } else {
          CHECK(distance(checkpoint.tensors.at("optimizer_states.0.state." + std::to_string(number) + "." + name), expected) <
                10 * tolerance(kind));
        }
      }
    }
  }
}

TEST_CASE("an optimizer that LibTorch lacks goes on from a checkpoint to the same bits") {
  for (const Value& test : recorded().at("cases").as_list()) {
    INFO(title_of(test));
    const std::string kind = test.at("optimizer").as_string();
    const Tensors whole = reference_parameters(kind);
    const auto optimizer = made(test, whole);
    Tensors resumed = reference_parameters(kind);
    const auto other = optimizer_factory(kind, Value(Value::Map{}))->make(resumed);
    for (int step = 0; step < kReferenceSteps; ++step) {
      if (step == 25) {
        levin::Checkpoint checkpoint;
        levin::save_optimizer(*optimizer, 0, checkpoint);
        checkpoint.manifest = levin::parse_json(levin::to_json(checkpoint.manifest));
        for (auto& [name, tensor] : checkpoint.tensors) tensor = tensor.clone();
        const torch::NoGradGuard no_grad;
        for (std::size_t number = 0; number < whole.size(); ++number) resumed[number].copy_(whole[number]);
        levin::load_optimizer(*other, 0, checkpoint);
      }
      take_step(*optimizer, step);
      if (step >= 25) take_step(*other, step);
    }
    for (std::size_t number = 0; number < whole.size(); ++number) CHECK(whole[number].equal(resumed[number]));
  }
}
