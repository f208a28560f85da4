#include "levin/metrics/text.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/metrics/class_input.h"

namespace levin {

LEVIN_REGISTER_METRIC(Perplexity, "exp of the mean negative log-likelihood of tokens");
LEVIN_REGISTER_METRIC(BLEUScore, "How many sequences of words texts have in common with references");
LEVIN_REGISTER_METRIC(EditDistance, "How many characters have to change to make a text of another");

namespace {

using Tokens = std::vector<std::int64_t>;

[[noreturn]] void throw_wrong_tokens(double count) {
  throw MisuseError(format("Perplexity got {:.0f} tokens that are not in the vocabulary, or whose logits are NaN.", count));
}

void check_count(const char* metric, std::size_t predictions, std::size_t targets) {
  if (predictions == targets) return;
  throw MisuseError(
      format("{} takes a target for each prediction, and got {} predictions and {} targets.", metric, predictions, targets));
}

/// The rows of tokens without those that fill them up.
std::vector<Tokens> token_rows(const char* metric, const at::Tensor& tokens, std::optional<std::int64_t> ignore_index) {
  if (tokens.dim() != 2 || tokens.is_floating_point() || tokens.is_complex()) {
    throw MisuseError(format("{} takes texts, or tokens as integers of the shape [N, length], and got {} of {}.", metric,
                             c10::str(tokens.sizes()), c10::toString(tokens.scalar_type())));
  }
  const at::Tensor plain = detail::plain(tokens.cpu(), at::kLong);
  std::vector<Tokens> rows(static_cast<std::size_t>(tokens.size(0)));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::int64_t* first = plain.const_data_ptr<std::int64_t>() + static_cast<std::int64_t>(row) * tokens.size(1);
    std::copy_if(first, first + tokens.size(1), std::back_inserter(rows[row]),
                 [&](std::int64_t token) { return token != ignore_index; });
  }
  return rows;
}

/// The characters of a text; a byte that begins none counts as one.
Tokens characters(std::string_view text) {
  Tokens found;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    found.push_back(length == 0 ? -1 - static_cast<unsigned char>(text[0]) : utf8_code_point(text, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return found;
}

std::int64_t distance(const Tokens& from, const Tokens& to, std::int64_t substitution_cost) {
  std::vector<std::int64_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (const std::int64_t token : from) {
    std::int64_t before = row[0]++;  // in the row above, one to the left
    for (std::size_t at = 1; at < row.size(); ++at) {
      const std::int64_t replaced = before + (token == to[at - 1] ? 0 : substitution_cost);
      before = row[at];
      row[at] = std::min({replaced, row[at] + 1, row[at - 1] + 1});
    }
  }
  return row.back();
}

using Counts = std::map<Tokens, std::int64_t>;

Counts sequences(const Tokens& words, std::size_t longest) {
  Counts counts;
  for (std::size_t length = 1; length <= longest; ++length) {
    for (std::size_t at = 0; at + length <= words.size(); ++at) {
      const auto first = words.begin() + static_cast<std::ptrdiff_t>(at);
      ++counts[Tokens(first, first + static_cast<std::ptrdiff_t>(length))];
    }
  }
  return counts;
}

}  // namespace

void PerplexityOptions::declare(OptionList<PerplexityOptions>& options) {
  options.add("ignore_index", &PerplexityOptions::ignore_index, "A target that is left out");
}

Perplexity::Perplexity(PerplexityOptions options) : ignore_index_(checked("Perplexity", options).ignore_index) {}

void Perplexity::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const at::IntArrayRef given = predictions.sizes();
  if (!predictions.is_floating_point() || targets.is_floating_point() || targets.dim() == 0 ||
      given.size() != targets.sizes().size() + 1 || given.slice(0, given.size() - 1) != targets.sizes()) {
    throw MisuseError(format("Perplexity takes logits [N, …, vocabulary] and tokens [N, …], and got {} of {} and {} of {}.",
                             c10::str(predictions.sizes()), c10::toString(predictions.scalar_type()), c10::str(targets.sizes()),
                             c10::toString(targets.scalar_type())));
  }
  detail::check_same_device("Perplexity", predictions, targets);
  const std::int64_t words = given.back();
  const at::Tensor logits = predictions.detach().reshape({-1, words});
  const at::Tensor logs = at::log_softmax(logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat), 1);
  const at::Tensor tokens = targets.detach().to(at::kLong).reshape({-1, 1});
  const at::Tensor left_out = ignore_index_ ? tokens.eq(*ignore_index_) : at::zeros_like(tokens, at::kBool);
  const at::Tensor likelihood = logs.take_along_dim(tokens.clamp(0, words - 1), 1).to(at::kDouble);
  const at::Tensor outside = tokens.lt(0).bitwise_or(tokens.ge(words)).bitwise_or(likelihood.isnan());
  const at::Tensor wrong = outside.bitwise_and(left_out.bitwise_not()).sum();
  if (wrong.is_cpu() && wrong.item<double>() > 0) throw_wrong_tokens(wrong.item<double>());
  sum_.take(likelihood.masked_fill(left_out, 0).sum().neg());
  count_.take(left_out.bitwise_not().sum());
  wrong_.take(wrong);
}

MetricValue Perplexity::compute() const {
  if (wrong_.value() > 0) throw_wrong_tokens(wrong_.value());
  return std::exp(sum_.value() / count_.value());
}

