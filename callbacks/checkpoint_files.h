#pragma once

#include <filesystem>
#include <string>

namespace levin {

struct ModelCheckpointOptions;

}  // namespace levin

namespace levin::detail {

/// The name of a checkpoint when nothing else is said.
inline constexpr const char* kDefaultName = "{epoch}-{step}";

/// The name that a ModelCheckpoint gives its files: its own, or that.
std::string name_of_files(const ModelCheckpointOptions& options);

/// Throws ConfigError when two ModelCheckpoints would write the same files, one over the other.
void check_files(const ModelCheckpointOptions& left, const ModelCheckpointOptions& right);

/// What is wrong with a folder for checkpoints that is an address, such as of a server that takes no files; "" for none.
std::string problem_of_folder(const std::string& folder);

/// The folder as an absolute path; it need not exist. A leading "~" is the user's home. An address loses slashes at its end.
std::string absolute_folder(const std::filesystem::path& folder);

/// Makes `link` point to `target`, in one step: at any instant the old or the new link exists. Throws IoError.
void link_checkpoint(const std::string& target, const std::string& link);

/// Removes a checkpoint that levin wrote into `folder` or a folder below it, or a link that link_checkpoint() made there; of an
/// address what has a checkpoint's name. Any other file, wherever its path leads, stays, with a warning; so does what cannot be
/// removed.
void remove_checkpoint(const std::string& file, const std::string& folder);

}  // namespace levin::detail
