#pragma once

namespace levin {

/// Opens /dev/null on those of the descriptors 0, 1 and 2 that are closed, so that no file, socket or shared memory that is
/// opened later gets their numbers and, with them, every message. Done when liblevin is loaded, before main(); again before
/// ranks are started, for a program that has closed them meanwhile.
/// Threading: async-signal-safe.
void open_standard_descriptors() noexcept;

}  // namespace levin
