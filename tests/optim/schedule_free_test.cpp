#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/optim/schedule_free.h"
#include "optim/builtin_optimizers.h"
#include "optim/reference_steps.h"
#include "support/file_text.h"

using namespace levin;

namespace {

void take_steps(torch::optim::Optimizer& optimizer, int begin, int end) {
  for (int step = begin; step < end; ++step) take_step(optimizer, step);
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
    const auto parameters = reference_parameters();
    const auto optimizer = factory->make(parameters);
    const auto* weights = dynamic_cast<const EvaluatedWeights*>(optimizer.get());
    REQUIRE(weights != nullptr);
    CHECK(weights->evaluated_weights().empty());

    // Resumes from a checkpoint, to the bit.
    const auto others = reference_parameters();
    const auto resumed = factory->make(others);
    take_steps(*optimizer, 0, 25);
    resume_optimizer(*optimizer, *resumed);
    take_steps(*optimizer, 25, kReferenceSteps);
    take_steps(*resumed, 25, kReferenceSteps);

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

TEST_CASE("a parameter without a gradient stays unchanged, and a rate of 0 moves nothing") {
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
