#include "levin/images/class_folders.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "levin/core/base/text.h"

namespace levin {

bool is_image(const std::filesystem::path& file) {
  constexpr std::array<std::string_view, 6> kEndings = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".jpe"};
  return std::ranges::find(kEndings, lowercase(file.extension().string())) != kEndings.end();
}

void sort_classes(std::vector<std::string>& names) {
  std::ranges::sort(names);
  const bool are_numbers = std::ranges::all_of(names, [](const std::string& name) {
    return !name.empty() && name.size() < 10 &&
           std::ranges::all_of(name, [](char letter) { return letter >= '0' && letter <= '9'; });
  });
  if (are_numbers) std::ranges::stable_sort(names, {}, [](const std::string& name) { return std::stol(name); });
}

}  // namespace levin
