#include "levin/core/checkpoint/pickled_weights.h"

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/base/join.h"
#include "levin/core/base/quoted_text.h"
#include "levin/core/error.h"

namespace levin {
namespace {

std::string key_text(const PickleValue& key) {
  if (const auto* text = key.as<std::string>()) return *text;
  const auto* number = key.as<std::int64_t>();
  return number == nullptr ? "" : std::to_string(*number);
}

/// Those that have a name.
std::size_t count_tensors(const PickleValue* value) {
  if (value == nullptr || value->items() == nullptr) return 0;
  return static_cast<std::size_t>(std::count_if(value->items()->begin(), value->items()->end(), [](const auto& item) {
    return item.first->template as<std::string>() != nullptr && item.second->template as<PickleTensor>() != nullptr;
  }));
}

std::string described(const PickleValue& value) {
  const std::size_t tensors = count_tensors(&value);
  return tensors > 0 ? counted(tensors, "tensor") : foreign_text(value);
}

/// What is in a dict, but for `left_out`, and for tensors where they are the weights.
std::vector<std::string> contents(const PickleValue& dict, const PickleValue* left_out, bool with_tensors) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> texts;
  for (const auto& [key, value] : *dict.items()) {
    if (value == left_out || (!with_tensors && value->as<PickleTensor>() != nullptr)) continue;
    if (texts.size() == kMost) {
      texts.emplace_back("…");
      break;
    }
    texts.push_back(format("{} ({})", quoted_text(key_text(*key)), described(*value)));
  }
  return texts;
}

[[noreturn]] void throw_no_weights(const PickleValue& value) {
  if (value.as<PickleObject>() != nullptr) {
    throw IoError(
        format("it holds an object, {}: levin runs no code from files; save its state_dict() in Python", foreign_text(value)));
  }
  if (value.items() == nullptr) throw IoError(format("it holds no dict of tensors, but {}", foreign_text(value)));
  const std::vector<std::string> texts = contents(value, nullptr, true);
  throw IoError(texts.empty() ? "it holds an empty dict"
                              : format("it holds no weights by themselves, but {}; choose with --key NAME", join(texts)));
}

/// nullptr without.
const PickleValue* value_of(const PickleValue& dict, const std::string& name) {
  if (dict.items() == nullptr) return nullptr;
  const PickleValue* found = nullptr;
  for (const auto& [key, value] : *dict.items()) {
    if (key_text(*key) == name) found = value;
  }
  return found;
}

/// A name may have dots itself. Each part is a level down, so that this ends where values hold themselves.
const PickleValue* value_under(const PickleValue& root, const std::string& key) {
  if (const PickleValue* whole = value_of(root, key)) return whole;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    const PickleValue* const part = value_of(root, key.substr(0, dot));
    const PickleValue* const found = part == nullptr ? nullptr : value_under(*part, key.substr(dot + 1));
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

PickledWeights find_weights(const PickleValue& root, const std::string& key) {
  const PickleValue* const whole = key.empty() ? &root : value_under(root, key);
  if (whole == nullptr) {
    const std::string there = root.items() == nullptr ? foreign_text(root) : join(contents(root, nullptr, true));
    throw IoError(format("there is no {} in it, but {}", quoted_text(key), there));
  }
  if (whole->as<PickleTensor>() != nullptr) return {whole, key.empty() ? "tensor" : key, {}};
  for (const char* name : {"state_dict", "model_state_dict", "model", "module"}) {
    const PickleValue* const part = whole->find(name);
    if (count_tensors(part) > 0) return {part, "", contents(*whole, part, true)};
  }
  if (count_tensors(whole) == 0) throw_no_weights(*whole);
  return {whole, "", contents(*whole, nullptr, false)};
}

}  // namespace levin
