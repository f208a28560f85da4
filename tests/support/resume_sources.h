#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/data_module.h"

namespace levin::test {

/// What a source of a ResumePlan gives.
struct ResumeSource {
  std::string name;              ///< one of resume_sources()
  std::filesystem::path folder;  ///< shared by the ranks, for files
  std::int64_t samples = 0;
  double offset = 0;  ///< of all values
  bool shuffle = false;
};

/// Names: each kind of data that levin reads, through steps that fit it. Columns are left out where their library is missing.
const std::vector<std::string>& resume_sources();

/// Batches of "rows" [N, 2], with noise that each sample draws.
LoaderPtr resume_loader(const ResumeSource& source, std::int64_t batch_size, int workers);

}  // namespace levin::test
