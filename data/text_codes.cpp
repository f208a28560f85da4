#include "levin/data/text_codes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "levin/data/csv_text.h"

namespace levin::detail {

double TextCodes::number_of(std::string_view text) {
  const auto found = came_as_.find(text);
  if (found != came_as_.end()) return found->second;
  return came_as_.emplace(text, static_cast<double>(came_as_.size())).first->second;
}

std::vector<std::string> sorted_texts(std::vector<std::string> texts, bool as_numbers, char decimal) {
  std::sort(texts.begin(), texts.end());
  const auto number = [decimal](const std::string& text) { return parse_csv_number(text, decimal); };
  if (as_numbers && std::all_of(texts.begin(), texts.end(), number)) {
    std::stable_sort(texts.begin(), texts.end(),
                     [&](const std::string& one, const std::string& other) { return *number(one) < *number(other); });
  }
  return texts;
}

std::vector<std::string> TextCodes::sort(bool as_numbers, char decimal, const at::Tensor& values) const {
  std::vector<std::string> texts;
  for (const auto& [text, came] : came_as_) texts.push_back(text);
  texts = sorted_texts(std::move(texts), as_numbers, decimal);
  std::vector<double> place_of(texts.size());
  for (std::size_t place = 0; place < texts.size(); ++place)
    place_of[static_cast<std::size_t>(came_as_.at(texts[place]))] = static_cast<double>(place);
  auto accessor = values.accessor<double, 1>();
  for (std::int64_t row = 0; row < values.size(0); ++row)
    if (!std::isnan(accessor[row])) accessor[row] = place_of[static_cast<std::size_t>(accessor[row])];
  return texts;
}

}  // namespace levin::detail
