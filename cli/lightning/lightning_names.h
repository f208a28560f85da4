#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "levin/core/config/value.h"

// What Lightning and PyTorch have under a name that levin does not have: one table, which configurations, the JSON Schema and
// docs/from-lightning.md are made with.
namespace levin::cli {

/// An argument of a class, or a flag, that levin's class of that name does not have.
struct LightningArgument {
  std::string name;
  std::vector<Value> idle;   ///< besides null: values that need nothing here, such as its default
  std::string instead = {};  ///< what replaces other values; empty: no value has an effect here
  std::string renamed = {};  ///< levin's name of it, where it has another one
};

/// The arguments of some classes.
struct LightningArguments {
  std::string kind;                  ///< of a class, as the registries call it; else kTrainerFlags or kTopKeys
  std::vector<std::string> classes;  ///< levin's names of them; none for flags and keys
  std::vector<LightningArgument> arguments;
};
inline constexpr std::string_view kTrainerFlags = "trainer";
inline constexpr std::string_view kTopKeys = "file";

/// A class, or a short name of one, that levin has under another name or not at all.
struct LightningClass {
  std::string kind;
  std::vector<std::string> names;  ///< without their module
  std::string is = {};             ///< levin's name of it
  std::string instead = {};        ///< what replaces it, where levin has none; with neither, it has no meaning
};

/// A value of an option that levin has, which it does not take as Lightning writes it.
struct LightningValue {
  std::string kind;
  std::vector<std::string> classes;
  std::string option;
  bool (*is_meant)(const Value& value);
  std::string instead;                        ///< what replaces it; empty: `as` it is
  Value (*as)(const Value& value) = nullptr;  ///< the value as levin writes it
};

/// All of them, in the order in which the documentation has them.
const std::vector<LightningArguments>& lightning_arguments();
const std::vector<LightningClass>& lightning_classes();
const std::vector<LightningValue>& lightning_values();

/// The arguments of one class, of a kind; of flags and keys without a class.
std::vector<LightningArgument> lightning_arguments_of(std::string_view kind, std::string_view class_name);
/// A name without the module that it is in: "lightning.pytorch.callbacks.Timer", "callbacks::Timer"; nullptr for another name.
const LightningClass* lightning_class(std::string_view kind, std::string_view name);

/// "Timer" of "lightning.pytorch.callbacks.Timer".
std::string_view without_module(std::string_view name);

}  // namespace levin::cli
