#pragma once

#include <string>
#include <typeinfo>

namespace levin {

/// A class's name without namespaces; those of a template's arguments stay.
std::string class_name_of(const std::type_info& type);
/// With namespaces.
std::string full_class_name_of(const std::type_info& type);

}  // namespace levin
