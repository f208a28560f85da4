#include "levin/strategies/gradients/single_device.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/options/registry.h"
#include "levin/strategies/gradients/ddp.h"

using levin::LaunchRequest;

TEST_CASE("a single device is rank 0 of 1 on the CPU") {
  levin::SingleDeviceStrategy strategy;
  strategy.launch(LaunchRequest{});
  CHECK(strategy.rank() == 0);
  CHECK(strategy.world_size() == 1);
  CHECK(strategy.is_global_zero());
  CHECK(strategy.device() == at::kCPU);
  CHECK(strategy.control_group().size() == 1);
}

TEST_CASE("collectives of one process give its own values, detached from the original") {
  levin::SingleDeviceStrategy strategy;
  strategy.launch(LaunchRequest{});
  const auto tensor = torch::tensor({1.0, 2.0});
  const auto gathered = strategy.all_gather(tensor, levin::SourceLocation::current());
  CHECK(gathered.sizes() == at::IntArrayRef({1, 2}));
  CHECK(torch::equal(gathered[0], tensor));
  const auto reduced = strategy.all_reduce(tensor, "mean", levin::SourceLocation::current());
  CHECK(torch::equal(reduced, tensor));
  reduced.fill_(0);
  CHECK(tensor.sum().item<double>() == 3.0);
  CHECK(torch::equal(strategy.broadcast(tensor, 0, levin::SourceLocation::current()), tensor));
}

TEST_CASE("wrong arguments of collectives are errors on one process too, with the call site") {
  levin::SingleDeviceStrategy strategy;
  strategy.launch(LaunchRequest{});
  const auto here = levin::SourceLocation::current();
  CHECK_THROWS_WITH(strategy.all_reduce(torch::ones(2), "median", here),
                    Catch::Contains("median") && Catch::Contains("single_device_test.cpp:" + std::to_string(here.line())));
  CHECK_THROWS_WITH(strategy.all_reduce(torch::Tensor()), Catch::Contains("all_reduce got a tensor without a value"));
  CHECK_THROWS_AS(strategy.all_reduce(torch::ones(2, torch::kLong), "mean", here), levin::MisuseError);
  CHECK_THROWS_WITH(strategy.broadcast(torch::ones(2), 1, here), Catch::Contains("rank 1"));
}

TEST_CASE("the board of one process gives back its votes") {
  levin::SingleDeviceStrategy strategy;
  strategy.launch(LaunchRequest{});
  levin::Votes votes;
  votes.stop = true;
  votes.gradient_weight = 3;
  strategy.vote_channel().publish(0, votes);
  const auto read = strategy.vote_channel().read(0);
  REQUIRE(read.size() == 1);
  CHECK((read[0] == votes));
}

TEST_CASE("a single device refuses what it cannot do") {
  levin::SingleDeviceStrategy strategy;
  LaunchRequest request;
  request.devices = levin::Devices(2);
  CHECK_THROWS_AS(strategy.launch(request), levin::ConfigError);
  request.devices = levin::Devices(0);
  CHECK_THROWS_AS(strategy.launch(request), levin::ConfigError);
  request = LaunchRequest{};
  request.num_nodes = 2;
  CHECK_THROWS_AS(strategy.launch(request), levin::ConfigError);
  request = LaunchRequest{};
  request.accelerator = "tpu";
  CHECK_THROWS_WITH(strategy.launch(request), Catch::Contains("tpu"));
  request.accelerator = "gpu";
  CHECK_THROWS_AS(strategy.launch(request), levin::ConfigError);
}

TEST_CASE("auto stays itself for one process") {
  levin::AutoStrategy strategy;
  CHECK(strategy.resolve(LaunchRequest{}) == nullptr);
  strategy.launch(LaunchRequest{});
  CHECK(strategy.name() == "single_device");
}

TEST_CASE("strategies are made by name") {
  const auto& registry = levin::Registry<levin::Strategy>::instance();
  CHECK(registry.make("single_device", levin::Value::Map{})->name() == "single_device");
  CHECK(registry.find("auto") != nullptr);
}
