#include "levin/callbacks/model_summary.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

using namespace levin;

// Rows and numbers are those of Lightning's ModelSummary for the same model.
TEST_CASE("the summary has Lightning's rows and numbers") {
  struct Net : torch::nn::Module {
    Net() {
      register_module("net", torch::nn::Sequential(torch::nn::Linear(64, 32), torch::nn::ReLU(), torch::nn::Linear(32, 10)));
      norm = register_module("bn", torch::nn::BatchNorm1d(10));
      register_parameter("w", torch::zeros(7));
      for (auto& parameter : norm->parameters()) parameter.set_requires_grad(false);
    }
    torch::nn::BatchNorm1d norm{nullptr};
  } net;
  net.norm->eval();
  const auto columns = [](const std::string& summary) {
    std::vector<std::string> rows;
    std::istringstream stream(summary);
    for (std::string line; std::getline(stream, line);) {
      std::istringstream words(line);
      std::string row;
      for (std::string word; words >> word;) row += (row.empty() ? "" : " ") + word;
      if (row.find_first_not_of("-+ ") != std::string::npos) rows.push_back(row);
    }
    return rows;
  };
  const std::vector<std::string> footer{"2.4 K Trainable params",  "20 Non-trainable params",
                                        "2.4 K Total params",      "0.010 Total estimated model params size (MB)",
                                        "4 Modules in train mode", "1 Modules in eval mode"};
  std::vector<std::string> expected{"| Name | Type | Params | Mode", "0 | net | Sequential | 2.4 K | train",
                                    "1 | bn | BatchNorm1d | 20 | eval", "| other params | n/a | 7 | n/a"};
  expected.insert(expected.end(), footer.begin(), footer.end());
  CHECK(columns(summarize_model(net)) == expected);
  const auto all = columns(summarize_model(net, -1));
  REQUIRE(all.size() == 13);
  CHECK(all[3] == "2 | net.1 | ReLU | 0 | train");
  CHECK(all[4] == "3 | net.2 | Linear | 330 | train");
}
