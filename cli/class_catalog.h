#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "levin/core/options/registry.h"

namespace levin::cli {

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

}  // namespace levin::cli
