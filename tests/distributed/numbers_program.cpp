// A user's program that logs the same numbers in every way, and gathers what it collects. Run by numbers_test and gather_test.
// Arguments: scenario=… ranks=… folder=… and what the scenario takes, as name=value.
#include <torch/torch.h>

#include <limits>

#include "distributed/numbers_scenarios.h"
#include "distributed/rank_program.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "levin/loggers/csv_logger.h"

namespace levin::test::numbers_program {

namespace {

double statistic_of(Statistic statistic, const at::Tensor& values, bool is_odd) {
  switch (statistic) {
    case Statistic::kMean:
      return values.mean().item<double>();
    case Statistic::kSum:
      return values.sum().item<double>();
    case Statistic::kMin:
      return values.min().item<double>();
    case Statistic::kMax:
      return values.max().item<double>();
    case Statistic::kCount:
      return static_cast<double>(values.size(0));
    case Statistic::kFirst:
      return values[0].item<double>();
    case Statistic::kNotANumber:
      return is_odd ? std::numeric_limits<double>::quiet_NaN() : values.min().item<double>();
  }
  return 0;
}

LogOptions options_of(const NumbersKey& key) {
  return {.on_step = key.on_step,
          .on_epoch = true,
          .prog_bar = true,
          .reduce = static_cast<Reduce>(key.reduce),
          .sync_dist = key.sync_dist,
          .rank_zero_only = key.rank_zero_only,
          .per_rank = key.per_rank,
          .batch_size = key.batch_size};
}

at::Tensor tensor_of(Form form, double value) {
  const at::Tensor number = torch::tensor(value, torch::kDouble);
  switch (form) {
    case Form::kOneElement:
      return number.reshape({1, 1});
    case Form::kFloat:
      return number.to(torch::kFloat);
    case Form::kHalf:
      return number.to(torch::kHalf);
    case Form::kBFloat16:
      return number.to(torch::kBFloat16);
    case Form::kInt64:
      return number.to(torch::kLong);
    default:
      return number;
  }
}

/// Logs every key in every step; on ranks of an odd number some values are NaN.
class Numbers : public Module {
 public:
  Numbers() : weight_(register_parameter("weight", torch::zeros({1}, torch::kDouble))) {}

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    log_all("", batch);
    return (weight_ * batch[0]).mean();
  }
  void validation_step(const Batch& batch, std::int64_t) override { log_all("val_", batch); }
  void test_step(const Batch& batch, std::int64_t) override { log_all("test_", batch); }
  Batch predict_step(const Batch& batch, std::int64_t) override { return batch[0] * 2; }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.0); }

 private:
  void log_all(const std::string& prefix, const Batch& batch) {
    for (const NumbersKey& key : numbers_keys()) {
      const double value = statistic_of(key.statistic, batch[0], trainer().rank() % 2 == 1);
      const LogOptions options = options_of(key);
      if (key.form == Form::kDouble) {
        log(prefix + key.name, value, options);
      } else if (key.form == Form::kNumber) {
        log(prefix + key.name, static_cast<int>(value), options);
      } else {
        log(prefix + key.name, tensor_of(key.form, value), options);
      }
    }
  }
  at::Tensor weight_;
};

/// samples, batch, loaders (of validation, test and prediction; the second has half of the samples)
void logs(const Settings& settings) {
  const std::filesystem::path folder = settings.text("folder");
  TrainerOptions options = rank_options(settings.number("ranks"), folder);
  options.use_distributed_sampler = true;
  options.logger = std::make_shared<CsvLogger>(
      CsvLoggerOptions{.save_dir = folder, .name = "", .version = "run", .per_rank = true, .every_n_steps = 1});
  options.uneven = levin::Uneven::kKeep;
  Trainer trainer(options);
  Numbers module;
  const auto loaders = [&] {
    const int samples = settings.number("samples");
    LoaderList list = {samples_loader(samples, settings.number("batch"))};
    if (settings.number("loaders", 1) == 2) list.push_back(samples_loader(samples / 2, settings.number("batch")));
    return list;
  };
  Report report(folder, trainer.rank());
  const RunOptions quiet{.verbose = false};
  trainer.fit(module, loaders().front(), loaders());
  report.add_all("fit_callback", trainer.callback_metrics());
  report.add_all("fit_logged", trainer.logged_metrics());
  report.add_all("fit_bar", trainer.progress_bar_metrics());
  const auto add_results = [&](const std::string& name, const std::vector<MetricMap>& results) {
    for (std::size_t index = 0; index < results.size(); ++index) {
      report.add_all(name + std::to_string(index), results[index]);
    }
  };
  add_results("validate", trainer.validate(module, loaders(), quiet));
  add_results("test", trainer.test(module, loaders(), quiet));
  double total = 0;
  for (const auto& batches : trainer.predict(module, loaders(), quiet)) {
    for (const Batch& batch : batches) total += batch[0].sum().item<double>();
  }
  report.add("predicted", total);
}

const RankProgram program("numbers", {
                                         {"logs", logs},
                                         {"logs_objects", logs_objects},
                                         {"gathers", gathers},
                                         {"gathers_wrongly", gathers_wrongly},
                                         {"computes_area_under_curve", computes_area_under_curve},
                                         {"logs_as_the_reference", logs_as_the_reference},
                                     });

}  // namespace

}  // namespace levin::test::numbers_program
