#pragma once

#include <functional>
#include <string_view>

namespace levin {

/// True for the first process of the run that asks with this text, as far as processes can know of one another.
using FirstInRun = std::function<bool(std::string_view text)>;

/// Lets Console::warn_once() say what every rank would say on the first of them only. Called: by a strategy whose ranks share
/// something that they can ask without waiting. Threading: any thread.
void share_warnings(FirstInRun first_in_run);

namespace detail {
/// The answer of what share_warnings() was given; true without it.
bool is_first_in_run(std::string_view text);
}  // namespace detail

}  // namespace levin
