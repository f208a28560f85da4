#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/program.h"

namespace levin::test {

/// A project of a user's, in a folder of its own beside the build: always the same, so that a compiler cache knows its sources.
class OutsideProject {
 public:
  /// An empty place for it; the folder itself is not there yet.
  explicit OutsideProject(const std::string& name);

  /// Configures and builds it against this build of levin: quickly in the sample of the test suite, and as users do, with
  /// optimization and a precompiled header, in the whole matrix.
  void build() const;
  /// Runs a command in `folder`, the project's by default; the test ends when it fails.
  Outcome command(const std::vector<std::string>& arguments, const std::filesystem::path& folder = {}) const;
  /// `levin ARGUMENTS…` in the project's folder.
  Outcome levin(std::vector<std::string> arguments) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace levin::test
