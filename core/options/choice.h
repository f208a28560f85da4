#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace levin {

/// A value of a choice, and what it is called in YAML, on the command line, in help and in messages.
template <class E>
struct Choice {
  E value;
  std::string_view name;
};
// clang 14 does not deduce it by itself.
template <class E>
Choice(E, const char*) -> Choice<E>;

/// The values of an enum that is an option, with their names. Specialize it beside the enum; nothing else is needed:
///
///     enum class Uneven { kPad, kDrop };
///     template <>
///     inline constexpr std::array kChoices<Uneven> = {Choice{Uneven::kPad, "pad"}, Choice{Uneven::kDrop, "drop"}};
///
/// A value may have several names: all of them are read, the first is written.
template <class E>
inline constexpr auto kChoices = nullptr;

template <class E>
concept ChoiceType = std::is_enum_v<E> && requires {
  kChoices<E>.size();
};

/// The name of a value; "" for a number that is none of the enum's.
template <ChoiceType E>
constexpr std::string_view choice_name(E value) {
  for (const Choice<E>& choice : kChoices<E>) {
    if (choice.value == value) return choice.name;
  }
  return {};
}

/// The value of that name, or nothing when there is none.
template <ChoiceType E>
constexpr std::optional<E> choice_of(std::string_view name) {
  for (const Choice<E>& choice : kChoices<E>) {
    if (choice.name == name) return choice.value;
  }
  return std::nullopt;
}

/// Every name, in the order of the table.
template <ChoiceType E>
std::vector<std::string> choice_names() {
  std::vector<std::string> names;
  for (const Choice<E>& choice : kChoices<E>) names.emplace_back(choice.name);
  return names;
}

}  // namespace levin
