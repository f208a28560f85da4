#include <levin/levin.h>

namespace {

namespace nn = torch::nn;

/// A small transformer that predicts the next token of a text, and so writes one.
class Writer : public levin::Module {
 public:
  struct Options {
    std::filesystem::path tokenizer;
    std::int64_t context = 64;
    std::int64_t width = 64;

    static void declare(levin::OptionList<Options>& options) {
      options.add("tokenizer", &Options::tokenizer, "Hugging Face's tokenizer.json").input_file().linked_to("data.tokenizer");
      options.add("context", &Options::context, "Tokens that the next one is predicted from").linked_to("data.block_size");
    }
  };

  explicit Writer(const Options& options) : options_(options) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = loss_of(batch);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", loss_of(batch), {.prog_bar = true});
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    auto tokens = batch["input"];
    while (tokens.size(1) < 300) {
      const auto scores = forward(tokens.slice(1, -options_.context)).select(1, -1).to(torch::kFloat);
      tokens = torch::cat({tokens, torch::softmax(scores / 0.7, 1).multinomial(1)}, 1);
    }
    tokens = tokens[0].cpu();
    levin::rank_zero_info(tokenizer_.decode({tokens.const_data_ptr<std::int64_t>(), std::size_t(tokens.numel())}));
    return {};
  }

 private:
  /// The scores of each next token.
  torch::Tensor forward(const torch::Tensor& tokens) {
    const auto features = embedding_->forward(tokens) + positions_->weight.slice(0, 0, tokens.size(1));
    const auto mask = nn::TransformerImpl::generate_square_subsequent_mask(tokens.size(1)).to(device());
    return output_->forward(encoder_->forward(features.transpose(0, 1), mask)).transpose(0, 1);
  }

  torch::Tensor loss_of(const levin::Batch& batch) {
    return nn::functional::cross_entropy(forward(batch["input"]).flatten(0, 1), batch["target"].flatten());
  }

  Options options_;
  levin::Tokenizer tokenizer_{options_.tokenizer};
  nn::Embedding embedding_ = register_module("embedding", nn::Embedding(tokenizer_.vocab_size(), options_.width));
  nn::Embedding positions_ = register_module("positions", nn::Embedding(options_.context, options_.width));
  nn::TransformerEncoder encoder_ = register_module(
      "encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(
                     nn::TransformerEncoderLayerOptions(options_.width, 4).dim_feedforward(4 * options_.width).dropout(0), 2)));
  nn::Linear output_ = register_module("output", nn::Linear(options_.width, tokenizer_.vocab_size()));
};

LEVIN_REGISTER_MODULE(Writer, "Predicts the next token of a text, and so writes one");

}  // namespace
