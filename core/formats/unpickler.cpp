#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/formats/pickle.h"

namespace levin {
namespace {

/// "float32" of "torch.FloatStorage" or "torch.float32"; empty for another name, and for bytes without a type.
std::string_view dtype_of_name(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (const ElementType* type = element_type(&ElementType::storage, last)) return type->torch;
  return name == "torch.UntypedStorage" || name == "torch.storage.UntypedStorage" ? "" : last;
}

using Arguments = std::vector<PickleValue*>;

std::vector<std::int64_t> integers(const PickleValue& value, const char* what) {
  if (value.elements() == nullptr) throw IoError(format("a tensor's {} is not a tuple", what));
  std::vector<std::int64_t> numbers;
  for (const PickleValue* item : *value.elements()) {
    const auto* number = item->as<std::int64_t>();
    if (number == nullptr || *number < 0)
      throw IoError(format("a tensor's {} has an element that is not a natural number", what));
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
    if (both == nullptr || both->size() != 2) throw IoError("an item of a dict is not a pair");
    dict.items.emplace_back((*both)[0], (*both)[1]);
  }
  return dict;
}

/// The value of a call in a pickle, without calling anything: tensors, dicts and torch.Size as such, all else as a
/// PickleObject. Throws IoError for arguments that torch never writes.
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

/// The storage that a persistent id of torch's names: ("storage", torch.FloatStorage, key, location, elements). Throws IoError.
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

/// What torch writes for a tensor is some 30 values with what the memo keeps: enough for a hundred thousand tensors, in less
/// than 1 GB of memory.
constexpr std::uint64_t kMostValues = 6'000'000;

/// How many values, at most, a value holds that were copied from others.
std::uint64_t copied(const PickleValue& value) {
  if (const auto* tensor = value.as<PickleTensor>()) return tensor->sizes.size() + tensor->storage.key.size() / 8;
  if (const auto* object = value.as<PickleObject>()) return object->class_name.size() / 8;
  if (value.items() != nullptr) return value.items()->size();
  return value.elements() != nullptr ? value.elements()->size() : 0;
}

/// The stack machine that a pickle is a program for: see Pickle.
struct Unpickler {
  /// Values are put into `values`, which must outlive what is read.
  Unpickler(std::string_view bytes, std::deque<PickleValue>& values) : bytes_(bytes), values_(values) {}

  /// Runs the program, and gives the value that it ends with.
  PickleValue* run();

  // Bytes of the program.

  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - next_) fail("it is truncated");
    const std::string_view taken = bytes_.substr(next_, size);
    next_ += size;
    return taken;
  }
  template <class Number>
  Number number() {
    static_assert(std::endian::native == std::endian::little);
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', next_);
    if (end == std::string_view::npos) fail("it is truncated");
    const std::string_view text = take(end - next_);
    take(1);
    return text;
  }

  /// So many bytes as the number before them says.
  template <class Number>
  std::string_view counted() {
    return take(number<Number>());
  }

  // The stack.

