#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/config/value.h"

namespace levin {

/// A value of a choice, and its name in YAML, on the command line, in help and in messages.
template <class E>
struct Choice {
  E value;
  std::string_view name;
};
// clang 14 does not deduce it.
template <class E>
Choice(E, const char*) -> Choice<E>;

/// The values of an enum that is an option, with their names. Specialize it next to the enum; nothing else is needed:
///
///     enum class Uneven { kPad, kDrop };
///     template <>
///     inline constexpr std::array kChoices<Uneven> = {Choice{Uneven::kPad, "pad"}, Choice{Uneven::kDrop, "drop"}};
///
/// A value may have several names: levin reads all of them and writes the first.
template <class E>
inline constexpr auto kChoices = nullptr;

template <class E>
concept ChoiceType = std::is_enum_v<E> && requires {
  kChoices<E>.size();
};

/// The name of a value; "" for a number that is not in the enum.
template <ChoiceType E>
constexpr std::string_view choice_name(E value) {
  for (const Choice<E>& choice : kChoices<E>) {
    if (choice.value == value) return choice.name;
  }
  return {};
}

/// The value of that name; unset for an unknown name.
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

/// Which of two values of a monitored metric is better.
enum class MonitorMode : std::uint8_t {
  kMin,  ///< the smaller
  kMax   ///< the larger
};
template <>
inline constexpr std::array kChoices<MonitorMode> = {Choice{MonitorMode::kMin, "min"}, Choice{MonitorMode::kMax, "max"}};

/// The unit of an interval: optimizer steps or epochs.
enum class Interval : std::uint8_t { kStep, kEpoch };
template <>
inline constexpr std::array kChoices<Interval> = {Choice{Interval::kStep, "step"}, Choice{Interval::kEpoch, "epoch"}};

/// What to do with training samples that do not divide evenly over ranks.
enum class Uneven : std::uint8_t {
  kPad,   ///< repeat samples from the start, so that every rank has the same number, as Lightning does
  kDrop,  ///< drop the remainder
  kKeep   ///< leave it uneven: a rank without a batch takes part with weight 0
};
template <>
inline constexpr std::array kChoices<Uneven> = {Choice{Uneven::kPad, "pad"}, Choice{Uneven::kDrop, "drop"},
                                                Choice{Uneven::kKeep, "keep"}};

/// What to do when a loss or a gradient is NaN or infinite.
enum class OnNan : std::uint8_t {
  kWarn,  ///< warn the first time, with the position
  kStop,  ///< throw on every rank
  kSkip   ///< skip the optimizer step for this batch, on all ranks
};
template <>
inline constexpr std::array kChoices<OnNan> = {Choice{OnNan::kWarn, "warn"}, Choice{OnNan::kStop, "stop"},
                                               Choice{OnNan::kSkip, "skip"}};

/// How a run shows its progress.
enum class ProgressView : std::uint8_t {
  kAuto,  ///< live on an interactive terminal that is large enough; on other terminals a bar; elsewhere lines
  kLive,  ///< curves, figures and keys at the bottom of the terminal
  kBar,
  kLines  ///< one per epoch and evaluation
};
template <>
inline constexpr std::array kChoices<ProgressView> = {Choice{ProgressView::kAuto, "auto"}, Choice{ProgressView::kLive, "live"},
                                                      Choice{ProgressView::kBar, "bar"}, Choice{ProgressView::kLines, "lines"}};

/// Whether a device records training steps and replays each with one call.
enum class CudaGraph : std::uint8_t {
  kNever,
  kAuto  ///< if the step can be recorded, and replaying gives the same result
};
template <>
inline constexpr std::array kChoices<CudaGraph> = {Choice{CudaGraph::kNever, "never"}, Choice{CudaGraph::kAuto, "auto"}};

/// The precision of 32-bit matrix products, by PyTorch's names.
enum class MatmulPrecision : std::uint8_t {
  kHighest,  ///< in 32 bits
  kHigh,     ///< TensorFloat32, or sums of two bfloat16 products, where a device has them
  kMedium    ///< bfloat16, where a device has it
};
template <>
inline constexpr std::array kChoices<MatmulPrecision> = {Choice{MatmulPrecision::kHighest, "highest"},
                                                         Choice{MatmulPrecision::kHigh, "high"},
                                                         Choice{MatmulPrecision::kMedium, "medium"}};

/// What gradient clipping bounds.
enum class GradientClipAlgorithm : std::uint8_t {
  kNorm,  ///< the 2-norm of all gradients together
  kValue  ///< each element
};
template <>
inline constexpr std::array kChoices<GradientClipAlgorithm> = {Choice{GradientClipAlgorithm::kNorm, "norm"},
                                                               Choice{GradientClipAlgorithm::kValue, "value"}};

/// The number format of weights and computation; mixed: float32 weights with forward passes in a shorter format.
enum class PrecisionFormat : std::uint8_t { kFloat32, kFloat64, kBfloat16, kBfloat16Mixed, kFloat16Mixed };
template <>
inline constexpr std::array kChoices<PrecisionFormat> = {
    Choice{PrecisionFormat::kFloat32, "32-true"},          Choice{PrecisionFormat::kFloat32, "32"},
    Choice{PrecisionFormat::kFloat64, "64-true"},          Choice{PrecisionFormat::kFloat64, "64"},
    Choice{PrecisionFormat::kBfloat16Mixed, "bf16-mixed"}, Choice{PrecisionFormat::kBfloat16Mixed, "bf16"},
    Choice{PrecisionFormat::kFloat16Mixed, "16-mixed"},    Choice{PrecisionFormat::kFloat16Mixed, "16"},
    Choice{PrecisionFormat::kBfloat16, "bf16-true"}};

struct OptionInfo;

/// Collects the errors of independent steps, so that a user sees all of them at once.
class LEVIN_API ErrorCollector {
 public:
  /// Runs a step and stores its ConfigError, if any.
  void run(const std::function<void()>& step);
  void add(const ConfigError& error);
  /// Throws the stored error; a ConfigErrors if there are several.
  void throw_if_any() const;

