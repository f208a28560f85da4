#pragma once

#include <levin/levin.h>

namespace {

struct StandardizedRowsOptions {
  std::filesystem::path path;
  std::int64_t batch_size = 32;

  static void declare(levin::OptionList<StandardizedRowsOptions>& options) {
    options.add("path", &StandardizedRowsOptions::path, "NumPy file of one row a sample").input_file().required();
    options.add("batch_size", &StandardizedRowsOptions::batch_size, "Samples in a batch of one rank").min(1);
  }
};

/// Rows with mean 0 and deviation 1 over the training data; a checkpoint stores both.
class StandardizedRows : public levin::DataModule {
 public:
  using Options = StandardizedRowsOptions;
  explicit StandardizedRows(StandardizedRowsOptions options) : options_(levin::checked("StandardizedRows", options)) {}

  void setup(levin::Stage) override {
    rows_ = levin::read_npy(options_.path);
    std::tie(deviation_, mean_) = torch::std_mean(rows_, 0);
  }

  // After setup() and before the loaders are requested: the checkpoint's values replace those of setup().
  levin::Value state_dict() const override {
    levin::Value state;
    state["mean"] = numbers(mean_);
    state["deviation"] = numbers(deviation_);
    return state;
  }
  void load_state_dict(const levin::Value& state) override {
    mean_ = tensor(state.at("mean"));
    deviation_ = tensor(state.at("deviation"));
  }

  levin::LoaderPtr train_dataloader() override { return loader(true); }
  levin::LoaderList predict_dataloaders() override { return {loader(false)}; }

 private:
  levin::LoaderPtr loader(bool shuffle) const {
    return levin::DataLoader(levin::TensorDataset(((rows_ - mean_) / deviation_).to(torch::kFloat)),
                             {.batch_size = options_.batch_size, .shuffle = shuffle});
  }
  static levin::Value numbers(const torch::Tensor& tensor) {
    levin::Value list;
    for (std::int64_t i = 0; i < tensor.numel(); ++i) list.push_back(tensor[i].item<double>());
    return list;
  }
  static torch::Tensor tensor(const levin::Value& numbers) {
    std::vector<double> values;
    for (const levin::Value& number : numbers.as_list()) values.push_back(number.as_double());
    return torch::tensor(values, torch::kDouble);
  }

  StandardizedRowsOptions options_;
  torch::Tensor rows_, mean_, deviation_;
};

LEVIN_REGISTER_DATA_MODULE(StandardizedRows, "Rows of a NumPy file, standardized");

}  // namespace
