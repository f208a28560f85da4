#pragma once

#include <filesystem>
#include <string>

namespace levin::wandb {

/// The server of W&B, and who speaks to it, as W&B's own clients find them.
struct Account {
  std::string base_url;
  std::string api_key;  ///< empty: there is none

  /// WANDB_BASE_URL, and WANDB_API_KEY or else the password of that host in ~/.netrc (or the file that NETRC names).
  static Account of_user();
  /// Where a person looks at a run.
  std::string page_of(const std::string& entity, const std::string& project, const std::string& id) const;
};

/// The program wandb-core: `chosen`, else what WANDB_CORE says, else that on PATH or of the Python package whose `wandb` is on
/// PATH. Empty: there is none. Throws ConfigError when what was chosen is no program.
std::filesystem::path find_core(const std::filesystem::path& chosen);

}  // namespace levin::wandb
