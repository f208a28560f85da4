#pragma once

#include <torch/torch.h>

#include <functional>
#include <span>
#include <utility>

#include "levin/core/data_module.h"
#include "levin/core/logger.h"
#include "levin/core/metric.h"
#include "levin/data/dataset.h"

// The parts of the generated programs of resume_plans.cpp, except their module.

namespace levin::test {

/// Adds noise from the generator that everything draws from, and from one of the program: reading a batch draws too.
class NoisyDataset final : public Dataset {
 public:
  /// `noise`: null for none.
  NoisyDataset(std::int64_t size, double offset, std::function<double()> noise)
      : size_(size), offset_(offset), noise_(std::move(noise)) {}
  std::int64_t size() const override { return size_; }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    at::Tensor rows = torch::empty({static_cast<std::int64_t>(indices.size()), 2});
    for (std::size_t i = 0; i < indices.size(); ++i) {
      rows[static_cast<std::int64_t>(i)] = torch::tensor({0.1 * static_cast<double>(indices[i]) + offset_, 1.0}, torch::kFloat);
    }
    if (noise_) rows += 0.01 * torch::rand_like(rows) + 0.01 * noise_();
    return Batch{{"rows", rows}};
  }

 private:
  std::int64_t size_;
  double offset_;
  std::function<double()> noise_;
};

/// Makes new loaders whenever they are requested.
class MadeAnew final : public DataModule {
 public:
  MadeAnew(std::int64_t train, std::int64_t validation) : train_(train), validation_(validation) {}
  LoaderPtr train_dataloader() override { return make(train_, true); }
  LoaderList val_dataloaders() override { return validation_ > 0 ? LoaderList{make(validation_, false)} : LoaderList(); }
  std::function<LoaderPtr(std::int64_t samples, bool shuffle)> make;

 private:
  std::int64_t train_, validation_;
};

/// Stores rows, and resumes after those that a checkpoint records as written.
class RowLogger final : public Logger {
 public:
  using Row = std::tuple<std::int64_t, std::int64_t, MetricMap>;
  explicit RowLogger(std::vector<Row> earlier = {}) : rows(std::move(earlier)) {}
  std::string open(const RunInfo& run) override {
    rows.resize(run.resuming ? static_cast<std::size_t>(run.resume_rows.rows) : 0);
    return {};
  }
  void log_metrics(const MetricRow& row) override { rows.emplace_back(row.epoch, row.step, row.values); }
  RowCounts rows_written() const override { return {.rows = static_cast<std::int64_t>(rows.size())}; }
  void after_save_checkpoint(const std::filesystem::path& file) override { saved.push_back(file.filename().string()); }

  std::vector<Row> rows;
  std::vector<std::string> saved;  ///< by ModelCheckpoint
};

/// Stores all values of an epoch; its result depends on their order.
class KeptValues final : public Metric {
 public:
  void update(const at::Tensor& values, const at::Tensor&) override { values_.append(values.reshape({-1})); }
  MetricValue compute() const override {
    double sum = 0;
    const at::Tensor values = values_.tensor();
    for (std::int64_t place = 0; place < values.numel(); ++place) {
      sum = 0.9 * sum + values[place].item<double>();
    }
    return sum;
  }

 private:
  MetricSamples values_ = add_samples("values", at::kDouble);
};

}  // namespace levin::test
