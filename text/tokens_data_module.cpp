#include "levin/text/tokens_data_module.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/data/reading_options.h"
#include "levin/text/tokenizer.h"

namespace levin {

LEVIN_REGISTER_DATA_MODULE(TokensDataModule, "Token files: windows of tokens, or documents packed into blocks");

void TokensDataOptions::declare(OptionList<TokensDataOptions>& options) {
  using T = TokensDataOptions;
  options.add("path", &T::path, "Token file: what `levin tokens encode` writes, or one of nanoGPT or llm.c")
      .input_file()
      .required()
      .not_empty();
  options.add("val_path", &T::val_path, "Token file of validation data").input_file();
  options.add("test_path", &T::test_path, "Token file of test data; null: the validation data").input_file();
  options.add("val_fraction", &T::val_fraction, "Part that is validation data, at the end, where it has no file of its own")
      .min(0)
      .max(1);
  options.add("block_size", &T::block_size, "Tokens in a sample").min(1);
  options.add("mode", &T::mode,
              "windows: of all tokens, anywhere in training; packed: whole documents, as many as a block has room for");
  options.add("dtype", &T::dtype, "Type of the tokens, of a file that does not say it; null: uint16");
  options.add("end_token", &T::end_token, "Number of the token that ends a document, where no index says where they end")
      .min(0);
  options.add("vocab_size", &T::vocab_size, "The largest number of a token, and 1, where no index says it").min(1);
  options.add("tokenizer", &T::tokenizer, "Hugging Face's tokenizer.json, for prompts").input_file();
  options.add("prompts", &T::prompts, "`levin predict` gives the tokens of each to the model, which may continue them");
  declare_loaders(options);
  options.rule({"prompts", "tokenizer"}, [](const T& given) {
    return given.prompts.empty() || given.tokenizer ? "" : "prompts need the tokenizer that makes tokens of them";
  });
  options.rule({"val_fraction"},
               [](const T& given) { return given.val_fraction < 1.0 ? "" : "val_fraction leaves nothing to train on"; });
}

TokensDataModule::TokensDataModule(TokensDataOptions options) : options_(checked("TokensDataModule", std::move(options))) {
  set_hparams(write_options(options_));
}

DatasetPtr TokensDataModule::dataset_of(const TokenFile& tokens, const TokenRange& range, TokenWindows windows) const {
  if (options_.mode == TokenMode::kWindows) {
    if (range.end - range.begin <= options_.block_size) {
      throw ConfigError(
          format("block_size: '{}' has {} tokens for this part of the data, which are no window of {} and a target",
                 tokens.path().string(), range.end - range.begin, options_.block_size));
    }
    return std::make_shared<TokenDataset>(
        tokens, TokenDatasetOptions{.block_size = options_.block_size, .windows = windows, .range = range});
  }
  if (!options_.end_token && !tokens.has_documents()) {
    throw ConfigError(
        format("mode: packed: nothing says where the documents of '{}' end: give end_token, the number of the "
               "token behind each, or encode the texts with `levin tokens encode`",
               tokens.path().string()));
  }
  PackedTokenOptions packed{.block_size = options_.block_size, .document_ends = {}, .range = range};
  if (!tokens.has_documents()) packed.document_ends = find_document_ends(tokens, {0, tokens.size()}, *options_.end_token);
  return std::make_shared<PackedTokenDataset>(tokens, packed);
}

/// Where the documents of the last part of the file begin; without documents, where its tokens do.
std::int64_t TokensDataModule::validation_begin(const TokenFile& tokens) const {
  const auto wanted =
      static_cast<std::int64_t>(std::llround(static_cast<double>(tokens.size()) * (1.0 - options_.val_fraction)));
  std::vector<std::int64_t> ends;
  if (tokens.has_documents()) {
    for (const std::uint64_t end : tokens.document_ends()) ends.push_back(static_cast<std::int64_t>(end));
  } else if (options_.end_token) {
    ends = find_document_ends(tokens, {0, tokens.size()}, *options_.end_token);
  }
  const auto end = std::ranges::lower_bound(ends, wanted);
  // A last document that is longer than the part would leave nothing of it.
  return end == ends.end() || *end >= tokens.size() ? wanted : *end;
}

namespace {

/// Refuses tokens beyond a vocabulary that the file itself does not state, when they are read.
class WithinVocabulary final : public Dataset {
 public:
  WithinVocabulary(DatasetPtr dataset, TokenFile tokens, std::int64_t vocab_size)
      : dataset_(std::move(dataset)), tokens_(std::move(tokens)), vocab_size_(vocab_size) {}
  std::int64_t size() const override { return dataset_->size(); }
  std::optional<std::uint64_t> fingerprint() const override { return dataset_->fingerprint(); }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    Batch batch = dataset_->get_batch(indices);
    for (const char* name : {"input", "target"}) {
      if (batch[name].numel() > 0 && batch[name].max().item<std::int64_t>() >= vocab_size_) fail();
    }
    return batch;
  }

