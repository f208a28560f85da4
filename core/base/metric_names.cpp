#include "levin/core/base/metric_names.h"

#include <algorithm>
#include <regex>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

constexpr const char* kLargerIsBetter =
    "acc|accuracy|auc|auroc|bleu|dice|f1|iou|miou|precision|psnr|r2|recall|rouge|ssim|top1|top5";
constexpr const char* kSmallerIsBetter = "cer|err|error|fid|loss|mae|mape|mse|nll|perplexity|rmse|wer";
/// Words with which a name may say the contrary of what its others do: neg_loss, accuracy_gap, loss_reduction.
constexpr const char* kTurned =
    "delta|diff|difference|drop|gain|gap|improvement|inv|inverse|minus|neg|negative|ratio|reduction";

bool has_word(std::string_view name, const char* words) {
  const std::regex pattern(format("(^|[^a-z0-9])({})([^a-z0-9]|$)", words), std::regex::icase);
  return std::regex_search(name.begin(), name.end(), pattern);
}

}  // namespace

std::string nearest_metric(std::string_view wrong, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(wrong, names);
  return nearest.empty() ? "" : format(" Did you mean '{}'?", nearest);
}

std::optional<std::string_view> metric_of_rank(std::string_view name) {
  constexpr std::string_view kBegin = "rank_";
  if (!name.starts_with(kBegin)) return std::nullopt;
  const std::size_t digits_end = name.find_first_not_of("0123456789", kBegin.size());
  if (digits_end == kBegin.size() || digits_end == std::string_view::npos || name[digits_end] != '_') return std::nullopt;
  return name.substr(digits_end + 1);
}

std::optional<bool> is_larger_better(std::string_view name) {
  if (name == "step" || name == "epoch") return true;  // of what only grows, the smaller value is the first one
  const bool larger = has_word(name, kLargerIsBetter);
  if (larger == has_word(name, kSmallerIsBetter) || has_word(name, kTurned)) return std::nullopt;
  return larger;
}

std::string warning_of_mode(std::string_view user, std::string_view monitor, bool larger_is_better) {
  const std::optional<bool> expected = is_larger_better(monitor);
  if (!expected || *expected == larger_is_better) return "";
  return format("{}: mode is {}, but for a metric called '{}' the {} value is usually better. Should it be mode: {}?", user,
                larger_is_better ? "max" : "min", monitor, *expected ? "larger" : "smaller", *expected ? "max" : "min");
}

std::string warning_of_monitor(std::string_view user, std::string_view monitor, const std::vector<std::string>& names) {
  if (names.empty() || std::find(names.begin(), names.end(), monitor) != names.end()) return "";
  const std::string nearest = nearest_metric(monitor, names);
  if (nearest.empty() && !monitor.starts_with("val")) return "";
  return format("{} monitors '{}', which validation did not log before training.{} It logged: {}.", user, monitor, nearest,
                quoted_list(names));
}

}  // namespace levin
