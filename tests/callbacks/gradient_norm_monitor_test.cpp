#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <string>

#include "callbacks/scripted_run.h"
#include "levin/core/config/registry.h"

using namespace levin;
using namespace levin::test;

namespace {

/// As in: m = torch.nn.Sequential(Linear(2, 1), Linear(1, 1)); m(torch.ones(1, 2)).sum().backward(); with these weights
class TwoLayers final : public Module {
 public:
  TwoLayers() {
    const at::NoGradGuard no_grad;
    first_->weight.copy_(torch::tensor({{0.5, -0.25}}));
    first_->bias.fill_(0.1);
    second_->weight.fill_(2);
    second_->bias.fill_(0.3);
  }
  StepOutput training_step(const Batch&, std::int64_t) override {
    return second_->forward(first_->forward(torch::ones({1, 2}))).sum();
  }
  OptimizerSetups configure_optimizers() override {
    using Group = torch::optim::OptimizerParamGroup;
    return std::make_shared<torch::optim::SGD>(std::vector<Group>{Group(first_->parameters()), Group(second_->parameters())},
                                               0.0);
  }

 private:
  torch::nn::Linear first_ = register_module("0", torch::nn::Linear(2, 1));
  torch::nn::Linear second_ = register_module("1", torch::nn::Linear(1, 1));
};

}  // namespace

TEST_CASE("gradient norms are Lightning's, before clipping, in the rows that are due") {
  // lightning.pytorch.utilities.grad_norm(m, norm_type); of the group torch.nn.utils.get_total_norm()
  using Norms = std::map<std::string, double>;
  const double infinity = std::numeric_limits<double>::infinity();
  const auto [option, value, expected, count] = GENERATE_COPY(table<std::string, Value, Norms, std::size_t>(
      {{"norm_type",
        2.0,
        {{"grad_2.0_norm_total", 3.622499137336},
         {"grad_2.0_norm/SGD/pg1", 3.464101615138},
         {"grad_2.0_norm/SGD/pg2", 1.059481004}},
        3},
       {"norm_type", infinity, {{"grad_inf_norm_total", 2.0}, {"grad_inf_norm/SGD/pg2", 1.0}}, 3},
       {"per_parameter", true, {{"grad_2.0_norm/0.weight", 2.828427124746}, {"grad_2.0_norm/1.weight", 0.35}}, 7}}));
  Value init_args(Value::Map{{option, value}});
  ScriptedRun run(1, {Registry<Callback>::instance().make("GradientNormMonitor", init_args)});
  const auto logger = std::make_shared<RowsOf>();
  run.options.logger = logger;
  run.options.log_every_n_steps = 2;
  run.options.gradient_clip_val = 0.5;
  TwoLayers module;
  run.fit(module, 5);
  REQUIRE(logger->rows.size() == 2);
  for (const MetricRow& row : logger->rows) {
    for (const auto& [name, norm] : expected) {
      INFO(name);
      CHECK(row.values.at(name) == Approx(norm).epsilon(1e-6));
    }
    CHECK(row.values.size() == count);
  }
}
