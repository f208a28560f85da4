#include "levin/core/run/run_parts.h"

#include "levin/core/data_module.h"
#include "levin/core/module.h"

namespace levin {

Value hyperparams_of(const RunParts& parts) {
  const auto map_of = [](const Value& hparams) { return hparams.is_map() ? hparams : Value(Value::Map{}); };
  return Value(Value::Map{{"model", map_of(parts.module->hparams())},
                          {"data", map_of(parts.data == nullptr ? Value() : parts.data->hparams())}});
}

}  // namespace levin
