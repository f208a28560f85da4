// A program of several ranks, with torch, and a few behaviours. Run by ddp_test.
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/core/random/seed.h"
#include "levin/strategies/gradients/ddp.h"
#include "levin/strategies/gradients/module_synchronizer.h"
#include "levin/strategies/launch/rank_start.h"
#include "levin/strategies/world/process_world.h"
#include "strategies/gradients/distributed_scenarios.h"
#include "support/copied_program.h"

namespace {

using levin::DdpStrategy;
using levin::ModuleSynchronizer;
using levin::ProcessWorld;
using levin::test::Context;
using levin::test::Net;
using levin::test::say;
using levin::test::zero_gradients;
using Here = levin::SourceLocation;

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
    const at::Tensor conjugates = torch::complex(tensor, tensor + 1).conj();
    for (const at::Tensor& view : {conjugates, at::imag(conjugates)}) {  // not what is in memory
      const at::Tensor all = strategy.all_gather(view, Here::current());
      check(all[context.rank()].equal(view.resolve_conj().resolve_neg()), "all_gather of a view");
      check(strategy.broadcast(view, n - 1, Here::current()).equal(all[n - 1]), "broadcast of a view");
    }
  }
  check(strategy.all_reduce(torch::tensor({1, 2}, torch::kInt), "sum", Here::current()).scalar_type() == torch::kInt, "int");
  strategy.barrier("end", Here::current());
}

/// A small tensor, which travels over the control group, and a large one of the same values give the same.
void small_as_large(Context& context) {
  const int n = context.ranks();
  const auto values = torch::tensor({40000.0, 0.375, -2.0, 0.0, 77.0}) / (1 << context.rank()) + context.rank();
  for (const auto type : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kBool, torch::kByte,
                          torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kComplexFloat}) {
    const bool has_fraction = c10::isFloatingType(type) || c10::isComplexType(type);
    const at::Tensor small = (has_fraction ? values : values.fmod(100).abs()).to(type);
    const at::Tensor large = small.repeat({40'000});
    const auto check = [&](const std::string& what, const auto& call) {
      std::string problem;
      try {
        const at::Tensor expected = call(small);
        const at::Tensor found = call(large);
        const bool is_finite = what == "sum" || found.isfinite().all().item<bool>();  // a sum may be too large for the type
        if (!is_finite || found.scalar_type() != type || !found.narrow(-1, 0, small.numel()).equal(expected)) {
          std::ostringstream text;
          text << found.narrow(-1, 0, small.numel()) << " is not " << expected;
          problem = text.str();
        }
      } catch (const std::exception& error) {
        problem = error.what();
      }
      say((problem.empty() ? "good " : "WRONG ") + what + " of " + c10::toString(type) + " " + problem);
    };
    for (const std::string op : {"sum", "mean", "min", "max"}) {
      if ((op == "mean" && !has_fraction) || (op[0] == 'm' && op != "mean" && c10::isComplexType(type))) continue;
      check(op, [&](const at::Tensor& tensor) { return context.strategy.all_reduce(tensor, op, Here::current()); });
    }
    check("all_gather", [&](const at::Tensor& tensor) { return context.strategy.all_gather(tensor, Here::current()); });
    check("broadcast", [&](const at::Tensor& tensor) { return context.strategy.broadcast(tensor, n - 1, Here::current()); });
  }
}

std::string maps() {
  std::ifstream file("/proc/self/maps");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

const levin::test::Scenarios kScenarios = {
    {"different_shapes",
     [](Context& context) {
       Net net(context.rank() == 1 ? 6 : 5);
       ModuleSynchronizer synchronizer(context.world, net, true, {});
     }},
    {"collectives", collectives},
    {"small_as_large", small_as_large},
    {"different_devices",
     [](Context& context) {
       const auto device = context.rank() == 0 ? torch::kCPU : torch::kMeta;
       context.strategy.all_reduce(torch::ones(100'000, device), "sum", Here::current());
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
    {"transports", [](Context& context) { say("transports " + context.world.description()); }},
    // The last rank dies where the others of its host wait for its share, and those of other hosts for theirs.
    {"killed_in_backward",
     [](Context& context) {
       torch::manual_seed(1);
       Net net(801, false);
       ModuleSynchronizer synchronizer(context.world, net, true, {});
       for (int step = 0; step < 3; ++step) {
         context.strategy.post_whereabouts({levin::Stage::kTrain, levin::Hook::kTrainingStep, 0, step});
         const auto loss = net.forward(torch::ones({2, 4}), true).sum();
         if (step == 2 && context.rank() == context.ranks() - 1) kill(getpid(), SIGKILL);
         synchronizer.before_backward(loss);
         loss.backward();
         synchronizer.finish_reduction();
         zero_gradients(net);
       }
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

/// Applies settings of the environment: LEVIN_TEST_HOST_NAME; LEVIN_TEST_FILE_BYTES, the limit of a file or of memory that
/// ranks share; LEVIN_TEST_HOSTS, the number of hosts; and LEVIN_TEST_GRADIENTS, the transport of gradients.
void heed_environment(levin::DdpOptions& options, levin::LaunchRequest& request) {
  if (const char* name = std::getenv("LEVIN_TEST_HOST_NAME");
      name != nullptr && (unshare(CLONE_NEWUTS) != 0 || sethostname(name, std::strlen(name)) != 0)) {
    say("this user may not name a host");
    std::exit(3);
  }
  if (const char* bytes = std::getenv("LEVIN_TEST_FILE_BYTES")) {
    const rlimit limit{static_cast<rlim_t>(std::atoll(bytes)), static_cast<rlim_t>(std::atoll(bytes))};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (const char* hosts = std::getenv("LEVIN_TEST_HOSTS")) request.num_nodes = std::atoi(hosts);
  if (const char* gradients = std::getenv("LEVIN_TEST_GRADIENTS")) {
    options.process_group_backend = levin::choice_of<levin::GradientTransport>(gradients).value();
  }
}

}  // namespace

// Arguments: a scenario, the number of ranks (0: those of the environment), the control group, and, where it is not 30, the
// time limit in seconds; or agent, a port, and, if it is to write garbage, garbage.
int main(int argc, char** argv) {
  levin::test::become_copy(argc, argv);
  levin::start_ranks_here();
  const levin::OwnProcess own;
  if (argc >= 3 && std::string(argv[1]) == "agent")
    serve_agent_store(std::atoi(argv[2]), argc > 3 && std::string(argv[3]) == "garbage");
  if (argc < 4) return 2;
  torch::set_num_threads(1);
  levin::DdpOptions options;
  options.control_group = levin::choice_of<levin::ControlTransport>(argv[3]).value();
  levin::LaunchRequest request;
  heed_environment(options, request);
  DdpStrategy strategy(options);
  try {
    request.devices = std::atoi(argv[2]) > 0 ? levin::Devices(std::atoi(argv[2])) : levin::Devices();
    request.timeout_seconds = argc > 4 ? std::atof(argv[4]) : 30;
    strategy.launch(request);
    const auto world = ProcessWorld::current();
    Context context{strategy, *world};
    try {
      levin::test::Scenarios scenarios = kScenarios;
      scenarios.merge(levin::test::gradient_scenarios());
      scenarios.merge(levin::test::group_scenarios());
      scenarios.merge(levin::test::in_flight_scenarios());
      scenarios.at(argv[1])(context);
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
