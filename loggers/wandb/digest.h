#pragma once

#include <string>
#include <string_view>

namespace levin::wandb {

/// The SHA-256 of some bytes, in hexadecimal.
std::string sha256(std::string_view bytes);

}  // namespace levin::wandb
