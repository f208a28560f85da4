#pragma once

#include <filesystem>
#include <string>

namespace levin::wandb {

/// The server of W&B and the key for it, as W&B's own clients find them.
struct Account {
  std::string base_url;
  std::string api_key;  ///< empty: none

  /// WANDB_BASE_URL, and WANDB_API_KEY or else the password of that host in ~/.netrc (or the file that NETRC names).
  static Account of_user();
  /// The address of a run's page.
  std::string page_of(const std::string& entity, const std::string& project, const std::string& id) const;
};

/// The program wandb-core: `chosen`, else WANDB_CORE, else that on PATH or of the Python package whose `wandb` is on PATH.
/// Empty: none is installed. Throws ConfigError if the chosen file is not a program.
std::filesystem::path find_core(const std::filesystem::path& chosen);

}  // namespace levin::wandb
