#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/metric.h"
#include "levin/metrics/regression.h"

// Metrics of texts and tokens, with the names, defaults and results of torchmetrics 1.9.

namespace levin {

struct LEVIN_API PerplexityOptions {
  std::optional<std::int64_t> ignore_index = std::nullopt;  ///< tokens with this target are ignored

  static void declare(OptionList<PerplexityOptions>& options);
};

/// exp of the mean negative log-likelihood of tokens. Finite also where a softmax becomes 0 (that of torchmetrics is not).
class LEVIN_API Perplexity final : public Metric {
 public:
  using Options = PerplexityOptions;

  explicit Perplexity(PerplexityOptions options = {});
  /// Logits [N, …, vocabulary], such as [N, length, vocabulary], and tokens [N, …]. Throws MisuseError on other shapes, NaN and
  /// tokens out of range; of what is on a device compute() does.
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  MetricValue compute() const override;

 private:
  std::optional<std::int64_t> ignore_index_;
  MetricNumbers sum_ = add_numbers("sum");
  MetricNumbers count_ = add_numbers("count");
  MetricNumbers wrong_ = add_numbers("wrong");
};

struct LEVIN_API BLEUScoreOptions {
  std::int64_t n_gram = 4;                                  ///< sequences of up to so many words are compared
  bool smooth = false;                                      ///< add 1 to the counts of more than one word
  std::vector<double> weights = {};                         ///< of 1, 2, … words; none: alike
  std::optional<std::int64_t> ignore_index = std::nullopt;  ///< a token that only fills up rows of tokens

  static void declare(OptionList<BLEUScoreOptions>& options);
};

/// How many sequences of words a translation has in common with references (BLEU), of all texts together. Words are what blanks
/// separate.
class LEVIN_API BLEUScore final : public Metric {
 public:
  using Options = BLEUScoreOptions;

  explicit BLEUScore(BLEUScoreOptions options = {});
  /// One or several references of each text. Throws MisuseError when there are not as many.
  void update(const std::vector<std::string>& predictions, const std::vector<std::vector<std::string>>& targets);
  void update(const std::vector<std::string>& predictions, const std::vector<std::string>& targets);
  /// Tokens [N, length], of either length; waits for a device.
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  MetricValue compute() const override;

 private:
  using Words = std::vector<std::int64_t>;
  void take(const Words& prediction, const std::vector<Words>& references);

  BLEUScoreOptions options_;
  MetricNumbers common_;
  MetricNumbers all_;
  MetricNumbers lengths_ = add_numbers("lengths", {2});  ///< of predictions, of the references that are nearest in length
};

struct LEVIN_API EditDistanceOptions {
  std::int64_t substitution_cost = 1;
  Reduction reduction = Reduction::kMean;
  std::optional<std::int64_t> ignore_index = std::nullopt;  ///< a token that only fills up rows of tokens

  static void declare(OptionList<EditDistanceOptions>& options);
};

/// The least number of characters (or tokens) that are added, taken out or replaced to make a text of another (Levenshtein).
/// Exact for any texts; torchmetrics compares only 25 characters around the diagonal.
class LEVIN_API EditDistance final : public Metric {
 public:
  using Options = EditDistanceOptions;

  explicit EditDistance(EditDistanceOptions options = {});
  /// Texts in UTF-8. Throws MisuseError when there are not as many.
  void update(const std::vector<std::string>& predictions, const std::vector<std::string>& targets);
  /// Tokens [N, length], of either length; waits for a device.
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  MetricValue compute() const override;

 private:
  using Tokens = std::vector<std::int64_t>;
  void take(const std::vector<Tokens>& predictions, const std::vector<Tokens>& targets);

  EditDistanceOptions options_;
  MetricNumbers sum_ = add_numbers("sum");
  MetricNumbers count_ = add_numbers("count");
};

}  // namespace levin
