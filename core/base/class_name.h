#pragma once

#include <string>
#include <typeinfo>

namespace levin {

/// A class's name without namespaces.
std::string class_name_of(const std::type_info& type);

}  // namespace levin
