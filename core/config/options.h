#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/value.h"

// What the compiler knows about an aggregate's members: their number, types and names. So options need no declaration.
namespace levin::detail {

inline constexpr std::size_t kMostMembers = 24;

/// Converts to a member of any type, in unevaluated code only.
struct AnyMember {
  template <class M>
  operator M() const noexcept;
};
/// Converts only to a base class of T.
template <class T>
struct AnyBase {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base() const noexcept;
};
template <class T, class... Values>
concept MadeOf = requires {
  T{Values{}...};
};

/// The number of an aggregate's members; kMostMembers + 1 for more.
template <class T, class... Values>
constexpr std::size_t count_members() {
  if constexpr (sizeof...(Values) <= kMostMembers && MadeOf<T, Values..., AnyMember>) {
    return count_members<T, Values..., AnyMember>();
  } else {
    return sizeof...(Values);
  }
}

/// An aggregate without a base class.
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
  LEVIN_MEMBERS_(5, m1, m2, m3, m4, m5)
  LEVIN_MEMBERS_(6, m1, m2, m3, m4, m5, m6)
  LEVIN_MEMBERS_(7, m1, m2, m3, m4, m5, m6, m7)
  LEVIN_MEMBERS_(8, m1, m2, m3, m4, m5, m6, m7, m8)
#define LEVIN_M8_ m1, m2, m3, m4, m5, m6, m7, m8
  LEVIN_MEMBERS_(9, LEVIN_M8_, m9)
  LEVIN_MEMBERS_(10, LEVIN_M8_, m9, m10)
  LEVIN_MEMBERS_(11, LEVIN_M8_, m9, m10, m11)
  LEVIN_MEMBERS_(12, LEVIN_M8_, m9, m10, m11, m12)
  LEVIN_MEMBERS_(13, LEVIN_M8_, m9, m10, m11, m12, m13)
  LEVIN_MEMBERS_(14, LEVIN_M8_, m9, m10, m11, m12, m13, m14)
  LEVIN_MEMBERS_(15, LEVIN_M8_, m9, m10, m11, m12, m13, m14, m15)
  LEVIN_MEMBERS_(16, LEVIN_M8_, m9, m10, m11, m12, m13, m14, m15, m16)
#define LEVIN_M16_ LEVIN_M8_, m9, m10, m11, m12, m13, m14, m15, m16
  LEVIN_MEMBERS_(17, LEVIN_M16_, m17)
  LEVIN_MEMBERS_(18, LEVIN_M16_, m17, m18)
  LEVIN_MEMBERS_(19, LEVIN_M16_, m17, m18, m19)
  LEVIN_MEMBERS_(20, LEVIN_M16_, m17, m18, m19, m20)
  LEVIN_MEMBERS_(21, LEVIN_M16_, m17, m18, m19, m20, m21)
  LEVIN_MEMBERS_(22, LEVIN_M16_, m17, m18, m19, m20, m21, m22)
  LEVIN_MEMBERS_(23, LEVIN_M16_, m17, m18, m19, m20, m21, m22, m23)
  LEVIN_MEMBERS_(24, LEVIN_M16_, m17, m18, m19, m20, m21, m22, m23, m24)
#undef LEVIN_M8_
#undef LEVIN_M16_
#undef LEVIN_MEMBERS_
  // clang-format on
}

/// An object that gives its members an address; it is never constructed.
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
constexpr std::string_view name_of_member() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.rfind('}'));
  if (text.ends_with(')')) text.remove_suffix(1);
  return text.substr(text.find_last_of(".:") + 1);
}

/// What is known of member I of T.
template <KnownMembers T, std::size_t I>
struct MemberOf {
  using Type = std::remove_cvref_t<std::tuple_element_t<I, decltype(members_of(std::declval<const T&>()))>>;
  static constexpr std::string_view name() { return name_of_member<Addressed{&std::get<I>(members_of(unmade<T>.value))}>(); }
  static Type& get(T& object) { return const_cast<Type&>(std::get<I>(members_of(std::as_const(object)))); }
};
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

}  // namespace levin::detail

