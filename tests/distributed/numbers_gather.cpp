#include "distributed/numbers_scenarios.h"

#include <torch/torch.h>

#include <functional>
#include <sstream>

#include "distributed/rank_program.h"
#include "distributed/tensor_text.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin::test {

namespace {

using TensorList = std::vector<at::Tensor>;

/// "Float[2,3]=0,1,2,3,4,5"
std::string text_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes() << "=" << (tensor.numel() == 0 ? "" : numbers_text({tensor}));
  std::string without_spaces = text.str();
  std::erase(without_spaces, ' ');
  return without_spaces;
}

/// A user's loader, which divides the data itself and cannot tell which samples it gives.
class OwnLoader : public BatchLoader {
 public:
  explicit OwnLoader(std::shared_ptr<DataLoader> inner) : inner_(std::move(inner)) {}
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  void start_epoch(std::int64_t epoch) override { inner_->start_epoch(epoch); }
  std::optional<Batch> next() override { return inner_->next(); }
  void set_shard(const Shard& shard) override { inner_->set_shard(shard); }

 private:
  std::shared_ptr<DataLoader> inner_;
};

/// A step's output for its samples' numbers: one row per sample, of a type and shape.
struct RowMaker {
  std::string type;
  bool is_matrix = false;

  at::Tensor operator()(const at::Tensor& numbers) const {
    at::Tensor rows = numbers;
    if (is_matrix) rows = rows.reshape({-1, 1, 1}) + torch::arange(6, rows.options()).reshape({2, 3});
    if (type == "int64") return rows.to(torch::kLong);
    if (type == "double") return rows.to(torch::kDouble);
    if (type == "bool") return rows.remainder(3) == 0;
    if (type == "bfloat16") return rows.to(torch::kBFloat16);
    return rows.to(torch::kFloat);
  }
};

/// Collects rows in every step and gathers them at the end of each epoch, or in the step itself.
class Collector : public Module {
 public:
  explicit Collector(RowMaker make_rows) : make_rows_(std::move(make_rows)) {
    weight_ = register_parameter("weight", torch::zeros({1}));
  }

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    trained_.push_back(make_rows_(batch[0]));
    if (in_step) trained_in_steps.push_back(gather_for_metrics(trained_.back()));
    return (weight_ * batch[0]).mean();
  }
  void on_train_epoch_end() override {
    found("train", gather_for_metrics(trained_));
    if (in_step) found("train_steps", torch::cat(trained_in_steps));
    trained_.clear();
    trained_in_steps.clear();
  }
  void on_validation_epoch_start() override { validated_.assign(trainer().num_evaluation_batches().size(), {}); }
  void validation_step(const Batch& batch, std::int64_t) override {
    const auto loader = static_cast<std::size_t>(dataloader_idx());
    validated_[loader].push_back(make_rows_(batch[0]));
    if (in_step) found("val_step" + std::to_string(loader), gather_for_metrics(validated_[loader].back()));
  }
  void on_validation_epoch_end() override {
    for (std::size_t loader = 0; loader < validated_.size(); ++loader) {
      if (change_rows) change_rows(validated_[loader]);
      const at::Tensor rows = gather_for_metrics(validated_[loader], static_cast<std::int64_t>(loader));
      found("val" + std::to_string(loader), rows);
    }
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.0); }

  bool in_step = false;
  std::function<void(TensorList&)> change_rows;
  std::function<void(const std::string&, const at::Tensor&)> found;
  TensorList trained_in_steps;

 private:
  at::Tensor weight_;
  RowMaker make_rows_;
  TensorList trained_;
  std::vector<TensorList> validated_;
};

TrainerOptions gather_options(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = settings.number("epochs", 2);
  options.use_distributed_sampler = true;
  options.uneven = levin::choice_of<levin::Uneven>(settings.text("uneven", "pad")).value();
  if (settings.has("limit")) {
    options.limit_train_batches = settings.number("limit");
    options.limit_val_batches = settings.number("limit");
  }
  return options;
}

