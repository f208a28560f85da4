#pragma once

#include <cstdint>
#include <string>

namespace levin::detail {

/// A count as Lightning shortens it: "123", "1.2 K", "200 K", "2.0 M", "3.0 B", "400 T", "5,000 T".
std::string abbreviated_count(std::int64_t count);

/// "torch::nn::LinearImpl" becomes "Linear": the class without namespaces, template arguments and LibTorch's suffix.
std::string short_type_name(const std::string& demangled);

}  // namespace levin::detail
