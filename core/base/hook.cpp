#include "levin/core/base/hook.h"

#include <array>
#include <cstddef>

#include "levin/core/base/format.h"

namespace levin {

namespace {

constexpr HookPolicy kNoLog{};
constexpr HookPolicy kTrainBatch{.may_log = true, .default_on_step = true};
constexpr HookPolicy kEvalBatch{.may_log = true, .default_on_epoch = true};
constexpr HookPolicy kOnceAnEpoch{.may_log = true, .default_on_epoch = true, .epoch_only = true};

constexpr std::size_t kHooks = static_cast<std::size_t>(Hook::kCount);

#define LEVIN_HOOK_NAME(number, name, policy, stage) name,
#define LEVIN_HOOK_POLICY(number, name, policy, stage) policy,
#define LEVIN_HOOK_STAGE(number, name, policy, stage) Stage::stage,
constexpr std::array<std::string_view, kHooks> kNames = {LEVIN_HOOKS(LEVIN_HOOK_NAME)};
constexpr std::array<HookPolicy, kHooks> kPolicies = {LEVIN_HOOKS(LEVIN_HOOK_POLICY)};
constexpr std::array<Stage, kHooks> kStages = {LEVIN_HOOKS(LEVIN_HOOK_STAGE)};

}  // namespace

std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, 5> kStageNames = {"train", "sanity_check", "validate", "test", "predict"};
  const auto index = static_cast<std::size_t>(stage);
  return index < kStageNames.size() ? kStageNames[index] : "unknown";
}

std::string_view hook_name(Hook hook) {
  const auto index = static_cast<std::size_t>(hook);
  return index < kHooks ? kNames[index] : "unknown";
}

std::string describe(const Whereabouts& where) {
  if (where.epoch < 0) return "before the first hook";
  return format("{} ({}, epoch {}, step {})", where.hook == Hook::kNone ? "between hooks" : hook_name(where.hook),
                stage_name(where.stage), where.epoch, where.step);
}

std::string describe_place(const Whereabouts& where) { return (where.hook == Hook::kNone ? "" : "in ") + describe(where); }

HookPolicy hook_policy(Hook hook) {
  const auto index = static_cast<std::size_t>(hook);
  return index < kHooks ? kPolicies[index] : kNoLog;
}

Stage hook_stage(Hook hook) {
  const auto index = static_cast<std::size_t>(hook);
  return index < kHooks ? kStages[index] : Stage::kTrain;
}

}  // namespace levin
