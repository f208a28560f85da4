#include <catch2/catch.hpp>

#include "support/file_text.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

class Failing final : public Module {
 public:
  Failing()
      : layer(register_module("layer", torch::nn::Linear(2, 3))),
        norm(register_module("norm", torch::nn::BatchNorm1d(2))),
        convolution(register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)))) {}
  StepOutput training_step(const Batch& batch, std::int64_t) override { return step(*this, batch); }
  void validation_step(const Batch& batch, std::int64_t) override {
    if (!trainer().sanity_checking() && fails_in_validation) layer->forward(batch[0].flatten());
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  std::function<at::Tensor(Failing&, const Batch&)> step;
  bool fails_in_validation = false;
  torch::nn::Linear layer;
  torch::nn::BatchNorm1d norm;
  torch::nn::Conv2d convolution;
};

/// The console's message about the error that ends a fit.
std::string error_of(Failing& module) {
  const TemporaryFolder folder;
  TrainerOptions options = quiet({.max_epochs = 1, .log_file = folder / "log"});
  const auto loader =
      std::make_shared<FixedLoader>(std::vector<Batch>{Batch{{"x", torch::ones({4, 2})}, {"y", torch::tensor({0, 1, 2, 3})}}});
  CHECK_THROWS(Trainer(options).fit(module, loader, {loader}));
  const std::string text = read_text(folder / "log");
  const auto at = text.find("failed ");
  return at == std::string::npos ? "" : text.substr(at);
}

}  // namespace

TEST_CASE("an error of LibTorch's says where, what it is, the batch and what to do, and nothing of LibTorch's own calls") {
  using Step = std::function<at::Tensor(Failing&, const Batch&)>;
  const auto [step, message, hint] = GENERATE(table<Step, std::string, std::string>({
      {[](Failing& self, const Batch& batch) { return self.layer->forward(batch[0].flatten()).mean(); }, "",
       "a linear layer's in_features must be the last dimension"},
      {[](Failing& self, const Batch& batch) {
         return self.layer->forward(batch[0].reshape({2, 4})).mean();
       },
       "mat1 and mat2 shapes cannot be multiplied (2x4 and 2x3)", "a linear layer's in_features must be the last dimension"},
      {[](Failing& self, const Batch& batch) { return self.layer->forward(batch[0].to(torch::kDouble)).mean(); },
       "must have the same dtype", "convert both to one type"},
      {[](Failing& self, const Batch& batch) {
         return torch::nn::functional::cross_entropy(self.layer->forward(batch[0]), batch[1]);
       },
       "Target 3 is out of bounds.", "a class index must be at least 0 and below the size of the last layer"},
      {[](Failing& self, const Batch& batch) {
         return torch::nn::functional::cross_entropy(self.layer->forward(batch[0]), batch[1].to(torch::kInt));
       },
       "Int", "classes are Long"},
      {[](Failing& self, const Batch&) {
         return self.convolution->forward(torch::ones({2, 1, 8, 8})).mean();
       },
       "to have 3 channels, but got 1 channels instead", "with in_channels channels"},
      {[](Failing& self, const Batch& batch) {
         at::Tensor out = self.layer->forward(batch[0]).exp();
         const at::Tensor loss = out.pow(2).mean();
         out.add_(1);
         return loss;
       },
       "modified by an inplace operation", "write x = x + y"},
      {[](Failing& self, const Batch& batch) {
         const at::Tensor loss = self.layer->forward(batch[0]).pow(2).mean();
         loss.backward();
         return loss;
       },
       "backward through the graph a second time", "do not call backward() there"},
      {[](Failing& self, const Batch& batch) { return self.norm->forward(batch[0].narrow(0, 0, 1)).mean(); },
       "Expected more than 1 value per channel", "set the loader's drop_last to true"},
      {[](Failing& self, const Batch&) {
         return self.layer->forward(torch::empty({std::int64_t{1} << 50, 2})).mean();
       },
       "allocate memory", "a smaller batch_size"},
      {[](Failing&, const Batch&) -> at::Tensor { TORCH_CHECK(false, "CUDA error: device-side assert triggered"); },
       "device-side assert", "the cause may be in an earlier hook"},
  }));
  Failing module;
  module.step = step;
  const std::string error = error_of(module);
  INFO(error);
  const std::string place = error.substr(0, error.find('\n'));
  CHECK_THAT(place, Catch::Contains("(train, epoch 0, step 0): "));
  CHECK((place.find("failed in training_step") == 0 || place.find("failed in backward") == 0));
  CHECK_THAT(error, Catch::Contains(message));
  CHECK_THAT(error, Catch::Contains("The batch: x [4, 2] Float, y [4] Long."));
  if (!hint.empty()) CHECK_THAT(error, Catch::Contains("Hint: ") && Catch::Contains(hint));
  CHECK_THAT(error, !Catch::Contains("frame #") && !Catch::Contains("Exception raised from"));
}

TEST_CASE("an error in validation names its hook, stage and batch") {
  Failing module;
  module.step = [](Failing& self, const Batch& batch) { return self.layer->forward(batch[0]).mean(); };
  module.fails_in_validation = true;
  const std::string error = error_of(module);
  CHECK_THAT(error, Catch::StartsWith("failed in validation_step (validate, epoch 0, step 1): "));
  CHECK_THAT(error, Catch::Contains("The batch: x [4, 2] Float, y [4] Long."));
}

TEST_CASE("an error without a text, or that is no std::exception, is reported by its type") {
  struct Mute final : std::exception {
    const char* what() const noexcept override { return ""; }
  };
  const auto message = [](const std::function<void()>& fail) {
    Failing module;
    module.step = [&](Failing&, const Batch&) {
      fail();
      return at::Tensor();
    };
    return error_of(module);
  };
  const std::string place = "failed in training_step (train, epoch 0, step 0): an exception of type ";
  CHECK_THAT(message([] { throw 42; }), Catch::StartsWith(place + "int, which is not a std::exception\n"));
  CHECK_THAT(message([] { throw std::string("lost"); }),
             Catch::StartsWith(place) && Catch::Contains("string") && Catch::Contains(", which is not a std::exception\n"));
  CHECK_THAT(message([] { throw std::runtime_error(""); }), Catch::StartsWith(place + "std::runtime_error without a text\n"));
  CHECK_THAT(message([] { throw Mute(); }), Catch::StartsWith(place) && Catch::Contains("Mute without a text\n"));
}
