#include "levin/core/formats/pickle.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/config/value_json.h"

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

const PickleItems* PickleValue::items() const {
  if (const auto* dict = as<PickleDict>()) return &dict->items;
  const auto* object = as<PickleObject>();
  return object == nullptr ? nullptr : &object->items;
}

const std::vector<PickleValue*>* PickleValue::elements() const {
  if (const auto* list = as<PickleList>()) return &list->items;
  const auto* tuple = as<PickleTuple>();
  return tuple == nullptr ? nullptr : &tuple->items;
}

std::string key_text(const PickleValue& key) {
  if (const auto* text = key.as<std::string>()) return *text;
  const auto* number = key.as<std::int64_t>();
  return number == nullptr ? "" : std::to_string(*number);
}

const PickleValue* PickleValue::find(std::string_view key) const {
  const PickleValue* found = nullptr;
  if (items() == nullptr) return nullptr;
  for (const auto& [name, value] : *items()) {
    const auto* const text = name->as<std::string>();
    if (text != nullptr ? *text == key : !key.empty() && key_text(*name) == key) found = value;
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

std::string foreign_tensor(const PickleValue& value) {
  const auto* object = value.as<PickleObject>();
  if (object == nullptr) return "";
  const std::string& maker = object->class_name;
  const auto is_made_by = [&](std::string_view part) { return maker.find(part) != std::string::npos; };
  if (is_made_by("_rebuild_sparse")) return "a sparse tensor, and only dense ones are read: save its to_dense() in Python";
  if (is_made_by("_rebuild_qtensor")) return "a quantized tensor, which is not read: save its dequantize() in Python";
  if (is_made_by("_rebuild_nested")) return "a nested tensor, which is not read: save its to_padded_tensor() in Python";
  if (is_made_by("_rebuild_meta")) return "a tensor on the device meta, which has no elements";
  if (is_made_by("numpy") && is_made_by("_reconstruct")) {
    return "an array of NumPy's, which is not read: save torch.from_numpy() of it in Python";
  }
  if (is_made_by("._rebuild")) return format("made by {}: levin runs no code from files", foreign_text(value));
  return "";
}

PlainValues::PlainValues(std::size_t bytes) {
  // Each takes a byte or more, and some texts are shared.
  constexpr std::size_t kFixed = 20'000;
  left_ = std::min(kFixed + bytes, kMaxJsonValues);
}

void PlainValues::charge(std::size_t values, std::size_t bytes) {
  constexpr std::size_t kBytesOfValue = 64;
  const std::size_t price = values + bytes / kBytesOfValue;
  if (price > left_) throw IoError("it expands to more values than its bytes can hold, which torch never writes");
  left_ -= price;
}

std::string PlainValues::charged(std::string text) {
  charge(0, text.size());
  return text;
}

Value PlainValues::of(const PickleValue& value, std::size_t depth) {
  if (depth > kMaxJsonDepth) throw IoError(format("its values are nested deeper than {} levels", kMaxJsonDepth));
  charge(1);
  if (const auto* elements = value.elements()) {
    Value list(Value::List{});
    for (const PickleValue* element : *elements) list.push_back(of(*element, depth + 1));
    return list;
  }
  if (value.items() != nullptr && (value.as<PickleDict>() != nullptr || !value.items()->empty())) {
    Value::Map entries;
    for (const auto& [key, item] : *value.items()) {
      const bool has_text = key->as<std::string>() != nullptr || key->as<std::int64_t>() != nullptr;
      std::string name = charged(has_text ? key_text(*key) : foreign_text(*key));
      entries.emplace_back(std::move(name), of(*item, depth + 1));
    }
    return entries;
  }
  if (const auto* truth = value.as<bool>()) return Value(*truth);
  if (const auto* integer = value.as<std::int64_t>()) return Value(*integer);
  if (const auto* number = value.as<double>()) return Value(*number);
  if (const auto* text = value.as<std::string>()) return Value(charged(*text));
  if (value.as<std::monostate>() != nullptr) return Value();
  if (const auto* tensor = value.as<PickleTensor>()) {
    return Value(
        charged(format("tensor [{}]", join(tensor->sizes, ", ", [](std::int64_t size) { return std::to_string(size); }))));
  }
  return Value(charged(foreign_text(value)));
}

namespace {

/// Those that have a name.
std::size_t count_tensors(const PickleValue* value) {
  if (value == nullptr || value->items() == nullptr) return 0;
  return static_cast<std::size_t>(std::count_if(value->items()->begin(), value->items()->end(), [](const auto& item) {
    return item.first->template as<std::string>() != nullptr && item.second->template as<PickleTensor>() != nullptr;
  }));
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
    const std::size_t tensors = count_tensors(value);
    const std::string what = tensors > 0 ? counted(tensors, "tensor") : foreign_text(*value);
    texts.push_back(format("{} ({})", quoted_text(key_text(*key)), what));
  }
  return texts;
}

[[noreturn]] void throw_no_weights(const PickleValue& value) {
  if (value.as<PickleObject>() != nullptr) {
    throw IoError(
        format("it holds an object, {}: levin runs no code from files; save its state_dict() in Python", foreign_text(value)));
  }
  constexpr const char* kCure = "save the dict of its tensors in Python, as model.state_dict()";
  if (value.items() == nullptr) throw IoError(format("it holds no dict of tensors, only {}: {}", foreign_text(value), kCure));
  if (value.find("state") != nullptr && value.find("param_groups") != nullptr)
    throw IoError("it holds the state of an optimizer, not weights");
  const std::vector<std::string> texts = contents(value, nullptr, true);
  if (texts.empty()) throw IoError("it holds an empty dict");
  const bool has_choice = std::ranges::any_of(*value.items(), [](const auto& item) {
    return item.second->template as<PickleTensor>() != nullptr ||
           (item.second->items() != nullptr && !item.second->items()->empty());
  });
  for (const auto& [key, item] : *value.items()) {
    const std::string problem = has_choice ? "" : foreign_tensor(*item);
    if (!problem.empty()) throw IoError(format("{} in it is {}", quoted_text(key_text(*key)), problem));
  }
  throw IoError(format("its weights are not at the top level; it holds {}; {}", join(texts),
                       has_choice ? "choose with --key NAME" : kCure));
}

/// A name may have dots itself. Each part is a level down, so that this ends where values hold themselves.
const PickleValue* value_under(const PickleValue& root, const std::string& key) {
  if (const PickleValue* whole = root.find(key)) return whole;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    const PickleValue* const part = root.find(key.substr(0, dot));
    const PickleValue* const found = part == nullptr ? nullptr : value_under(*part, key.substr(dot + 1));
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

const PickleValue& value_at_key(const PickleValue& root, const std::string& key) {
  if (const PickleValue* const found = value_under(root, key)) return *found;
  const std::string there = root.items() == nullptr ? foreign_text(root) : join(contents(root, nullptr, true));
  throw IoError(format("it has no {}, only {}", quoted_text(key), there));
}

PickledWeights find_weights(const PickleValue& root, const std::string& key) {
  const PickleValue* const whole = key.empty() ? &root : &value_at_key(root, key);
  if (whole->as<PickleTensor>() != nullptr) return {whole, key.empty() ? "tensor" : key, {}};
  for (const char* name : {"state_dict", "model_state_dict", "model", "module"}) {
    const PickleValue* const part = whole->find(name);
    if (count_tensors(part) > 0) return {part, "", contents(*whole, part, true)};
  }
  if (count_tensors(whole) == 0) throw_no_weights(*whole);
  return {whole, "", contents(*whole, nullptr, false)};
}

std::string storage_class(std::string_view dtype) {
  const ElementType* const type = element_type(&ElementType::torch, dtype);
  if (type == nullptr || type->storage.empty()) return "torch.storage.UntypedStorage";
  return "torch." + std::string(type->storage);
}

namespace {

class PickleWriter {
 public:
  std::string out = "\x80\x02";

  void write(const PickleValue& value) {
    std::visit([this](const auto& data) { put(data); }, value.data);
  }

 private:
  void put(std::monostate) { out += 'N'; }
  void put(bool truth) { out += truth ? '\x88' : '\x89'; }
  void put(std::int64_t integer) {
    if (integer == static_cast<std::int32_t>(integer)) {
      out += 'J';
      append(static_cast<std::int32_t>(integer));
    } else {
      out += "\x8a\x08";
      append(integer);
    }
  }
  void put(double number) {
    out += 'G';
    append(number);
    std::reverse(out.end() - sizeof number, out.end());
  }
  void put(const std::string& text) {
    out += 'X';
    append(static_cast<std::uint32_t>(text.size()));
    out += text;
  }
  void put(const PickleBytes&) { throw IoError("bytes are not written"); }
  void put(const PickleList& list) {
    out += ']';
    put_group(list.items, 'e');
  }
  void put(const PickleTuple& tuple) { put_group(tuple.items, 't'); }
  void put(const PickleDict& dict) {
    out += '}';
    put_items(dict.items);
  }
  void put(const PickleName& name) {
    const std::size_t dot = name.name.rfind('.');
    out += "c" + name.name.substr(0, dot) + "\n" + name.name.substr(dot + 1) + "\n";
  }
  void put(const PickleStorage& storage) {
    out += '(';
    put(std::string("storage"));
    put(PickleName{storage_class(storage.dtype)});
    put(storage.key);
    put(std::string("cpu"));
    put(storage.elements);
    out += "tQ";
  }
  /// (storage, offset, sizes, strides, requires_grad, hooks), and the dtype where the storage has none.
  void put(const PickleTensor& tensor) {
    const bool is_typed = storage_class(tensor.storage.dtype) != storage_class("");
    put(PickleName{is_typed ? "torch._utils._rebuild_tensor_v2" : "torch._utils._rebuild_tensor_v3"});
    out += '(';
    put(tensor.storage);
    put(tensor.offset);
    put_numbers(tensor.sizes);
    put_numbers(tensor.strides);
    put(false);
    put(PickleObject{.class_name = "collections.OrderedDict"});
    if (!is_typed) put(PickleName{"torch." + tensor.storage.dtype});
    out += "tR";
  }
  void put(const PickleObject& object) {
    put(PickleName{object.class_name});
    put_group(object.arguments, 't');
    out += 'R';
    put_items(object.items);
  }

  template <class Number>
  void append(Number number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void put_group(const std::vector<PickleValue*>& items, char end) {
    out += '(';
    for (const PickleValue* item : items) write(*item);
    out += end;
  }
  void put_items(const PickleItems& items) {
    if (items.empty()) return;
    out += '(';
    for (const auto& [key, value] : items) {
      write(*key);
      write(*value);
    }
    out += 'u';
  }
  void put_numbers(const std::vector<std::int64_t>& numbers) {
    out += '(';
    for (const std::int64_t number : numbers) put(number);
    out += 't';
  }
};

}  // namespace

PickleValue* PickleTree::add_plain(const Value& value) {
  if (value.is_bool()) return add(value.as_bool());
  if (value.is_int()) return add(value.as_int());
  if (value.is_double()) return add(value.as_double());
  if (value.is_string()) return add(value.as_string());
  if (value.is_list()) {
    PickleList list;
    for (const Value& element : value.as_list()) list.items.push_back(add_plain(element));
    return add(std::move(list));
  }
  if (value.is_map()) {
    PickleDict dict;
    for (const auto& [key, element] : value.as_map()) dict.items.emplace_back(add(key), add_plain(element));
    return add(std::move(dict));
  }
  return add(std::monostate());
}

PickleObject* PickleTree::add_ordered_dict(PickleValue*& made) {
  made = add(PickleObject{.class_name = "collections.OrderedDict"});
  return made->as<PickleObject>();
}

std::string write_pickle(const PickleValue& root) {
  PickleWriter writer;
  writer.write(root);
  return std::move(writer.out) + '.';
}

}  // namespace levin
