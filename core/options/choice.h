#pragma once

#include <array>
#include <cstdint>
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

/// Which of two values of a monitored metric is the better one.
enum class MonitorMode : std::uint8_t {
  kMin,  ///< the smaller
  kMax   ///< the larger
};
template <>
inline constexpr std::array kChoices<MonitorMode> = {Choice{MonitorMode::kMin, "min"}, Choice{MonitorMode::kMax, "max"}};

/// What happens at regular intervals counts optimizer steps or epochs.
enum class Interval : std::uint8_t { kStep, kEpoch };
template <>
inline constexpr std::array kChoices<Interval> = {Choice{Interval::kStep, "step"}, Choice{Interval::kEpoch, "epoch"}};

/// What to do with training samples that do not divide evenly over ranks.
enum class Uneven : std::uint8_t {
  kPad,   ///< repeat samples from the start, so that every rank has as many (Lightning's way)
  kDrop,  ///< leave the remainder out
  kKeep   ///< leave it uneven: a rank without a batch takes part with weight 0
};
template <>
inline constexpr std::array kChoices<Uneven> = {Choice{Uneven::kPad, "pad"}, Choice{Uneven::kDrop, "drop"},
                                                Choice{Uneven::kKeep, "keep"}};

/// What follows when a loss or a gradient is NaN or infinite.
enum class OnNan : std::uint8_t {
  kWarn,  ///< the first time, a warning that says where
  kStop,  ///< an error on every rank
  kSkip   ///< no optimizer step for this batch, on any rank
};
template <>
inline constexpr std::array kChoices<OnNan> = {Choice{OnNan::kWarn, "warn"}, Choice{OnNan::kStop, "stop"},
                                               Choice{OnNan::kSkip, "skip"}};

/// Whether a device records training steps and does them again with one call each.
enum class CudaGraph : std::uint8_t {
  kNever,
  kAuto  ///< where a step can be recorded, and comes to the same
};
template <>
inline constexpr std::array kChoices<CudaGraph> = {Choice{CudaGraph::kNever, "never"}, Choice{CudaGraph::kAuto, "auto"}};

/// What gradient clipping bounds.
enum class GradientClipAlgorithm : std::uint8_t {
  kNorm,  ///< the 2-norm of all gradients together
  kValue  ///< each element
};
template <>
inline constexpr std::array kChoices<GradientClipAlgorithm> = {Choice{GradientClipAlgorithm::kNorm, "norm"},
                                                               Choice{GradientClipAlgorithm::kValue, "value"}};

/// The number formats of a run: of weights (and of what is computed with them), or, mixed, float32 weights with forward passes
/// that compute in a shorter one.
enum class PrecisionFormat : std::uint8_t { kFloat32, kFloat64, kBfloat16, kBfloat16Mixed, kFloat16Mixed };
template <>
inline constexpr std::array kChoices<PrecisionFormat> = {
    Choice{PrecisionFormat::kFloat32, "32-true"},          Choice{PrecisionFormat::kFloat32, "32"},
    Choice{PrecisionFormat::kFloat64, "64-true"},          Choice{PrecisionFormat::kFloat64, "64"},
    Choice{PrecisionFormat::kBfloat16Mixed, "bf16-mixed"}, Choice{PrecisionFormat::kFloat16Mixed, "16-mixed"},
    Choice{PrecisionFormat::kBfloat16, "bf16-true"}};

}  // namespace levin
