#include "levin/core/run/pickled_values.h"

#include <torch/csrc/jit/serialization/pickle.h>

#include <utility>

namespace levin {

std::string pickled(std::vector<c10::IValue> values) {
  const std::vector<char> bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(values)));
  return {bytes.begin(), bytes.end()};
}

std::vector<c10::IValue> unpickled(const std::string& bytes) {
  return torch::jit::pickle_load({bytes.begin(), bytes.end()}).toTupleRef().elements().vec();
}

}  // namespace levin
