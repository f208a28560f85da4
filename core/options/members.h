#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

// What the compiler knows of an aggregate's members: how many there are, which, and their names. Options need no declaration by
// it (OptionList).
namespace levin::detail {

inline constexpr std::size_t kMostMembers = 24;

/// Stands for the value of a member, whatever its type; nothing is made of it.
struct AnyMember {
  template <class M>
  operator M() const noexcept;
};
/// Stands for a base class of T only.
template <class T>
struct AnyBase {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base() const noexcept;
};
template <class T, class... Values>
concept MadeOf = requires {
  T{Values{}...};
};

/// How many members an aggregate has; kMostMembers + 1 when they are more.
template <class T, class... Values>
constexpr std::size_t count_members() {
  if constexpr (sizeof...(Values) <= kMostMembers && MadeOf<T, Values..., AnyMember>) {
    return count_members<T, Values..., AnyMember>();
  } else {
    return sizeof...(Values);
  }
}

/// A struct whose members are all its own: an aggregate without a base class.
template <class T>
concept PlainAggregate = std::is_class_v<T> && std::is_aggregate_v<T> && !MadeOf<T, AnyBase<T>> && !requires {
  std::tuple_size<T>::value;  // std::array
};
/// One whose members are known.
template <class T>
concept KnownMembers = PlainAggregate<T> && kMostMembers >= count_members<T>();

/// References to the members of `object`.
template <KnownMembers T>
constexpr auto members_of(const T& object) {
  constexpr std::size_t kCount = count_members<T>();
  if constexpr (kCount == 0) return std::tuple<>();
// clang-format off
#define LEVIN_MEMBERS_(count, ...) \
  if constexpr (kCount == count) { const auto& [__VA_ARGS__] = object; return std::tie(__VA_ARGS__); }
  LEVIN_MEMBERS_(1, m1)
  LEVIN_MEMBERS_(2, m1, m2)
  LEVIN_MEMBERS_(3, m1, m2, m3)
  LEVIN_MEMBERS_(4, m1, m2, m3, m4)
#define LEVIN_M4_ m1, m2, m3, m4
  LEVIN_MEMBERS_(5, LEVIN_M4_, m5)
  LEVIN_MEMBERS_(6, LEVIN_M4_, m5, m6)
  LEVIN_MEMBERS_(7, LEVIN_M4_, m5, m6, m7)
  LEVIN_MEMBERS_(8, LEVIN_M4_, m5, m6, m7, m8)
#define LEVIN_M8_ LEVIN_M4_, m5, m6, m7, m8
  LEVIN_MEMBERS_(9, LEVIN_M8_, m9)
  LEVIN_MEMBERS_(10, LEVIN_M8_, m9, m10)
  LEVIN_MEMBERS_(11, LEVIN_M8_, m9, m10, m11)
  LEVIN_MEMBERS_(12, LEVIN_M8_, m9, m10, m11, m12)
#define LEVIN_M12_ LEVIN_M8_, m9, m10, m11, m12
  LEVIN_MEMBERS_(13, LEVIN_M12_, m13)
  LEVIN_MEMBERS_(14, LEVIN_M12_, m13, m14)
  LEVIN_MEMBERS_(15, LEVIN_M12_, m13, m14, m15)
  LEVIN_MEMBERS_(16, LEVIN_M12_, m13, m14, m15, m16)
#define LEVIN_M16_ LEVIN_M12_, m13, m14, m15, m16
  LEVIN_MEMBERS_(17, LEVIN_M16_, m17)
  LEVIN_MEMBERS_(18, LEVIN_M16_, m17, m18)
  LEVIN_MEMBERS_(19, LEVIN_M16_, m17, m18, m19)
  LEVIN_MEMBERS_(20, LEVIN_M16_, m17, m18, m19, m20)
#define LEVIN_M20_ LEVIN_M16_, m17, m18, m19, m20
  LEVIN_MEMBERS_(21, LEVIN_M20_, m21)
  LEVIN_MEMBERS_(22, LEVIN_M20_, m21, m22)
  LEVIN_MEMBERS_(23, LEVIN_M20_, m21, m22, m23)
  LEVIN_MEMBERS_(24, LEVIN_M20_, m21, m22, m23, m24)
#undef LEVIN_M4_
#undef LEVIN_M8_
#undef LEVIN_M12_
#undef LEVIN_M16_
#undef LEVIN_M20_
#undef LEVIN_MEMBERS_
  // clang-format on
}

/// An object without which its members have no address; it is never made.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-internal"
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
template <class T>
struct Unmade {
  T value;
};
template <class T>
extern const Unmade<T> unmade;
/// clang takes the address of a member as the argument of a template only within a struct.
template <class Pointer>
struct Addressed {
  Pointer pointer;
};
template <class Pointer>
Addressed(Pointer) -> Addressed<Pointer>;

/// The last name in the compiler's text: "[member = {&unmade.value.hidden}]", or "… {(& unmade<T>.Unmade<T>::value.T::hidden)};
/// …]".
template <Addressed member>
std::string name_of_member() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.rfind('}'));
  if (text.ends_with(')')) text.remove_suffix(1);
  return std::string(text.substr(text.find_last_of(".:") + 1));
}

/// What is known of member I of T.
template <KnownMembers T, std::size_t I>
struct MemberOf {
  using Type = std::remove_cvref_t<std::tuple_element_t<I, decltype(members_of(std::declval<const T&>()))>>;
  static std::string name() { return name_of_member<Addressed{&std::get<I>(members_of(unmade<T>.value))}>(); }
  static const Type& get(const T& object) { return std::get<I>(members_of(object)); }
  static Type& get(T& object) { return const_cast<Type&>(get(std::as_const(object))); }
};
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

}  // namespace levin::detail