/// The samples are the numbers 0, 1, 2, … of their places in the dataset.
LoaderPtr indices_loader(const Settings& settings, int samples, bool shuffle) {
  const DataLoaderOptions options{.batch_size = settings.number("batch", 4),
                                  .shuffle = shuffle,
                                  .num_workers = settings.number("workers", 0),
                                  .drop_last = settings.number("drop_last", 0) == 1,
                                  .seed = 7};
  const auto loader = dataset_loader(torch::arange(samples, torch::kFloat), options);
  if (settings.number("own", 0) == 1) return std::make_shared<OwnLoader>(loader);
  return loader;
}

}  // namespace

/// samples, batch, type, matrix, shuffle, uneven, limit, drop_last, workers, own, in_step, second (samples of a second loader)
void gathers(const Settings& settings) {
  Trainer trainer(gather_options(settings));
  Collector module({settings.text("type"), settings.number("matrix", 0) == 1});
  module.in_step = settings.number("in_step", 0) == 1;
  Report report(settings.text("folder"), trainer.rank());
  module.found = [&](const std::string& name, const at::Tensor& rows) {
    report.add(name + "_" + std::to_string(trainer.current_epoch()), text_of(rows));
  };
  const bool shuffle = settings.number("shuffle", 0) == 1;
  LoaderList validation = {indices_loader(settings, settings.number("samples"), shuffle)};
  if (settings.has("second")) validation.push_back(indices_loader(settings, settings.number("second"), false));
  trainer.fit(module, indices_loader(settings, settings.number("samples"), shuffle), validation);
}

/// how: what rank 1 does wrong
void gathers_wrongly(const Settings& settings) {
  Trainer trainer(gather_options(settings));
  const std::string how = settings.text("how");
  struct Late : Collector {
    using Collector::Collector;
    void on_fit_end() override {
      if (too_late) gather_for_metrics(torch::ones({1}));
    }
    bool too_late = false;
  } module(RowMaker{"float"});
  module.too_late = how == "too_late";
  module.found = [](const std::string&, const at::Tensor&) {};
  module.in_step = how == "uneven_steps";
  module.change_rows = [&](TensorList& rows) {
    if (how == "no_such_loader") module.gather_for_metrics(rows, 1);
    if (trainer.rank() != 1) return;
    if (how == "missing_batch") rows.pop_back();
    if (how == "other_type") {
      for (at::Tensor& batch : rows) batch = batch.to(torch::kDouble);
    }
    if (how == "other_shape") {
      for (at::Tensor& batch : rows) batch = batch.reshape({-1, 1});
    }
    if (how == "mixed") rows.back() = rows.back().reshape({-1, 1});
    if (how == "undefined") rows.emplace_back();
    if (how == "scalar") rows.push_back(torch::tensor(1.0F));
    if (how == "elsewhere") module.gather_for_metrics(rows);
    if (how == "left_out") rows = {torch::ones({0})};
  };
  trainer.fit(module, indices_loader(settings, settings.number("samples"), false),
              {indices_loader(settings, settings.number("samples"), false)});
}

/// samples, batch: a metric that is no mean over batches, of the whole validation set.
void computes_area_under_curve(const Settings& settings) {
  struct Scored : Collector {
    using Collector::Collector;
    void validation_step(const Batch& batch, std::int64_t) override {
      scores.push_back(torch::sin(batch[0].to(torch::kDouble) * 12.9898));
      labels.push_back(batch[0].to(torch::kLong).remainder(3) == 0);
    }
    void on_validation_epoch_end() override {
      const at::Tensor score = gather_for_metrics(scores);
      const at::Tensor label = gather_for_metrics(labels);
      const at::Tensor positive = score.index({label}).unsqueeze(1);
      const at::Tensor negative = score.index({~label}).unsqueeze(0);
      log("auc", (positive > negative).to(torch::kDouble).mean() + 0.5 * (positive == negative).to(torch::kDouble).mean());
      log("weighted", (score * torch::arange(score.size(0), torch::kDouble)).sum() / 7.0);
      scores.clear();
      labels.clear();
    }
    TensorList scores, labels;
  } module(RowMaker{"double"});
  Trainer trainer(gather_options(settings));
  const auto results =
      trainer.validate(module, {indices_loader(settings, settings.number("samples"), false)}, {.verbose = false});
  Report report(settings.text("folder"), trainer.rank());
  report.add_all("result", results.at(0));
}

}  // namespace levin::test
