#include <levin/levin.h>

#include <limits>

namespace {

struct RankValuesOptions {
  std::int64_t nan_rank = -1;

  static void declare(levin::OptionList<RankValuesOptions>& options) {
    options.add("nan_rank", &RankValuesOptions::nan_rank, "The rank whose value is NaN in the second batch of each epoch")
        .min(-1);
  }
};

/// Logs values that follow from rank, epoch and batch: 100 * rank + 10 * epoch + batch_idx.
class RankValues : public levin::Module {
 public:
  using Options = RankValuesOptions;
  explicit RankValues(const RankValuesOptions& options)
      : options_(options), weight_(register_parameter("weight", torch::zeros({1}))) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t batch_idx) override {
    const double value = value_of(batch_idx);
    log("loss", value, {.sync_dist = true, .per_rank = true});
    log(own("loss_by_name"), value);
    return (weight_ * batch[0]).mean();
  }
  void validation_step(const levin::Batch&, std::int64_t batch_idx) override {
    log("val", value_of(batch_idx), {.per_rank = true});
    log(own("val_by_name"), value_of(batch_idx));
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.0); }

 private:
  std::string own(const std::string& name) const { return "rank_" + std::to_string(trainer().rank()) + "_" + name; }
  double value_of(std::int64_t batch_idx) const {
    const int rank = trainer().rank();
    if (rank == options_.nan_rank && batch_idx == 1) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(100 * rank + 10 * current_epoch() + batch_idx);
  }

  RankValuesOptions options_;
  torch::Tensor weight_;
};

struct PairsOptions {
  std::int64_t samples = 24;
  static void declare(levin::OptionList<PairsOptions>& options) {
    options.add("samples", &PairsOptions::samples, "Samples of training and of validation").min(1);
  }
};

/// So many ones, two in a batch.
class Pairs : public levin::DataModule {
 public:
  using Options = PairsOptions;
  explicit Pairs(const PairsOptions& options) : options_(options) {}
  levin::LoaderPtr train_dataloader() override { return loader(); }
  levin::LoaderList val_dataloaders() override { return {loader()}; }

 private:
  levin::LoaderPtr loader() const {
    auto dataset = std::make_shared<levin::TensorDataset>(levin::Batch{{"x", torch::ones({options_.samples, 1})}});
    return std::make_shared<levin::DataLoader>(dataset, levin::DataLoaderOptions{.batch_size = 2});
  }
  PairsOptions options_;
};

LEVIN_REGISTER_DATA_MODULE(Pairs, "So many ones, two in a batch");
LEVIN_REGISTER_MODULE(RankValues, "Logs values that follow from rank, epoch and batch");

}  // namespace
