#include "distributed/numbers_objects.h"

#include <torch/torch.h>

#include <map>
#include <memory>

#include "distributed/numbers_scenarios.h"
#include "distributed/rank_program.h"
#include "levin/core/metric.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/loggers/csv_logger.h"

namespace levin::test {

namespace {

/// Depends on the order of samples, and on which columns share a row.
class Remembered final : public Metric {
 public:
  explicit Remembered(Keeps keeps) {
    if (keeps != Keeps::kSamples) sum_ = add_numbers("sum");
    if (keeps == Keeps::kNumbers) return;
    values_ = add_samples("values", at::kDouble);
    places_ = add_samples("places", at::kByte, {2});
  }

  void update(const at::Tensor& values, const at::Tensor&) override {
    if (sum_) sum_->take(values.sum());
    if (!values_) return;
    values_->append(values);
    const at::Tensor places = torch::arange(1, values.size(0) + 1, torch::kByte);
    places_->append(torch::stack({places, places * 2}, 1));
  }
  MetricValue compute() const override {
    double value = sum_ ? sum_->value() : 0;
    if (!values_) return value;
    const at::Tensor values = values_->tensor();
    const at::Tensor order = torch::arange(1, values.size(0) + 1, torch::kDouble);
    return value + (values * order * places_->tensor().to(torch::kDouble).sum(1)).sum().item<double>();
  }

 private:
  std::optional<MetricNumbers> sum_;
  std::optional<MetricSamples> values_;
  std::optional<MetricSamples> places_;
};

class Objects : public Module {
 public:
  Objects() : weight_(register_parameter("weight", torch::zeros({1}, torch::kDouble))) {
    for (const std::string prefix : {"", "val_", "test_"}) {
      for (const NumbersObject& object : numbers_objects()) {
        const std::string name = prefix + object.name;
        metrics_.emplace(name, &add_metric(name, std::make_shared<Remembered>(object.keeps)));
      }
    }
  }

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    log_all("", batch);
    return (weight_ * batch[0]).mean();
  }
  void validation_step(const Batch& batch, std::int64_t) override { log_all("val_", batch); }
  void test_step(const Batch& batch, std::int64_t) override { log_all("test_", batch); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.0); }

 private:
  void log_all(const std::string& prefix, const Batch& batch) {
    for (const NumbersObject& key : numbers_objects()) {
      Metric& object = *metrics_.at(prefix + key.name);
      object.update(batch[0], {});
      log(prefix + key.name, object,
          {.on_step = key.on_step,
           .on_epoch = key.on_epoch,
           .prog_bar = true,
           .sync_dist = key.sync_dist,
           .rank_zero_only = key.rank_zero_only,
           .per_rank = key.per_rank});
    }
  }
  at::Tensor weight_;
  std::map<std::string, Metric*> metrics_;
};

}  // namespace

/// samples, batch, log_every
void logs_objects(const Settings& settings) {
  const std::filesystem::path folder = settings.text("folder");
  TrainerOptions options = rank_options(settings.number("ranks"), folder);
  options.use_distributed_sampler = true;
  options.max_epochs = 2;
  options.log_every_n_steps = settings.number("log_every");
  options.logger = std::make_shared<CsvLogger>(
      CsvLoggerOptions{.save_dir = folder, .name = "", .version = "run", .per_rank = true, .every_n_steps = 1});
  options.uneven = levin::Uneven::kKeep;
  Trainer trainer(options);
  Objects module;
  const auto loader = [&] { return samples_loader(settings.number("samples"), settings.number("batch")); };
  Report report(folder, trainer.rank());
  trainer.fit(module, loader(), {loader()});
  report.add_all("fit_callback", trainer.callback_metrics());
  report.add_all("fit_logged", trainer.logged_metrics());
  report.add_all("fit_bar", trainer.progress_bar_metrics());
  report.add_all("test", trainer.test(module, {loader()}, {.verbose = false}).at(0));
}

}  // namespace levin::test
