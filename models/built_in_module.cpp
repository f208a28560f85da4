#include "levin/models/built_in_module.h"

#include <c10/util/accumulate.h>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/trainer.h"
#include "levin/optim/fused_optimizers.h"

namespace levin {

void BuiltInModule::configure_model() {
  if (network_) return;
  const DataModule* const data = data_module();
  make(data != nullptr ? data->facts() : DataFacts());
}

void BuiltInModule::set_network(std::vector<std::int64_t> shape, torch::nn::Sequential network) {
  shape_ = std::move(shape);
  network_ = register_module("net", std::move(network));
}

at::Tensor BuiltInModule::forward(const at::Tensor& features) {
  std::vector<std::int64_t> sizes = {features.size(0)};
  sizes.insert(sizes.end(), shape_.begin(), shape_.end());
  if (c10::multiply_integers(sizes) != features.numel())
    throw MisuseError(
        format("a batch of features is {}, and the model is made for samples of {} numbers: leave its sizes out, or give those "
               "of the data; weights that were trained fit data with as many columns only",
               c10::str(features.sizes()), c10::multiply_integers(shape_)));
  return network_->forward(features.reshape(sizes));
}

at::Tensor BuiltInModule::output(const Batch& batch) {
  const at::Tensor given = forward(batch["features"]);
  return given.to(c10::promoteTypes(given.scalar_type(), at::kFloat));
}

StepOutput BuiltInModule::training_step(const Batch& batch, std::int64_t) {
  const at::Tensor value = loss(output(batch), batch);
  log("train_loss", value, {.prog_bar = true});
  return value;
}

void BuiltInModule::evaluate(const std::string& stage, const Batch& batch) {
  const at::Tensor given = output(batch);
  log(stage + "_loss", loss(given, batch), {.prog_bar = true});
  log_score(stage, given, batch);
}

void BuiltInModule::validation_step(const Batch& batch, std::int64_t) { evaluate("val", batch); }
void BuiltInModule::test_step(const Batch& batch, std::int64_t) { evaluate("test", batch); }
OptimizerSetups BuiltInModule::configure_optimizers() { return AdamW(parameters(), lr_); }

}  // namespace levin
