#include "support/queued_device/queued_device.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/console/pseudo_terminal.h"
#include "levin/core/accelerator.h"
#include "levin/core/config/registry.h"

namespace levin::test {
namespace {

const at::Device kDevice = QueuedDevice::device();
const c10::impl::VirtualGuardImpl kGuard(c10::DeviceType::PrivateUse1);

/// What a network gives and what its gradients are, on a device. The same numbers go in.
std::vector<at::Tensor> trained(torch::nn::Module& module, const at::Device& device,
                                const std::function<at::Tensor()>& loss_of) {
  module.to(device);
  module.zero_grad();
  const at::Tensor loss = loss_of();
  loss.backward();
  std::vector<at::Tensor> numbers = {loss.detach().cpu()};
  for (const at::Tensor& parameter : module.parameters()) numbers.push_back(parameter.grad().cpu());
  return numbers;
}

void check_same(torch::nn::Module& module, const std::function<at::Tensor(const at::Device&)>& loss_of) {
  const auto here = trained(module, kDevice, [&] { return loss_of(kDevice); });
  const auto on_host = trained(module, at::kCPU, [&] { return loss_of(at::kCPU); });
  REQUIRE(here.size() == on_host.size());
  // A sum's error grows with its terms, not with what is left of them: kernels that add in another order, as each processor's
  // do, agree to a part of the largest number, and gradients that are zero but for rounding to none of theirs.
  for (std::size_t index = 0; index < here.size(); ++index) {
    const double largest = on_host[index].abs().max().item<double>();
    CHECK((here[index] - on_host[index]).abs().max().item<double>() <= 1e-5 * largest + 1e-6);
  }
}

TEST_CASE("networks come to the CPU's numbers on it") {
  torch::manual_seed(1);
  SECTION("convolutions, normalization, pooling") {
    torch::nn::Sequential network(torch::nn::Conv2d(3, 4, 3), torch::nn::BatchNorm2d(4), torch::nn::ReLU(),
                                  torch::nn::MaxPool2d(2), torch::nn::Flatten(), torch::nn::Linear(36, 5));
    const at::Tensor images = torch::randn({8, 3, 8, 8});
    const at::Tensor classes = torch::randint(5, {8});
    check_same(*network, [&](const at::Device& device) {
      return torch::nn::functional::cross_entropy(network->forward(images.to(device)), classes.to(device));
    });
  }
  SECTION("embeddings, recurrence") {
    torch::nn::Embedding words(11, 6);
    const at::Tensor text = torch::randint(11, {3, 7});
    const auto check_memory = [&](auto memory) {
      torch::nn::Module net;
      net.register_module("words", words);
      net.register_module("memory", memory);
      check_same(net, [&](const at::Device& device) { return std::get<0>(memory(words(text.to(device)))).pow(2).mean(); });
    };
    check_memory(torch::nn::RNN(torch::nn::RNNOptions(6, 5).batch_first(true)));
    check_memory(torch::nn::LSTM(torch::nn::LSTMOptions(6, 5).num_layers(2).bidirectional(true)));
    check_memory(torch::nn::LSTM(torch::nn::LSTMOptions(6, 5).bias(false)));
    check_memory(torch::nn::GRU(torch::nn::GRUOptions(6, 5).num_layers(2)));
    check_memory(torch::nn::GRU(torch::nn::GRUOptions(6, 5).bias(false)));
  }
  SECTION("attention") {
    torch::nn::TransformerEncoderLayer layer(torch::nn::TransformerEncoderLayerOptions(8, 2).dropout(0).dim_feedforward(16));
    const at::Tensor input = torch::randn({5, 2, 8});
    check_same(*layer, [&](const at::Device& device) { return layer(input.to(device)).abs().sum(); });
  }
}

TEST_CASE("it works late, and counts waits") {
  const at::Tensor pinned = torch::zeros({2}).pin_memory();
  REQUIRE(pinned.is_pinned());
  const auto before = QueuedDevice::counts();
  const at::Tensor there = torch::ones({2}).pin_memory().to(kDevice, /*non_blocking=*/true);
  const at::Tensor sum = there + there;
  at::Tensor(pinned).copy_(sum, /*non_blocking=*/true);
  CHECK(pinned[0].item<float>() == 0);
  CHECK(QueuedDevice::counts().waits == before.waits);
  kGuard.getStream(kDevice).synchronize();
  CHECK(pinned[0].item<float>() == 2);
  CHECK(sum[1].item<float>() == 2);
  const auto after = QueuedDevice::counts();
  CHECK(after.waits == before.waits + 2);
  CHECK(after.copies_to_device == before.copies_to_device + 1);
  CHECK(after.copies_to_host == before.copies_to_host + 2);
  CHECK(after.blocking_to_device == before.blocking_to_device);
  CHECK(after.blocking_to_host == before.blocking_to_host + 1);
  CHECK(after.allocations == before.allocations + 2);
  std::vector<std::string> seen;
  QueuedDevice::on_wait([&](const char* what) { seen.emplace_back(what); });
  static_cast<void>(sum.cpu());
  static_cast<void>(sum.nonzero());
  QueuedDevice::on_wait({});
  CHECK(seen == std::vector<std::string>{"copy", "number"});
}

TEST_CASE("a stream that waits for no event reads what was there before") {
  const bool with_event = GENERATE(false, true);
  const at::Tensor number = torch::zeros({}, kDevice);
  kGuard.synchronizeDevice(0);
  const c10::Stream other = kGuard.getNewStream(kDevice, 0);
  number.fill_(5);
  at::Tensor read;
  {
    c10::Event event(kDevice.type());
    event.record(kGuard.getStream(kDevice));
    if (with_event) event.block(other);
    const c10::StreamGuard guard(other);
    read = number.cpu();
  }
  CHECK(read.item<float>() == (with_event ? 5 : 0));
}

TEST_CASE("memory that a second stream still reads is given away, unless the allocator knows") {
  const bool knows = GENERATE(false, true);
  const c10::Stream other = kGuard.getNewStream(kDevice, 0);
  at::Tensor number = torch::full({8}, 3, kDevice);
  const at::Tensor read = torch::zeros({8}).pin_memory();
  kGuard.synchronizeDevice(0);
  {
    const c10::StreamGuard guard(other);
    at::Tensor(read).copy_(number, /*non_blocking=*/true);
  }
  if (knows) number.record_stream(other);
  number.reset();
  const at::Tensor next = torch::full({8}, 4, kDevice);
  CHECK(next[0].item<float>() == 4);
  kGuard.synchronizeDevice(0);
  CHECK(read[0].item<float>() == (knows ? 3 : 4));
}

TEST_CASE("more memory than it has is refused") {
  const auto accelerator = Registry<Accelerator>::instance().make("QueuedAccelerator", Value::Map{});
  const std::int64_t before = accelerator->memory(kDevice)->allocated;
  {
    const at::Tensor held = torch::zeros({1000}, kDevice);
    CHECK(accelerator->memory(kDevice)->allocated == before + 4096);
    QueuedDevice::limit_memory(before + 8192);
    CHECK_THROWS_AS(torch::zeros({1025}, kDevice), c10::OutOfMemoryError);
    QueuedDevice::limit_memory(std::int64_t{1} << 50);
  }
  CHECK(accelerator->memory(kDevice)->allocated == before);
}

TEST_CASE("random numbers come from a generator that the host knows without waiting") {
  at::Generator generator = *Registry<Accelerator>::instance().make("QueuedAccelerator", Value::Map{})->generator(kDevice);
  generator.set_current_seed(7);
  const at::Tensor first = torch::rand({4}, kDevice);
  const std::int64_t waits = QueuedDevice::counts().waits;
  const at::Tensor state = generator.get_state();
  CHECK(QueuedDevice::counts().waits == waits);
  const at::Tensor second = torch::randn({4}, kDevice);
  generator.set_state(state);
  CHECK(at::equal(torch::randn({4}, kDevice).cpu(), second.cpu()));
  generator.set_current_seed(7);
  CHECK(at::equal(torch::rand({4}, kDevice).cpu(), first.cpu()));
  CHECK_FALSE(at::equal(first.cpu(), second.cpu()));
}

TEST_CASE("what it has recorded it does again, with new random numbers") {
  const auto graph = Registry<Accelerator>::instance().make("QueuedAccelerator", Value::Map{})->make_graph(kDevice, nullptr);
  const at::Tensor input = torch::zeros({3}, kDevice);
  at::Tensor doubled;
  at::Tensor drawn;
  graph->record([&] {
    doubled = input * 2;
    drawn = torch::rand({3}, kDevice);
  });
  CHECK(doubled.isnan().all().item<bool>());
  input.fill_(4);
  graph->replay();
  CHECK(doubled[0].item<float>() == 8);
  const at::Tensor before = drawn.cpu();
  input.fill_(5);
  graph->replay();
  CHECK(doubled[2].item<float>() == 10);
  CHECK_FALSE(at::equal(drawn.cpu(), before));
  const auto other = Registry<Accelerator>::instance().make("QueuedAccelerator", Value::Map{})->make_graph(kDevice, nullptr);
  CHECK_THROWS_WITH(other->record([&] { static_cast<void>(doubled.sum().item()); }), Catch::Contains("capturing"));
}

TEST_CASE("two of them have their own memory and their own queues") {
  const EnvironmentVariable two("QUEUED_DEVICES", "2");
  const at::Tensor one = torch::full({2}, 1, QueuedDevice::device(0));
  const at::Tensor other = torch::full({2}, 2, QueuedDevice::device(1));
  CHECK_THROWS_WITH(one + other, Catch::Contains("same device"));
  CHECK((one + other.to(one.device()))[0].item<float>() == 3);
  CHECK(QueuedDevice::counts().copies_between > 0);
}

}  // namespace
}  // namespace levin::test
