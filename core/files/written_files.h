#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace levin {

// Which files of a run's folder the run has written, by its own account: the file `run_files.txt` of the folder, with a path a
// line. So they can be removed without anything that somebody else has put beside them.
//
// Threading: any. All ranks of a host, and later runs in the same folder, add to one list.

/// From here on, what this process writes below a folder is listed in it: each file of AtomicFile, OutputFile and
/// replace_link(), and what note_written() is told. A folder in which `run_files.txt` is something else gets no list. Called:
/// for the folder of a run, before the first file.
void list_written_files(const std::filesystem::path& folder);

/// Adds a file, or a link, to the list of the innermost folder above it that has one. Called by who makes files otherwise than
/// with the above. What cannot be listed, as on a full disk, is as somebody else's: it stays when the others are removed.
void note_written(const std::filesystem::path& file) noexcept;
/// A file has another name: one that was listed is so by the new one, too.
void note_renamed(const std::filesystem::path& from, const std::filesystem::path& to) noexcept;

/// The list of a folder: paths below it, in order, of which some may be gone. Nothing where there is none.
std::optional<std::vector<std::filesystem::path>> written_files(const std::filesystem::path& folder);
/// Where that list is.
std::filesystem::path list_of_written_files(const std::filesystem::path& folder);

/// Removes a folder where nothing is in it but its list and these files. True when it has.
bool remove_unused_folder(const std::filesystem::path& folder, const std::vector<std::string>& names = {});

}  // namespace levin
