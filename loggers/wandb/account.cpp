#include "levin/loggers/wandb/account.h"

#include <unistd.h>

#include "levin/core/base/environment.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/file_bytes.h"

namespace levin::wandb {
namespace {

namespace fs = std::filesystem;

/// The password of a host in a file in the format of netrc; empty: none.
std::string password_in(const fs::path& netrc, const std::string& host) {
  std::ifstream stream = open_plain_stream(netrc);
  bool is_it = false;
  for (std::string word; stream >> word;) {
    if (word == "machine") is_it = (stream >> word) && word == host;
    if (word == "default") is_it = false;
    if (word == "password" && (stream >> word) && is_it) return word;
  }
  return {};
}

bool is_program(const fs::path& file) {
  std::error_code unknown;
  return fs::is_regular_file(file, unknown) && access(file.c_str(), X_OK) == 0;
}

/// That of the Python package of the program `wandb` in a folder bin.
fs::path core_beside(const fs::path& bin) {
  std::error_code none;
  if (!is_program(bin / "wandb")) return {};
  for (fs::directory_iterator entry(bin.parent_path() / "lib", none), end; !none && entry != end; entry.increment(none)) {
    const fs::path core = entry->path() / "site-packages/wandb/bin/wandb-core";
    if (entry->path().filename().string().starts_with("python") && is_program(core)) return core;
  }
  return {};
}

}  // namespace

Account Account::of_user() {
  Account account{environment("WANDB_BASE_URL"), environment("WANDB_API_KEY")};
  if (account.base_url.empty()) account.base_url = "https://api.wandb.ai";
  while (account.base_url.ends_with('/')) account.base_url.pop_back();
  const std::string after_scheme = account.base_url.substr(account.base_url.find("//") + 2);
  const std::string host = after_scheme.substr(0, after_scheme.find_first_of(":/"));
  const std::string netrc = environment("NETRC");
  if (account.api_key.empty())
    account.api_key = password_in(netrc.empty() ? fs::path(environment("HOME")) / ".netrc" : fs::path(netrc), host);
  return account;
}

std::string Account::page_of(const std::string& entity, const std::string& project, const std::string& id) const {
  const std::string site = base_url == "https://api.wandb.ai" ? "https://wandb.ai" : base_url;
  return format("{}/{}/{}/runs/{}", site, entity, project, id);
}

fs::path find_core(const fs::path& chosen) {
  const fs::path wanted = chosen.empty() ? fs::path(environment("WANDB_CORE")) : chosen;
  if (!wanted.empty()) {
    if (!is_program(wanted)) throw ConfigError(format("WandbLogger: {} is not a program: give the path of wandb-core", wanted));
    return wanted;
  }
  const std::vector<std::string> folders = split(environment("PATH"), ":");
  for (const fs::path folder : folders) {
    if (is_program(folder / "wandb-core")) return folder / "wandb-core";
    std::error_code unknown;
    const fs::path program = fs::canonical(folder / "wandb", unknown);
    if (fs::path core = core_beside(folder); !core.empty()) return core;
    if (fs::path core = unknown ? fs::path() : core_beside(program.parent_path()); !core.empty()) return core;
  }
  return {};
}

}  // namespace levin::wandb