namespace levin {

/// The properties of one option of any struct, for `levin --help`, the JSON Schema and the YAML reader.
struct LEVIN_API OptionInfo {
  std::string name;
  std::string help;
  std::string type;     ///< as a user reads it: "int", "float", "list of string", …
  Value default_value;  ///< null for an option without a default
  bool required = false;
  std::optional<double> minimum;
  std::optional<double> maximum;
  std::optional<double> above;  ///< an exclusive bound
  std::optional<double> below;  ///< an exclusive bound
  std::string instead;          ///< advice in the error of a number out of range: what to write instead
  bool not_empty = false;       ///< a text, list or map that must not be empty
  bool null_is_value = false;   ///< null is a value of its type; else null means the default
  std::vector<std::string> choices;
  std::string linked_to;    ///< a key of the configuration that gives its default; empty: none
  bool input_file = false;  ///< a path that must exist; a relative one is first tried from the YAML file's folder
  Value schema;             ///< JSON Schema of the type, without default, help and range
};

template <class T>
class OptionList;

namespace detail {
template <class T>
concept DeclaresOptions = requires(OptionList<T>& list) {
  T::declare(list);
};
template <class M>
concept OptionMember = requires {
  OptionType<M>::name();
};

/// The name of an option type, and how to read, write and check a member in memory: one for each type, for all structs.
struct MemberType {
  std::string (*name)();
  Value (*schema)();
  std::vector<std::string> (*choices)();
  void (*read)(const OptionInfo& info, void* member, const Value& value);
  Value (*write)(const void* member);
  void (*check)(const OptionInfo& info, const void* member);
};
template <class M>
inline constexpr MemberType kMemberType = {
    &OptionType<M>::name,
    &OptionType<M>::schema,
    [] { return choices_of(static_cast<const M*>(nullptr)); },
    [](const OptionInfo& info, void* member, const Value& value) {
      read_option(info, value, [&](const Value& checked) { *static_cast<M*>(member) = OptionType<M>::read(checked); });
    },
    [](const void* member) { return OptionType<M>::write(*static_cast<const M*>(member)); },
    [](const OptionInfo& info, const void* member) {
      const M& value = *static_cast<const M*>(member);
      const Value written = OptionType<M>::write(value);
      check_option(info, written, [&] {
        if constexpr (requires { OptionType<M>::check(value); }) {
          OptionType<M>::check(value);
        } else {
          (void)OptionType<M>::read(written);
        }
      });
    }};
template <class M>
constexpr const MemberType* member_type() {
  if constexpr (OptionMember<M>) return &kMemberType<M>;
  return nullptr;
}

/// A member of a struct whose members are known.
struct KnownMember {
  std::string_view name;
  std::ptrdiff_t offset;   ///< in the struct, in bytes
  const MemberType* type;  ///< null: it cannot be an option
};
/// The members of `object`'s struct; none: unknown.
template <class T>
std::vector<KnownMember> known_members(const T& object) {
  if constexpr (KnownMembers<T>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::vector<KnownMember>{
          {MemberOf<T, I>::name(),
           reinterpret_cast<const char*>(&std::get<I>(members_of(object))) - reinterpret_cast<const char*>(&object),
           member_type<typename MemberOf<T, I>::Type>()}...};
    }
    (std::make_index_sequence<count_members<T>()>());
  } else {
    return {};
  }
}

/// Every member of T is an option.
template <class T>
constexpr bool only_options() {
  return []<std::size_t... I>(std::index_sequence<I...>) { return (OptionMember<typename MemberOf<T, I>::Type> && ...); }
  (std::make_index_sequence<count_members<T>()>());
}
/// Refines the option that add() has just added.
class LEVIN_API OptionBuilder {
 public:
  explicit OptionBuilder(OptionInfo& info) : info_(info) {}
  OptionBuilder& min(double minimum);
  OptionBuilder& max(double maximum);
  /// As min() and max(), with an exclusive bound.
  OptionBuilder& above(double bound);
  OptionBuilder& below(double bound);
  /// Adds advice to the error of a number out of range, when users may expect a meaning that is written otherwise:
  /// "limit_val_batches: 0 never validates".
  OptionBuilder& instead(std::string advice);
  OptionBuilder& not_empty();
  OptionBuilder& choices(std::vector<std::string> names);
  /// The option names an input file or folder, which must exist. The member becomes its absolute path.
  OptionBuilder& input_file();
  /// In YAML the option defaults to the value of another key, such as `data.num_classes`, or that option's default. If there is
  /// no such key, and in C++, it has its own default.
  OptionBuilder& linked_to(std::string key);
  /// The option has no default: omitting it is an error.
  OptionBuilder& required();

