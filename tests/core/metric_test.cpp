#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/metric.h"

using levin::accuracy;
using levin::binary_accuracy;

TEST_CASE("accuracy is the share of samples whose class has the highest score") {
  const auto scores = torch::tensor({{0.1, 0.7, 0.2}, {0.5, 0.3, 0.2}, {0.2, 0.3, 0.5}, {0.4, 0.5, 0.1}});
  const auto labels = torch::tensor({1, 1, 2, 0});
  CHECK(accuracy(scores, labels).item<double>() == 0.5);
  CHECK(accuracy(scores, labels, 2).item<double>() == 1.0);
  CHECK(accuracy(scores.log(), labels.to(torch::kInt), 3).item<double>() == 1.0);
  CHECK(accuracy(scores, labels).dim() == 0);
  CHECK(accuracy(scores.to(torch::kBFloat16), labels).dtype() == torch::kFloat);
  // One class for each pixel.
  const auto pixels = torch::stack({scores, scores}, 2);
  CHECK(accuracy(pixels, torch::stack({labels, torch::tensor({1, 0, 2, 1})}, 1)).item<double>() == 0.75);
  CHECK_THROWS_WITH(accuracy(scores, labels.unsqueeze(1)), Catch::Contains("[samples, …], got [4, 3] and [4, 1]"));
  CHECK_THROWS_AS(accuracy(scores, labels.slice(0, 0, 3)), levin::MisuseError);
  CHECK_THROWS_AS(accuracy(labels, labels), levin::MisuseError);
  CHECK_THROWS_WITH(accuracy(scores, labels, 4), Catch::Contains("top_k is 4, but there are 3 classes"));
}

TEST_CASE("binary accuracy is the share of samples on the right side of a threshold") {
  const auto scores = torch::tensor({0.9, 0.4, 0.6, 0.1});
  const auto labels = torch::tensor({1, 1, 0, 0});
  CHECK(binary_accuracy(scores, labels).item<double>() == 0.5);
  CHECK(binary_accuracy(scores, labels.to(torch::kFloat), 0.3).item<double>() == 0.75);
  CHECK(binary_accuracy(scores - 0.5, labels.to(torch::kBool), 0).item<double>() == 0.5);
  CHECK_THROWS_WITH(binary_accuracy(scores.unsqueeze(1), labels), Catch::Contains("got [4, 1] and [4]"));
}
