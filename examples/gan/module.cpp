#include <levin/levin.h>

#include <fstream>

using torch::nn::Linear, torch::nn::ReLU, torch::nn::Sequential;

/// A generator that makes images of digits from noise, and a discriminator that distinguishes them from real ones.
class Gan : public levin::Module {
 public:
  struct Options {
    double lr = 0.002;
    std::int64_t sample_every = 10;  ///< epochs from one sample image to the next

    static void declare(levin::OptionList<Options>& options) {
      options.add(&Options::sample_every, "Epochs from one sample image to the next").min(1);
    }
  };

  explicit Gan(const Options& options) : options_(options) {
    generator_ = register_module(
        "generator", Sequential(Linear(16, 128), ReLU(), Linear(128, 128), ReLU(), Linear(128, 64), torch::nn::Sigmoid()));
    discriminator_ =
        register_module("discriminator", Sequential(Linear(64, 128), ReLU(), Linear(128, 128), ReLU(), Linear(128, 1)));
    noise_ = register_buffer("noise", torch::randn({64, 16}));
    set_automatic_optimization(false);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto& real = batch["features"];
    const auto made = generator_->forward(torch::randn({real.size(0), 16}, real.options()));
    const auto d_loss = loss(real, 1) + loss(made.detach(), 0);
    step(kDiscriminator, d_loss);
    const auto g_loss = loss(made, 1);
    step(kGenerator, g_loss);
    log_dict({{"d_loss", d_loss}, {"g_loss", g_loss}}, {.prog_bar = true});
    return {};
  }

  levin::OptimizerSetups configure_optimizers() override {
    const auto options = levin::AdamOptions(options_.lr).betas({0.5, 0.999});
    return {levin::Adam(generator_->parameters(), options), levin::Adam(discriminator_->parameters(), options)};
  }

  /// Writes 64 digits, made of the same noise each time, as one image.
  void on_train_epoch_end() override {
    if (!is_global_zero() || (current_epoch() + 1) % options_.sample_every != 0) return;
    const auto rows = generator_->forward(noise_).view({8, 8, 8, 8}).transpose(1, 2) * 255;
    const auto pixels = rows.to(torch::kCPU, torch::kByte).contiguous();
    std::ofstream file(trainer().log_dir() / ("samples_" + std::to_string(current_epoch()) + ".pgm"));
    file << "P5 64 64 255\n" << std::string_view(static_cast<const char*>(pixels.const_data_ptr()), 64 * 64);
  }

 private:
  static constexpr std::size_t kGenerator = 0, kDiscriminator = 1;  // in the order of configure_optimizers

  /// How wrong the discriminator is about images that should pass as real (1) or as made (0).
  torch::Tensor loss(const torch::Tensor& images, double real) {
    const auto scores = discriminator_->forward(images);
    return torch::binary_cross_entropy_with_logits(scores, torch::full_like(scores, real));
  }

  void step(std::size_t index, const torch::Tensor& loss) {
    optimizer(index).zero_grad();
    manual_backward(loss);
    step_optimizer(index);
  }

  Options options_;
  Sequential generator_, discriminator_;
  torch::Tensor noise_;
};

LEVIN_REGISTER_MODULE(Gan, "Makes images of digits");
