// A user's program whose losses use the outputs of all ranks. Run by gathered_gradients_test.
// Arguments: scenario=… ranks=… folder=… and what the scenario takes, as name=value.
#include <torch/torch.h>

#include "distributed/dataset_loader.h"
#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "distributed/tensor_text.h"
#include "support/mean_gradients.h"

namespace levin::test::gathered_gradients_program {

namespace {

/// A contrastive loss over the features of all ranks: each sample should differ from every other.
class Contrastive : public Module {
 public:
  explicit Contrastive(bool by_hand) {
    torch::manual_seed(5);
    set_automatic_optimization(!by_hand);
    encoder_ = register_module("encoder", torch::nn::Linear(3, 4));
    encoder_->to(torch::kDouble);
    temperature_ = register_parameter("temperature", torch::full({1}, 0.3, torch::kDouble));
    idle_ = register_parameter("idle", torch::ones({1}, torch::kDouble));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor all = all_gather(encoder_->forward(batch[0]).tanh(), {.gradients = true}).flatten(0, 1);
    const at::Tensor likeness = all.matmul(all.t()) * temperature_.exp();
    const at::Tensor loss = likeness.fill_diagonal_(-100).logsumexp(1).mean() + all.square().mean() - all.pow(3).sum() / 10;
    log("loss", loss, {.on_step = true});
    if (automatic_optimization()) return loss;
    optimizer().zero_grad();
    manual_backward(loss);
    step_optimizer();
    return {};
  }
  OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::AdamW>(parameters(), torch::optim::AdamWOptions(0.05).weight_decay(0.1));
  }

 private:
  torch::nn::Linear encoder_{nullptr};
  at::Tensor temperature_;
  at::Tensor idle_;  ///< no rank uses it
};

/// strategy, arguments (name:value of it), batch, accumulate, by_hand, precision
void trains(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = 2;
  options.use_distributed_sampler = true;
  options.accumulate_grad_batches = settings.number("accumulate", 1);
  Value arguments(Value::Map{});
  if (settings.has("argument"))
    arguments[settings.text("argument")] = settings.has("value") ? Value(settings.text("value")) : Value(true);
  if (settings.has("strategy")) options.strategy = Component<Strategy>(Value(settings.text("strategy")), arguments);
  const at::Tensor samples = torch::arange(72, torch::kDouble).reshape({24, 3}).mul(0.7).sin();
  Trainer trainer(options);
  Contrastive module(settings.number("by_hand", 0) == 1);
  trainer.fit(module, dataset_loader(samples, {.batch_size = settings.number("batch")}));
  Report(settings.text("folder"), trainer.rank()).add("weights", numbers_text(module.parameters()));
}

/// The gradient of each weight in one step of two ranks, which use what was gathered as `how` says.
class Uses : public Module {
 public:
  explicit Uses(std::string how) : how_(std::move(how)) {
    set_automatic_optimization(!by_hand());
    first_ = register_parameter("first", torch::zeros({1}));
    second_ = register_parameter("second", torch::zeros({1}));
    own_ = register_parameter("own", torch::zeros({1}));
  }

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor& x = batch[0];
    const bool is_first = trainer().rank() == 0;
    if (how_ == "plain") return weighted(all_gather(first_ * x)) + (own_ * x).sum();
    if (how_ == "elsewhere" && !is_first) return weighted(all_gather(first_ * x));
    if (how_ == "not_everywhere" && !is_first) return (own_ * x).sum();
    const at::Tensor mine = how_ == "detached" && !is_first ? (first_ * x).detach() : first_ * x;
    const at::Tensor first = all_gather(mine, {.gradients = true});
    at::Tensor unused;
    if (how_ == "no_grad") {
      const at::NoGradGuard no_grad;
      unused = all_gather(first_ * x, {.gradients = true});
      if (unused.requires_grad()) throw MisuseError("gathered with gradients where there are none");
    }
    // Not in the order of the first: ranks run backward passes in that of gathering.
    const at::Tensor second = all_gather(second_ * x, {.gradients = true});
    const auto both = [&] {
      return is_first ? weighted(first) + 10 * weighted(second) : 10 * weighted(second) + weighted(first);
    };
    if (how_ == "both" || how_ == "detached" || how_ == "no_grad") return both();
    if (how_ == "second_order") {
      const auto gradients = torch::autograd::grad({weighted(first).square()}, {first_}, {}, true, /*create_graph=*/true);
      return gradients.front().sum();
    }
    if (how_ == "left_out") return is_first ? both() : (own_ * x).sum();
    if (how_ == "no_loss") return is_first ? StepOutput(both()) : StepOutput();
    if (how_ == "one_of_two") return is_first ? both() : 10 * weighted(second);
    if (how_ == "other_of_two") return is_first ? weighted(first) + 0 * (own_ * x).sum() : 10 * weighted(second);
    if (how_ == "two_passes") {
      // Of the first pass no rank uses the first gather, of the second rank 0 alone.
      optimizer().zero_grad();
      manual_backward(10 * weighted(second), /*synchronize=*/false);
      manual_backward(is_first ? weighted(first) : (own_ * x).sum());
      step_optimizer();
    }
    if (how_ == "users_own") {
      optimizer().zero_grad();
      both().backward();
      trainer().optimizers()[0]->step();
    }
    if (how_ == "users_own_uneven") {
      (is_first ? both() : (own_ * x).sum()).backward();
      manual_backward((own_ * x).sum());
    }
    return {};
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }

 private:
  bool by_hand() const { return how_ == "two_passes" || how_.starts_with("users_own"); }
  /// Of rank q's loss the share of rank r is 1 + 2 q + 3 r.
  at::Tensor weighted(const at::Tensor& all) const {
    const at::Tensor shares = 1.0 + 2.0 * trainer().rank() + 3.0 * torch::arange(all.size(0));
    return (all.flatten() * shares).sum();
  }

  std::string how_;
  at::Tensor first_, second_, own_;
};

/// how, timeout (in seconds), batches (rank 1 has one less with uneven=1). Rank r's batches are r + 1, r + 2, …
void uses(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  Value ddp(Value::Map{{"find_unused_parameters", true}});
  if (settings.has("timeout")) ddp["timeout"] = settings.number("timeout");
  options.strategy = Component<Strategy>(Value("ddp"), ddp);
  Trainer trainer(options);
  Uses module(settings.text("how"));
  const int fewer = settings.number("uneven", 0) * trainer.rank();
  trainer.fit(module, numbers(settings.number("batches", 1) - fewer, 1 + trainer.rank()));
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& weight : module.parameters()) gradients.push_back(-weight);
  Report(settings.text("folder"), trainer.rank()).add("gradients", numbers_text(gradients));
}

const RankProgram program("gathered_gradients", {{"trains", trains}, {"uses", uses}});

}  // namespace

}  // namespace levin::test::gathered_gradients_program
