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

// What the compiler knows of an aggregate's members: how many, which, and their names. By it options need no declaration.
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

/// What is known of one option, whatever struct it belongs to. `levin --help`, the JSON Schema and the YAML reader live on it.
struct LEVIN_API OptionInfo {
  std::string name;
  std::string help;
  std::string type;     ///< as a user reads it: "int", "float", "list of string", …
  Value default_value;  ///< null for an option without a default
  bool required = false;
  std::optional<double> minimum;
  std::optional<double> maximum;
  std::optional<double> above;  ///< a bound that is itself out of range
  std::optional<double> below;  ///< the same
  std::string instead;          ///< told of a number out of range: what to write for what it seems to ask for
  bool not_empty = false;       ///< a text, list or map that has to hold something
  bool null_is_value = false;   ///< null is a value of its type; else it means that the option is not given
  std::vector<std::string> choices;
  std::string linked_to;    ///< a key of the configuration whose value it takes where it is not given; empty: none
  bool input_file = false;  ///< a path that must exist; a relative one is first tried beside the YAML file that names it
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

/// What a type of options is called, and how a member of it is read, written and checked where it lies: one for each type,
/// whatever struct it is in.
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
  std::ptrdiff_t place;    ///< in the struct, in bytes
  const MemberType* type;  ///< null: it cannot be an option
};
/// Those of `object`'s struct, none when they are not known.
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
  /// As min() and max(), but the bound itself is out of range.
  OptionBuilder& above(double bound);
  OptionBuilder& below(double bound);
  /// What the error of a number out of range tells beside the bounds, where such a number seems to ask for something that is
  /// written otherwise: "limit_val_batches: 0 never validates".
  OptionBuilder& instead(std::string advice);
  OptionBuilder& not_empty();
  OptionBuilder& choices(std::vector<std::string> names);
  /// The option names a file (or folder) that is read: it must exist. The member becomes its absolute path.
  OptionBuilder& input_file();
  /// In YAML, where the option is not given, it takes the value at another key, as `data.num_classes`: given there, or that
  /// option's default. Where that key leads nowhere, and in C++, it has its own default.
  OptionBuilder& linked_to(std::string key);
  /// There is no meaningful default: leaving the option out is an error.
  OptionBuilder& required();

 private:
  OptionInfo& info_;
};

/// The options of some struct, an object of which is passed as its address.
class LEVIN_API OptionTable {
 public:
  struct Entry {
    OptionInfo info;
    const MemberType* type = nullptr;
    std::ptrdiff_t place = 0;  ///< of the member in the struct, in bytes

    void read(void* options, const Value& value) const { type->read(info, static_cast<char*>(options) + place, value); }
  };

  /// `defaults`: an object as it is made; `members`: what is known of its struct.
  OptionTable(const void* defaults, std::vector<KnownMember> members) : defaults_(defaults), members_(std::move(members)) {}
  OptionBuilder add(std::string_view name, std::string_view help, const MemberType& type, const void* member);
  /// Under its member's name.
  OptionBuilder add(std::string_view help, const MemberType& type, const void* member);
  /// The members that have not been added, and may be options.
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
    std::vector<std::string> options;  ///< those that it is about; an error stands at the first of them that is given
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
/// A `static void declare(OptionList<T>&)` says more of those that need it: what they are for, their bounds, another name.
///
///       static void declare(levin::OptionList<Options>& options) { options.add(&Options::lr, "Learning rate").above(0); }
///
/// T is an aggregate of at most 24 members without a base class, each of a type that may be an option (OptionType). Where it
/// is not, or has more, it has a declare(), and its options are those that this names. Beside a declare() members of other
/// types are no options. Everything that reads, prints, checks or saves options uses this one list. A member that is one of
/// several values is an enum (see kChoices), or a text with choices().
template <class T>
class OptionList {
 public:
  using Builder = detail::OptionBuilder;

  OptionList() : table_(&defaults_, detail::known_members(defaults_)) {}
  OptionList(const OptionList&) = delete;
  OptionList& operator=(const OptionList&) = delete;

  /// An option under a name that is not its member's, or of a T whose members are not known.
  template <class Member, class Owner>
  Builder add(std::string_view name, Member Owner::*member, std::string_view help) {
    static_assert(std::is_base_of_v<Owner, T>);
    return table_.add(name, help, detail::kMemberType<Member>, &(defaults_.*member));
  }
  /// An option under its member's name.
  template <class Member, class Owner>
  Builder add(Member Owner::*member, std::string_view help) {
    static_assert(detail::KnownMembers<T>,
                  "The names of these members are not known: add(\"name\", &Options::member, \"help\").");
    return table_.add(help, detail::kMemberType<Member>, &(defaults_.*member));
  }
  /// A rule between options: `problem(options)` says what is wrong, and what to do; "" when nothing is. Asked only when each
  /// option by itself is right. What it throws as a ConfigError is a problem, too.
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
                "Options without a declare() have at most 24 members: put some into a struct of their own, or declare them.");
  if constexpr (!detail::DeclaresOptions<T>) {
    static_assert(detail::only_options<T>(),
                  "A member of these options has a type that is no option. Give the type an OptionType, or the options a "
                  "declare() that names the members which are options.");
  }
  // Never destroyed: threads read it while the program's static objects go.
  static const OptionList<T>* const list = [] {
    auto made = std::make_unique<OptionList<T>>();
    if constexpr (detail::DeclaresOptions<T>) T::declare(*made);
    made->table_.add_others();
    return made.release();
  }();
  return list->table();
}

/// Reads a map into a T. Keys that are missing, or null, keep their default; null is a value of its own only for a type that
/// has it, such as std::optional. Throws ConfigError, with file:line:column and the offending text, on an unknown key ("did you
/// mean …"), a wrong type, a value out of range, a missing file, a missing required option, or a rule that is broken;
/// ConfigErrors when there are several of these.
template <class T>
T read_options(const Value& map) {
  T options{};
  option_table<T>().read(&options, map);
  return options;
}

/// Options as they were set in C++, for the constructor of their class: gives them back when every one of them could also stand
/// in YAML. Throws ConfigError as read_options() does, with the names of class and option in place of the file.
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

/// What T's options are, for help and schema.
template <class T>
std::vector<OptionInfo> describe_options() {
  return option_table<T>().infos();
}

namespace detail {
/// "at least 0", "below 1": the range of an option in words; empty when it has none.
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
