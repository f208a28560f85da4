#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "levin/core/protocol/hook.h"

namespace levin {

class Callback;
class Module;

/// What a profiler is told of hooks, in Lightning's words; callbacks of one class have one name. Each name is made once.
class ActionNames {
 public:
  /// "[Callback]ModelCheckpoint.on_train_batch_end"
  std::string_view of(const Callback& callback, Hook hook);
  /// "[LightningModule]Digits.training_step".
  std::string_view of(const Module& module, Hook hook);
  /// Before an entry point, which may have other objects at the same places.
  void clear() { names_.clear(); }

 private:
  template <class MakeName>
  std::string_view kept(const void* owner, Hook hook, const MakeName& make_name);

  std::map<std::pair<const void*, Hook>, std::string> names_;
};

}  // namespace levin
