// A user's program whose module normalizes over the batches of all ranks. Run by batch_norm_ranks_test.
// Arguments: scenario=… ranks=… folder=… and those below, as name=value.
#include <torch/torch.h>

#include <numeric>

#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "distributed/tensor_text.h"
#include "levin/core/base/error.h"
#include "levin/strategies/gradients/sync_batch_norm.h"

namespace levin::test::batch_norm_program {

namespace {

/// layer=: batch_norm (of LibTorch), sync_batch_norm (of levin); dimensions=: of its input; rows=: of each rank's batches,
/// "4,0,3"; cumulative=1: momentum that averages over all batches.
class Normalized final : public Module {
 public:
  Normalized(const Settings& settings, int rank, int ranks) : settings_(settings), rank_(rank) {
    torch::manual_seed(5);
    weight_ = register_parameter("weight", torch::randn({kFeatures}));
    auto options =
        torch::nn::BatchNormOptions(kFeatures).momentum(settings.number("cumulative") == 1 ? std::nullopt : std::optional(0.1));
    if (settings.text("layer") == "sync_batch_norm") {
      own_ = register_module("norm", SyncBatchNorm(options));
    } else if (settings.number("dimensions") == 4) {
      images_ = register_module("norm", torch::nn::BatchNorm2d(options));
    } else {
      rows_layer_ = register_module("norm", torch::nn::BatchNorm1d(options));
    }
    rows_ = settings.numbers("rows");
    if (ranks == 1) rows_ = {std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0})};
    all_rows_ = std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0});
  }

  StepOutput training_step(const Batch&, std::int64_t batch_idx) override {
    const std::int64_t first = std::accumulate(rows_.begin(), rows_.begin() + rank_, std::int64_t{0});
    const std::int64_t own_rows = rows_.at(static_cast<std::size_t>(rank_));
    torch::manual_seed(100 + batch_idx);
    const bool images = settings_.number("dimensions") == 4;
    const auto shape =
        images ? std::vector<std::int64_t>{all_rows_, kFeatures, 2, 3} : std::vector<std::int64_t>{all_rows_, kFeatures};
    const at::Tensor all = torch::randn(shape) + 1;
    const at::Tensor target = torch::randn(shape).narrow(0, first, own_rows);
    const at::Tensor input = all.narrow(0, first, own_rows).clone().requires_grad_(true);
    const at::Tensor scale = images ? weight_.view({1, -1, 1, 1}) : weight_.view({1, -1});
    const bool skips = settings_.number("skip", -1) == rank_ && batch_idx == 2;
    const at::Tensor normalized = skips ? input : normalize(input);
    const bool detaches = settings_.number("detach", -1) == rank_ && batch_idx == 2;
    const at::Tensor output = (detaches ? input + normalized.detach() : normalized) * scale;
    inputs_.push_back(input);
    outputs_.push_back(output.detach());
    // The mean over ranks is the mean over all rows.
    return (output - target).square().sum() * static_cast<double>(rows_.size()) / static_cast<double>(all_rows_);
  }
  void validation_step(const Batch&, std::int64_t) override {
    const at::Tensor input = torch::linspace(-1, 1, kFeatures * 6).view({6, kFeatures});
    evaluated_ = normalize(settings_.number("dimensions") == 4 ? input.view({6, kFeatures, 1, 1}) : input);
  }
  OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  }

  void report(Report& report) const {
    for (std::size_t step = 0; step < inputs_.size(); ++step) {
      report.add("output_" + std::to_string(step), numbers_text({outputs_[step]}));
      report.add("input_gradient_" + std::to_string(step), numbers_text({inputs_[step].grad()}));
    }
    for (const auto& entry : named_parameters()) report.add(entry.key(), numbers_text({entry.value()}));
    for (const auto& entry : named_buffers()) report.add(entry.key(), numbers_text({entry.value()}));
    report.add("evaluated", numbers_text({evaluated_}));
  }

 private:
  static constexpr std::int64_t kFeatures = 5;

  at::Tensor normalize(const at::Tensor& input) {
    if (own_) return own_->forward(input);
    return images_ ? images_->forward(input) : rows_layer_->forward(input);
  }

  const Settings& settings_;
  int rank_;
  std::vector<std::int64_t> rows_;
  std::int64_t all_rows_ = 0;
  at::Tensor weight_;
  SyncBatchNorm own_{nullptr};
  torch::nn::BatchNorm2d images_{nullptr};
  torch::nn::BatchNorm1d rows_layer_{nullptr};
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> outputs_;
  at::Tensor evaluated_;
};

/// Also: skip=, detach=: a rank that leaves the layer out of its third batch, or of its loss; fewer=: one with two batches.
/// unused=1: with find_unused_parameters.
void fit(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.sync_batchnorm = settings.text("layer") == "batch_norm";
  options.timeout_seconds = settings.has("skip") ? 4 : 20;  // the rank that waits for one which has skipped the layer
  if (settings.has("control")) {
    options.strategy = {Value("ddp"), Value(Value::Map{{"control_group", Value(settings.text("control"))}})};
  }
  if (settings.number("unused") == 1) {
    options.strategy = {Value("ddp"), Value(Value::Map{{"find_unused_parameters", Value(true)}})};
  }
  Trainer trainer(options);
  Report report(settings.text("folder"), trainer.rank());
  Normalized module(settings, trainer.rank(), trainer.world_size());
  trainer.fit(module, numbers(settings.number("fewer", -1) == trainer.rank() ? 2 : 4, 0), {numbers(1, 0)});
  module.report(report);
}

const RankProgram program("batch_norm", fit);

}  // namespace

}  // namespace levin::test::batch_norm_program