 private:
  /// Names the first of the file, which is looked for from its beginning.
  [[noreturn]] void fail() const {
    constexpr std::int64_t kAtOnce = 1 << 16;
    std::vector<std::int64_t> read;
    for (std::int64_t begin = 0; begin < tokens_.size(); begin += kAtOnce) {
      read.resize(static_cast<std::size_t>(std::min(kAtOnce, tokens_.size() - begin)));
      tokens_.read(begin, read);
      const auto wrong = std::ranges::find_if(read, [&](std::int64_t token) { return token >= vocab_size_; });
      if (wrong == read.end()) continue;
      throw ConfigError(
          format("vocab_size: '{}' has the token {} at {}, and a vocabulary of {} has tokens up to {}: set it to that of the "
                 "tokenizer that the file was encoded with",
                 tokens_.path().string(), *wrong, begin + (wrong - read.begin()), vocab_size_, vocab_size_ - 1));
    }
    throw IoError(format("'{}' has changed while it was read", tokens_.path().string()));
  }

  DatasetPtr dataset_;
  TokenFile tokens_;
  std::int64_t vocab_size_;
};

}  // namespace

void TokensDataModule::setup(Stage) {
  if (is_set_up_) return;
  const TokenFile tokens(options_.path, options_.dtype);
  vocab_size_ = tokens.vocab_size() ? tokens.vocab_size() : options_.vocab_size;
  const auto part_of = [&](const TokenFile& file, const TokenRange& range, TokenWindows windows) -> DatasetPtr {
    DatasetPtr part = dataset_of(file, range, windows);
    if (file.vocab_size() || !vocab_size_) return part;
    return std::make_shared<WithinVocabulary>(std::move(part), file, *vocab_size_);
  };
  const auto whole = [&](const std::filesystem::path& path) {
    const TokenFile other(path, options_.dtype);
    return part_of(other, {0, other.size()}, TokenWindows::kConsecutive);
  };
  std::int64_t end = tokens.size();
  if (options_.val_path) {
    val_ = whole(*options_.val_path);
  } else if (options_.val_fraction > 0) {
    end = validation_begin(tokens);
    val_ = part_of(tokens, {end, tokens.size()}, TokenWindows::kConsecutive);
  }
  if (options_.test_path) test_ = whole(*options_.test_path);
  train_ = part_of(tokens, {0, end}, options_.shuffle ? TokenWindows::kRandom : TokenWindows::kConsecutive);
  is_set_up_ = true;
}

LoaderPtr TokensDataModule::train_dataloader() { return DataLoader(train_, training_options(options_)); }

LoaderList TokensDataModule::evaluation_loader(const DatasetPtr& dataset) const {
  return DataLoader(dataset, reading_options(options_));
}

LoaderList TokensDataModule::val_dataloaders() { return val_ ? evaluation_loader(val_) : LoaderList(); }

LoaderList TokensDataModule::test_dataloaders() { return test_ ? evaluation_loader(test_) : val_dataloaders(); }

LoaderList TokensDataModule::predict_dataloaders() {
  if (options_.prompts.empty()) return {};
  const Tokenizer tokenizer(*options_.tokenizer);
  std::vector<Batch> batches;
  for (const std::string& prompt : options_.prompts) {
    const std::vector<std::int64_t> tokens = tokenizer.encode(prompt, /*special_tokens=*/false);
    if (tokens.empty()) throw ConfigError(format("prompts: {} has no tokens", quoted_text(prompt)));
    batches.push_back({{"input", at::tensor(tokens).unsqueeze(0)}});
  }
  return batches;
}

DataFacts TokensDataModule::facts() const { return {.classes = vocab_size_}; }

Value TokensDataModule::state_dict() const {
  Value state;
  if (vocab_size_) state["vocab_size"] = *vocab_size_;
  return state;
}

void TokensDataModule::load_state_dict(const Value& state) {
  const Value* const saved = state.find("vocab_size");
  if (saved == nullptr) return;
  if (is_set_up_ && vocab_size_ && *vocab_size_ > saved->as_int()) {
    throw ConfigError(
        format("path: '{}' has a vocabulary of {} tokens, and the checkpoint's model one of {}: encode the texts with "
               "the tokenizer that it was trained with",
               options_.path.string(), *vocab_size_, saved->as_int()));
  }
  vocab_size_ = saved->as_int();
}

}  // namespace levin
