#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/schedule_free.h"
#include "optim/builtin_optimizers.h"
#include "support/file_text.h"

using namespace levin;

namespace {

constexpr int kScheduleFreeSteps = 40;

/// As optimizer_parameters() in make_reference.py.
std::vector<at::Tensor> schedule_free_parameters() {
  std::vector<at::Tensor> parameters;
  std::int64_t first = 0;
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{{3, 4}, {6, 2}, {5}, {}, {2, 2, 3}}) {
    const std::int64_t count = c10::multiply_integers(shape);
    const at::Tensor values = torch::arange(first, first + count).remainder(17).to(torch::kDouble) / 8 - 1;
    parameters.push_back(values.to(torch::kFloat).reshape(shape).requires_grad_());
    first += count;
  }
  return parameters;
}

void take_steps(torch::optim::Optimizer& optimizer, int begin, int end) {
  auto& group = optimizer.param_groups()[0];
  for (int step = begin; step < end; ++step) {
    if (step == kScheduleFreeSteps / 2) set_lr(group, get_lr(group) * 0.5);
    for (std::size_t number = 0; number < group.params().size(); ++number) {
      at::Tensor& parameter = group.params()[number];
      const at::Tensor index = torch::arange(parameter.numel(), torch::kDouble);
      const at::Tensor gradient = (index * 1.3 + 0.9 * step + static_cast<double>(number)).sin();
      // As in optimizer_gradient() there, the second has none in every third step.
      const bool has_none = number == 1 && step % 3 == 2;
      parameter.mutable_grad() = has_none ? at::Tensor() : gradient.to(torch::kFloat).reshape(parameter.sizes());
    }
    optimizer.step();
  }
}

void check_close(const at::Tensor& tensor, const Value& numbers) {
  const at::Tensor flat = tensor.detach().flatten();
  REQUIRE(flat.numel() == static_cast<std::int64_t>(numbers.size()));
  for (std::int64_t place = 0; place < flat.numel(); ++place) {
    CHECK(flat[place].item<double>() == Approx(numbers.as_list()[static_cast<std::size_t>(place)].as_double()).margin(2e-6));
  }
}

}  // namespace

TEST_CASE("schedule-free optimizers come to the weights of the package schedulefree") {
  const Value reference = parse_json(test::read_text(LEVIN_SOURCE_DIR "/tests/optim/schedule_free_reference.json"));
  for (const Value& recorded : reference.at("cases").as_list()) {
    INFO(recorded.at("optimizer").as_string() << " " << to_json(recorded.at("options")));
    const auto factory = optimizer_factory(recorded.at("optimizer").as_string(), recorded.at("options"));
    const auto parameters = schedule_free_parameters();
    const auto optimizer = factory->make(parameters);
    const auto* weights = dynamic_cast<const EvaluatedWeights*>(optimizer.get());
    REQUIRE(weights != nullptr);
    CHECK(weights->evaluated_weights().empty());

    // Goes on from a checkpoint, to the bit.
    const auto others = schedule_free_parameters();
    const auto resumed = factory->make(others);
    take_steps(*optimizer, 0, 25);
    Checkpoint checkpoint;
    save_optimizer(*optimizer, 0, checkpoint);
    for (std::size_t index = 0; index < others.size(); ++index) others[index].set_data(parameters[index].detach().clone());
    load_optimizer(*resumed, 0, checkpoint);
    take_steps(*optimizer, 25, kScheduleFreeSteps);
    take_steps(*resumed, 25, kScheduleFreeSteps);

    const auto pairs = weights->evaluated_weights();
    REQUIRE(pairs.size() == parameters.size());
    for (std::size_t index = 0; index < pairs.size(); ++index) {
      INFO(index);
      CHECK(pairs[index].trained.is_same(parameters[index]));
      CHECK(torch::equal(parameters[index], others[index]));
      check_close(parameters[index], recorded.at("trained").as_list()[index]);
      check_close(pairs[index].evaluated, recorded.at("evaluated").as_list()[index]);
    }
  }
}

TEST_CASE("a parameter without a gradient stays as it is, and a rate of 0 moves nothing") {
  at::Tensor used = torch::ones({2}).requires_grad_();
  at::Tensor unused = torch::ones({2}).requires_grad_();
  SGDScheduleFree optimizer({used, unused}, {.lr = 0.0});
  used.mutable_grad() = torch::ones({2});
  optimizer.step();
  const auto pairs = optimizer.evaluated_weights();
  REQUIRE(pairs.size() == 1);
  CHECK(torch::equal(pairs[0].evaluated, torch::ones({2})));
  CHECK(torch::equal(used, torch::ones({2})));
  CHECK_THROWS_WITH(SGDScheduleFree({used}, {.momentum = 1.5}), Catch::Contains("momentum: must be at least 0 and at most 1"));
}
