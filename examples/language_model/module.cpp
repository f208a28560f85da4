#include <levin/levin.h>

#include <fstream>
#include <set>

namespace {

namespace nn = torch::nn;

/// A small transformer that predicts the next character of a text, and so writes one.
class Writer : public levin::Module {
 public:
  struct Options {
    std::filesystem::path text;
    std::int64_t context = 64;
    std::int64_t width = 64;
    std::int64_t batch_size = 16;
    std::string prompt = "Alice";

    static void declare(levin::OptionList<Options>& options) {
      options.add(&Options::text, "The text to learn; its last tenth is for validation").input_file().required();
      options.add(&Options::context, "Characters that the next one is predicted from").min(1);
      options.add(&Options::prompt, "`levin predict` continues it").not_empty();
    }
  };

  explicit Writer(const Options& options) : options_(options) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = loss_of(batch[0]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_loss", loss_of(batch[0]), {.prog_bar = true});
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    auto symbols = batch[0];
    while (symbols.size(1) < 300) {
      const auto scores = forward(symbols.slice(1, -options_.context)).select(1, -1).to(torch::kFloat);
      symbols = torch::cat({symbols, torch::softmax(scores / 0.7, 1).multinomial(1)}, 1);
    }
    std::string text;
    for (const auto& symbol : symbols[0].unbind()) text += *std::next(alphabet_.begin(), symbol.item<std::int64_t>());
    levin::rank_zero_info(text);
    return {};
  }

  levin::LoaderPtr train_dataloader() override { return loader(text_.substr(0, train_size()), options_.context + 1, true); }
  levin::LoaderList val_dataloaders() override { return loader(text_.substr(train_size()), options_.context + 1); }
  levin::LoaderList predict_dataloaders() override { return loader(options_.prompt, std::ssize(options_.prompt)); }

 private:
  /// The scores of each next character.
  torch::Tensor forward(const torch::Tensor& symbols) {
    const auto features = embedding_->forward(symbols) + positions_->weight.slice(0, 0, symbols.size(1));
    const auto mask = nn::TransformerImpl::generate_square_subsequent_mask(symbols.size(1)).to(device());
    return output_->forward(encoder_->forward(features.transpose(0, 1), mask)).transpose(0, 1);
  }

  torch::Tensor loss_of(const torch::Tensor& symbols) {
    return nn::functional::cross_entropy(forward(symbols.slice(1, 0, -1)).flatten(0, 1), symbols.slice(1, 1).flatten());
  }

  /// The text in samples of this many symbols: indices of characters in the alphabet.
  levin::LoaderPtr loader(const std::string& text, std::int64_t length, bool shuffle = false) const {
    std::vector<std::int64_t> symbols;
    for (const char character : text) symbols.push_back(std::distance(alphabet_.begin(), alphabet_.find(character)));
    const levin::Batch samples{torch::tensor(symbols).unfold(0, length, length)};
    return levin::DataLoader(levin::TensorDataset(samples), {.batch_size = options_.batch_size, .shuffle = shuffle});
  }

  std::size_t train_size() const { return text_.size() * 9 / 10; }

  Options options_;
  std::string text_{std::istreambuf_iterator<char>(std::ifstream(options_.text, std::ios::binary).rdbuf()), {}};
  std::set<char> alphabet_{text_.begin(), text_.end()};
  nn::Embedding embedding_ = register_module("embedding", nn::Embedding(std::ssize(alphabet_), options_.width));
  nn::Embedding positions_ = register_module("positions", nn::Embedding(options_.context, options_.width));
  nn::TransformerEncoder encoder_ = register_module(
      "encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(
                     nn::TransformerEncoderLayerOptions(options_.width, 4).dim_feedforward(4 * options_.width).dropout(0), 2)));
  nn::Linear output_ = register_module("output", nn::Linear(options_.width, std::ssize(alphabet_)));
};

LEVIN_REGISTER_MODULE(Writer, "Predicts the next character of a text, and so writes one");

}  // namespace
