#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "levin/cli/runs/run_folder.h"

namespace levin::cli {

/// How a page of runs is made.
struct ReportOptions {
  std::size_t max_bytes = 5'000'000;  ///< curves are thinned, and media left out, so that the page is not larger
  bool reloads = false;               ///< the page loads itself again every few seconds
};

/// Where a metric's chart stands: "Metrics", "Learning rate", "Throughput" or "Memory".
std::string_view section_of(std::string_view metric);

/// One HTML page that shows the runs, and needs no other file and no network. What comes from files can do nothing in it: it
/// stands in the page as JSON, and the page's script makes texts of it.
std::string report_page(const std::vector<RunFolder>& runs, const ReportOptions& options = {});

}  // namespace levin::cli
