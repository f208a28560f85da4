#include "levin/core/formats/pickle.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/formats/unpickler.h"
#include "levin/core/options/value_json.h"

namespace levin {
namespace {

std::string name_text(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  const std::string last = dot == std::string::npos ? name : name.substr(dot + 1);
  const bool is_class = !last.empty() && last[0] >= 'A' && last[0] <= 'Z';
  const std::string module = dot == std::string::npos ? "" : " of module " + name.substr(0, dot);
  return printable(format("{} {}{}", is_class ? "class" : "function", last, module));
}

}  // namespace

std::optional<std::int64_t> PickleTensor::end() const {
  std::int64_t last = offset;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return offset;
    std::int64_t length = 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &length) || __builtin_add_overflow(last, length, &last)) {
      return std::nullopt;
    }
  }
  std::int64_t beyond = 0;
  return __builtin_add_overflow(last, 1, &beyond) ? std::nullopt : std::optional(beyond);
}

const std::vector<std::pair<PickleValue*, PickleValue*>>* PickleValue::items() const {
  if (const auto* dict = as<PickleDict>()) return &dict->items;
  const auto* object = as<PickleObject>();
  return object == nullptr ? nullptr : &object->items;
}

const std::vector<PickleValue*>* PickleValue::elements() const {
  if (const auto* list = as<PickleList>()) return &list->items;
  const auto* tuple = as<PickleTuple>();
  return tuple == nullptr ? nullptr : &tuple->items;
}

const PickleValue* PickleValue::find(std::string_view key) const {
  const PickleValue* found = nullptr;
  if (items() == nullptr) return nullptr;
  for (const auto& [name, value] : *items()) {
    if (const auto* text = name->as<std::string>(); text != nullptr && *text == key) found = value;
  }
  return found;
}

std::string foreign_text(const PickleValue& value) {
  if (const auto* object = value.as<PickleObject>()) return name_text(object->class_name);
  if (const auto* name = value.as<PickleName>()) return printable(name->name);
  if (value.as<PickleBytes>() != nullptr) return "bytes";
  if (value.as<PickleStorage>() != nullptr) return "a storage";
  if (value.as<PickleTensor>() != nullptr) return "a tensor";
  return value.items() != nullptr ? "a dict" : value.elements() != nullptr ? "a list" : "a plain value";
}

PlainValues::PlainValues(std::size_t bytes) {
  // Each takes a byte or more, and some texts are shared.
  constexpr std::size_t kFixed = 20'000;
  left_ = std::min(kFixed + bytes, kMaxJsonValues);
}

void PlainValues::pay(std::size_t values, std::size_t bytes) {
  constexpr std::size_t kBytesOfValue = 64;
  const std::size_t price = values + bytes / kBytesOfValue;
  if (price > left_) throw IoError("it stands for more values than its bytes can hold, as torch never writes");
  left_ -= price;
}

std::string PlainValues::paid(std::string text) {
  pay(0, text.size());
  return text;
}

Value PlainValues::of(const PickleValue& value, std::size_t depth) {
  if (depth > kMaxJsonDepth) throw IoError(format("its values are nested deeper than {} levels", kMaxJsonDepth));
  pay(1);
  if (const auto* elements = value.elements()) {
    Value list(Value::List{});
    for (const PickleValue* element : *elements) list.push_back(of(*element, depth + 1));
    return list;
  }
  if (value.items() != nullptr && (value.as<PickleDict>() != nullptr || !value.items()->empty())) {
    return map(*value.items(), depth);
  }
  if (const auto* truth = value.as<bool>()) return Value(*truth);
  if (const auto* integer = value.as<std::int64_t>()) return Value(*integer);
  if (const auto* number = value.as<double>()) return Value(*number);
  if (const auto* text = value.as<std::string>()) return Value(paid(*text));
  if (value.as<std::monostate>() != nullptr) return Value();
  if (const auto* tensor = value.as<PickleTensor>()) {
    return Value(
        paid(format("tensor [{}]", join(tensor->sizes, ", ", [](std::int64_t size) { return std::to_string(size); }))));
  }
  return Value(paid(foreign_text(value)));
}

Value PlainValues::map(const std::vector<std::pair<PickleValue*, PickleValue*>>& items, std::size_t depth) {
  Value::Map entries;
  for (const auto& [key, item] : items) {
    const auto* text = key->as<std::string>();
    const auto* number = key->as<std::int64_t>();
    std::string name = paid(text != nullptr ? *text : number != nullptr ? std::to_string(*number) : foreign_text(*key));
    entries.emplace_back(std::move(name), of(*item, depth + 1));
  }
  return Value(std::move(entries));
}

Pickle::Pickle(std::string_view bytes) : bytes_(bytes.size()) { root_ = Unpickler(bytes, values_).run(); }

}  // namespace levin
