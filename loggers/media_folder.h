#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "levin/core/logged_item.h"

namespace levin {

/// A table as trackers read it, in pandas' "split" form: {"columns": […], "data": [[…], …]}.
std::string table_json(const Table& table);

/// The folder `media` of a run, in which what is no number is a file of its own, by kind, name and step:
///
///     media/images/samples/000120.png      media/histograms/encoder/weight/000120.csv     media/texts/note/000120.txt
///     media/tables/errors/000120.csv       media/files/config/000120_original.ext
///
/// A name with "/" makes folders. What no file name can have becomes "_", and no name leads out of the folder. Other ranks than
/// 0 add theirs, "000120_rank1.png"; a second item of one name and step is "000120_2.png". A run that resumes writes over what
/// it logs anew.
class MediaFolder {
 public:
  /// `run`: the run's folder. Nothing is made before the first item.
  explicit MediaFolder(std::filesystem::path run) : run_(std::move(run)) {}

  /// Writes an item's file, and gives its path. Throws IoError.
  std::filesystem::path write(const LoggedItem& item);
  /// Writes such a file with a content and an end of its name (".html") that are the caller's.
  std::filesystem::path write(const LoggedItem& item, const std::string& end, std::string_view content);

 private:
  std::filesystem::path path_of(const LoggedItem& item, const std::string& end);

  std::filesystem::path run_;
  struct Newest {
    std::int64_t step = -1;
    int items = 0;
  };
  std::map<std::filesystem::path, Newest> newest_;  ///< by folder: two names may come to one
};

}  // namespace levin
