#include "levin/data/read_file.h"

#include <new>

#include "levin/core/base/error.h"
#include "levin/data/input_file.h"

namespace levin {

std::string read_input_file(const std::filesystem::path& path, double max_expansion) {
  InputFile file(path, max_expansion);
  std::string content;
  try {
    content.reserve(file.size_on_disk());
    while (file.append_piece_to(content)) {
    }
    return content;
  } catch (const std::bad_alloc&) {
    throw IoError(path.string() + ": cannot be read: there is not enough memory for it");
  }
}

}  // namespace levin
