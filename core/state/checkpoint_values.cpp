#include "levin/core/state/checkpoint_values.h"

#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/version.h"

namespace levin {

namespace {

/// Version of the resume format. Others are not read.
constexpr const char* kFormat = "resume_format";
constexpr std::int64_t kFormatVersion = 2;

}  // namespace

void save_format(Checkpoint& checkpoint) {
  checkpoint.manifest["levin_version"] = kVersion;
  checkpoint.manifest[kFormat] = kFormatVersion;
}

void require_this_format(const Checkpoint& checkpoint) {
  const Value* const format_version = checkpoint.manifest.find(kFormat);
  if (!is_of_levin(checkpoint) || (format_version != nullptr && *format_version == Value(kFormatVersion))) return;
  throw ConfigError(format(
      "ckpt_path: the checkpoint was written by levin {}, which stored the position of a run in another format than this "
      "levin ({}). It can be tested and validated. To train from its weights, give it as init_from instead.",
      checkpoint.manifest.at("levin_version").as_string(), kVersion));
}

const Value* values_of_rank(const Checkpoint& checkpoint, int rank) {
  const Value* const by_rank = checkpoint.manifest.find(kRanks);
  return by_rank == nullptr ? nullptr : by_rank->find(std::to_string(rank));
}

bool is_at(const Checkpoint& checkpoint, Place place) {
  const Value* loops = checkpoint.manifest.find("loops");
  return loops != nullptr && loops->at("place") == Value(choice_name(place));
}

std::int64_t logging_step_of(const Checkpoint& checkpoint) {
  const Value* loops = checkpoint.manifest.find("loops");
  if (loops == nullptr) return 0;
  // The row of a finished validation has the current step.
  const bool has_row = is_at(checkpoint, Place::kValidationEnd) && !loops->at("iteration").at("is_finished").as_bool();
  return loops->at("logging_step").as_int() + (has_row ? 1 : 0);
}

void check_number(const Value& saved, const char* what, std::size_t own) {
  if (saved.size() == own) return;
  throw ConfigError(format("ckpt_path: the checkpoint has {} {}, the module {}.", saved.size(), what, own));
}

std::int64_t saved_count(const Value& values, const char* key) {
  const std::int64_t number = values.at(key).as_int();
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (number < 0 || number > kMost) {
    throw ConfigError(format("ckpt_path: the checkpoint says {}: {}.", key, number));
  }
  return number;
}

std::optional<std::int64_t> optional_count(const Value& values, const char* key) {
  return values.at(key).is_null() ? std::nullopt : std::optional(saved_count(values, key));
}

}  // namespace levin
