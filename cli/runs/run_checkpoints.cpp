#include "levin/cli/runs/run_checkpoints.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "levin/cli/runs/natural_order.h"
#include "levin/core/base/error.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/paths.h"
#include "levin/core/options/value_json.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// The manifest in the header of a checkpoint of levin: a safetensors file, which begins with the size of a JSON text. Torch,
/// which core's reader needs for the tensors, takes longer to load than all manifests. Null for any other file.
Value read_manifest(const fs::path& file) {
  constexpr std::uint64_t kLongestHeader = std::uint64_t{64} << 20U;
  constexpr std::size_t kLength = 8;
  const std::string length = first_bytes(file, kLength);
  if (length.size() < kLength) return {};
  std::uint64_t size = 0;
  for (auto byte = length.rbegin(); byte != length.rend(); ++byte) size = (size << 8U) | static_cast<unsigned char>(*byte);
  if (size > kLongestHeader) return {};
  const std::string header = first_bytes(file, kLength + size);
  if (header.size() < kLength + size) return {};
  try {
    const Value read = parse_json(std::string_view(header).substr(kLength));
    const Value* const metadata = read.find("__metadata__");
    const Value* const manifest = metadata == nullptr ? nullptr : metadata->find("levin_manifest");
    return manifest != nullptr && manifest->is_string() ? parse_json(manifest->as_string()) : Value();
  } catch (const IoError&) {
    return {};
  }
}

/// What ModelCheckpoint has noted in a file that it wrote.
RunCheckpoint read_checkpoint(const fs::path& file) {
  RunCheckpoint checkpoint{file, "", 0};
  const Value manifest = read_manifest(file);
  const Value* const callbacks = manifest.find("callbacks");
  if (callbacks == nullptr || !callbacks->is_map()) return checkpoint;
  for (const auto& [name, state] : callbacks->as_map()) {
    const Value* const saved_as = state.find("saved_as");
    const Value* const monitor = state.find("monitor");
    const Value* const score = state.find("current_score");
    if (saved_as == nullptr || !saved_as->is_string() || monitor == nullptr || score == nullptr) continue;
    // A folder may have moved since.
    if (fs::path(saved_as->as_string()).filename() != file.filename()) continue;
    if (!monitor->is_string() || !score->is_number()) continue;
    checkpoint.monitor = monitor->as_string();
    checkpoint.score = score->as_double();
  }
  return checkpoint;
}

}  // namespace

std::vector<RunCheckpoint> read_checkpoints(const fs::path& folder) {
  std::vector<fs::path> files = newest_files(folder, ".ckpt");
  std::sort(files.begin(), files.end(),
            [](const fs::path& one, const fs::path& other) { return comes_before(one.native(), other.native()); });
  std::vector<RunCheckpoint> checkpoints;
  for (const fs::path& file : files) checkpoints.push_back(read_checkpoint(file));
  return checkpoints;
}

}  // namespace levin::cli
