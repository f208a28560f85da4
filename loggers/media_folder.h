#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "levin/core/logged_item.h"

namespace levin {

/// A table for trackers, in pandas' "split" form: {"columns": […], "data": [[…], …]}.
std::string table_json(const Table& table);

/// The folder `media` of a run, with a file for each logged item, by kind, name and step:
///
///     media/images/samples/000120.png      media/histograms/encoder/weight/000120.csv     media/texts/note/000120.txt
///     media/tables/errors/000120.csv       media/files/config/000120_original.ext
///
/// A name with "/" makes subfolders. A character that file names cannot have becomes "_", and no name leads out of the folder.
/// Files of rank 1 are "000120_rank1.png"; a second item of one name and step is "000120_2.png". A resumed run overwrites files
/// of items that it logs again.
class MediaFolder {
 public:
  /// `run`: the run's folder. Nothing is created before the first item.
  explicit MediaFolder(std::filesystem::path run) : run_(std::move(run)) {}

  /// Writes an item's file, and returns its path. Throws IoError.
  std::filesystem::path write(const LoggedItem& item);
  /// The same with another content and ending of its name (".html").
  std::filesystem::path write(const LoggedItem& item, const std::string& end, std::string_view content);

 private:
  std::filesystem::path path_of(const LoggedItem& item, const std::string& end);

  std::filesystem::path run_;
  struct Newest {
    std::int64_t step = -1;
    int items = 0;
  };
  std::map<std::filesystem::path, Newest> newest_;  ///< by folder, which two names may share
};

}  // namespace levin
