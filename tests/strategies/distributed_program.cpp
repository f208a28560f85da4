// A program of several ranks, with torch, and a few behaviours. Run by ddp_test.
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "levin/core/error.h"
#include "levin/core/seed.h"
#include "levin/strategies/ddp.h"
#include "levin/strategies/distributed/module_synchronizer.h"
#include "levin/strategies/distributed/process_world.h"
#include "levin/strategies/rank_start.h"

namespace {

using levin::DdpStrategy;
using levin::ModuleSynchronizer;
using levin::ProcessWorld;
using Here = levin::SourceLocation;

struct Context {
  DdpStrategy& strategy;
  ProcessWorld& world;
  int rank() const { return strategy.rank(); }
  int ranks() const { return strategy.world_size(); }
};

/// One line in one write, so that lines of ranks do not mix.
void say(const std::string& text) {
  const std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

struct Net : torch::nn::Module {
  explicit Net(std::int64_t hidden = 5, bool use_norm = true) {
    first = register_module("first", torch::nn::Linear(4, hidden));
    if (use_norm) norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
    frozen = register_module("frozen", torch::nn::Linear(hidden, hidden));
    for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    spare = register_module("spare", torch::nn::Linear(hidden, 2));
    last = register_module("last", torch::nn::Linear(hidden, 2));
  }
  torch::Tensor forward(const torch::Tensor& input, bool use_spare) {
    auto hidden = torch::tanh(frozen->forward(first->forward(input)));
    if (norm) hidden = norm->forward(hidden);
    return use_spare ? spare->forward(hidden) + last->forward(hidden) : last->forward(hidden);
  }
  torch::nn::Linear first{nullptr}, frozen{nullptr}, spare{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

void zero_gradients(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) parameter.mutable_grad().reset();
}

/// All values in hexadecimal: equal texts are equal bits.
std::string bits(const torch::nn::Module& module) {
  std::string text;
  char number[32];
  const auto add = [&](const torch::Tensor& tensor) {
    const auto flat = tensor.detach().to(torch::kDouble).flatten();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      std::snprintf(number, sizeof(number), "%a ", flat[i].item<double>());
      text += number;
    }
  };
  for (const auto& parameter : module.parameters()) add(parameter);
  for (const auto& buffer : module.buffers()) add(buffer);
  return std::to_string(std::hash<std::string>{}(text));
}

double checksum(const torch::nn::Module& module) {
  double sum = 0;
  for (const auto& parameter : module.parameters()) sum += parameter.detach().to(torch::kDouble).abs().sum().item<double>();
  return sum;
}

struct TrainingOptions {
  levin::GradientReducer::Options reducer;
  bool use_norm = false;
  bool use_spare = true;
  int accumulate = 1;
  bool rank_1_has_half = false;  ///< rank 1 lacks a batch in every second step
};

/// Ten steps over a global batch of 16 rows, divided over ranks; every rank says the bits and the sum of its weights.
void train(Context& context, const TrainingOptions& options) {
  torch::manual_seed(7 + context.rank());  // ranks start apart
  Net net(5, options.use_norm);
  ModuleSynchronizer synchronizer(context.world, net, true, options.reducer);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::manual_seed(99);
  for (int step = 0; step < 10; ++step) {
    zero_gradients(net);
    levin::Votes votes;
    votes.gradient_weight = step + context.rank();
    context.strategy.vote_channel().publish(step, votes);
    const bool idle = options.rank_1_has_half && context.rank() == 1 && step % 2 == 1;
    for (int micro = 0; micro < options.accumulate; ++micro) {
      const auto data = torch::randn({16, 4}).chunk(context.ranks())[context.rank()];
      const auto target = torch::randn({16, 2}).chunk(context.ranks())[context.rank()];
      if (options.use_norm) synchronizer.synchronize_buffers();
      if (idle) continue;
      const bool last = micro + 1 == options.accumulate;
      const auto loss = torch::mse_loss(net.forward(data, options.use_spare), target) / options.accumulate;
      if (last) synchronizer.before_backward(loss);
      loss.backward();
    }
    if (idle) synchronizer.backward_without_batch();
    synchronizer.finish_reduction();
    const std::vector<levin::Votes> read = context.strategy.vote_channel().read(step);
    for (int rank = 0; rank < context.ranks(); ++rank) {
      if (read[static_cast<std::size_t>(rank)].gradient_weight != step + rank) std::abort();
    }
    optimizer.step();
  }
  if (options.use_norm) synchronizer.synchronize_buffers();
  char sum[64];
  std::snprintf(sum, sizeof(sum), "%.10f", checksum(net));
  say("bits " + bits(net) + "\nsum " + sum);
}

void collectives(Context& context) {
  const auto check = [&](bool good, const char* what) { say(std::string(good ? "good " : "WRONG ") + what); };
  const int n = context.ranks();
  const double total = n * (n + 1) / 2.0;
  auto& strategy = context.strategy;
  for (const std::int64_t size : {2, 100000}) {  // over the control group, and over the process group
    const auto tensor = torch::full({size}, static_cast<double>(context.rank() + 1));
    const auto gathered = strategy.all_gather(tensor, Here::current());
    bool rows = gathered.sizes() == at::IntArrayRef({n, size});
    for (int rank = 0; rank < n; ++rank) rows = rows && gathered[rank].eq(rank + 1).all().item<bool>();
    check(rows, "all_gather");
    check(strategy.all_reduce(tensor, "sum", Here::current()).eq(total).all().item<bool>(), "sum");
    check(strategy.all_reduce(tensor, "mean", Here::current()).eq(total / n).all().item<bool>(), "mean");
    check(strategy.all_reduce(tensor, "min", Here::current()).eq(1).all().item<bool>(), "min");
    check(strategy.all_reduce(tensor, "max", Here::current()).eq(n).all().item<bool>(), "max");
    check(strategy.broadcast(tensor, n - 1, Here::current()).eq(n).all().item<bool>(), "broadcast");
  }
  check(strategy.all_reduce(torch::tensor({1, 2}, torch::kInt), "sum", Here::current()).scalar_type() == torch::kInt, "int");
  strategy.barrier("end", Here::current());
}

std::string maps() {
  std::ifstream file("/proc/self/maps");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

using Scenario = std::function<void(Context&)>;

const std::map<std::string, Scenario> kScenarios = {
    {"train", [](Context& context) { train(context, {}); }},
    {"train_views",
     [](Context& context) {
       TrainingOptions options;
       options.reducer.gradient_as_bucket_view = true;
       options.reducer.bucket_cap_mb = 0.001;
       train(context, options);
     }},
    {"accumulate",
     [](Context& context) {
       TrainingOptions options;
       options.accumulate = 3;
       train(context, options);
     }},
    {"norm",
     [](Context& context) {
       TrainingOptions options;
       options.use_norm = true;
       train(context, options);
     }},
    {"unused",
     [](Context& context) {
       TrainingOptions options;
       options.use_spare = false;
       options.reducer.find_unused_parameters = true;
       train(context, options);
     }},
    {"unused_by_mistake",
     [](Context& context) {
       TrainingOptions options;
       options.use_spare = false;
       train(context, options);
     }},
    {"uneven",
     [](Context& context) {
       TrainingOptions options;
       options.rank_1_has_half = true;
       options.use_norm = false;
       train(context, options);
     }},
    {"uneven_unused",
     [](Context& context) {
       TrainingOptions options;
       options.rank_1_has_half = true;
       options.use_spare = false;
       options.reducer.find_unused_parameters = true;
       train(context, options);
     }},
    {"different_shapes",
     [](Context& context) {
       Net net(context.rank() == 1 ? 6 : 5);
       ModuleSynchronizer synchronizer(context.world, net, true, {});
     }},
    {"collectives", collectives},
    {"different_collectives",
     [](Context& context) {
       if (context.rank() == 0) context.strategy.barrier("alone", Here::current());
       context.strategy.all_gather(torch::ones(3), Here::current());
     }},
    {"different_tensors",
     [](Context& context) { context.strategy.all_reduce(torch::ones(3 + context.rank()), "sum", Here::current()); }},
    {"barrier_against_backward",
     [](Context& context) {
       torch::manual_seed(1);
       Net net;
       ModuleSynchronizer synchronizer(context.world, net, true, {});
       context.strategy.post_whereabouts({levin::Stage::kTrain, levin::Hook::kTrainingStep, 0, 4});
       if (context.rank() == 0) context.strategy.barrier("alone", Here::current());
       const auto loss = net.forward(torch::ones({2, 4}), true).sum();
       synchronizer.before_backward(loss);
       loss.backward();
     }},
    {"fail_in_backward",
     [](Context& context) {
       Net net;
       ModuleSynchronizer synchronizer(context.world, net, true, {});
       context.strategy.post_whereabouts({levin::Stage::kTrain, levin::Hook::kTrainingStep, 0, 4});
       if (context.rank() == 1) throw levin::MisuseError("bad batch");
       const auto loss = net.forward(torch::ones({2, 4}), true).sum();
       synchronizer.before_backward(loss);
       loss.backward();
     }},
    {"die_in_backward",
     [](Context& context) {
       Net net;
       ModuleSynchronizer synchronizer(context.world, net, true, {});
       context.strategy.post_whereabouts({levin::Stage::kTrain, levin::Hook::kTrainingStep, 0, 4});
       if (context.rank() == 1) std::abort();
       const auto loss = net.forward(torch::ones({2, 4}), true).sum();
       synchronizer.before_backward(loss);
       loss.backward();
     }},
    // Works until the file that LEVIN_TEST_END names is there.
    {"stay",
     [](Context& context) {
       Net net;
       ModuleSynchronizer synchronizer(context.world, net, true, {});
       say("process " + std::to_string(getpid()) + " is at work");
       bool end = false;
       while (!end) {
         const auto loss = net.forward(torch::ones({2, 4}), true).sum();
         synchronizer.before_backward(loss);
         loss.backward();
         zero_gradients(net);
         const auto here = torch::tensor(access(std::getenv("LEVIN_TEST_END"), F_OK) == 0 ? 1.0 : 0.0);
         end = context.strategy.all_reduce(here, "max", Here::current()).item<double>() > 0;
       }
     }},
    // LibTorch remembers for ever that there is no CUDA, when it is asked before CUDA is loaded.
    {"seeded_before_cuda",
     [](Context&) {
       levin::seed_everything(3);
       if (dlopen(LEVIN_CUDA_LIBRARY, RTLD_NOW | RTLD_GLOBAL) == nullptr) say(dlerror());
       say(at::detail::getCUDAHooks().hasCUDART() ? "knows cuda" : "knows NO CUDA");
     }},
    {"loaded", [](Context&) { say(maps().find("libtorch_cuda") == std::string::npos ? "no cuda" : "CUDA LOADED"); }},
};

/// Plays torchrun's agent: serves its store until it is killed. With `garbage` it also writes there what no rank would.
[[noreturn]] void serve_agent_store(int port, bool garbage) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;
  c10d::TCPStore store("127.0.0.1", options);
  say("serves");
  const std::string folder = "/worker/attempt_0/levin/";
  while (true) {
    if (garbage) {
      store.set(folder + "failure", std::vector<std::uint8_t>{'n', 'o'});
      store.set(folder + "where/0", std::vector<std::uint8_t>{0xff, '{'});
      store.set(folder + "where/1", std::vector<std::uint8_t>());
    }
    usleep(20'000);
  }
}

}  // namespace

// Arguments: a scenario, the number of ranks (0: those of the environment), the control group, and, where it is not 30, the
// time limit in seconds; or agent, a port, and, if it is to write
// garbage, garbage.
int main(int argc, char** argv) {
  levin::start_ranks_here();
  if (argc >= 3 && std::string(argv[1]) == "agent") serve_agent_store(std::atoi(argv[2]), argc > 3);
  if (argc < 4) return 2;
  torch::set_num_threads(1);
  levin::DdpOptions options;
  options.control_group = levin::choice_of<levin::ControlTransport>(argv[3]).value();
  DdpStrategy strategy(options);
  try {
    levin::LaunchRequest request;
    request.devices = std::atoi(argv[2]) > 0 ? levin::Devices(std::atoi(argv[2])) : levin::Devices();
    request.timeout_seconds = argc > 4 ? std::atof(argv[4]) : 30;
    strategy.launch(request);
    const auto world = ProcessWorld::current();
    Context context{strategy, *world};
    try {
      kScenarios.at(argv[1])(context);
      strategy.barrier("the end of the program", Here::current());
      strategy.teardown();
    } catch (const std::exception& error) {
      say("rank " + std::to_string(context.rank()) + " throws: " + error.what());
      strategy.report_failure({levin::Stage::kTrain, levin::Hook::kTrainingStep, 0, 4}, std::current_exception());
      return 1;
    }
  } catch (const levin::Error& error) {
    say(std::string("throws: ") + error.what());
    return error.exit_code();
  }
  return 0;
}
