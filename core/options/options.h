#pragma once

#include <algorithm>
#include <cstddef>
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
#include "levin/core/options/option_type.h"
#include "levin/core/options/value.h"

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
  bool not_empty = false;       ///< a text, list or map that has to hold something
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
/// How a member of some type is read, written and checked where it lies: one for each type, whatever struct it is in.
struct MemberAccess {
  void (*read)(const OptionInfo& info, void* member, const Value& value);
  Value (*write)(const void* member);
  void (*check)(const OptionInfo& info, const void* member);
};
template <class M>
inline constexpr MemberAccess kAccess = {
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

/// Every member of T is an option.
template <class T>
constexpr bool only_options() {
  return []<std::size_t... I>(std::index_sequence<I...>) { return (OptionMember<typename MemberOf<T, I>::Type> && ...); }
  (std::make_index_sequence<count_members<T>()>());
}
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
  class Entry {
   public:
    OptionInfo info;

    void read(T& target, const Value& value) const { access_->read(info, reinterpret_cast<char*>(&target) + place_, value); }
    Value write(const T& source) const { return access_->write(reinterpret_cast<const char*>(&source) + place_); }
    /// Throws what reading the member from YAML would.
    void check(const T& source) const { access_->check(info, reinterpret_cast<const char*>(&source) + place_); }

   private:
    friend class OptionList;
    const detail::MemberAccess* access_ = nullptr;
    std::ptrdiff_t place_ = 0;  ///< of the member in T, in bytes
  };
  /// What several options have to keep to together.
  struct Rule {
    std::vector<std::string> options;  ///< those that it is about; an error stands at the first of them that is given
    std::function<std::string(const T&)> problem;
  };

  /// Refines the option that add() has just added.
  class Builder {
   public:
    explicit Builder(OptionInfo& info) : info_(info) {}
    Builder& min(double minimum) { return set(&OptionInfo::minimum, minimum); }
    Builder& max(double maximum) { return set(&OptionInfo::maximum, maximum); }
    /// As min() and max(), but the bound itself is out of range.
    Builder& above(double bound) { return set(&OptionInfo::above, bound); }
    Builder& below(double bound) { return set(&OptionInfo::below, bound); }
    Builder& not_empty() { return set(&OptionInfo::not_empty, true); }
    Builder& choices(std::vector<std::string> names) { return set(&OptionInfo::choices, std::move(names)); }
    /// The option names a file (or folder) that is read: it must exist. The member becomes its absolute path.
    Builder& input_file() { return set(&OptionInfo::input_file, true); }
    /// In YAML, where the option is not given, it takes the value at another key, as `data.num_classes`: given there, or that
    /// option's default. Where that key leads nowhere, and in C++, it has its own default.
    Builder& linked_to(std::string key) { return set(&OptionInfo::linked_to, std::move(key)); }
    /// There is no meaningful default: leaving the option out is an error.
    Builder& required() { return set(&OptionInfo::default_value, Value()).set(&OptionInfo::required, true); }

   private:
    template <class Member>
    Builder& set(Member OptionInfo::*member, std::type_identity_t<Member> value) {
      info_.*member = std::move(value);
      return *this;
    }
    OptionInfo& info_;
  };

  /// An option under a name that is not its member's, or of a T whose members are not known.
  template <class Member, class Owner>
  Builder add(std::string name, Member Owner::*member, std::string help) {
    static_assert(std::is_base_of_v<Owner, T>);
    const T defaults{};
    return add_entry(std::move(name), std::move(help), defaults, defaults.*member);
  }
  /// An option under its member's name.
  template <class Member, class Owner>
  Builder add(Member Owner::*member, std::string help) {
    static_assert(detail::KnownMembers<T>,
                  "The names of these members are not known: add(\"name\", &Options::member, \"help\").");
    const T defaults{};
    std::string name;
    each_member([&]<std::size_t I>(detail::MemberOf<T, I> known) {
      if (place_in(defaults, known.get(defaults)) == place_in(defaults, defaults.*member)) name = known.name();
    });
    return add_entry(std::move(name), std::move(help), defaults, defaults.*member);
  }
  /// The members that have not been added.
  void add_others() {
    const T defaults{};
    each_member([&]<std::size_t I>(detail::MemberOf<T, I> known) {
      using Member = typename detail::MemberOf<T, I>::Type;
      static_assert(detail::OptionMember<Member> || detail::DeclaresOptions<T>,
                    "A member of these options has a type that is no option. Give the type an OptionType, or the options a "
                    "declare() that names the members which are options.");
      if constexpr (detail::OptionMember<Member>) {
        const auto is_it = [place = place_in(defaults, known.get(defaults))](const auto& entry) {
          return entry->place_ == place;
        };
        if (std::any_of(entries_.begin(), entries_.end(), is_it)) return;
        add_entry(known.name(), "", defaults, known.get(defaults));
      }
    });
  }
  /// A rule between options: `problem` says what is wrong, and what to do; "" when nothing is. Asked only when each option by
  /// itself is right. What it throws as a ConfigError is a problem, too.
  void rule(std::vector<std::string> options, std::function<std::string(const T&)> problem) {
    rules_.push_back({std::move(options), std::move(problem)});
  }

  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  const std::vector<Rule>& rules() const { return rules_; }

 private:
  template <class Visitor>
  static void each_member(const Visitor& visit) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (visit(detail::MemberOf<T, I>()), ...); }
    (std::make_index_sequence<detail::count_members<T>()>());
  }
  static std::ptrdiff_t place_in(const T& options, const auto& member) {
    return reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(&options);
  }
  template <class Member>
  Builder add_entry(std::string name, std::string help, const T& defaults, const Member& member) {
    Entry& entry = *entries_.emplace_back(std::make_unique<Entry>());
    entry.access_ = &detail::kAccess<Member>;
    entry.place_ = place_in(defaults, member);
    entry.info.name = std::move(name);
    entry.info.help = std::move(help);
    entry.info.type = OptionType<Member>::name();
    entry.info.schema = OptionType<Member>::schema();
    entry.info.choices = detail::choices_of(static_cast<const Member*>(nullptr));
    entry.info.default_value = OptionType<Member>::write(member);
    return Builder(entry.info);
  }

  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<Rule> rules_;
};

