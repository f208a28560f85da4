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
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "levin/core/error.h"
#include "levin/core/seed.h"
#include "levin/strategies/ddp.h"
#include "levin/strategies/distributed/module_synchronizer.h"
#include "levin/strategies/distributed/power_sgd.h"
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
  levin::GradientReducer::Options reducer = {};
  bool use_norm = false;
  bool use_spare = true;
  int accumulate = 1;
  bool rank_1_has_half = false;  ///< rank 1 lacks a batch in every second step
  bool lacks_first = false;      ///< from the first on
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
    const bool idle = options.rank_1_has_half && context.rank() == 1 && step % 2 == (options.lacks_first ? 0 : 1);
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

/// Element `index` of the gradient that make_power_sgd_reference.py and power_sgd_test give this parameter.
at::Tensor made_up_gradient(const std::vector<std::int64_t>& shape, int rank, int step, int parameter) {
  const at::Tensor index = torch::arange(c10::multiply_integers(shape), torch::kFloat);
  const at::Tensor values =
      torch::sin(index * (1.3 + 0.1 * parameter) + 0.7 * rank + 0.31 * step) + 0.1 * torch::cos(index * index * 0.3);
  return values.view(shape);
}

/// Five buckets of made-up gradients through PowerSGD: rank 0 says what becomes of each.
void power_sgd_numbers(Context& context, const levin::PowerSgdOptions& options) {
  const std::vector<std::vector<std::int64_t>> shapes = {{6, 8}, {7}, {5, 2, 4}, {}};
  std::vector<at::Tensor> parameters;
  for (const auto& shape : shapes) parameters.push_back(torch::zeros(shape));
  levin::PowerSgd power_sgd(options);
  const auto sum = [&](at::Tensor& tensor) {
    std::vector<at::Tensor> tensors = {tensor};
    context.world.process_group()->allreduce(tensors)->wait();
  };
  for (int step = 0; step < 5; ++step) {
    std::vector<at::Tensor> flat;
    std::vector<std::size_t> offsets;
    std::vector<std::size_t> lengths;
    std::vector<c10::IntArrayRef> sizes;
    std::size_t offset = 0;
    for (std::size_t number = 0; number < shapes.size(); ++number) {
      flat.push_back(made_up_gradient(shapes[number], context.rank(), step, static_cast<int>(number)).flatten());
      sizes.emplace_back(shapes[number]);
      offsets.push_back(offset);
      lengths.push_back(static_cast<std::size_t>(flat.back().numel()));
      offset += lengths.back();
    }
    c10d::GradBucket bucket(0, 1, torch::cat(flat), offsets, lengths, sizes, parameters, std::nullopt);
    const at::Tensor votes = torch::tensor({255.0f * static_cast<float>(context.rank()), 1.0f});
    const at::Tensor summed = power_sgd.reduce(bucket, context.ranks(), sum, votes);
    if (!summed.equal(torch::tensor({255.0f, 2.0f}))) say("WRONG votes");
    if (context.rank() != 0) continue;
    std::ostringstream numbers;
    numbers.precision(9);
    for (std::int64_t at = 0; at < bucket.getBuffer().numel(); ++at) numbers << ' ' << bucket.getBuffer()[at].item<float>();
    say("gradients" + numbers.str());
  }
}

/// One step each of SGD with a rate of 1: what a gradient becomes that travels in another format. Every rank says it.
void compressed_gradient(Context& context, levin::CommHook hook) {
  torch::nn::Module module;
  at::Tensor weight = module.register_parameter("weight", torch::zeros({4}));
  levin::GradientReducer::Options options;
  options.comm_hook = hook;
  ModuleSynchronizer synchronizer(context.world, module, true, options);
  const auto factors = torch::tensor({1.0f / 3, 1000.1f, 1e-3f, -2.7182818f}) * (context.rank() + 1);
  levin::Votes votes;
  votes.gradient_weight = 1'000'003 + context.rank();
  context.strategy.vote_channel().publish(0, votes);
  const auto loss = (weight * factors).sum();
  synchronizer.before_backward(loss);
  loss.backward();
  synchronizer.finish_reduction();
  const std::vector<levin::Votes> read = context.strategy.vote_channel().read(0);
  for (int rank = 0; rank < context.ranks(); ++rank) {
    if (read[static_cast<std::size_t>(rank)].gradient_weight != 1'000'003 + rank) say("WRONG votes");
  }
  std::ostringstream numbers;
  numbers.precision(9);
  for (std::int64_t at = 0; at < 4; ++at) numbers << ' ' << weight.grad()[at].item<float>();
  say("gradients" + numbers.str());
}

