#include "levin/core/formats/pickle.h"

#include <algorithm>
#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/formats/pickled_torch.h"
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

namespace {

class PickleWriter {
 public:
  std::string out = "\x80\x02";

  void write(const PickleValue& value) {
    if (value.as<std::monostate>() != nullptr) out += 'N';
    if (const auto* truth = value.as<bool>()) out += *truth ? '\x88' : '\x89';
    if (const auto* integer = value.as<std::int64_t>()) write_integer(*integer);
    if (const auto* number = value.as<double>()) write_number(*number);
    if (const auto* text = value.as<std::string>()) write_text(*text);
    if (value.as<PickleBytes>() != nullptr) throw IoError("bytes are not written");
    if (const auto* list = value.as<PickleList>()) {
      out += ']';
      write_group(list->items, 'e');
    }
    if (const auto* tuple = value.as<PickleTuple>()) write_tuple(tuple->items);
    if (const auto* dict = value.as<PickleDict>()) {
      out += '}';
      write_items(dict->items);
    }
    if (const auto* name = value.as<PickleName>()) write_name(name->name);
    if (const auto* storage = value.as<PickleStorage>()) write_storage(*storage);
    if (const auto* tensor = value.as<PickleTensor>()) write_tensor(*tensor);
    if (const auto* object = value.as<PickleObject>()) {
      write_name(object->class_name);
      write_tuple(object->arguments);
      out += 'R';
      write_items(object->items);
    }
  }

 private:
  template <class Number>
  void append(Number number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void write_integer(std::int64_t integer) {
    if (integer == static_cast<std::int32_t>(integer)) {
      out += 'J';
      append(static_cast<std::int32_t>(integer));
    } else {
      out += "\x8a\x08";
      append(integer);
    }
  }
  void write_number(double number) {
    out += 'G';
    append(number);
    std::reverse(out.end() - sizeof number, out.end());
  }
  void write_text(const std::string& text) {
    out += 'X';
    append(static_cast<std::uint32_t>(text.size()));
    out += text;
  }
  void write_group(const std::vector<PickleValue*>& items, char end) {
    out += '(';
    for (const PickleValue* item : items) write(*item);
    out += end;
  }
  void write_tuple(const std::vector<PickleValue*>& items) { write_group(items, 't'); }
  void write_items(const std::vector<std::pair<PickleValue*, PickleValue*>>& items) {
    if (items.empty()) return;
    out += '(';
    for (const auto& [key, value] : items) {
      write(*key);
      write(*value);
    }
    out += 'u';
  }
  void write_name(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    out += "c" + name.substr(0, dot) + "\n" + name.substr(dot + 1) + "\n";
  }
  void write_numbers(const std::vector<std::int64_t>& numbers) {
    out += '(';
    for (const std::int64_t number : numbers) write_integer(number);
    out += 't';
  }
  void write_storage(const PickleStorage& storage) {
    out += '(';
    write_text("storage");
    write_name(storage_class(storage.dtype));
    write_text(storage.key);
    write_text("cpu");
    write_integer(storage.elements);
    out += "tQ";
  }
  /// (storage, offset, sizes, strides, requires_grad, hooks), and the dtype where the storage has none.
  void write_tensor(const PickleTensor& tensor) {
    const bool is_typed = storage_class(tensor.storage.dtype) != storage_class("");
    write_name(is_typed ? "torch._utils._rebuild_tensor_v2" : "torch._utils._rebuild_tensor_v3");
    out += '(';
    write_storage(tensor.storage);
    write_integer(tensor.offset);
    write_numbers(tensor.sizes);
    write_numbers(tensor.strides);
    out += '\x89';
    out += "ccollections\nOrderedDict\n)R";
    if (!is_typed) write_name("torch." + tensor.storage.dtype);
    out += "tR";
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
