#include "levin/core/callback.h"

#include "levin/core/base/text.h"

namespace levin {

Callback::~Callback() = default;

std::string Callback::state_key() const { return class_name(); }

std::string Callback::class_name() const { return class_name_of(typeid(*this)); }

}  // namespace levin