  PickleValue* top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("it takes a value where there is none");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* const value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue*> pop_to_mark() {
    if (marks_.empty()) fail("it ends a group that it has not begun");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue*> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleValue*> pop_many(std::size_t count) {
    std::vector<PickleValue*> items(count);
    for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
    return items;
  }

  /// Counts what is made: a few bytes of a pickle may ask for much, again and again.
  void charge(std::uint64_t values) {
    values_made_ += values;
    if (values_made_ > kMostValues) fail(format("it has more than {} values", kMostValues));
  }
  [[noreturn]] static void fail(const std::string& what) { throw IoError(what); }

  // What operations do.

  template <class Data>
  void push(Data&& data) {
    charge(1);
    stack_.push_back(&values_.emplace_back(PickleValue{std::forward<Data>(data)}));
  }
  void push_bytes(std::string_view) { push(PickleBytes()); }
  /// The one number that is stored big-endian.
  void push_double() {
    std::string bytes(take(sizeof(double)));
    std::reverse(bytes.begin(), bytes.end());
    double value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    push(value);
  }
  void push_integer(std::string_view little_endian) {
    // Beyond 64 bits: nothing that weights or options need, such as the state of Python's own generator.
    if (little_endian.size() > sizeof(std::int64_t)) return push(PickleObject{.class_name = "builtins.int"});
    const bool negative = !little_endian.empty() && (static_cast<unsigned char>(little_endian.back()) & 0x80U) != 0;
    std::int64_t value = negative ? -1 : 0;
    std::memcpy(&value, little_endian.data(), little_endian.size());
    push(value);
  }
  void append(const std::vector<PickleValue*>& items) {
    PickleValue* const target = top();
    if (auto* list = target->as<PickleList>()) {
      list->items.insert(list->items.end(), items.begin(), items.end());
    } else if (target->as<PickleObject>() == nullptr) {
      fail("it appends to something other than a list");
    }
  }
  void set_items(const std::vector<PickleValue*>& keys_and_values) {
    if (keys_and_values.size() % 2 != 0) fail("a key of a dict has no value");
    PickleValue* const target = top();
    auto* dict = target->as<PickleDict>();
    auto* object = target->as<PickleObject>();
    if (dict == nullptr && object == nullptr) fail("it sets an item of something other than a dict");
    auto& items = dict != nullptr ? dict->items : object->items;
    for (std::size_t i = 0; i < keys_and_values.size(); i += 2) items.emplace_back(keys_and_values[i], keys_and_values[i + 1]);
  }
  void make_dict() {
    const auto items = pop_to_mark();
    push(PickleDict());
    set_items(items);
  }
  void put(std::uint64_t place) {
    charge(1);
    memo_[place] = top();
  }
  void get(std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail(format("there is nothing under number {} of the memo", place));
    stack_.push_back(found->second);
  }
  void push_name() {
    const std::string module(line());
    push(PickleName{module + "." + std::string(line())});
  }
  void push_name_of_stack() {
    const auto names = pop_many(2);
    const auto* module = names[0]->as<std::string>();
    const auto* name = names[1]->as<std::string>();
    if (module == nullptr || name == nullptr) fail("a class is named by something other than a text");
    push(PickleName{*module + "." + *name});
  }
  /// `has_names`: arguments by name, which are of no use here.
  void call(bool has_names = false) {
    if (has_names) pop();
    const PickleValue* const arguments = pop();
    const PickleValue* const callable = pop();
    const auto* name = callable->as<PickleName>();
    const auto* tuple = arguments->as<PickleTuple>();
    if (name == nullptr) fail("it calls something other than a class or function");
    if (tuple == nullptr) fail(format("it calls {} with something other than a tuple", name->name));
    PickleValue made = call_as_data(name->name, tuple->items);
    charge(copied(made));
    push(std::move(made.data));
  }
  void push_stored() {
    const PickleValue* const id = pop();
    PickleStorage storage = storage_of_id(*id);
    charge(storage.key.size() / 8);
    push(std::move(storage));
  }
  /// Gives an object its attributes, which are of use only where they are what a TorchScript file holds.
  void build() {
    const PickleValue* const attributes = pop();
    auto* const object = top()->as<PickleObject>();
    if (object == nullptr || !object->class_name.starts_with("__torch__.") || attributes->items() == nullptr) return;
    charge(attributes->items()->size());
    object->items = *attributes->items();
  }
  static void check_protocol(unsigned char protocol) {
    if (protocol < 2 || protocol > 5) fail(format("protocol {} is not supported, only 2 to 5", protocol));
  }

  std::string_view bytes_;
  std::size_t next_ = 0;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
  std::uint64_t values_made_ = 0;
};

struct Operation {
  unsigned char code;
  void (*run)(Unpickler& unpickler);
};

/// What torch writes, with pickletools' names.
constexpr Operation kOperations[] = {
    {0x80, [](Unpickler& u) { u.check_protocol(u.number<std::uint8_t>()); }},  // PROTO
    {0x95, [](Unpickler& u) { u.number<std::uint64_t>(); }},                   // FRAME
    {'(', [](Unpickler& u) { u.marks_.push_back(u.stack_.size()); }},          // MARK
    {'0', [](Unpickler& u) { u.pop(); }},                                      // POP
    {'1', [](Unpickler& u) { u.pop_to_mark(); }},                              // POP_MARK
    {'2', [](Unpickler& u) { u.stack_.push_back(u.top()); }},                  // DUP

    {'N', [](Unpickler& u) { u.push(std::monostate()); }},                          // NONE
    {0x88, [](Unpickler& u) { u.push(true); }},                                     // NEWTRUE
    {0x89, [](Unpickler& u) { u.push(false); }},                                    // NEWFALSE
    {'J', [](Unpickler& u) { u.push(std::int64_t{u.number<std::int32_t>()}); }},    // BININT
    {'K', [](Unpickler& u) { u.push(std::int64_t{u.number<std::uint8_t>()}); }},    // BININT1
    {'M', [](Unpickler& u) { u.push(std::int64_t{u.number<std::uint16_t>()}); }},   // BININT2
    {0x8a, [](Unpickler& u) { u.push_integer(u.counted<std::uint8_t>()); }},        // LONG1
    {0x8b, [](Unpickler& u) { u.push_integer(u.counted<std::uint32_t>()); }},       // LONG4
    {'G', [](Unpickler& u) { u.push_double(); }},                                   // BINFLOAT
    {'U', [](Unpickler& u) { u.push(std::string(u.counted<std::uint8_t>())); }},    // SHORT_BINSTRING
    {0x8c, [](Unpickler& u) { u.push(std::string(u.counted<std::uint8_t>())); }},   // SHORT_BINUNICODE
    {'T', [](Unpickler& u) { u.push(std::string(u.counted<std::uint32_t>())); }},   // BINSTRING
    {'X', [](Unpickler& u) { u.push(std::string(u.counted<std::uint32_t>())); }},   // BINUNICODE
    {0x8d, [](Unpickler& u) { u.push(std::string(u.counted<std::uint64_t>())); }},  // BINUNICODE8
    {'C', [](Unpickler& u) { u.push_bytes(u.counted<std::uint8_t>()); }},           // SHORT_BINBYTES
    {'B', [](Unpickler& u) { u.push_bytes(u.counted<std::uint32_t>()); }},          // BINBYTES
    {0x8e, [](Unpickler& u) { u.push_bytes(u.counted<std::uint64_t>()); }},         // BINBYTES8
    {0x96, [](Unpickler& u) { u.push_bytes(u.counted<std::uint64_t>()); }},         // BYTEARRAY8

    {']', [](Unpickler& u) { u.push(PickleList()); }},                  // EMPTY_LIST
    {0x8f, [](Unpickler& u) { u.push(PickleList()); }},                 // EMPTY_SET
    {'}', [](Unpickler& u) { u.push(PickleDict()); }},                  // EMPTY_DICT
    {')', [](Unpickler& u) { u.push(PickleTuple()); }},                 // EMPTY_TUPLE
    {'l', [](Unpickler& u) { u.push(PickleList{u.pop_to_mark()}); }},   // LIST
    {0x91, [](Unpickler& u) { u.push(PickleList{u.pop_to_mark()}); }},  // FROZENSET
    {'t', [](Unpickler& u) { u.push(PickleTuple{u.pop_to_mark()}); }},  // TUPLE
    {0x85, [](Unpickler& u) { u.push(PickleTuple{u.pop_many(1)}); }},   // TUPLE1
    {0x86, [](Unpickler& u) { u.push(PickleTuple{u.pop_many(2)}); }},   // TUPLE2
    {0x87, [](Unpickler& u) { u.push(PickleTuple{u.pop_many(3)}); }},   // TUPLE3
    {'a', [](Unpickler& u) { u.append(u.pop_many(1)); }},               // APPEND
    {'e', [](Unpickler& u) { u.append(u.pop_to_mark()); }},             // APPENDS
    {0x90, [](Unpickler& u) { u.append(u.pop_to_mark()); }},            // ADDITEMS
    {'d', [](Unpickler& u) { u.make_dict(); }},                         // DICT
    {'s', [](Unpickler& u) { u.set_items(u.pop_many(2)); }},            // SETITEM
    {'u', [](Unpickler& u) { u.set_items(u.pop_to_mark()); }},          // SETITEMS

    {'q', [](Unpickler& u) { u.put(u.number<std::uint8_t>()); }},   // BINPUT
    {'r', [](Unpickler& u) { u.put(u.number<std::uint32_t>()); }},  // LONG_BINPUT
    {0x94, [](Unpickler& u) { u.put(u.memo_.size()); }},            // MEMOIZE
    {'h', [](Unpickler& u) { u.get(u.number<std::uint8_t>()); }},   // BINGET
    {'j', [](Unpickler& u) { u.get(u.number<std::uint32_t>()); }},  // LONG_BINGET

    {'c', [](Unpickler& u) { u.push_name(); }},                // GLOBAL
    {0x93, [](Unpickler& u) { u.push_name_of_stack(); }},      // STACK_GLOBAL
    {'R', [](Unpickler& u) { u.call(); }},                     // REDUCE
    {0x81, [](Unpickler& u) { u.call(); }},                    // NEWOBJ
    {0x92, [](Unpickler& u) { u.call(/*has_names=*/true); }},  // NEWOBJ_EX
    {'b', [](Unpickler& u) { u.build(); }},                    // BUILD
    {'Q', [](Unpickler& u) { u.push_stored(); }},              // BINPERSID
};

constexpr auto kByCode = [] {
  std::array<void (*)(Unpickler&), 256> by_code = {};
  for (const Operation& operation : kOperations) by_code[operation.code] = operation.run;
  return by_code;
}();

PickleValue* Unpickler::run() try {
  constexpr unsigned char kStop = '.';
  for (auto code = number<unsigned char>(); code != kStop; code = number<unsigned char>()) {
    if (kByCode[code] == nullptr) fail(format("torch does not write operation 0x{:02x}", code));
    kByCode[code](*this);
  }
  if (stack_.size() != 1) fail("it does not end with exactly one value");
  return stack_.back();
} catch (const IoError& error) {
  throw IoError(format("{} (byte {} of the pickle)", error.what(), next_));
}

}  // namespace

Pickle::Pickle(std::string_view bytes) : bytes_(bytes.size()) { root_ = Unpickler(bytes, values_).run(); }

}  // namespace levin
