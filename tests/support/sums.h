#pragma once

#include <levin/levin.h>

namespace levin::test {

/// Learns to add up sequences of different lengths.
class Sums : public levin::Module {
 public:
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override { return loss(batch); }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", loss(batch));  // val_loss/dataloader_idx_0 and val_loss/dataloader_idx_1
    log("val_loss_of_both", loss(batch), {.add_dataloader_idx = false});
    if (dataloader_idx() == 1) log("long_loss", loss(batch), {.add_dataloader_idx = false});
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), 0.05); }

  /// New sequences, without an end.
  levin::LoaderPtr train_dataloader() override {
    return levin::stream([](auto& rng) -> std::optional<levin::Batch> {
      const auto lengths = torch::randint(1, 6, {32}, rng);
      const auto mask = torch::arange(5) < lengths.unsqueeze(1);
      const auto numbers = torch::rand({32, 5}, rng) * mask;
      return levin::Batch{{"numbers", numbers}, {"mask", mask}, {"sum", numbers.sum(1)}};
    });
  }

  levin::LoaderList val_dataloaders() override { return {sequences({1, 2, 3}), sequences({4, 5})}; }

 private:
  /// Sequences of these lengths, padded to the longest of their batch; the mask marks their values.
  static levin::LoaderPtr sequences(std::vector<std::int64_t> lengths) {
    const auto pad = [](std::span<const levin::Batch> samples) {
      std::vector<torch::Tensor> numbers, masks, sums;
      for (const levin::Batch& sample : samples) {
        numbers.push_back(sample["numbers"]);
        masks.push_back(torch::ones_like(numbers.back()));
        sums.push_back(numbers.back().sum());
      }
      return levin::Batch{{"numbers", torch::pad_sequence(numbers, /*batch_first=*/true)},
                          {"mask", torch::pad_sequence(masks, /*batch_first=*/true)},
                          {"sum", torch::stack(sums)}};
    };
    return levin::DataLoader(Ragged(std::move(lengths)), {.batch_size = 2, .collate = pad});
  }

  struct Ragged : levin::SampleDataset {
    explicit Ragged(std::vector<std::int64_t> given) : lengths(std::move(given)) {}
    std::int64_t size() const override { return std::ssize(lengths); }
    levin::Batch get_sample(std::int64_t index) const override {
      return {{"numbers", torch::ones({lengths[static_cast<std::size_t>(index)]})}};
    }
    std::vector<std::int64_t> lengths;
  };

  torch::Tensor loss(const levin::Batch& batch) {
    return torch::mse_loss((batch["numbers"] * weight_ * batch["mask"]).sum(1), batch["sum"]);
  }

  torch::Tensor weight_ = register_parameter("weight", torch::zeros({1}));
};

}  // namespace levin::test
