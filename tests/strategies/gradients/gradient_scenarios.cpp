// What distributed_program does with gradients.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <sstream>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/strategies/gradients/gradient_reducer.h"
#include "levin/strategies/gradients/module_synchronizer.h"
#include "levin/strategies/gradients/power_sgd.h"
#include "strategies/gradients/distributed_scenarios.h"

namespace {
std::atomic<int> allocations{0};
}

// LibTorch's calls come here too.
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace levin::test {
namespace {

/// All values in hexadecimal: equal texts are equal bits.
std::string bits(const torch::nn::Module& module) {
  std::string text;
  char number[32];
  const auto add = [&](const torch::Tensor& tensor) {
    const auto flat = levin::as_real(tensor.detach()).to(torch::kDouble).flatten();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      std::snprintf(number, sizeof(number), "%a ", flat[i].item<double>());
      text += number;
    }
  };
  for (const auto& parameter : module.parameters()) add(parameter);
  for (const auto& buffer : module.buffers()) add(buffer);
  return std::to_string(std::hash<std::string>{}(text));
}

std::string checksum(const torch::nn::Module& module) {
  double sum = 0;
  for (const auto& parameter : module.parameters()) {
    sum += levin::as_real(parameter.detach()).to(torch::kDouble).abs().sum().item<double>();
  }
  return levin::format("{:.10f}", sum);
}

struct TrainingOptions {
  levin::DdpOptions ddp = {};
  bool use_norm = false;
  bool use_spare = true;
  int accumulate = 1;
  bool rank_1_has_half = false;  ///< rank 1 lacks a batch in every second step
  bool lacks_first = false;      ///< from the first on
  std::int64_t hidden = 5;
  double learning_rate = 0.1;
};

/// A weight in several places, or whose gradient is sparse or complex.
struct OddNet : torch::nn::Module {
  explicit OddNet(const std::string& what) {
    first = register_module("first", torch::nn::Linear(4, 4));
    if (what == "tied") twin = register_parameter("twin", first->weight);
    if (what == "shared") again = register_module("again", first);
    if (what == "sparse" || what == "sparse_and_dense") {
      table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 4).sparse(true)));
    }
    if (what == "sparse_and_dense") twin = register_parameter("twin", table->weight);
    if (what == "sparse_function") rows = register_parameter("rows", torch::randn({6, 4}));
    if (what == "complex") complex = register_parameter("complex", torch::randn({4}, torch::kComplexFloat));
    last = register_module("last", torch::nn::Linear(4, 2));
  }
  torch::Tensor forward(const torch::Tensor& input, bool uses_odd) {
    torch::Tensor hidden = torch::tanh(first->forward(input));
    if (!uses_odd) return last->forward(hidden);
    const torch::Tensor index = (input.select(1, 0) * 2 + 2).floor().clamp(0, 4).to(torch::kLong);  // never the last row
    if (again) hidden = torch::tanh(again->forward(hidden));
    if (table) hidden = hidden + table->forward(index);
    if (twin.defined()) hidden = torch::tanh(hidden.mm(twin.t())).mm(twin) * 0.1;
    namespace F = torch::nn::functional;
    if (rows.defined()) hidden = hidden + F::embedding(index, rows, F::EmbeddingFuncOptions().sparse(true));
    if (complex.defined()) hidden = hidden + torch::real(hidden * complex * complex);
    return last->forward(hidden);
  }
  torch::nn::Linear first{nullptr}, again{nullptr}, last{nullptr};
  torch::nn::Embedding table{nullptr};
  torch::Tensor twin, rows, complex;
};

/// Ten steps over a global batch of 16 rows, divided over ranks. `forward` gets the number of the step.
void train(Context& context, const TrainingOptions& options, torch::nn::Module& net,
           const std::function<torch::Tensor(const torch::Tensor&, int)>& forward) {
  levin::PowerSgd power_sgd(options.ddp);
  ModuleSynchronizer synchronizer(context.world, net, true, options.ddp, &power_sgd);
  std::vector<torch::Tensor> parameters;
  for (auto& [name, parameter] : levin::distinct_parameters(net)) parameters.push_back(parameter);
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(options.learning_rate).momentum(0.9));
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
      const auto loss = torch::mse_loss(forward(data, step), target) / options.accumulate;
      if (last) synchronizer.before_backward(loss);
      loss.backward();
      // A pass that reduces nothing waits for no rank.
      if (!last && context.world.board().waiting()) std::abort();
    }
    if (idle) {
      synchronizer.backward_without_batch();
    } else {
      synchronizer.finish_reduction();
    }
    const std::vector<levin::Votes> read = context.strategy.vote_channel().read(step);
    for (int rank = 0; rank < context.ranks(); ++rank) {
      if (read[static_cast<std::size_t>(rank)].gradient_weight != step + rank) std::abort();
    }
    optimizer.step();
  }
  if (options.use_norm) synchronizer.synchronize_buffers();
}

