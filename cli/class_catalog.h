#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "levin/core/options/registry.h"

namespace levin::cli {

/// Every class of one kind that is registered now.
struct ClassKind {
  std::string name;    ///< as the registry calls it: "callback"
  std::string plural;  ///< as `levin list` calls it: "callbacks"
  std::vector<const ClassInfo*> classes;
};

/// All kinds, in the order in which they are listed.
std::vector<ClassKind> class_catalog();

/// The kind of that name or plural. Throws ConfigError ("did you mean …") on any other.
ClassKind class_kind(std::string_view name);

/// A class of any kind, found as the registries do; info is nullptr when there is none.
struct FoundClass {
  std::string kind;
  const ClassInfo* info = nullptr;
};
FoundClass find_class(std::string_view class_path);

}  // namespace levin::cli
