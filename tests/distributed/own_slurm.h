#pragma once

#include <chrono>
#include <string>

#include "distributed/start_run.h"
#include "support/temporary_folder.h"

namespace levin::test {

/// A Slurm of the test's own: munged, slurmctld and slurmd on this machine, as root, with everything in a folder. All of it
/// ends with this object.
class OwnSlurm {
 public:
  OwnSlurm();
  ~OwnSlurm();
  OwnSlurm(const OwnSlurm&) = delete;
  OwnSlurm& operator=(const OwnSlurm&) = delete;

  /// Why there is none: a program or the right is missing; "" when it runs.
  const std::string& hindrance() const { return hindrance_; }
  /// What Slurm's programs need to find it.
  Environment environment() const { return {{"SLURM_CONF", (folder_ / "slurm.conf").string()}}; }
  /// Runs one of Slurm's programs, and gives what it prints.
  std::string ask(const std::vector<std::string>& arguments) const;
  /// Asks again and again until the answer holds `text`; false when it has not after so long.
  bool wait_for(const std::vector<std::string>& arguments, const std::string& text,
                std::chrono::seconds limit = std::chrono::seconds(60)) const;

 private:
  std::string start();

  TemporaryFolder folder_;
  std::string hindrance_;
};

}  // namespace levin::test
