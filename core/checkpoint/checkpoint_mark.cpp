#include "levin/core/checkpoint/checkpoint_mark.h"

#include <system_error>

#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/error.h"

namespace levin {

bool is_checkpoint(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, error))) return false;
  try {
    return parse_safetensors(MappedFile(file).bytes()).metadata.count(kManifestKey) == 1;
  } catch (const IoError&) {
    return false;
  }
}

}  // namespace levin
