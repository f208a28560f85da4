#include "levin/core/logged_item.h"

#include <array>

namespace levin {

std::string_view kind_name(LoggedItem::Kind kind) {
  constexpr std::array<std::string_view, kItemKinds> kNames = {"image", "histogram", "text", "table", "file", "figure"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace levin
