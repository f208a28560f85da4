#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "levin/core/config/registry.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// A kind of classes that the YAML names.
struct ClassKind {
  std::string name;                                       ///< as the registry calls it: "callback"
  std::string plural;                                     ///< as `levin list` calls it: "callbacks"
  std::vector<const ClassInfo*> (*classes)();             ///< all that are registered now
  const ClassInfo* (*find)(std::string_view class_path);  ///< as the registry does; nullptr when there is none
};

/// All kinds, in the order in which they are listed.
const std::vector<ClassKind>& class_catalog();

/// The kind of that name or plural. Throws ConfigError ("did you mean …") on any other.
const ClassKind& class_kind(std::string_view name);

/// The class, of any kind, that a specification names, by its class_path or by being the name; nullptr when there is none.
const ClassInfo* class_of(const Value& spec);
/// Its options; empty when there is none.
std::vector<OptionInfo> options_of(const Value& spec);

/// True when a name is one of these.
bool is_among(const std::vector<std::string>& names, const std::string& name);
/// The option of that name; nullptr when there is none.
const OptionInfo* find_option(const std::vector<OptionInfo>& options, const std::string& name);
/// The names of options.
std::vector<std::string> names_of(const std::vector<OptionInfo>& options);

/// The kind of classes that an option takes, found in the JSON Schema of its type; empty when it takes none.
std::string kind_of(const Value& schema);

}  // namespace levin::cli