void BLEUScoreOptions::declare(OptionList<BLEUScoreOptions>& options) {
  options.add("n_gram", &BLEUScoreOptions::n_gram, "Sequences of up to so many words are compared").min(1);
  options.add("smooth", &BLEUScoreOptions::smooth, "Add 1 to the counts of more than one word");
  options.add("weights", &BLEUScoreOptions::weights, "Weights of 1, 2, … words; empty: alike");
  options.add("ignore_index", &BLEUScoreOptions::ignore_index, "A token that only fills up rows of tokens");
  options.rule({"weights", "n_gram"}, [](const BLEUScoreOptions& given) {
    const bool fits = given.weights.empty() || static_cast<std::int64_t>(given.weights.size()) == given.n_gram;
    return fits ? "" : "weights are as many as n_gram says";
  });
}

BLEUScore::BLEUScore(BLEUScoreOptions options)
    : options_(checked("BLEUScore", std::move(options))),
      common_(add_numbers("common", {options_.n_gram})),
      all_(add_numbers("all", {options_.n_gram})) {}

void BLEUScore::update(const std::vector<std::string>& predictions, const std::vector<std::vector<std::string>>& targets) {
  check_count("BLEUScore", predictions.size(), targets.size());
  for (const auto& references : targets) {
    if (references.empty()) throw MisuseError("BLEUScore takes at least one reference of each text, and got none.");
  }
  for (std::size_t text = 0; text < predictions.size(); ++text) {
    std::unordered_map<std::string, std::int64_t> known;
    const auto words_of = [&](const std::string& line) {
      std::istringstream rest(line);
      Words words;
      for (std::string word; rest >> word;) words.push_back(known.try_emplace(word, known.size()).first->second);
      return words;
    };
    std::vector<Words> references;
    for (const std::string& reference : targets[text]) references.push_back(words_of(reference));
    take(words_of(predictions[text]), references);
  }
}

void BLEUScore::update(const std::vector<std::string>& predictions, const std::vector<std::string>& targets) {
  std::vector<std::vector<std::string>> references;
  for (const std::string& target : targets) references.push_back({target});
  update(predictions, references);
}

void BLEUScore::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const std::vector<Tokens> given = token_rows("BLEUScore", predictions, options_.ignore_index);
  const std::vector<Tokens> wanted = token_rows("BLEUScore", targets, options_.ignore_index);
  check_count("BLEUScore", given.size(), wanted.size());
  for (std::size_t row = 0; row < given.size(); ++row) take(given[row], {wanted[row]});
}

void BLEUScore::take(const Words& prediction, const std::vector<Words>& references) {
  const auto longest = static_cast<std::size_t>(options_.n_gram);
  Counts wanted;
  std::size_t nearest = references.front().size();
  const auto away = [&](std::size_t length) {
    return std::max(length, prediction.size()) - std::min(length, prediction.size());
  };
  for (const Words& reference : references) {
    if (away(reference.size()) < away(nearest)) nearest = reference.size();
    for (const auto& [sequence, count] : sequences(reference, longest)) wanted[sequence] = std::max(wanted[sequence], count);
  }
  std::vector<double> common(longest), all(longest);
  for (const auto& [sequence, count] : sequences(prediction, longest)) {
    const auto found = wanted.find(sequence);
    all[sequence.size() - 1] += static_cast<double>(count);
    common[sequence.size() - 1] += static_cast<double>(found == wanted.end() ? 0 : std::min(count, found->second));
  }
  common_.take(common);
  all_.take(all);
  lengths_.take(std::array{static_cast<double>(prediction.size()), static_cast<double>(nearest)});
}

MetricValue BLEUScore::compute() const {
  const std::span<const double> common = common_.values(), all = all_.values(), lengths = lengths_.values();
  double log = 0;
  for (std::size_t index = 0; index < common.size(); ++index) {
    if (common[index] == 0) return 0;
    const double more = options_.smooth && index > 0 ? 1 : 0;
    const double weight = options_.weights.empty() ? 1 / static_cast<double>(options_.n_gram) : options_.weights[index];
    log += weight * std::log((common[index] + more) / (all[index] + more));
  }
  return std::exp(log + (lengths[0] > lengths[1] ? 0 : 1 - lengths[1] / lengths[0]));
}

void EditDistanceOptions::declare(OptionList<EditDistanceOptions>& options) {
  options.add("substitution_cost", &EditDistanceOptions::substitution_cost, "What it costs to replace a character").min(0);
  options.add("reduction", &EditDistanceOptions::reduction, "Mean or sum over texts");
  options.add("ignore_index", &EditDistanceOptions::ignore_index, "A token that only fills up rows of tokens");
}

EditDistance::EditDistance(EditDistanceOptions options) : options_(checked("EditDistance", options)) {}

void EditDistance::update(const std::vector<std::string>& predictions, const std::vector<std::string>& targets) {
  const auto characters_of = [](const std::vector<std::string>& texts) {
    std::vector<Tokens> all;
    for (const std::string& text : texts) all.push_back(characters(text));
    return all;
  };
  take(characters_of(predictions), characters_of(targets));
}

void EditDistance::update(const at::Tensor& predictions, const at::Tensor& targets) {
  take(token_rows("EditDistance", predictions, options_.ignore_index),
       token_rows("EditDistance", targets, options_.ignore_index));
}

void EditDistance::take(const std::vector<Tokens>& predictions, const std::vector<Tokens>& targets) {
  check_count("EditDistance", predictions.size(), targets.size());
  for (std::size_t text = 0; text < targets.size(); ++text) {
    sum_.take(static_cast<double>(distance(predictions[text], targets[text], options_.substitution_cost)));
  }
  count_.take(static_cast<double>(targets.size()));
}

MetricValue EditDistance::compute() const {
  return options_.reduction == Reduction::kSum ? sum_.value() : sum_.value() / count_.value();
}

}  // namespace levin
