#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/config/options.h"
#include "levin/core/data_module.h"
#include "levin/data/data_loader.h"
#include "levin/text/token_dataset.h"
#include "levin/text/token_file.h"

namespace levin {

/// What a sample is.
enum class TokenMode : std::uint8_t {
  kWindows,  ///< TokenDataset
  kPacked,   ///< PackedTokenDataset
};
template <>
inline constexpr std::array kChoices<TokenMode> = {Choice{TokenMode::kWindows, "windows"},
                                                   Choice{TokenMode::kPacked, "packed"}};

/// Options of TokensDataModule; in YAML the init_args of `data:`.
struct LEVIN_API TokensDataOptions {
  std::filesystem::path path = {};
  std::optional<std::filesystem::path> val_path = {};
  std::optional<std::filesystem::path> test_path = {};
  double val_fraction = 0.1;
  std::int64_t block_size = 256;
  TokenMode mode = TokenMode::kWindows;
  std::optional<TokenType> dtype = {};
  std::optional<std::int64_t> end_token = {};
  std::optional<std::int64_t> vocab_size = {};
  std::optional<std::filesystem::path> tokenizer = {};
  std::vector<std::string> prompts = {};
  std::int64_t batch_size = 32;
  bool shuffle = true;
  bool drop_last = false;
  int num_workers = 0;
  int prefetch_factor = 2;
  bool persistent_workers = true;
  std::optional<bool> pin_memory = std::nullopt;  ///< unset: when the run computes on a GPU
  Component<Sampler> sampler = {};                ///< order of the training samples, instead of `shuffle`

  static void declare(OptionList<TokensDataOptions>& options);
};

/// Token files, without a line of code: what `levin tokens encode` writes, and files of nanoGPT and llm.c. With the mode
/// `windows` batches have "input" and "target", int64 [N, block_size]; training windows begin anywhere, with `shuffle: false`
/// and in validation one behind another. With `packed` whole documents share a block, and batches have "document", "position"
/// and "mask" too. Without `val_path` the file's last part is validation data, from the beginning of a document on where these
/// are known. The vocabulary's size is in the checkpoint.
///
///     levin::TokensDataModule data({.path = "train.bin", .block_size = 1024, .batch_size = 12});
class LEVIN_API TokensDataModule : public DataModule {
 public:
  using Options = TokensDataOptions;

  /// Throws ConfigError as checked() does.
  explicit TokensDataModule(TokensDataOptions options);

  /// Opens the files, once. Throws IoError and ConfigError where they are not as described.
  void setup(Stage stage) override;
  LoaderPtr train_dataloader() override;
  LoaderList val_dataloaders() override;
  /// Of test_path; without it the validation data.
  LoaderList test_dataloaders() override;
  /// A batch for each of `prompts`: its tokens as "input" [1, N].
  LoaderList predict_dataloaders() override;
  /// `classes` is the vocabulary's size, where it is known; once setup() has run.
  DataFacts facts() const override;
  Value state_dict() const override;
  /// Throws ConfigError for data with a larger vocabulary than the checkpoint's.
  void load_state_dict(const Value& state) override;

 private:
  DatasetPtr dataset_of(const TokenFile& tokens, const TokenRange& range, TokenWindows windows) const;
  std::int64_t validation_begin(const TokenFile& tokens) const;
  LoaderList evaluation_loader(const DatasetPtr& dataset) const;

  TokensDataOptions options_;
  bool is_set_up_ = false;
  std::shared_ptr<const Dataset> train_, val_, test_;
  std::optional<std::int64_t> vocab_size_;
};

}  // namespace levin
