#include <levin/levin.h>

namespace {

namespace nn = torch::nn;

/// A small convolutional network that reads handwritten digits, 8×8 pixels each.
class Digits : public levin::Module {
 public:
  struct Options {
    std::int64_t channels = 32;
    double dropout = 0.25;
    double lr = 1e-3;

    static void declare(levin::OptionList<Options>& options) {
      options.add(&Options::channels, "Channels of the first convolution; the second has twice as many").min(1);
      options.add(&Options::dropout, "Share of the features dropped before the last layer").min(0).max(0.99);
      options.add(&Options::lr, "Learning rate of Adam").min(0);
    }
  };

  explicit Digits(const Options& options) : options_(options) {
    const std::int64_t width = 2 * options.channels;
    net_ = register_module(
        "net", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, options.channels, 3).padding(1)), nn::ReLU(),
                              nn::Conv2d(nn::Conv2dOptions(options.channels, width, 3).padding(1)), nn::ReLU(),
                              nn::MaxPool2d(2), nn::Flatten(), nn::Dropout(options.dropout), nn::Linear(width * 4 * 4, 10)));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = nn::functional::cross_entropy(net_->forward(batch["features"]), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    const auto scores = net_->forward(batch["features"]);
    log("val_loss", nn::functional::cross_entropy(scores, batch["label"]), {.prog_bar = true});
    log("val_acc", levin::accuracy(scores, batch["label"]), {.prog_bar = true});
  }

  void test_step(const levin::Batch& batch, std::int64_t) override {
    test_scores_.update(net_->forward(batch["features"]), batch["label"]);
    log_dict(test_scores_);
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    return {{"digit", net_->forward(batch["features"]).argmax(1)}};
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }

 private:
  Options options_;
  nn::Sequential net_;
  levin::MetricCollection test_scores_ =
      add_metrics("test", levin::MetricCollection("test_")
                              .add<levin::Accuracy>("acc", {.num_classes = 10})
                              .add<levin::F1Score>("f1", {.num_classes = 10, .average = levin::Average::kMacro})
                              .add<levin::ConfusionMatrix>("confusion", {.num_classes = 10}));
};

LEVIN_REGISTER_MODULE(Digits, "A small convolutional network that reads handwritten digits");

}  // namespace
