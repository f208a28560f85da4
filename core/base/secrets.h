#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// The replacement of a secret in all that levin writes, shows and sends.
inline constexpr std::string_view kMask = "***";

/// True for the name of an option, a variable or a key whose value is secret: "password", "--data.hf_token", "WANDB_API_KEY",
/// "awsSecretAccessKey". Not for "max_tokens", "pad_token", "key".
bool names_secret(std::string_view name);

/// True for a value of such a name that is not a secret: none, true, a number that is not a password, and a reference
/// ("${env:HF_TOKEN}").
bool is_no_secret(std::string_view name, std::string_view value);

/// The text with secrets replaced by kMask: the value of such a name as NAME=VALUE, or as NAME: VALUE in a map in braces or an
/// indented line, and the password of an address (https://me:secret@host, https://token@host).
std::string without_secrets(std::string_view text);

/// The same for the words of a command line, where a value may be a separate word, and contain blanks.
std::vector<std::string> without_secrets(std::vector<std::string> words);

/// True for a text in which without_secrets() has put kMask.
bool has_mask(std::string_view text);

}  // namespace levin