 private:
  OptionInfo& info_;
};

/// The options of a struct, whose objects are passed by address.
class LEVIN_API OptionTable {
 public:
  struct Entry {
    OptionInfo info;
    const MemberType* type = nullptr;
    std::ptrdiff_t offset = 0;  ///< of the member in the struct, in bytes

    void read(void* options, const Value& value) const { type->read(info, static_cast<char*>(options) + offset, value); }
  };

  /// `defaults`: a default-constructed object; `members`: the known members of its struct.
  OptionTable(const void* defaults, std::vector<KnownMember> members) : defaults_(defaults), members_(std::move(members)) {}
  OptionBuilder add(std::string_view name, std::string_view help, const MemberType& type, const void* member);
  /// Adds an option under its member's name.
  OptionBuilder add(std::string_view help, const MemberType& type, const void* member);
  /// Adds the remaining members that can be options.
  void add_others();
  void rule(std::vector<std::string> options, std::function<std::string(const void*)> problem);

  const std::deque<Entry>& entries() const { return entries_; }
  std::vector<OptionInfo> infos() const;
  /// See read_options(), write_options() and checked().
  void read(void* options, const Value& map) const;
  Value write(const void* options) const;
  void check(const std::string& class_name, const void* options) const;

 private:
  struct Rule {
    std::vector<std::string> options;  ///< its subjects; an error points to the first of them that is given
    std::function<std::string(const void*)> problem;
  };
  void check_rules(const void* options, const Value& map) const;

  const void* defaults_;
  std::vector<KnownMember> members_;
  std::deque<Entry> entries_;
  std::vector<Rule> rules_;
};
}  // namespace detail

/// The options of struct T: its members, under their names, with their own initializers as defaults.
///
///     struct Options {
///       std::int64_t hidden = 128;
///       double lr = 1e-3;
///     };
///
/// An optional `static void declare(OptionList<T>&)` adds help, bounds or another name.
///
///       static void declare(levin::OptionList<Options>& options) { options.add(&Options::lr, "Learning rate").above(0); }
///
/// T is an aggregate of at most 24 members without a base class, each of an option type (OptionType). Any other T needs a
/// declare(), which names all its options. With a declare(), members of other types are ignored. All code that reads, prints,
/// checks or saves options uses this list. For a choice of values use an enum (see kChoices), or a text with choices().
template <class T>
class OptionList {
 public:
  using Builder = detail::OptionBuilder;

  OptionList() : table_(&defaults_, detail::known_members(defaults_)) {}
  OptionList(const OptionList&) = delete;
  OptionList& operator=(const OptionList&) = delete;

