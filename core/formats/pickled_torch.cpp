#include "levin/core/formats/pickled_torch.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/safetensors_file.h"

namespace levin {
namespace {

using Arguments = std::vector<PickleValue*>;

std::vector<std::int64_t> integers(const PickleValue& value, const char* what) {
  if (value.elements() == nullptr) throw IoError(format("a tensor's {} is no tuple", what));
  std::vector<std::int64_t> numbers;
  for (const PickleValue* item : *value.elements()) {
    const auto* number = item->as<std::int64_t>();
    if (number == nullptr || *number < 0) throw IoError(format("a tensor's {} has something that is no natural number", what));
    numbers.push_back(*number);
  }
  return numbers;
}

/// {"conj": True}, {"neg": True} or both: what has been put off until the elements are needed.
bool has_bit(const Arguments& arguments, std::size_t metadata_at, const char* name) {
  const PickleValue* const bit = arguments.size() > metadata_at ? arguments[metadata_at]->find(name) : nullptr;
  return bit != nullptr && bit->as<bool>() != nullptr && *bit->as<bool>();
}

/// (storage, offset, sizes, strides, requires_grad, hooks, metadata), and in later versions a dtype at `dtype_at` before the
/// last.
PickleTensor tensor_of(const Arguments& arguments, std::size_t dtype_at) {
  if (arguments.size() < 4) throw IoError("a tensor has too few arguments");
  const auto* storage = arguments[0]->as<PickleStorage>();
  const auto* offset = arguments[1]->as<std::int64_t>();
  if (storage == nullptr || offset == nullptr || *offset < 0) throw IoError("a tensor has no storage or no offset");
  PickleTensor tensor{*storage, *offset, integers(*arguments[2], "size"), integers(*arguments[3], "stride")};
  if (tensor.sizes.size() != tensor.strides.size()) throw IoError("a tensor has more sizes than strides, or fewer");
  if (dtype_at != 0) {
    const auto* dtype = arguments.size() > dtype_at ? arguments[dtype_at]->as<PickleName>() : nullptr;
    if (dtype == nullptr) throw IoError("a tensor has no dtype");
    tensor.storage.dtype = dtype_of_name(dtype->name);
  }
  const std::size_t metadata_at = dtype_at != 0 ? dtype_at + 1 : 6;
  tensor.is_conjugated = has_bit(arguments, metadata_at, "conj");
  tensor.is_negated = has_bit(arguments, metadata_at, "neg");
  return tensor;
}

PickleDict dict_of(const Arguments& arguments) {
  PickleDict dict;
  if (!arguments.empty() && arguments[0]->as<PickleDict>() != nullptr) return *arguments[0]->as<PickleDict>();
  const PickleList* pairs = arguments.empty() ? nullptr : arguments[0]->as<PickleList>();
  if (pairs == nullptr) return dict;
  for (const PickleValue* pair : pairs->items) {
    const Arguments* const both = pair->elements();
    if (both == nullptr || both->size() != 2) throw IoError("an item of a dict is no pair");
    dict.items.emplace_back((*both)[0], (*both)[1]);
  }
  return dict;
}

}  // namespace

std::string_view dtype_of_name(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (const ElementType* type = element_type(&ElementType::storage, last)) return type->torch;
  return name == "torch.UntypedStorage" || name == "torch.storage.UntypedStorage" ? "" : last;
}

std::string storage_class(std::string_view dtype) {
  const ElementType* const type = element_type(&ElementType::torch, dtype);
  if (type == nullptr || type->storage.empty()) return "torch.storage.UntypedStorage";
  return "torch." + std::string(type->storage);
}

PickleValue call_as_data(const std::string& callable, const Arguments& arguments) {
  if (callable == "torch._utils._rebuild_tensor_v2" || callable == "torch._utils._rebuild_tensor") {
    return PickleValue{tensor_of(arguments, 0)};
  }
  if (callable == "torch._utils._rebuild_tensor_v3") return PickleValue{tensor_of(arguments, 6)};
  if (callable == "torch._utils._rebuild_parameter" || callable == "torch._utils._rebuild_parameter_with_state") {
    if (arguments.empty() || arguments[0]->as<PickleTensor>() == nullptr) throw IoError("a parameter has no tensor");
    return PickleValue{*arguments[0]->as<PickleTensor>()};
  }
  // A subclass of a tensor: (function, class, arguments, state).
  if (callable == "torch._tensor._rebuild_from_type_v2" && arguments.size() == 4) {
    const auto* function = arguments[0]->as<PickleName>();
    const auto* of = arguments[2]->as<PickleTuple>();
    // A function that calls itself would not end.
    if (function != nullptr && of != nullptr && function->name != callable) return call_as_data(function->name, of->items);
  }
  if (callable == "collections.OrderedDict" || callable == "collections.Counter" || callable.ends_with("builtins.dict"))
    return PickleValue{dict_of(arguments)};
  if (callable == "collections.defaultdict") return PickleValue{PickleDict()};
  if ((callable == "torch.Size" || callable.ends_with(".set") || callable.ends_with(".frozenset")) && arguments.size() == 1) {
    if (const Arguments* items = arguments[0]->elements()) return PickleValue{PickleList{*items}};
  }
  if (callable.ends_with("._reconstructor") && !arguments.empty()) {
    if (const auto* name = arguments[0]->as<PickleName>()) return PickleValue{PickleObject{.class_name = name->name}};
  }
  // Protocol 2 has no bytes: Python writes them as a text of which each character is a byte.
  if (callable == "_codecs.encode" && arguments.size() == 2 && arguments[0]->as<std::string>() != nullptr)
    return PickleValue{PickleBytes()};
  return PickleValue{PickleObject{.class_name = callable}};
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

PickleStorage storage_of_id(const PickleValue& id) {
  const auto* tuple = id.as<PickleTuple>();
  if (tuple == nullptr || tuple->items.size() < 5) throw IoError("a storage is named by something that torch never writes");
  const auto* kind = tuple->items[0]->as<std::string>();
  const auto* type = tuple->items[1]->as<PickleName>();
  const auto* key = tuple->items[2]->as<std::string>();
  const auto* elements = tuple->items[4]->as<std::int64_t>();
  if (kind == nullptr || *kind != "storage" || type == nullptr || key == nullptr || elements == nullptr || *elements < 0) {
    throw IoError("a storage is named by something that torch never writes");
  }
  return {std::string(dtype_of_name(type->name)), *key, *elements};
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
  if (value.items() == nullptr) throw IoError(format("it holds no dict of tensors, but {}", foreign_text(value)));
  const std::vector<std::string> texts = contents(value, nullptr, true);
  throw IoError(texts.empty() ? "it holds an empty dict"
                              : format("it holds no weights by themselves, but {}; choose with --key NAME", join(texts)));
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
