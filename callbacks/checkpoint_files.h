#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/fwd.h"
#include "levin/core/loops/shared_interval.h"

namespace levin::detail {

/// The folder as an absolute path; it need not exist. A leading "~" is the user's home.
std::string absolute_folder(const std::filesystem::path& folder);

/// True when the folder exists and something is in it.
bool has_files(const std::string& folder);

/// True for files and links, also for a link that points to nothing.
bool file_is_there(const std::string& file);

/// Makes `link` point to `target`, in one step: at any instant the old or the new link is there. Throws IoError.
void link_checkpoint(const std::string& target, const std::string& link);

/// Removes a checkpoint that levin wrote into `folder` or a folder below it, or a link that link_checkpoint() made there. Any
/// other file, wherever its path leads, stays, with a warning; so does what cannot be removed.
void remove_checkpoint(const std::string& file, const std::string& folder);

/// What rank 0 has, on every rank. Ranks: all.
std::string text_of_rank_zero(Trainer& trainer, const std::string& mine, const char* what);
std::optional<double> number_of_rank_zero(Trainer& trainer, std::optional<double> mine, const char* what);
SharedInterval::Word word_of_rank_zero(Trainer& trainer, const SharedInterval::Word& mine, const char* what);

}  // namespace levin::detail
