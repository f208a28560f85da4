#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/options/value_json.h"
#include "optim/builtin_optimizers.h"

namespace {

using levin::Value;
using torch::optim::OptimizerParamGroup;

// What make_reference.py recorded of PyTorch's own schedulers.
const Value& reference() {
  static const Value document = [] {
    std::ifstream file(std::string(LEVIN_SOURCE_DIR) + "/tests/optim/scheduler_reference.json");
    std::stringstream text;
    text << file.rdbuf();
    return levin::parse_json(text.str());
  }();
  return document;
}

template <class Optimizer, class Options>
std::shared_ptr<torch::optim::Optimizer> make(const Value& lrs, Options defaults) {
  std::vector<OptimizerParamGroup> groups;
  for (const Value& lr : lrs.as_list()) {
    auto options = std::make_unique<Options>(defaults);
    options->lr(lr.as_double());
    groups.emplace_back(std::vector<at::Tensor>{torch::zeros({1}, torch::requires_grad())}, std::move(options));
  }
  return std::make_shared<Optimizer>(groups, defaults);
}

std::shared_ptr<torch::optim::Optimizer> make_optimizer(const Value& test) {
  const Value& lrs = test.at("lrs");
  const std::string name = test.at("optimizer").as_string();
  if (name == "SGD") return make<torch::optim::SGD>(lrs, torch::optim::SGDOptions(0.1).momentum(0.9));
  if (name == "RMSprop") return make<torch::optim::RMSprop>(lrs, torch::optim::RMSpropOptions(0.1).momentum(0.9));
  if (name == "Adam") return make<torch::optim::Adam>(lrs, torch::optim::AdamOptions(0.1));
  if (name == "AdamW") return make<torch::optim::AdamW>(lrs, torch::optim::AdamWOptions(0.1));
  if (name == "Adagrad") return make<torch::optim::Adagrad>(lrs, torch::optim::AdagradOptions(0.1));
  FAIL("unknown optimizer " << name);
  return nullptr;
}

struct Run {
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::vector<std::shared_ptr<levin::LrScheduler>> schedulers;

  explicit Run(const Value& test) : optimizer(make_optimizer(test)) {
    for (const Value& spec : test.at("schedulers").as_list()) {
      schedulers.push_back(scheduler_factory(spec.at("class_path").as_string(), spec.at("init_args"))->make(*optimizer));
    }
  }

  void step(const Value& test, std::size_t step) {
    std::optional<double> metric;
    if (const Value* metrics = test.find("metrics")) metric = metrics->as_list()[step].as_double();
    for (const auto& scheduler : schedulers) scheduler->step(metric);
  }
};

// The first difference from the recorded row, or "".
std::string difference(const Run& run, const Value& row) {
  std::ostringstream text;
  text.precision(17);
  const auto compare = [&](const char* what, std::size_t group, double ours, double theirs) {
    const double tolerance = 1e-12 * std::max(1.0, std::abs(theirs));
    if (!(std::abs(ours - theirs) <= tolerance)) text << what << " of group " << group << ": " << ours << " != " << theirs;
  };
  const auto& groups = run.optimizer->param_groups();
  const std::vector<double> last_lr = run.schedulers.back()->last_lr();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    compare("lr", group, levin::get_lr(groups[group]), row.at("lr").as_list()[group].as_double());
    compare("last_lr", group, last_lr.at(group), row.at("lr").as_list()[group].as_double());
    const auto betas = levin::get_betas(groups[group]);
    const double momentum = betas ? betas->first : levin::get_momentum(groups[group]).value_or(0.0);
    compare("momentum", group, momentum, row.at("momentum").as_list()[group].as_double());
  }
  return text.str();
}

std::string title(const Value& test) { return test.at("optimizer").as_string() + " " + levin::to_json(test.at("schedulers")); }

}  // namespace

TEST_CASE("every scheduler gives PyTorch's learning rates and momenta") {
  REQUIRE(reference().at("cases").size() >= 50);
  for (const Value& test : reference().at("cases").as_list()) {
    INFO(title(test));
    const Value::List& rows = test.at("rows").as_list();
    REQUIRE(rows.size() > 50);
    Run run(test);
    REQUIRE(difference(run, rows[0]) == "");
    for (std::size_t step = 0; step + 1 < rows.size(); ++step) {
      INFO("step " << step + 1);
      run.step(test, step);
      REQUIRE(difference(run, rows[step + 1]) == "");
    }
  }
}

TEST_CASE("a scheduler restored in the middle goes on with the same rates") {
  for (const Value& test : reference().at("cases").as_list()) {
    INFO(title(test));
    const Value::List& rows = test.at("rows").as_list();
    for (const std::size_t middle : {std::size_t(1), std::size_t(23), std::size_t(40)}) {
      INFO("restored at step " << middle);
      Run before(test);
      for (std::size_t step = 0; step < middle; ++step) before.step(test, step);

      Run after(test);
      for (std::size_t i = 0; i < after.schedulers.size(); ++i) {
        // Through text, as a checkpoint does it.
        after.schedulers[i]->load_state_dict(levin::parse_json(levin::to_json(before.schedulers[i]->state_dict())));
      }
      for (std::size_t group = 0; group < after.optimizer->param_groups().size(); ++group) {
        after.optimizer->param_groups()[group].set_options(before.optimizer->param_groups()[group].options().clone());
      }
      for (std::size_t i = 0; i < after.schedulers.size(); ++i) {
        REQUIRE(after.schedulers[i]->last_lr() == before.schedulers[i]->last_lr());
      }
      for (std::size_t step = middle; step + 1 < rows.size(); ++step) {
        after.step(test, step);
        before.step(test, step);
        REQUIRE(levin::get_lrs(*after.optimizer) == levin::get_lrs(*before.optimizer));
        REQUIRE(difference(after, rows[step + 1]) == "");
      }
    }
  }
}