/// The options of T, made once.
template <class T>
const OptionList<T>& option_list() {
  static_assert(detail::DeclaresOptions<T> || detail::PlainAggregate<T>,
                "Options without a declare() are the members of an aggregate: leave out constructors, private members and base "
                "classes, or declare them.");
  static_assert(detail::DeclaresOptions<T> || !detail::PlainAggregate<T> || detail::KnownMembers<T>,
                "Options without a declare() have at most 24 members: put some into a struct of their own, or declare them.");
  // Never destroyed: threads read it while the program's static objects go.
  static const auto* const list = [] {
    auto made = std::make_unique<OptionList<T>>();
    if constexpr (detail::DeclaresOptions<T>) T::declare(*made);
    if constexpr (detail::KnownMembers<T>) made->add_others();
    return made.release();
  }();
  return *list;
}

namespace detail {
/// Throws ConfigError for each rule of T that `options` break, at its place in `map`.
template <class T>
void check_rules(const T& options, const Value& map) {
  ErrorCollector errors;
  for (const auto& rule : option_list<T>().rules())
    errors.run([&] { check_rule(rule.options, map, [&] { return rule.problem(options); }); });
  errors.throw_if_any();
}
}  // namespace detail

/// Reads a map into a T. Keys that are missing keep their default. Throws ConfigError, with file:line:column and the offending
/// text, on an unknown key ("did you mean …"), a wrong type, a value out of range, a missing file, a missing required option,
/// or a rule that is broken; ConfigErrors when there are several of these.
template <class T>
T read_options(const Value& map) {
  const OptionList<T>& list = option_list<T>();
  std::vector<const OptionInfo*> known;
  for (const auto& entry : list.entries()) known.push_back(&entry->info);
  ErrorCollector errors;
  errors.run([&] { detail::check_keys(known, map); });
  T options{};
  for (const auto& entry : list.entries()) {
    if (const Value* value = map.find(entry->info.name)) errors.run([&] { entry->read(options, *value); });
  }
  errors.throw_if_any();
  detail::check_rules(options, map);
  return options;
}

/// Options as they were set in C++, for the constructor of their class: gives them back when every one of them could also stand
/// in YAML. Throws ConfigError as read_options() does, with the names of class and option in place of the file.
template <class T>
T checked(const std::string& class_name, T options) {
  detail::naming(class_name, [&] {
    ErrorCollector errors;
    for (const auto& entry : option_list<T>().entries()) errors.run([&] { entry->check(options); });
    errors.throw_if_any();
    detail::check_rules(options, Value());
  });
  return options;
}

/// Writes every option of T, defaults included, as a map that read_options turns into an equal T.
template <class T>
Value write_options(const T& options) {
  Value map = Value(Value::Map{});
  for (const auto& entry : option_list<T>().entries()) map[entry->info.name] = entry->write(options);
  return map;
}

/// What T's options are, for help and schema.
template <class T>
std::vector<OptionInfo> describe_options() {
  std::vector<OptionInfo> infos;
  for (const auto& entry : option_list<T>().entries()) infos.push_back(entry->info);
  return infos;
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
