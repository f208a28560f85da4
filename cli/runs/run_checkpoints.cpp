#include "levin/cli/runs/run_checkpoints.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "levin/cli/runs/natural_order.h"
#include "levin/core/base/error.h"
#include "levin/core/config/saved_checkpoints.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/paths.h"

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

/// The score of each file, by its name.
using Scores = std::map<std::string, RunCheckpoint>;

/// What the callback that wrote a file knew then; none where no callback did.
Scores scores_in(const Value& manifest, const fs::path& name) {
  const std::vector<SavedCheckpoints> all = SavedCheckpoints::read_all(manifest);
  // A folder may have moved since.
  const auto writer =
      std::ranges::find_if(all, [&](const SavedCheckpoints& saved) { return fs::path(saved.saved_as).filename() == name; });
  Scores scores;
  if (writer == all.end() || writer->monitor.empty()) return scores;
  for (const auto& [file, score] : writer->best_k_models) scores[fs::path(file).filename()] = {file, writer->monitor, score};
  return scores;
}

/// The name of the file that has the content: of a link in the same folder, which last.ckpt may be, that of its target.
fs::path name_of_content(const fs::path& file) {
  std::error_code error;
  const fs::path target = fs::read_symlink(file, error);
  return error ? file.filename() : target.filename();
}

}  // namespace

std::vector<RunCheckpoint> read_checkpoints(const fs::path& folder) {
  std::vector<fs::path> files = newest_files(folder, ".ckpt");
  std::sort(files.begin(), files.end(),
            [](const fs::path& one, const fs::path& other) { return comes_before(one.native(), other.native()); });
  // Each file has the scores that were known when it was written. What was saved before it was measured is in later ones.
  std::vector<RunCheckpoint> checkpoints;
  Scores known;
  std::vector<Scores> own;
  for (const fs::path& file : files) {
    own.push_back(scores_in(read_manifest(file), name_of_content(file)));
    known.insert(own.back().begin(), own.back().end());
  }
  for (std::size_t index = 0; index < files.size(); ++index) {
    const std::string name = name_of_content(files[index]);
    RunCheckpoint checkpoint{files[index], "", 0};
    for (const Scores* scores : {&std::as_const(known), &std::as_const(own[index])}) {
      const auto found = scores->find(name);
      if (found != scores->end())
        std::tie(checkpoint.monitor, checkpoint.score) = std::tie(found->second.monitor, found->second.score);
    }
    checkpoints.push_back(checkpoint);
  }
  return checkpoints;
}

}  // namespace levin::cli