  /// Adds an option under another name than its member's, or for a T whose members are unknown.
  template <class Member, class Owner>
  Builder add(std::string_view name, Member Owner::*member, std::string_view help) {
    static_assert(std::is_base_of_v<Owner, T>);
    return table_.add(name, help, detail::kMemberType<Member>, &(defaults_.*member));
  }
  /// Adds an option under its member's name.
  template <class Member, class Owner>
  Builder add(Member Owner::*member, std::string_view help) {
    static_assert(detail::KnownMembers<T>,
                  "The names of these members are not known: add(\"name\", &Options::member, \"help\").");
    return table_.add(help, detail::kMemberType<Member>, &(defaults_.*member));
  }
  /// Adds a rule between options: `problem(options)` returns the problem and its cure, "" for none. Called: when each option by
  /// itself is valid. A ConfigError that it throws is a problem, too.
  template <class Problem>
  void rule(std::vector<std::string> options, Problem problem) {
    table_.rule(std::move(options), [problem = std::move(problem)](const void* object) -> std::string {
      return problem(*static_cast<const T*>(object));
    });
  }

  const detail::OptionTable& table() const { return table_; }

 private:
  template <class Options>
  friend const detail::OptionTable& option_table();

  T defaults_{};
  detail::OptionTable table_;
};

/// The options of T, made once.
template <class T>
const detail::OptionTable& option_table() {
  static_assert(detail::DeclaresOptions<T> || detail::PlainAggregate<T>,
                "Options without a declare() are the members of an aggregate: leave out constructors, private members and base "
                "classes, or declare them.");
  static_assert(detail::DeclaresOptions<T> || !detail::PlainAggregate<T> || detail::KnownMembers<T>,
                "Options without a declare() have at most 24 members: put some into another struct, or declare them.");
  if constexpr (!detail::DeclaresOptions<T>) {
    static_assert(detail::only_options<T>(),
                  "A member of these options has a type that is not an option. Give the type an OptionType, or the options a "
                  "declare() that names the members which are options.");
  }
  // Never destroyed: threads read it while static objects are destroyed.
  static const OptionList<T>* const list = [] {
    auto made = std::make_unique<OptionList<T>>();
    if constexpr (detail::DeclaresOptions<T>) T::declare(*made);
    made->table_.add_others();
    return made.release();
  }();
  return list->table();
}

/// Reads a map into a T. Missing keys and null give the default; null is a value only for types that have it, such as
/// std::optional. Throws ConfigError, with file:line:column and the offending text, for an unknown key ("did you mean …"), a
/// wrong type, a value out of range, a missing file or required option, or a broken rule; ConfigErrors for several.
template <class T>
T read_options(const Value& map) {
  T options{};
  option_table<T>().read(&options, map);
  return options;
}

/// Checks options set in C++, in the constructor of their class, and returns them if YAML could have set them, too. Throws
/// ConfigError as read_options() does, with the names of class and option instead of the file.
template <class T>
T checked(const std::string& class_name, T options) {
  option_table<T>().check(class_name, &options);
  return options;
}

/// Writes every option of T, defaults included, as a map that read_options turns into an equal T.
template <class T>
Value write_options(const T& options) {
  return option_table<T>().write(&options);
}

/// Describes T's options, for help and schema.
template <class T>
std::vector<OptionInfo> describe_options() {
  return option_table<T>().infos();
}

namespace detail {
/// "at least 0", "below 1": the range of an option; empty: none.
LEVIN_API std::vector<std::string> bounds(const OptionInfo& info);
/// JSON Schema of a map with these options and no others.
LEVIN_API Value schema_of_options(const std::vector<OptionInfo>& options);
}  // namespace detail

/// A struct of options can be an option itself: a map within the map.
template <class T>
requires detail::DeclaresOptions<T> ||(detail::KnownMembers<T>&& detail::only_options<T>()) struct OptionType<T> {
  static T read(const Value& value) { return read_options<T>(value); }
  static Value write(const T& options) { return write_options(options); }
  static std::string name() { return "map"; }
  static Value schema() { return detail::schema_of_options(describe_options<T>()); }
};

}  // namespace levin
