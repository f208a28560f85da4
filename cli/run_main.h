#pragma once

#include <functional>

#include "levin/core/export.h"

namespace levin {

/// What the main() of a program of your own returns:
///
///     int main() {
///       return levin::run_main([] {
///         levin::Trainer trainer({.max_epochs = 5});
///         …
///       });
///     }
///
/// An error that leaves `program` is shown as `levin` shows it ("error: …", and not a second time when the run has told it
/// already), in place of the C++ library's "terminate called". Returns the exit status: 0, 1 for an error of the run, 2 for a
/// wrong configuration, 128 + n after signal n.
LEVIN_API int run_main(const std::function<void()>& program);

}  // namespace levin
