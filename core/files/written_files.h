#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace levin {

// The list of the files that a run has written into its folder: `run_files.txt` in the folder, with one path per line. With it
// they can be removed without files of others.
//
// Threading: any. All ranks of a host, and later runs in the same folder, add to one list.

/// From here on, a folder lists what this process writes below it: each file of AtomicFile, OutputFile, replace_link() and
/// note_written(). A folder in which `run_files.txt` is something else gets no list. Called: for the folder of a run, before
/// the first file.
void list_written_files(const std::filesystem::path& folder);

/// Adds a file or link to the list of the innermost folder above it that has one. Called: for files that are made in other
/// ways. A file that cannot be listed, such as on a full disk, stays when the others are removed.
void note_written(const std::filesystem::path& file) noexcept;
/// Notes a renamed file: if the old name was listed, the new one is, too.
void note_renamed(const std::filesystem::path& from, const std::filesystem::path& to) noexcept;

/// The list of a folder: paths below it, in order, of which some may be gone. Unset: no list.
std::optional<std::vector<std::filesystem::path>> written_files(const std::filesystem::path& folder);
/// The path of that list.
std::filesystem::path list_of_written_files(const std::filesystem::path& folder);

/// Removes a folder that holds only its list and these files. True when it has.
bool remove_unused_folder(const std::filesystem::path& folder, const std::vector<std::string>& names = {});

}  // namespace levin