 private:
  std::vector<ConfigError> errors_;
};

/// How a member of type M is read from a Value, written to one, named in help and described in JSON Schema. Specialize it for
/// your own types; read() throws ConfigError with value.mark() for a value that does not fit.
template <class M>
struct OptionType;

namespace detail {
/// Puts `name: ` in front of each ConfigError that `step` throws.
LEVIN_API void naming(const std::string& name, const std::function<void()>& step);
/// Throws ConfigError with the problem that a rule between options finds, if any, at the first of them that is in `map`.
LEVIN_API void check_rule(const std::vector<std::string>& options, const Value& map,
                          const std::function<std::string()>& problem);
/// Ignores null, which stands for the default, unless it is a value of the option's type. Otherwise checks `value` against the
/// option's range and choices, resolves an input file (relative to the YAML file, then as written), and passes it to `read`.
/// Errors of `read` get the option's name. A value equal to the option's default is always in range. Throws ConfigError with
/// the value's mark.
LEVIN_API void read_option(const OptionInfo& info, const Value& value, const std::function<void(const Value&)>& read);
/// The same for a value set in C++, without input files, which need not exist yet. `check` throws as reading would.
LEVIN_API void check_option(const OptionInfo& info, const Value& value, const std::function<void()>& check);
/// Throws ConfigError when `map` is neither a map nor null, has an unknown key, or lacks a required one or has null for it.
LEVIN_API void check_keys(const std::vector<const OptionInfo*>& known, const Value& map);
/// {"type": name}
LEVIN_API Value schema_of_type(const char* name);
/// {"anyOf": alternatives}
LEVIN_API Value any_of(Value::List alternatives);
/// The absolute path of an existing file or folder, relative to the YAML file of `value` or as written. Otherwise throws
/// ConfigError.
LEVIN_API Value resolve_input_file(const Value& value);
/// Throws ConfigError: "expected <expected>, got <value>".
[[noreturn]] LEVIN_API void throw_wrong_type(const Value& value, const std::string& expected);
/// Throws ConfigError: "must be one of …, got <value>; did you mean …?".
[[noreturn]] LEVIN_API void throw_wrong_choice(const Value& value, const std::vector<std::string>& choices);
/// The allowed names of an option of this type; none for a type that is not a choice.
template <class M>
std::vector<std::string> choices_of(const M*) {
  if constexpr (ChoiceType<M>) return choice_names<M>();
  return {};
}
template <class M>
std::vector<std::string> choices_of(const std::optional<M>*) {
  return choices_of(static_cast<const M*>(nullptr));
}
}  // namespace detail

template <>
struct LEVIN_API OptionType<bool> {
  static bool read(const Value& value);
  static Value write(bool value) { return value; }
  static std::string name() { return "bool"; }
  static Value schema() { return detail::schema_of_type("boolean"); }
};
template <>
struct LEVIN_API OptionType<std::int64_t> {
  static std::int64_t read(const Value& value);
  static Value write(std::int64_t value) { return value; }
  static std::string name() { return "int"; }
  static Value schema() { return detail::schema_of_type("integer"); }
};
template <>
struct LEVIN_API OptionType<int> {
  static int read(const Value& value);
  static Value write(int value) { return value; }
  static std::string name() { return "int"; }
  static Value schema() { return detail::schema_of_type("integer"); }
};
template <>
struct LEVIN_API OptionType<double> {
  static double read(const Value& value);
  static Value write(double value) { return value; }
  static std::string name() { return "float"; }
  static Value schema() { return detail::schema_of_type("number"); }
};
/// A number is read as it was written, so that `precision: 32`, `version: 1.10` and `id: 0123` need no quotes. True, false and
/// null need them.
template <>
struct LEVIN_API OptionType<std::string> {
  static std::string read(const Value& value);
  static Value write(const std::string& value) { return value; }
  static std::string name() { return "string"; }
  static Value schema() { return detail::schema_of_type("string"); }
};
/// A leading "~" is the user's home folder.
template <>
struct LEVIN_API OptionType<std::filesystem::path> {
  static std::filesystem::path read(const Value& value);
  static Value write(const std::filesystem::path& value) { return value.string(); }
  static std::string name() { return "path"; }
  static Value schema() { return detail::schema_of_type("string"); }
};
/// An enum with a table of names.
template <ChoiceType E>
struct OptionType<E> {
  static E read(const Value& value) {
    if (const auto choice = choice_of<E>(OptionType<std::string>::read(value))) return *choice;
    detail::throw_wrong_choice(value, choice_names<E>());
  }
  static Value write(E value) { return choice_name(value); }
  static std::string name() { return "string"; }
  static Value schema() { return detail::schema_of_type("string"); }
};
/// A value read unchanged, such as the init_args of a class that is known only at run time.
template <>
struct LEVIN_API OptionType<Value> {
  static Value read(const Value& value) { return value; }
  static Value write(const Value& value) { return value; }
  static std::string name() { return "any"; }
  static Value schema() { return Value(Value::Map{}); }
};

template <class M>
struct OptionType<std::optional<M>> {
  static std::optional<M> read(const Value& value) {
    if (value.is_null()) return std::nullopt;
    return OptionType<M>::read(value);
  }
  static Value write(const std::optional<M>& value) { return value ? OptionType<M>::write(*value) : Value(); }
  static std::string name() { return OptionType<M>::name() + " or null"; }
  static Value schema() { return detail::any_of({OptionType<M>::schema(), detail::schema_of_type("null")}); }
};

template <class M>
struct OptionType<std::vector<M>> {
  static std::vector<M> read(const Value& value) {
    if (!value.is_list()) detail::throw_wrong_type(value, name());
    std::vector<M> list;
    ErrorCollector errors;
    for (const Value& element : value.as_list()) errors.run([&] { list.push_back(OptionType<M>::read(element)); });
    errors.throw_if_any();
    return list;
  }
  static Value write(const std::vector<M>& list) {
    Value::List values;
    for (const M& element : list) values.push_back(OptionType<M>::write(element));
    return Value(std::move(values));
  }
  static std::string name() { return "list of " + OptionType<M>::name(); }
  static Value schema() {
    Value list = detail::schema_of_type("array");
    list["items"] = OptionType<M>::schema();
    return list;
  }
};

template <class M>
struct OptionType<std::map<std::string, M>> {
  static std::map<std::string, M> read(const Value& value) {
    if (!value.is_map()) detail::throw_wrong_type(value, name());
    std::map<std::string, M> map;
    ErrorCollector errors;
    for (const auto& entry : value.as_map()) errors.run([&] { map[entry.first] = OptionType<M>::read(entry.second); });
    errors.throw_if_any();
    return map;
  }
  static Value write(const std::map<std::string, M>& map) {
    Value values(Value::Map{});
    for (const auto& [key, element] : map) values[key] = OptionType<M>::write(element);
    return values;
  }
  static std::string name() { return "map of " + OptionType<M>::name(); }
  static Value schema() {
    Value map = detail::schema_of_type("object");
    map["additionalProperties"] = OptionType<M>::schema();
    return map;
  }
};

/// A span of time: any of std::chrono's (`12h`, `std::chrono::minutes(5)`). In YAML "DD:HH:MM:SS", with or without decimals; a
/// map such as {hours: 2, minutes: 30}; or Python's "1 day, 2:30:00".
using Duration = std::chrono::duration<double>;

template <>
struct LEVIN_API OptionType<Duration> {
  static Duration read(const Value& value);
  /// "00:12:00:00", or "00:00:00:00.5"
  static Value write(Duration duration);
  static std::string name() { return "DD:HH:MM:SS"; }
  static Value schema();
};

}  // namespace levin
