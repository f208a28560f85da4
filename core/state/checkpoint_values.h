#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/loop_position.h"

// What a checkpoint's manifest records about its run.
namespace levin {

/// True for a checkpoint that levin wrote, not another program.
inline bool is_of_levin(const Checkpoint& checkpoint) { return checkpoint.manifest.contains("levin_version"); }
/// Adds the version of levin and that of the resume format.
void save_format(Checkpoint& checkpoint);
/// Throws ConfigError for a checkpoint of a levin that stored the position of a run in another format.
void require_this_format(const Checkpoint& checkpoint);
/// The key of the sections' state on each rank: a map by rank.
inline constexpr std::string_view kRanks = "ranks";
/// That of one rank; null where the saved run had fewer ranks, or stored weights only.
const Value* values_of_rank(const Checkpoint& checkpoint, int rank);
/// True when the run was saved at that place.
bool is_at(const Checkpoint& checkpoint, Place place);
/// The step of the next row of metrics.
std::int64_t logging_step_of(const Checkpoint& checkpoint);

/// Throws ConfigError when the checkpoint and the run have different numbers of `what`: "optimizers".
void check_number(const Value& saved, const char* what, std::size_t own);
/// Throws ConfigError for a value that is no count.
std::int64_t saved_count(const Value& values, const char* key);
/// Unset for null.
std::optional<std::int64_t> optional_count(const Value& values, const char* key);

}  // namespace levin
