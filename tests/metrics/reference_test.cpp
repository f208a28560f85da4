#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "metrics/reference_inputs.h"
#include "support/file_text.h"
#include "support/queued_device/queued_device.h"
#include "support/test_device.h"

namespace levin::test {
namespace {

struct Case {
  std::string name;
  Value options;
  std::vector<MetricBatch> batches;
  std::vector<double> expected;
  bool weighted = false;

  std::string title() const { return name + " " + to_json(options); }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    const Value document = parse_json(read_text(std::string(LEVIN_SOURCE_DIR) + "/tests/metrics/references.json"));
    std::map<std::string, std::vector<MetricBatch>> inputs;
    for (const auto& [name, kind] : document.at("inputs").as_map()) inputs[name] = batches_of(kind);
    std::vector<Case> cases;
    for (const Value& each : document.at("cases").as_list()) {
      const Value::List& parts = each.as_list();
      Case made{parts[0].as_string(), parts[2], inputs.at(parts[1].as_string()), {}, parts.size() > 4};
      for (const Value& number : parts[3].as_list()) {
        made.expected.push_back(number.is_null()     ? NAN
                                : number.is_string() ? std::stod(number.as_string())
                                                     : number.as_double());
      }
      cases.push_back(std::move(made));
    }
    return cases;
  }();
  return all;
}

/// How far a value is from the expected one, as a share of it where that is large; infinite when they are not alike.
double distance(const MetricValue& value, const std::vector<double>& expected) {
  if (value.values.size() != expected.size()) return INFINITY;
  double most = 0;
  for (std::size_t index = 0; index < expected.size(); ++index) {
    const double is = value.values[index], wanted = expected[index];
    if (std::isnan(is) != std::isnan(wanted)) return INFINITY;
    if (is == wanted || std::isnan(is)) continue;
    most = std::max(most, std::abs(is - wanted) / std::max(1.0, std::abs(wanted)));
  }
  return most;
}

std::string shown(const MetricValue& value) {
  std::ostringstream text;
  for (const double each : value.values) text << each << ' ';
  return text.str();
}

void check(const Case& each, const MetricValue& value, double tolerance, const std::string& how) {
  if (distance(value, each.expected) <= tolerance) return;
  INFO(each.title() << ", " << how << ": " << shown(value) << "for " << shown(MetricValue(each.expected)));
  CHECK(false);
}

constexpr double kClose = 1e-6;

TEST_CASE("metrics have the values of torchmetrics") {
  REQUIRE(cases().size() > 1500);
  for (const Case& each : cases()) {
    const auto metric = made_metric(each.name, each.options);
    CHECK(metric->compute().values.size() == each.expected.size());
    for (const MetricBatch& batch : each.batches) batch.give(*metric, each.weighted);
    check(each, metric->compute(), kClose, "at once");
    const MetricState state = metric->state();
    metric->reset();
    CHECK(metric->state().empty());
    metric->set_state(state);
    check(each, metric->compute(), kClose, "from its state");
  }
}

TEST_CASE("metrics have the same values when 2 or 4 ranks have seen the batches, some of them none") {
  for (const Case& each : cases()) {
    if (each.name.starts_with("Running")) continue;  // the last updates of each rank: see metrics_test.cpp
    for (const std::size_t ranks : {2, 4, 7}) {
      const auto metric = made_metric(each.name, each.options);
      std::vector<MetricState> states;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        metric->reset();
        for (std::size_t index = rank; index < each.batches.size(); index += ranks) {
          each.batches[index].give(*metric, each.weighted);
        }
        states.push_back(metric->state());
      }
      MetricState total = metric->empty_state();
      for (const MetricState& state : states) metric->merge(total, state);
      check(each, metric->compute(total), kClose, std::to_string(ranks) + " ranks");
    }
  }
}

TEST_CASE("metrics have the same values on a device, and update() does not wait for it") {
  const at::Device device = test_accelerator() == "cpu" ? QueuedDevice::device() : test_device();
  const auto there = [&](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(device) : tensor; };
  for (const Case& each : cases()) {
    if (each.name == "BLEUScore" || each.name == "EditDistance") continue;
    INFO(each.title());
    const auto metric = made_metric(each.name, each.options);
    std::vector<MetricBatch> batches;
    for (const MetricBatch& batch : each.batches) batches.push_back({there(batch.predictions), there(batch.targets), {}, {}});
    const std::int64_t before = QueuedDevice::counts().waits;
    for (const MetricBatch& batch : batches) batch.give(*metric, each.weighted);
    CHECK(QueuedDevice::counts().waits == before);
    check(each, metric->compute(), kClose, "on a device");
  }
}

TEST_CASE("metrics take other types and layouts of tensors") {
  for (const Case& each : cases()) {
    if (each.name == "BLEUScore" || each.name == "EditDistance") continue;
    const auto as = [&](at::ScalarType floats, at::ScalarType integers, bool strided) {
      const auto metric = made_metric(each.name, each.options);
      for (MetricBatch batch : each.batches) {
        for (at::Tensor* tensor : {&batch.predictions, &batch.targets}) {
          *tensor = tensor->to(tensor->is_floating_point() ? floats : integers);
          if (strided) *tensor = torch::stack({*tensor, *tensor}, -1).select(-1, 0);
          if (tensor->is_floating_point()) tensor->requires_grad_();
        }
        batch.give(*metric, each.weighted);
      }
      return metric->compute();
    };
    check(each, as(at::kDouble, at::kInt, true), kClose, "strided");
    check(each, as(at::kFloat, at::kLong, false), 1e-5, "float");
  }
}

TEST_CASE("every metric that is registered has references") {
  std::set<std::string> named;
  for (const Case& each : cases()) named.insert(each.name);
  for (const ClassInfo* info : Registry<Metric>::instance().classes()) {
    INFO(info->name);
    CHECK(named.contains(info->name));
  }
  CHECK(named.size() == Registry<Metric>::instance().classes().size());
}

}  // namespace
}  // namespace levin::test
