#include <levin/levin.h>

namespace nn = torch::nn;

/// Whether a review is a good one, by its words. A word is the hash of its letters.
class Reviews : public levin::Module {
 public:
  struct Options {
    std::string train, val;
    std::int64_t words = 1000;
    std::int64_t hidden = 32;
    double lr = 0.01;
  };
  explicit Reviews(const Options& options)
      : options_(options),
        embedding_(nn::EmbeddingOptions(options.words, options.hidden).padding_idx(0)),
        memory_(nn::GRUOptions(options.hidden, options.hidden).batch_first(true)),
        head_(options.hidden, 2) {
    register_module("embedding", embedding_);
    register_module("memory", memory_);
    register_module("head", head_);
  }

  torch::Tensor forward(const levin::Batch& batch) {
    const auto states = std::get<0>(memory_->forward(embedding_->forward(batch["words"])));
    const auto mask = (batch["words"] > 0).unsqueeze(2);
    return head_->forward((states * mask).sum(1) / mask.sum(1));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    return torch::cross_entropy_loss(forward(batch), batch["good"]);
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override {
    log("val_acc", forward(batch).argmax(1).eq(batch["good"]).to(torch::kFloat).mean());
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }
  levin::LoaderPtr train_dataloader() override { return loader(read(options_.train).shuffle(500)); }
  levin::LoaderList val_dataloaders() override { return loader(read(options_.val)); }

 private:
  levin::Pipeline<levin::Batch> read(const std::string& pattern) const {
    return levin::from_json_lines(pattern).map([words = options_.words](const levin::Value& review) -> levin::Batch {
      std::istringstream text(review.at("text").as_string());
      std::vector<std::int64_t> numbers;
      for (std::string word; text >> word;) {
        std::int64_t hash = 7;
        for (const unsigned char letter : word) hash = (31 * hash + letter) % (words - 1);
        numbers.push_back(hash + 1);
      }
      return {{"words", torch::tensor(numbers)}, {"good", torch::tensor(review.at("good").as_int())}};
    });
  }

  static levin::LoaderPtr loader(const levin::Pipeline<levin::Batch>& reviews) {
    const auto length = [](const levin::Batch& review) { return review["words"].numel(); };
    const auto pad = [](const std::vector<levin::Batch>& reviews) -> levin::Batch {
      std::vector<torch::Tensor> words, good;
      for (const auto& review : reviews) words.push_back(review["words"]), good.push_back(review["good"]);
      return {{"words", torch::pad_sequence(words, true)}, {"good", torch::stack(good)}};
    };
    return levin::stream(reviews.bucket_by_length({.boundaries = {8, 16, 32}, .max_tokens = 512}, length, pad),
                         {.num_workers = 1});
  }

  Options options_;
  nn::Embedding embedding_;
  nn::GRU memory_;
  nn::Linear head_;
};

int main(int, char** words) {
  levin::seed_everything(1);
  Reviews module({.train = words[1], .val = words[2]});
  levin::Trainer trainer({.max_epochs = 4, .logger = false, .enable_checkpointing = false, .quiet = true});
  trainer.fit(module);
  std::printf("val_acc %.4f\n", trainer.callback_metrics().at("val_acc"));
}
