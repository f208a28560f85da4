// What references do not show: mistakes, options, shared states, large numbers, and what differs from torchmetrics.
#include <torch/torch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "levin/core/base/error.h"
#include "levin/core/config/component.h"
#include "levin/core/config/value_json.h"
#include "levin/core/metric.h"
#include "levin/core/metric_collection.h"
#include "levin/metrics/classification.h"
#include "levin/metrics/curves.h"
#include "levin/metrics/regression.h"
#include "levin/metrics/text.h"
#include "metrics/reference_inputs.h"
#include "support/error_of.h"
#include "support/hit_rate.h"
#include "support/queued_device/queued_device.h"

namespace levin::test {
namespace {

using Texts = std::vector<std::string>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

at::Tensor floats(std::vector<float> values) { return torch::tensor(values); }
at::Tensor ints(std::vector<std::int64_t> values) { return torch::tensor(values); }
at::Tensor doubles(std::vector<double> values) { return torch::tensor(values, torch::kDouble); }
at::Tensor to_device(const at::Tensor& tensor) { return tensor.to(QueuedDevice::device()); }

void check_says(const std::string& message, const Texts& facts) {
  INFO(message);
  for (const std::string& fact : facts) {
    INFO("lacks: " << fact);
    CHECK(message.find(fact) != std::string::npos);
  }
}

TEST_CASE("a metric says what is wrong with a batch, and takes nothing of it in") {
  const at::Tensor scores = torch::rand({5, 3}), labels = ints({0, 1, 2, 1, 0});
  const at::Tensor nan = scores.clone();
  nan[4][2] = kNaN;
  const at::Tensor five = torch::rand({5}), yes = ints({0, 1, 1, 0, 1});
  struct Row {
    std::string metric;
    std::string options;
    at::Tensor predictions;
    at::Tensor targets;
    Texts facts;
  };
  const std::vector<Row> rows = {
      {"Accuracy", "{\"num_classes\":3}", scores, yes.to(torch::kFloat), {"Accuracy", "multiclass", "[5, 3]", "[5]", "Float"}},
      {"Accuracy", "{\"num_classes\":4}", scores, labels, {"Accuracy", "[N, 4, …]", "[5, 3]"}},
      {"Accuracy", "{\"num_classes\":3}", scores, ints({0, 1}), {"[5, 3]", "[2]"}},
      {"Accuracy", "{\"num_classes\":3}", scores, ints({0, 1, 3, 0, 0}), {"0 to 2", "got 3 at index 2", "targets"}},
      {"Accuracy", "{\"num_classes\":3}", scores, ints({0, 1, -1, 0, 0}), {"0 to 2", "got -1 at index 2"}},
      {"Accuracy", "{\"num_classes\":3,\"ignore_index\":-1}", scores, ints({0, 1, -1, 7, 0}), {"or -1", "got 7 at index 3"}},
      {"Accuracy", "{\"num_classes\":3}", ints({0, 1, 5, 0, 0}), labels, {"got 5 at index 2", "predictions"}},
      {"Accuracy", "{\"num_classes\":3,\"top_k\":2}", labels, labels, {"[5]", "[N, 3, …]"}},
      {"Recall", "{\"num_classes\":3}", nan, labels, {"Recall", "NaN"}},
      {"ConfusionMatrix", "{}", torch::full({5}, kNaN), yes, {"ConfusionMatrix", "NaN"}},
      {"F1Score", "{}", five, ints({0, 1, 2, 0, 0}), {"binary", "0 to 1", "got 2 at index 2"}},
      {"F1Score", "{}", five, floats({0, 1, 0.5, 0, 0}), {"F1Score", "integers", "0.5"}},
      {"F1Score", "{}", five, ints({0, 1}), {"binary", "[5]", "[2]"}},
      {"F1Score", "{\"num_labels\":3}", torch::rand({5, 2}), torch::ones({5, 2}).to(torch::kLong), {"multilabel", "[N, 3, …]"}},
      {"F1Score", "{\"scores\":\"probabilities\"}", 5 * five + 1, yes, {"F1Score", "probabilities", "logits"}},
      {"Accuracy", "{}", torch::complex(five, five), yes, {"Accuracy", "ComplexFloat"}},
      {"AUROC", "{\"num_classes\":3}", labels, labels, {"AUROC", "scores", "Long"}},
      {"AUROC", "{\"num_classes\":3}", nan, labels, {"AUROC", "NaN"}},
      {"AUROC", "{\"num_classes\":3,\"thresholds\":5}", nan, labels, {"AUROC", "NaN"}},
      {"AUROC", "{\"num_classes\":3,\"thresholds\":5}", scores, ints({0, 1, 9, 0, 0}), {"got 9 at index 2"}},
      {"AveragePrecision", "{}", five, ints({0, 4, 1, 0, 0}), {"AveragePrecision", "got 4 at index 1"}},
      {"CalibrationError", "{\"num_classes\":3}", nan, labels, {"CalibrationError", "NaN"}},
      {"MeanSquaredError", "{}", five, torch::rand({4}), {"MeanSquaredError", "[5]", "[4]"}},
      {"MeanAbsoluteError", "{\"num_outputs\":2}", five, five, {"MeanAbsoluteError", "num_outputs 2", "[N, 2]", "[5]"}},
      {"R2Score", "{}", scores, scores, {"R2Score", "[N] or [N, 1]", "[5, 3]"}},
      {"SpearmanCorrCoef", "{\"num_outputs\":3}", five, five, {"SpearmanCorrCoef", "[N, 3]", "[5]"}},
      {"KLDivergence", "{}", five, five, {"KLDivergence", "[N, D]", "[5]"}},
      {"Perplexity", "{}", scores, five, {"Perplexity", "[5, 3]", "Float"}},
      {"Perplexity", "{}", scores, ints({0, 1, 2, 3, 3}), {"Perplexity", "2 tokens", "vocabulary"}},
      {"BLEUScore", "{}", five, five, {"BLEUScore", "[N, length]", "[5]"}},
      {"EditDistance", "{}", torch::ones({2, 3}), torch::ones({2, 3}), {"EditDistance", "Float"}},
      {"SumMetric", "{}", five, five, {"SumMetric", "weights"}},
      {"MeanMetric", "{}", five, torch::ones({3}), {"MeanMetric", "[3]", "[5]"}},
      {"MeanMetric", "{\"nan_strategy\":\"error\"}", torch::full({5}, kNaN), five, {"MeanMetric", "NaN"}},
      {"Accuracy", "{}", to_device(five), yes, {"Accuracy", QueuedDevice::device().str(), "cpu"}},
      {"MeanSquaredError", "{}", five, to_device(five), {"MeanSquaredError", QueuedDevice::device().str(), "cpu"}},
  };
  for (const Row& row : rows) {
    const auto metric = made_metric(row.metric, parse_json(row.options));
    INFO(row.metric << " " << row.options);
    check_says(error_of<MisuseError>([&] { metric->update(row.predictions, row.targets); }), row.facts);
    CHECK(metric->state().empty());
  }
}

TEST_CASE("what is wrong on a device is said when the value is computed") {
  const at::Tensor scores = torch::rand({5, 3});
  const at::Tensor nan = scores.clone();
  nan[1][1] = kNaN;
  for (const char* options : {"{\"num_classes\":3}", "{\"num_classes\":3,\"thresholds\":4}"}) {
    for (const char* name : {"Accuracy", "ConfusionMatrix", "AUROC", "CalibrationError"}) {
      const bool has_thresholds = std::string(options).find("thresholds") != std::string::npos;
      if (has_thresholds != (std::string(name) == "AUROC") && has_thresholds) continue;
      const auto metric = made_metric(name, parse_json(options));
      metric->update(to_device(nan), to_device(ints({0, 1, 2, 0, 1})));
      metric->update(to_device(scores), to_device(ints({0, 1, 2, 3, -1})));
      check_says(error_of<MisuseError>([&] { metric->compute(); }), {name, "3 predictions or targets", "0 to 2"});
      metric->reset();
      metric->update(to_device(scores), to_device(ints({0, 1, 2, 0, 1})));
      CHECK(std::isfinite(metric->compute().values.front()));
    }
  }
  PerplexityOptions options{.ignore_index = -100};
  Perplexity perplexity(options);
  perplexity.update(to_device(scores), to_device(ints({0, 1, 2, 3, -100})));
  check_says(error_of<MisuseError>([&] { perplexity.compute(); }), {"Perplexity", "1 tokens"});
  MaxMetric largest({.nan_strategy = NanStrategy::kError});
  largest.update(to_device(doubles({1, kNaN})));
  check_says(error_of<MisuseError>([&] { largest.compute(); }), {"MaxMetric", "1 values", "NaN"});
}

TEST_CASE("what is predicted where the label is ignored does not count, NaN neither, on the CPU as on a device") {
  struct Row {
    std::string metric;
    std::string options;
    at::Tensor predictions;
    at::Tensor targets;
  };
  torch::manual_seed(3);
  const at::Tensor classes = torch::rand({6, 3}), places = torch::rand({2, 3, 3}), yes = torch::rand({6}),
                   labels = torch::rand({3, 2});
  const at::Tensor of_class = ints({0, 1, -7, 2, -7, 0}), of_place = of_class.reshape({2, 3});
  const at::Tensor of_yes = ints({0, 1, -7, 1, -7, 0}), of_labels = of_yes.reshape({3, 2});
  const std::vector<Row> rows = {
      {"Accuracy", R"({"num_classes":3,"ignore_index":-7})", classes, of_class},
      {"Accuracy", R"({"num_classes":3,"ignore_index":-7,"top_k":2})", classes, of_class},
      {"Accuracy", R"({"num_classes":3,"ignore_index":-7,"scores":"probabilities"})", places, of_place},
      {"F1Score", R"({"ignore_index":-7})", yes, of_yes},
      {"F1Score", R"({"ignore_index":-7,"scores":"probabilities"})", yes, of_yes},
      {"Recall", R"({"num_labels":2,"ignore_index":-7,"scores":"probabilities"})", labels, of_labels},
      {"Precision", R"({"num_classes":3,"ignore_index":-7})", ints({0, 1, 0, 2, 1, 1}), of_class},
      {"ConfusionMatrix", R"({"num_classes":3,"ignore_index":-7})", classes, of_class},
      {"AUROC", R"({"ignore_index":-7})", yes, of_yes},
      {"AUROC", R"({"num_classes":3,"ignore_index":-7})", classes, of_class},
      {"AUROC", R"({"num_labels":2,"ignore_index":-7,"thresholds":5})", labels, of_labels},
      {"AveragePrecision", R"({"num_classes":3,"ignore_index":-7,"scores":"probabilities"})", classes, of_class},
      {"CalibrationError", R"({"num_classes":3,"ignore_index":-7})", classes, of_class},
  };
  for (const Row& row : rows) {
    INFO(row.metric << " " << row.options);
    const auto ignored = [&](bool where) {
      const at::Tensor there = row.targets.eq(-7).eq(where);
      return row.predictions.dim() > row.targets.dim() ? there.unsqueeze(1) : there;
    };
    const bool of_numbers = row.predictions.is_floating_point();
    const bool are_probabilities = row.options.find("probabilities") != std::string::npos;
    const auto spoilt = of_numbers ? std::vector<double>{kNaN} : std::vector<double>{-7, 9};
    const auto values = [&](const at::Tensor& predictions, bool on_device) {
      const auto metric = made_metric(row.metric, parse_json(row.options));
      metric->update(on_device ? to_device(predictions) : predictions, on_device ? to_device(row.targets) : row.targets);
      return metric->compute().values;
    };
    const std::vector<double> expected = values(row.predictions, false);
    std::vector<double> fillings = spoilt;
    if (are_probabilities) fillings.push_back(1.5);
    for (const double filling : fillings) {
      INFO(filling);
      const at::Tensor predictions = row.predictions.masked_fill(ignored(true), filling);
      CHECK(values(predictions, false) == expected);
      CHECK(values(predictions, true) == expected);
      const at::Tensor wrong = row.predictions.masked_fill(ignored(false), filling);
      CHECK_FALSE(error_of<MisuseError>([&] { values(wrong, false); }).empty());
      CHECK_FALSE(error_of<MisuseError>([&] { values(wrong, true); }).empty());
    }
  }
}

// Numbers that are out of range are in options/meanings_of_numbers.txt.
TEST_CASE("wrong options are errors, in C++ as in YAML") {
  struct Row {
    std::string metric;
    std::string options;
    Texts facts;
  };
  const std::vector<Row> rows = {
      {"Accuracy", "{\"task\":\"multiclass\"}", {"multiclass", "num_classes"}},
      {"Accuracy", "{\"task\":\"multilabel\"}", {"multilabel", "num_labels"}},
      {"Accuracy", "{\"num_labels\":3,\"num_classes\":3}", {"num_labels"}},
      {"Accuracy", "{\"task\":\"binary\",\"num_classes\":3}", {"num_classes", "multiclass"}},
      {"Accuracy", "{\"num_classes\":3,\"top_k\":4}", {"top_k", "num_classes"}},
      {"Accuracy", "{\"top_k\":2}", {"top_k", "multiclass"}},
      {"Accuracy", "{\"threshold\":1.5}", {"threshold", "at most 1"}},
      {"Accuracy", "{\"average\":\"mean\"}", {"average", "'macro'"}},
      {"Accuracy", "{\"num_class\":3}", {"num_class", "num_classes"}},
      {"CohenKappa", "{\"task\":\"multilabel\"}", {"multilabel"}},
      {"AUROC", "{\"num_classes\":3,\"average\":\"micro\"}", {"micro", "multilabel"}},
      {"AUROC", "{\"num_classes\":3,\"max_fpr\":0.5}", {"max_fpr", "binary"}},
      {"AUROC", "{\"thresholds\":[0.5,1.5]}", {"thresholds", "1.5"}},
      {"BLEUScore", "{\"weights\":[0.5,0.5]}", {"weights", "n_gram"}},
  };
  for (const Row& row : rows) {
    INFO(row.metric << " " << row.options);
    check_says(error_of<ConfigError>([&] { made_metric(row.metric, parse_json(row.options)); }), row.facts);
  }
  check_says(error_of<ConfigError>([] { Accuracy({.num_classes = 3, .top_k = 4}); }), {"Accuracy", "top_k"});
  check_says(error_of<ConfigError>([] { AUROC({.thresholds = {0.5, 2.0}}); }), {"AUROC", "thresholds"});
  check_says(error_of<ConfigError>([] { RunningSum({.window = -1}); }), {"RunningSum", "window"});
}

struct Measured {
  std::map<std::string, Component<Metric>> metrics;
  Component<Metric> loss = "MeanMetric";
};

TEST_CASE("metrics are named in options, with their arguments") {
  const auto options = read_options<Measured>(
      parse_json(R"({"metrics":{"acc":{"class_path":"torchmetrics.Accuracy","init_args":{"num_classes":3,"average":"macro"}},
                     "auc":{"class_path":"AUROC","init_args":{"num_classes":3,"thresholds":[0.25,0.5]}}}})"));
  MetricCollection metrics(options.metrics);
  metrics.update(torch::eye(3), ints({0, 1, 1}));
  CHECK(metrics.compute("acc").item() == 0.5);
  CHECK(std::dynamic_pointer_cast<MeanMetric>(options.loss.get()) != nullptr);
  const Value written = write_options(AUROCOptions{.thresholds = {0.5, 0.25}});
  CHECK(written.at("thresholds").as_list().size() == 2);
  CHECK(write_options(AUROCOptions{.thresholds = 100}).at("thresholds").as_int() == 100);
  CHECK(write_options(AUROCOptions{}).at("thresholds").is_null());
}

TEST_CASE("metrics of a collection share their states, and have the values that they would have alone") {
  const auto accuracy = std::make_shared<Accuracy>(Accuracy::Options{.num_classes = 4, .average = Average::kMacro});
  const auto recall = std::make_shared<Recall>(Recall::Options{.num_classes = 4, .average = Average::kNone});
  const auto jaccard = std::make_shared<JaccardIndex>(JaccardIndex::Options{.num_classes = 4});
  const auto top_two = std::make_shared<Accuracy>(Accuracy::Options{.num_classes = 4, .top_k = 2});
  const auto matrix = std::make_shared<ConfusionMatrix>(ConfusionMatrix::Options{.num_classes = 4});
  const auto kappa = std::make_shared<CohenKappa>(CohenKappa::Options{.num_classes = 4});
  MetricCollection metrics("val_");
  metrics.add("acc", accuracy).add("recall", recall).add("iou", jaccard).add("top2", top_two).add("matrix", matrix);
  metrics.add("kappa", kappa).add("again", accuracy);
  Texts holders;
  for (const auto& [name, metric] : metrics.states()) holders.push_back(name);
  CHECK(holders == Texts{"val_acc", "val_top2", "val_matrix"});

  torch::manual_seed(1);
  const at::Tensor scores = torch::randn({50, 4}), labels = torch::randint(4, {50}, torch::kLong);
  metrics.update(scores, labels);
  Accuracy alone({.num_classes = 4, .average = Average::kMacro});
  Recall recall_alone({.num_classes = 4, .average = Average::kNone});
  CohenKappa kappa_alone({.num_classes = 4});
  for (Metric* metric : std::vector<Metric*>{&alone, &recall_alone, &kappa_alone}) metric->update(scores, labels);
  CHECK(metrics.compute("acc").item() == alone.compute().item());
  CHECK(metrics.compute("again").item() == alone.compute().item());
  CHECK(metrics.compute("recall").values == recall_alone.compute().values);
  CHECK(metrics.compute("kappa").item() == kappa_alone.compute().item());
  CHECK(recall->state().empty());
  const auto values = metrics.compute();
  CHECK(values.size() == 7);
  CHECK(values[1].first == "val_recall");
  CHECK(values[4].second.shape == std::vector<std::int64_t>{4, 4});
  const at::Tensor counts = values[4].second;
  CHECK(counts.sizes() == at::IntArrayRef({4, 4}));
  CHECK(counts.sum().item<double>() == 50);
  CHECK(counts[1][2].item<double>() == values[4].second.values[6]);
  metrics.reset();
  CHECK(accuracy->state().empty());

  check_says(error_of<MisuseError>([&] { metrics.compute("accc"); }), {"accc", "acc"});
  check_says(error_of<MisuseError>([&] { metrics.add("acc", recall); }), {"'acc'"});
  check_says(error_of<MisuseError>([&] {
               MetricCollection(std::map<std::string, Component<Metric>>{{"a", {}}});
             }),
             {"'a'", "empty"});
  // Those that count in another way do not share.
  for (const auto& options : {Accuracy::Options{.num_classes = 3},
                              {.num_classes = 4, .ignore_index = 0},
                              {.num_labels = 4},
                              {.threshold = 0.3, .num_classes = 4},
                              {.num_classes = 4, .scores = Scores::kLogits}}) {
    CHECK(Accuracy(options).state_kind() != accuracy->state_kind());
  }
}

TEST_CASE("a user's metric counts on any device") {
  HitRate hits;
  hits.update(doubles({1, 2, 3}), doubles({1, 2, 4}));
  hits.update(to_device(doubles({5})), to_device(doubles({5})));
  CHECK(hits.compute().item() == 0.75);
}

TEST_CASE("states of other metrics are refused") {
  Accuracy three({.num_classes = 3}), four({.num_classes = 4});
  check_says(error_of<MisuseError>([&] { three.set_state(four.state()); }), {"has 13", "10"});
  AUROC exact({});
  check_says(error_of<MisuseError>([&] { exact.set_state(three.state()); }), {"rows"});
}

TEST_CASE("values far from 0 lose no digits, in batches, ranks and any order") {
  constexpr double kOffset = 1e9;
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  std::vector<double> predictions, targets;
  for (int index = 0; index < 1000; ++index) {
    targets.push_back(normal(engine));
    predictions.push_back(targets.back() + 0.3 * normal(engine));
  }
  for (const char* name : {"PearsonCorrCoef", "R2Score", "ExplainedVariance", "MeanSquaredError"}) {
    const auto near = made_metric(name, Value(Value::Map{})), far = made_metric(name, Value(Value::Map{}));
    near->update(doubles(predictions), doubles(targets));
    std::vector<MetricState> states;
    for (int batch = 0; batch < 10; ++batch) {
      const auto part = [&](const std::vector<double>& values) {
        return doubles(values).narrow(0, 100 * batch, 100).add(kOffset);
      };
      far->reset();
      far->update(part(predictions), part(targets));
      states.push_back(far->state());
    }
    for (int order = 0; order < 3; ++order) {
      MetricState total = far->empty_state();
      for (const MetricState& state : states) far->merge(total, state);
      INFO(name);
      CHECK(far->compute(total).item() == Approx(near->compute().item()).epsilon(1e-6));
      std::shuffle(states.begin(), states.end(), engine);
    }
  }
}

TEST_CASE("counts are exact beyond what a float holds") {
  Accuracy accuracy({});
  MetricState state = accuracy.empty_state();
  state.updates = 1;
  state.numbers = {9007199254740990, 1, 0, 0, 0};
  accuracy.set_state(state);
  accuracy.update(floats({0.1F}), ints({0}));
  CHECK(accuracy.state().numbers[0] == 9007199254740991);
}

TEST_CASE("what is small is no constant") {
  R2Score r2;
  r2.update(doubles({1e-5, 2e-5, 3e-5, 5e-5}), doubles({1e-5, 2e-5, 3e-5, 4e-5}));
  CHECK(r2.compute().item() == Approx(0.8));
  R2Score constant;
  constant.update(doubles({0.1, 0.1, 0.2}), doubles({0.1, 0.1, 0.1}));
  constant.update(doubles({0.1}), doubles({0.1}));
  CHECK(constant.compute().item() == 0);
  R2Score one;
  one.update(doubles({1}), doubles({1}));
  CHECK(std::isnan(one.compute().item()));
  PearsonCorrCoef pearson;
  pearson.update(doubles({0.1, 0.1, 0.1}), doubles({1, 2, 3}));
  CHECK(std::isnan(pearson.compute().item()));
}

TEST_CASE("a constant prediction has no correlation with labels") {
  MatthewsCorrCoef binary({});
  binary.update(ints({1, 1, 1, 1, 1}), ints({1, 1, 1, 0, 0}));
  CHECK(binary.compute().item() == 0);
}

TEST_CASE("a class without samples is left out of the mean average precision, whichever class it is") {
  for (const std::int64_t label : {0, 1, 2}) {
    AveragePrecision precision({.num_classes = 3});
    precision.update(torch::eye(3), ints({label, label, label}));
    CHECK(precision.compute().item() == 1);
  }
}

TEST_CASE("logits in a batch of small ones are taken for logits where that is said") {
  const at::Tensor logits = floats({0.2F, 0.4F}), labels = ints({1, 1});
  Accuracy as_guessed({}), as_said({.scores = Scores::kLogits});
  as_guessed.update(logits, labels);
  as_said.update(logits, labels);
  CHECK(as_guessed.compute().item() == 0);
  CHECK(as_said.compute().item() == 1);
  CalibrationError calibration({.scores = Scores::kLogits});
  calibration.update(floats({0}), ints({1}));
  CHECK(calibration.compute().item() == Approx(0.5));
}

TEST_CASE("of equal scores the class that comes first is predicted") {
  const at::Tensor scores = torch::zeros({1, 4});
  for (const std::int64_t label : {0, 1, 2, 3}) {
    Accuracy best({.num_classes = 4}), two({.num_classes = 4, .top_k = 2});
    best.update(scores, ints({label}));
    two.update(scores, ints({label}));
    CHECK(best.compute().item() == (label == 0 ? 1 : 0));
    CHECK(two.compute().item() == (label < 2 ? 1 : 0));
  }
}

TEST_CASE("thresholds come in any order, and are compared as floats with floats") {
  AUROC sorted({.thresholds = {0.1, 0.4, 0.7}}), shuffled({.thresholds = {0.7, 0.1, 0.4}});
  const at::Tensor scores = floats({0.7F, 0.1F, 0.4F, 0.2F}), labels = ints({1, 0, 1, 0});
  sorted.update(scores, labels);
  shuffled.update(scores, labels);
  CHECK(sorted.state().numbers == shuffled.state().numbers);
  // Nothing wrong, then [others, own] between thresholds: 0.7F, which is below 0.7, is at it.
  CHECK(sorted.state().numbers == std::vector<double>{0, 0, 2, 0, 0, 0, 0, 1, 1});
}

TEST_CASE("a likelihood that a softmax rounds to 0 has a finite perplexity") {
  Perplexity perplexity;
  perplexity.update(doubles({0, 1000}).reshape({1, 1, 2}), ints({0}).reshape({1, 1}));
  perplexity.update(doubles({0, 0}).reshape({1, 1, 2}), ints({0}).reshape({1, 1}));
  CHECK(perplexity.compute().item() == Approx(std::exp((1000 + std::log(2.0)) / 2)));
}

TEST_CASE("edits are counted in characters, however long texts are") {
  EditDistance edits({.reduction = Reduction::kSum});
  const auto distance = [&](const std::string& from, const std::string& to) {
    edits.reset();
    edits.update(Texts{from}, Texts{to});
    return edits.compute().item();
  };
  CHECK(distance("kitten", "sitting") == 3);
  CHECK(distance("", "abc") == 3);
  CHECK(distance("日本語", "日語") == 1);
  CHECK(distance("a\xff", "a") == 1);  // no UTF-8
  // 60 characters that are put in front: torchmetrics says 120 of such texts.
  std::string text;
  for (int index = 0; index < 200; ++index) text += static_cast<char>('a' + index * 7 % 26);
  CHECK(distance(std::string(60, '#') + text, text) == 60);
  check_says(error_of<MisuseError>([&] { edits.update(Texts{"a"}, Texts{}); }), {"1 predictions", "0 targets"});
}

TEST_CASE("tokens are compared as words and characters are, without those that fill rows") {
  const at::Tensor given = ints({5, 6, 7, 8, 0, 0}).reshape({1, 6}), wanted = ints({5, 6, 9, 7, 8}).reshape({1, 5});
  EditDistance edits({.ignore_index = 0});
  edits.update(given, wanted);
  CHECK(edits.compute().item() == 1);
  BLEUScore tokens({.n_gram = 2, .ignore_index = 0}), words({.n_gram = 2});
  tokens.update(given, wanted);
  words.update(Texts{"five six seven eight"}, Texts{"five six nine seven eight"});
  CHECK(tokens.compute().item() > 0);
  CHECK(tokens.compute().item() == words.compute().item());
  check_says(error_of<MisuseError>([&] { words.update(Texts{"a"}, std::vector<Texts>{{}}); }), {"reference"});
}

TEST_CASE("a window holds the last updates, and of ranks the last of each") {
  for (const bool elsewhere : {false, true}) {
    RunningMean mean({.window = 2});
    RunningSum sum({.window = 3});
    for (const double value : {1.0, 2.0, 4.0, 8.0}) {
      const at::Tensor tensor = elsewhere ? to_device(doubles({value})) : doubles({value});
      mean.update(tensor);
      sum.update(tensor);
      if (value == 2) mean.state();  // reads what is on a device so far
    }
    CHECK(mean.compute().item() == 6);
    CHECK(sum.compute().item() == 14);
    MetricState total = sum.state();
    sum.reset();
    sum.update(100);
    static_cast<const Metric&>(sum).merge(total, sum.state());
    CHECK(static_cast<const Metric&>(sum).compute(total).item() == 114);
  }
}

TEST_CASE("values that are NaN are left out, or taken in") {
  const at::Tensor values = doubles({1, kNaN, 3}), weights = doubles({1, 1, 3});
  for (const bool elsewhere : {false, true}) {
    const auto there = [&](const at::Tensor& tensor) { return elsewhere ? to_device(tensor) : tensor; };
    MeanMetric mean({.nan_strategy = NanStrategy::kIgnore}), all({.nan_strategy = NanStrategy::kDisable});
    MinMetric least({.nan_strategy = NanStrategy::kIgnore});
    MaxMetric largest({.nan_strategy = NanStrategy::kDisable});
    mean.update(there(values), there(weights));
    all.update(there(values));
    least.update(there(values));
    largest.update(there(values));
    CHECK(mean.compute().item() == 2.5);
    CHECK(std::isnan(all.compute().item()));
    CHECK(least.compute().item() == 1);
    CHECK(std::isnan(largest.compute().item()));
    all.reset();
    all.update(there(doubles({1, 3})), there(doubles({3, 1})));
    CHECK(all.compute().item() == 1.5);
  }
  MeanMetric mean;
  mean.update(2.0);
  mean.update(5.0, 2.0);
  CHECK(mean.compute().item() == 4);
}

TEST_CASE("values without weights count once each, also through the base class") {
  MeanMetric mean;
  SumMetric sum;
  for (Metric* metric : std::initializer_list<Metric*>{&mean, &sum}) metric->update(doubles({1, 2, 6}), {});
  CHECK(mean.compute().item() == 3);
  CHECK(sum.compute().item() == 9);
}

}  // namespace
}  // namespace levin::test
