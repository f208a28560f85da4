#include <levin/levin.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <utility>
#include <vector>

namespace {

/// The same tensor, with a backward pass that is wrong by a factor.
struct WrongBackward : torch::autograd::Function<WrongBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& input) { return input.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list gradients) {
    return {gradients[0] * 2};
  }
};

/// Two layers, with a fault.
class Unsound : public levin::Module {
 public:
  struct Options {
    std::string fault = "none";
    static void declare(levin::OptionList<Options>& options) {
      options.add(&Options::fault, "What is wrong")
          .choices(
              {"none", "backward", "detached", "zero", "dead", "symmetric", "explode", "vanish", "confident", "float", "nan"});
    }
  };
  explicit Unsound(const Options& options) : fault_(options.fault) {
    const torch::NoGradGuard no_grad;
    if (fault_ == "zero") first_->weight.zero_(), first_->bias.zero_();
    if (fault_ == "dead") first_->bias.fill_(-100);
    if (fault_ == "symmetric") first_->weight.fill_(0.5), first_->bias.zero_(), second_->weight.fill_(0.25);
    if (fault_ == "explode") second_->weight *= 1e6;
    if (fault_ == "vanish") second_->weight *= 1e-6, second_->bias.zero_();
    if (fault_ == "confident") second_->bias[2].fill_(50);
    if (fault_ == "nan") second_->bias[1].fill_(std::nan(""));
  }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    torch::Tensor x = batch["features"];
    if (fault_ == "float")
      x = torch::relu(torch::linear(x.to(torch::kFloat), first_->weight, first_->bias));
    else
      x = torch::relu(first_->forward(x));
    if (fault_ == "backward") x = WrongBackward::apply(x);
    if (fault_ == "detached") x = x.detach();
    const auto loss = torch::nn::functional::cross_entropy(second_->forward(x), batch["label"]);
    log("loss", loss);
    return loss;
  }
  void validation_step(const levin::Batch&, std::int64_t) override {}
  levin::OptimizerSetups configure_optimizers() override { return levin::SGD(parameters(), 0.1); }

 private:
  std::string fault_;
  torch::nn::Linear first_ = register_module("first", torch::nn::Linear(4, 8));
  torch::nn::Linear second_ = register_module("second", torch::nn::Linear(8, 3));
};

/// 24 samples of three classes, of which each rank reads every N-th in batches of four.
class UnsoundLoader final : public levin::BatchLoader {
 public:
  explicit UnsoundLoader(std::string fault) : fault_(std::move(fault)) {
    if (fault_ == "nan") features_[5][1] = std::numeric_limits<float>::infinity();
    if (fault_ == "label") labels_[10] = 7;
    if (fault_ == "alike") features_.fill_(1), labels_.fill_(2);
  }
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::optional<std::int64_t> batch_size() const override { return 4; }
  std::optional<levin::SampleShare> sample_share() const override {
    const std::int64_t mine = 24 / shard_.world_size;
    return levin::SampleShare{.all = 24, .mine = mine, .ranks = shard_.world_size};
  }
  void set_shard(const levin::Shard& shard) override { shard_ = shard; }
  void start_epoch(std::int64_t) override {
    order_.clear();
    next_ = 0;
    is_empty_given_ = false;
    for (std::int64_t sample = shard_.rank; sample < 24; sample += shard_.world_size) order_.push_back(sample);
    if (fault_ == "twice" && shard_.rank == shard_.world_size - 1) order_[2] = 0;
    if (fault_ == "short" && shard_.rank == 0) order_.resize(4);
  }
  std::optional<levin::Batch> next() override {
    static bool is_raised = false;
    if (fault_ == "signal" && shard_.rank == shard_.world_size - 1 && !std::exchange(is_raised, true)) std::raise(SIGINT);
    const auto begin = order_.begin() + next_;
    const auto end = begin + std::min<std::ptrdiff_t>(4, order_.end() - begin);
    if (begin == end && (fault_ != "empty" || std::exchange(is_empty_given_, true))) return std::nullopt;
    next_ += end - begin;
    const auto rows = torch::tensor(std::vector<std::int64_t>(begin, end), torch::kLong);
    return levin::Batch{{"features", features_.index_select(0, rows)}, {"label", labels_.index_select(0, rows)}};
  }
  std::optional<std::vector<std::int64_t>> epoch_samples(std::int64_t batches) const override {
    const auto count = std::min<std::ptrdiff_t>(4 * batches, std::ssize(order_));
    return std::vector<std::int64_t>(order_.begin(), order_.begin() + count);
  }

 private:
  std::string fault_;
  torch::Tensor features_ = torch::arange(96, torch::kFloat).sin().reshape({24, 4});
  torch::Tensor labels_ = torch::arange(24).remainder(3);
  levin::Shard shard_;
  std::vector<std::int64_t> order_;
  std::ptrdiff_t next_ = 0;
  bool is_empty_given_ = false;
};

class UnsoundData : public levin::DataModule {
 public:
  struct Options {
    std::string fault = "none";
    std::string validation = "none";
  };
  explicit UnsoundData(Options options) : options_(std::move(options)) {}
  levin::LoaderPtr train_dataloader() override { return std::make_shared<UnsoundLoader>(options_.fault); }
  levin::LoaderList val_dataloaders() override { return std::make_shared<UnsoundLoader>(options_.validation); }

 private:
  Options options_;
};

LEVIN_REGISTER_MODULE(Unsound, "A model with a fault");
LEVIN_REGISTER_DATA_MODULE(UnsoundData, "Data with a fault");

}  // namespace
