#include "levin/core/checkpoint/module_state.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/temporary_folder.h"

namespace {

using Catch::Matchers::Contains;

struct SmallNet final : torch::nn::Module {
  explicit SmallNet(int hidden = 4) : SmallNet(hidden, false) {}
  SmallNet(int hidden, bool tied) {
    first = register_module("first", torch::nn::Linear(3, hidden));
    norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
    if (tied) register_parameter("tied", first->weight);
    register_buffer("table", torch::arange(3));
    register_parameter("absent", at::Tensor(), /*requires_grad=*/false);
  }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

}  // namespace

TEST_CASE("parameters and buffers are saved by name and come back in a fresh module") {
  levin::test::TemporaryFolder folder;
  torch::manual_seed(3);
  SmallNet net;
  net.norm->forward(torch::randn({5, 4}));
  levin::Checkpoint checkpoint;
  levin::save_module(net, checkpoint);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : checkpoint.tensors) names.push_back(name);
  CHECK(names == std::vector<std::string>{"state_dict.first.bias", "state_dict.first.weight", "state_dict.norm.bias",
                                          "state_dict.norm.num_batches_tracked", "state_dict.norm.running_mean",
                                          "state_dict.norm.running_var", "state_dict.norm.weight", "state_dict.table"});
  checkpoint.save(folder / "net.ckpt");

  SmallNet fresh;
  REQUIRE_FALSE(at::equal(fresh.first->weight, net.first->weight));
  levin::load_module(fresh, levin::Checkpoint::load(folder / "net.ckpt"));
  CHECK(at::equal(fresh.first->weight, net.first->weight));
  CHECK(at::equal(fresh.norm->running_mean, net.norm->running_mean));
  CHECK(fresh.norm->num_batches_tracked.item<std::int64_t>() == 1);
  CHECK(fresh.first->weight.requires_grad());
  CHECK(fresh.first->weight.is_leaf());
}

TEST_CASE("weights that do not fit are an error, and the module is unchanged") {
  SmallNet net;
  levin::Checkpoint checkpoint;
  levin::save_module(net, checkpoint);
  checkpoint.tensors.erase("state_dict.table");
  checkpoint.tensors["state_dict.second.weight"] = torch::ones({1});
  SmallNet fresh;
  const at::Tensor before = fresh.first->weight.detach().clone();
  CHECK_THROWS_WITH(levin::load_module(fresh, checkpoint),
                    Contains("missing from the file: table\n") && Contains("not in the module: second.weight\n"));
  CHECK(at::equal(fresh.first->weight, before));
}

TEST_CASE("a parameter with two names stays one parameter") {
  SmallNet net(4, true);
  levin::Checkpoint checkpoint;
  levin::save_module(net, checkpoint);
  CHECK(checkpoint.tensors.count("state_dict.tied") == 1);
  SmallNet fresh(4, true);
  levin::load_module(fresh, checkpoint);
  CHECK(at::equal(fresh.first->weight, net.first->weight));
  CHECK(fresh.named_parameters()["tied"].data_ptr() == fresh.first->weight.data_ptr());
}
