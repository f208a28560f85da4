#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "levin/core/module.h"
#include "levin/core/trainer.h"
#include "support/fixed_loader.h"

namespace levin::test {

/// One weight whose gradient in a step is the mean of the batch, so that every step can be computed by hand.
class OneWeight : public Module {
 public:
  OneWeight() : weight_(register_parameter("weight", torch::zeros({1}))) {}

  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (on_step) on_step(*this, batch_idx);
    ++steps;
    const at::Tensor loss = (weight_ * batch[0]).mean();
    log("input", batch[0].mean(), {.on_step = true, .on_epoch = true, .sync_dist = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_input", batch[0].mean());
    collected.push_back(batch[0].mean().item<double>());
  }
  void on_validation_epoch_end() override {
    if (at_validation_end) at_validation_end(*this);
    collected.clear();
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }

  double weight() const { return weight_.item<double>(); }

  std::function<void(OneWeight&, std::int64_t)> on_step;
  std::function<void(OneWeight&)> at_validation_end;
  std::vector<double> collected;
  std::int64_t steps = 0;

 private:
  at::Tensor weight_;
};

/// Batches of one number each: rank r's are first + r, first + r + 1, …
inline std::shared_ptr<FixedLoader> numbers(int count, double first, bool knows_size = true) {
  std::vector<Batch> batches;
  for (int index = 0; index < count; ++index) batches.push_back(Batch{{"x", torch::full({1}, first + index)}});
  return std::make_shared<FixedLoader>(std::move(batches), knows_size);
}

}  // namespace levin::test
