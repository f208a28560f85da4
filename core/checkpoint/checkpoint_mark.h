#pragma once

#include <filesystem>

namespace levin {

/// The key under which a checkpoint's manifest stands in its file's metadata: what makes a safetensors file a checkpoint.
inline constexpr char kManifestKey[] = "levin_manifest";

/// True for a regular file, not a link to one, that levin has written as a checkpoint. Reads its header only.
bool is_checkpoint(const std::filesystem::path& file);

}  // namespace levin
