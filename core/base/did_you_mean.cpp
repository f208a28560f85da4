#include "levin/core/base/did_you_mean.h"

#include <algorithm>
#include <numeric>

#include "levin/core/base/format.h"
#include "levin/core/base/join.h"

namespace levin {
namespace {

char fold(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

}  // namespace

std::size_t edit_distance(std::string_view left, std::string_view right) {
  // Optimal string alignment, over three rows of the usual table.
  std::vector<std::size_t> before_last(right.size() + 1), last(right.size() + 1), row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= left.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const bool equal = fold(left[i - 1]) == fold(right[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (equal ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && fold(left[i - 1]) == fold(right[j - 2]) && fold(left[i - 2]) == fold(right[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[right.size()];
}

std::string nearest_name(std::string_view wrong, const std::vector<std::string>& known) {
  // A slip changes a small part of a name. Nobody mistypes names of this length; it bounds the work on garbage.
  constexpr std::size_t kLongestName = 100;
  if (wrong.size() > kLongestName) return {};
  std::string nearest;
  std::size_t nearest_distance = std::max<std::size_t>(2, wrong.size() / 3) + 1;
  for (const std::string& name : known) {
    if (name.size() > kLongestName) continue;
    const std::size_t distance = edit_distance(wrong, name);
    // A distance of the whole name means that nothing is alike.
    if (distance < nearest_distance && distance < std::max(name.size(), wrong.size())) {
      nearest = name;
      nearest_distance = distance;
    }
  }
  return nearest;
}

std::string quoted_list(const std::vector<std::string>& names) {
  return names.empty() ? "" : format("'{}'", join(names, "', '"));
}

std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& known, std::string_view what) {
  if (known.empty()) return format("; there are no {}", what);
  const std::string nearest = nearest_name(wrong, known);
  if (!nearest.empty()) return format("; did you mean '{}'?", nearest);
  return format("; the {} are {}", what, quoted_list(known));
}

}  // namespace levin
