#pragma once

#include <filesystem>

namespace levin {

/// Removes temporary files in `folder` that processes of levin left when they were killed. One goes when it belongs to this
/// user, no living process holds its lock, and it was made on this machine; or on any machine more than a day ago.
/// (Whether a lock is seen by other machines depends on the file system: therefore the day.)
/// Nothing else is touched, and what cannot be removed stays.
void remove_abandoned(const std::filesystem::path& folder);

/// The same, for each folder once in this process: called before the first file is written there.
void remove_abandoned_once(const std::filesystem::path& folder);

}  // namespace levin