/// Two steps, one of which uses `spare`: the first, or the second.
void static_changes(Context& context, bool uses_first) {
  torch::manual_seed(1);
  Net net(5, false);
  levin::GradientReducer::Options options;
  options.static_graph = true;
  ModuleSynchronizer synchronizer(context.world, net, true, options);
  for (int step = 0; step < 2; ++step) {
    const auto loss = net.forward(torch::ones({2, 4}), (step == 0) == uses_first).sum();
    synchronizer.before_backward(loss);
    loss.backward();
    synchronizer.finish_reduction();
  }
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
    {"train_static",
     [](Context& context) {
       TrainingOptions options;
       options.reducer.static_graph = true;
       train(context, options);
     }},
    {"unused_static",
     [](Context& context) {
       TrainingOptions options;
       options.use_spare = false;
       options.reducer.static_graph = true;
       options.accumulate = 2;
       train(context, options);
     }},
    {"uneven_static",
     [](Context& context) {
       TrainingOptions options;
       options.rank_1_has_half = true;
       options.use_spare = false;
       options.reducer.static_graph = true;
       train(context, options);
     }},
    {"static_uses_less", [](Context& context) { static_changes(context, /*uses_first=*/true); }},
    {"static_uses_more", [](Context& context) { static_changes(context, /*uses_first=*/false); }},
    {"late_static",
     [](Context& context) {
       TrainingOptions options;
       options.rank_1_has_half = true;
       options.lacks_first = true;
       options.use_spare = false;
       options.reducer.static_graph = true;
       train(context, options);
     }},
    {"static_differs",
     [](Context& context) {
       Net net(5, false);
       levin::GradientReducer::Options options;
       options.static_graph = true;
       ModuleSynchronizer synchronizer(context.world, net, true, options);
       const auto loss = net.forward(torch::ones({2, 4}), context.rank() == 0).sum();
       synchronizer.before_backward(loss);
       loss.backward();
       synchronizer.finish_reduction();
     }},
    {"gradient_none", [](Context& context) { compressed_gradient(context, levin::CommHook::kNone); }},
    {"gradient_fp16", [](Context& context) { compressed_gradient(context, levin::CommHook::kFp16Compress); }},
    {"gradient_bf16", [](Context& context) { compressed_gradient(context, levin::CommHook::kBf16Compress); }},
    {"power_sgd",
     [](Context& context) {
       levin::PowerSgd power_sgd({.matrix_approximation_rank = 4, .start_power_sgd_iter = 2, .min_compression_rate = 0.1});
       TrainingOptions options;
       options.reducer.comm_hook = levin::CommHook::kPowerSgd;
       options.reducer.power_sgd = &power_sgd;
       options.reducer.bucket_cap_mb = 0.0001;
       train(context, options);
     }},
    {"power_sgd_uneven",
     [](Context& context) {
       levin::PowerSgd power_sgd({.matrix_approximation_rank = 1, .start_power_sgd_iter = 0, .min_compression_rate = 0.1});
       TrainingOptions options;
       options.reducer.comm_hook = levin::CommHook::kPowerSgd;
       options.reducer.power_sgd = &power_sgd;
       options.reducer.find_unused_parameters = true;
       options.use_spare = false;
       options.rank_1_has_half = true;
       train(context, options);
     }},
    {"power_sgd_rank_1",
     [](Context& context) { power_sgd_numbers(context, {.start_power_sgd_iter = 2, .min_compression_rate = 1}); }},
    {"power_sgd_rank_2",
     [](Context& context) {
       power_sgd_numbers(context, {.matrix_approximation_rank = 2, .start_power_sgd_iter = 2, .min_compression_rate = 1});
     }},
    {"power_sgd_cold",
     [](Context& context) {
       power_sgd_numbers(context, {.start_power_sgd_iter = 2, .min_compression_rate = 1, .warm_start = false});
     }},
    {"power_sgd_without_feedback",
     [](Context& context) {
       power_sgd_numbers(
           context,
           {.matrix_approximation_rank = 2, .start_power_sgd_iter = 2, .min_compression_rate = 1, .use_error_feedback = false});
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
// time limit in seconds; or agent, a port, and, if it is to write garbage, garbage.
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
