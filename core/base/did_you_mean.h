#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// The number of single-character insertions, deletions, replacements and swaps of neighbours that turn one text into the
/// other. Upper and lower case count as equal, and so do '-' and '_'.
std::size_t edit_distance(std::string_view left, std::string_view right);

/// The known name that `wrong` is most likely a slip of, or "" when none is near.
std::string nearest_name(std::string_view wrong, const std::vector<std::string>& known);

/// The end of an error message about an unknown name: "; did you mean 'max_epochs'?", or else every known name.
/// `what` is their plural: "keys", "callbacks".
std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& known, std::string_view what);

/// "'a', 'b', 'c'"
std::string quoted_list(const std::vector<std::string>& names);

}  // namespace levin
