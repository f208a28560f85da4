#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace levin::cli {

/// A file of cli/manual, which is compiled in.
std::string_view manual_file(std::string_view name);

/// The variables of the environment that change what levin does, and what each is for. A '*' stands for any end of a name.
std::vector<std::pair<std::string, std::string>> environment_variables();

}  // namespace levin::cli
