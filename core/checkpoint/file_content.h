#pragma once

#include <cstdint>
#include <string_view>

namespace levin {

/// What a file of tensors is, as far as its first bytes tell.
enum class FileContent : std::uint8_t { kTorch, kIndex, kSafetensors };

/// Throws IoError for whatever is no file of tensors that levin reads: empty files and texts, and formats of other programs,
/// which it names with what to do about them.
FileContent file_content(std::string_view bytes);

}  // namespace levin