/// Every rank says the bits and the sum of its weights.
void train(Context& context, const TrainingOptions& options) {
  torch::manual_seed(7 + context.rank());  // ranks start apart
  Net net(options.hidden, options.use_norm);
  train(context, options, net, [&](const torch::Tensor& data, int) { return net.forward(data, options.use_spare); });
  say("bits " + bits(net) + "\nsum " + checksum(net));
}

/// PowerSGD whose rank is that of the gradients.
levin::DdpOptions exact_power_sgd() {
  return {.comm_hook = levin::CommHook::kPowerSgd,
          .matrix_approximation_rank = 4,
          .start_power_sgd_iter = 2,
          .min_compression_rate = 0.1};
}

/// Each kind of weights in each manner: every rank says kind, manner, sum and bits of its weights.
void train_odd_weights(Context& context) {
  levin::DdpOptions views = exact_power_sgd();
  views.gradient_as_bucket_view = true;
  const std::map<std::string, TrainingOptions> manners = {
      {"plain", {}},
      {"static", {.ddp = {.static_graph = true}}},
      {"unused", {.ddp = {.find_unused_parameters = true}}},
      {"views", {.ddp = {.gradient_as_bucket_view = true}}},
      {"small_buckets", {.ddp = {.bucket_cap_mb = 0.00001}}},
      {"accumulate", {.accumulate = 2}},
      {"fp16", {.ddp = {.comm_hook = levin::CommHook::kFp16Compress}}},
      {"power_sgd", {.ddp = exact_power_sgd()}},
      {"power_sgd_views", {.ddp = views}},
      {"uneven", {.rank_1_has_half = true}},
      {"by_turns", {.ddp = {.find_unused_parameters = true}}},
  };
  for (const char* kind : {"tied", "shared", "sparse", "sparse_and_dense", "complex"}) {
    for (const auto& [name, options] : manners) {
      const std::string manner = name;
      torch::manual_seed(7 + context.rank());
      OddNet net(kind);
      // By turns: in some steps no rank uses the weight, in some one alone.
      train(context, options, net, [&](const torch::Tensor& data, int step) {
        return net.forward(data, manner != "by_turns" || step % 3 == 0 || (step % 3 == 1 && context.rank() == 0));
      });
      say(levin::format("trained {}:{} {} {}", kind, manner, checksum(net), bits(net)));
    }
  }
}

/// Element `index` of the gradient that make_power_sgd_reference.py and power_sgd_test give this parameter.
at::Tensor made_up_gradient(const std::vector<std::int64_t>& shape, int rank, int step, int parameter) {
  const at::Tensor index = torch::arange(c10::multiply_integers(shape), torch::kFloat);
  const at::Tensor values =
      torch::sin(index * (1.3 + 0.1 * parameter) + 0.7 * rank + 0.31 * step) + 0.1 * torch::cos(index * index * 0.3);
  return values.view(shape);
}

/// Five buckets of made-up gradients through PowerSGD: rank 0 says what becomes of each.
void power_sgd_numbers(Context& context, const levin::DdpOptions& options) {
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
  ModuleSynchronizer synchronizer(context.world, module, true, {.comm_hook = hook});
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

/// Among batches that are not reduced one parameter is unfrozen, and another frozen. Says the gradients of both behind the pass
/// that is reduced, and of the first when ranks have agreed on it.
void changed_between(Context& context) {
  torch::nn::Module module;
  at::Tensor first = module.register_parameter("first", torch::zeros({2}));
  at::Tensor unfrozen = module.register_parameter("unfrozen", torch::zeros({2}), /*requires_grad=*/false);
  at::Tensor frozen = module.register_parameter("frozen", torch::zeros({2}));
  const auto own = torch::tensor({1.0f, 10.0f}) * (1 + 2 * context.rank());
  (frozen * own).sum().backward();
  frozen.requires_grad_(false);
  ModuleSynchronizer synchronizer(context.world, module, true, {});
  unfrozen.requires_grad_(true);
  (2 * unfrozen * own).sum().backward();
  const auto loss = ((first + unfrozen) * own).sum();
  synchronizer.before_backward(loss);
  loss.backward();
  synchronizer.finish_reduction();
  const auto say_gradient = [&](const at::Tensor& parameter) {
    if (context.rank() == 0)
      say(levin::format("gradients {} {}", parameter.grad()[0].item<float>(), parameter.grad()[1].item<float>()));
  };
  for (const at::Tensor& parameter : {first, unfrozen, frozen}) say_gradient(parameter);
  synchronizer.parameters_changed(/*after_reduction=*/true);
  for (const at::Tensor& parameter : {first, unfrozen, frozen}) say_gradient(parameter);
}

/// Steps of a graph that is called static, of which some use `spare`.
void static_steps(Context& context, int steps, const std::function<bool(int step)>& uses_spare) {
  torch::manual_seed(1);
  Net net(5, false);
  ModuleSynchronizer synchronizer(context.world, net, true, {.static_graph = true});
  for (int step = 0; step < steps; ++step) {
    const auto loss = net.forward(torch::ones({2, 4}), uses_spare(step)).sum();
    synchronizer.before_backward(loss);
    loss.backward();
    synchronizer.finish_reduction();
  }
}

/// Allocations of a step of many modules, each with a parameter, outside of its passes.
void allocations_of_a_step(Context& context) {
  torch::nn::Module module;
  std::vector<at::Tensor> weights;
  for (int index = 0; index < 200; ++index) {
    const std::string name = "a_layer_whose_name_takes_memory_" + std::to_string(index);
    const auto layer = module.register_module(name, std::make_shared<torch::nn::Module>());
    weights.push_back(layer->register_parameter("weight", torch::ones({1})));
  }
  ModuleSynchronizer synchronizer(context.world, module, true, {});
  for (int step = 0; step < 2; ++step) {
    int before = allocations;
    synchronizer.synchronize_buffers();
    const int in_buffers = allocations - before;
    const auto loss = torch::cat(weights).sum();
    synchronizer.before_backward(loss);
    loss.backward();
    before = allocations;
    synchronizer.finish_reduction();
    const int at_end = allocations - before;
    if (step == 1) say("allocations " + std::to_string(in_buffers) + " " + std::to_string(at_end));
  }
}

}  // namespace

