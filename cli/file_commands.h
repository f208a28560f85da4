#pragma once

#include <string>

namespace levin::cli {

struct FileCommand;

/// `levin inspect`: what is printed of a file, and whether its checksums hold.
struct Inspection {
  std::string text;
  bool is_whole = true;
};
Inspection inspect(const FileCommand& command);

/// `levin export`: writes the file, and says where.
std::string export_weights(const FileCommand& command);

}  // namespace levin::cli
