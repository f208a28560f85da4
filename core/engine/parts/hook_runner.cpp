#include "levin/core/engine/parts/hook_runner.h"

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/callback.h"
#include "levin/core/module.h"

namespace levin {

template <class MakeName>
std::string_view ActionNames::kept(const void* owner, Hook hook, const MakeName& make_name) {
  const auto [place, is_new] = names_.try_emplace({owner, hook});
  if (is_new) place->second = make_name();
  return place->second;
}

std::string_view ActionNames::of(const Callback& callback, Hook hook) {
  return kept(&callback, hook, [&] { return format("[Callback]{}.{}", callback.class_name(), hook_name(hook)); });
}

std::string_view ActionNames::of(const Module& module, Hook hook) {
  return kept(&module, hook, [&] { return format("[LightningModule]{}.{}", class_name_of(typeid(module)), hook_name(hook)); });
}

}  // namespace levin