Scenarios gradient_scenarios() {
  levin::DdpOptions small_buckets = exact_power_sgd();
  small_buckets.bucket_cap_mb = 0.0001;
  const std::map<std::string, TrainingOptions> trainings = {
      {"train", {}},
      // Buckets that hosts share out, some during the backward pass, of a length that no number of ranks divides; many numbers,
      // which grow at a higher rate.
      {"train_wide", {.ddp = {.bucket_cap_mb = 0.01}, .hidden = 801, .learning_rate = 0.0001}},
      // A bucket that lies in memory of all ranks.
      {"train_large", {.hidden = 30'001, .learning_rate = 0.0001}},
      {"train_large_views", {.ddp = {.gradient_as_bucket_view = true}, .hidden = 30'001, .learning_rate = 0.0001}},
      {"train_views", {.ddp = {.gradient_as_bucket_view = true, .bucket_cap_mb = 0.001}}},
      {"train_static", {.ddp = {.static_graph = true}}},
      {"unused_static", {.ddp = {.static_graph = true}, .use_spare = false, .accumulate = 2}},
      {"uneven_static", {.ddp = {.static_graph = true}, .use_spare = false, .rank_1_has_half = true}},
      {"late_static", {.ddp = {.static_graph = true}, .use_spare = false, .rank_1_has_half = true, .lacks_first = true}},
      {"power_sgd", {.ddp = small_buckets}},
      {"power_sgd_uneven",
       {.ddp = {.find_unused_parameters = true,
                .comm_hook = CommHook::kPowerSgd,
                .start_power_sgd_iter = 0,
                .min_compression_rate = 0.1},
        .use_spare = false,
        .rank_1_has_half = true}},
      {"accumulate", {.accumulate = 3}},
      {"norm", {.use_norm = true}},
      {"unused", {.ddp = {.find_unused_parameters = true}, .use_spare = false}},
      {"unused_by_mistake", {.use_spare = false}},
      {"uneven", {.rank_1_has_half = true}},
      {"uneven_unused", {.ddp = {.find_unused_parameters = true}, .use_spare = false, .rank_1_has_half = true}},
  };
  const std::map<std::string, DdpOptions> approximations = {
      {"rank_1", {.start_power_sgd_iter = 2, .min_compression_rate = 1}},
      {"rank_2", {.matrix_approximation_rank = 2, .start_power_sgd_iter = 2, .min_compression_rate = 1}},
      {"cold", {.start_power_sgd_iter = 2, .min_compression_rate = 1, .warm_start = false}},
      {"without_feedback",
       {.matrix_approximation_rank = 2, .start_power_sgd_iter = 2, .min_compression_rate = 1, .use_error_feedback = false}},
  };
  Scenarios scenarios = {
      {"allocations_of_a_step", allocations_of_a_step},
      {"odd_weights", train_odd_weights},
      {"sparse_function",
       [](Context& context) {
         OddNet net("sparse_function");
         train(context, {}, net, [&](const torch::Tensor& data, int) { return net.forward(data, true); });
       }},
      {"static_uses_less", [](Context& context) { static_steps(context, 2, [](int step) { return step == 0; }); }},
      {"static_uses_more", [](Context& context) { static_steps(context, 2, [](int step) { return step == 1; }); }},
      {"static_differs", [](Context& context) { static_steps(context, 1, [&](int) { return context.rank() == 0; }); }},
      {"changed_between", changed_between},
      {"gradient_none", [](Context& context) { compressed_gradient(context, CommHook::kNone); }},
      {"gradient_fp16", [](Context& context) { compressed_gradient(context, CommHook::kFp16Compress); }},
      {"gradient_bf16", [](Context& context) { compressed_gradient(context, CommHook::kBf16Compress); }},
  };
  for (const auto& [name, options] : trainings) {
    scenarios[name] = [options = options](Context& context) { train(context, options); };
  }
  for (const auto& [name, options] : approximations) {
    scenarios["power_sgd_" + name] = [options = options](Context& context) { power_sgd_numbers(context, options); };
  }
  return scenarios;
}

}  // namespace levin::test
