#include "levin/core/formats/unpickler.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/formats/pickled_torch.h"

namespace levin {
namespace {

/// What torch writes for a tensor is some 30 values with what the memo keeps: enough for a hundred thousand tensors, in less
/// than 1 GB of memory.
constexpr std::uint64_t kMostValues = 6'000'000;

/// How many values, at most, a value holds that were copied from others.
std::uint64_t copied(const PickleValue& value) {
  if (const auto* tensor = value.as<PickleTensor>()) return tensor->sizes.size() + tensor->storage.key.size() / 8;
  if (const auto* bytes = value.as<PickleBytes>()) return bytes->bytes.size() / 8;
  if (const auto* object = value.as<PickleObject>()) return object->arguments.size() + object->class_name.size() / 8;
  if (value.items() != nullptr) return value.items()->size();
  return value.elements() != nullptr ? value.elements()->size() : 0;
}

}  // namespace

PickleValue* Unpickler::run() {
  while (step(static_cast<PickleOperation>(number<unsigned char>()))) {
  }
  if (stack_.size() != 1) fail("the program ends with more or less than one value");
  return stack_.back();
}

bool Unpickler::step(PickleOperation operation) {
  using enum PickleOperation;
  switch (operation) {
    case kStop:
      return false;
    case kProto:
      if (const auto protocol = number<unsigned char>(); protocol < 2 || protocol > 5) {
        fail(format("protocol {} is not read, only 2 to 5", protocol));
      }
      return true;
    case kFrame:
      number<std::uint64_t>();
      return true;
    case kMark:
      marks_.push_back(stack_.size());
      return true;
    case kPop:
      pop();
      return true;
    case kPopMark:
      pop_to_mark();
      return true;
    case kDup:
      stack_.push_back(top());
      return true;
    default:
      break;
  }
  if (step_constant(operation) || step_text(operation) || step_container(operation) || step_memo(operation) ||
      step_object(operation))
    return true;
  fail(format("operation 0x{:02x} is none that torch writes", static_cast<unsigned char>(operation)));
}

bool Unpickler::step_constant(PickleOperation operation) {
  using enum PickleOperation;
  switch (operation) {
    case kNone:
      push(std::monostate());
      return true;
    case kNewTrue:
      push(true);
      return true;
    case kNewFalse:
      push(false);
      return true;
    case kBinInt:
      push(std::int64_t{number<std::int32_t>()});
      return true;
    case kBinInt1:
      push(std::int64_t{number<std::uint8_t>()});
      return true;
    case kBinInt2:
      push(std::int64_t{number<std::uint16_t>()});
      return true;
    case kLong1:
      push_integer(take(number<std::uint8_t>()));
      return true;
    case kLong4:
      push_integer(take(number<std::uint32_t>()));
      return true;
    case kBinFloat: {  // the one number that is stored big-endian
      std::string bytes(take(8));
      std::reverse(bytes.begin(), bytes.end());
      double value = 0;
      std::memcpy(&value, bytes.data(), sizeof value);
      push(value);
      return true;
    }
    default:
      return false;
  }
}

bool Unpickler::step_text(PickleOperation operation) {
  using enum PickleOperation;
  switch (operation) {
    case kShortBinString:
      push(std::string(take(number<std::uint8_t>())));
      return true;
    case kBinString:
      push(std::string(take(number<std::uint32_t>())));
      return true;
    case kShortBinUnicode:
      push(std::string(take(number<std::uint8_t>())));
      return true;
    case kBinUnicode:
      push(std::string(take(number<std::uint32_t>())));
      return true;
    case kBinUnicode8:
      push(std::string(take(number<std::uint64_t>())));
      return true;
    case kShortBinBytes:
      push(PickleBytes{std::string(take(number<std::uint8_t>()))});
      return true;
    case kBinBytes:
      push(PickleBytes{std::string(take(number<std::uint32_t>()))});
      return true;
    case kBinBytes8:
    case kByteArray8:
      push(PickleBytes{std::string(take(number<std::uint64_t>()))});
      return true;
    default:
      return false;
  }
}

bool Unpickler::step_container(PickleOperation operation) {
  using enum PickleOperation;
  switch (operation) {
    case kEmptyList:
    case kEmptySet:
      push(PickleList());
      return true;
    case kEmptyDict:
      push(PickleDict());
      return true;
    case kEmptyTuple:
      push(PickleTuple());
      return true;
    case kList:
    case kFrozenSet:
      push(PickleList{pop_to_mark()});
      return true;
    case kTuple:
      push(PickleTuple{pop_to_mark()});
      return true;
    case kTuple1:
      push(PickleTuple{pop_many(1)});
      return true;
    case kTuple2:
      push(PickleTuple{pop_many(2)});
      return true;
    case kTuple3:
      push(PickleTuple{pop_many(3)});
      return true;
    case kAppend:
      append(pop_many(1));
      return true;
    case kAppends:
    case kAddItems:
      append(pop_to_mark());
      return true;
    case kDict: {
      const auto items = pop_to_mark();
      push(PickleDict());
      set_items(items);
      return true;
    }
    case kSetItem:
      set_items(pop_many(2));
      return true;
    case kSetItems:
      set_items(pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool Unpickler::step_memo(PickleOperation operation) {
  using enum PickleOperation;
  const auto put = [&](std::uint64_t place) {
    pay(1);
    memo_[place] = top();
  };
  const auto get = [&](std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail(format("there is nothing under number {} of the memo", place));
    stack_.push_back(found->second);
  };
  switch (operation) {
    case kBinPut:
      put(number<std::uint8_t>());
      return true;
    case kLongBinPut:
      put(number<std::uint32_t>());
      return true;
    case kMemoize:
      put(memo_.size());
      return true;
    case kBinGet:
      get(number<std::uint8_t>());
      return true;
    case kLongBinGet:
      get(number<std::uint32_t>());
      return true;
    default:
      return false;
  }
}

bool Unpickler::step_object(PickleOperation operation) {
  using enum PickleOperation;
  switch (operation) {
    case kGlobal: {
      const std::string module(line());
      push(PickleName{module + "." + std::string(line())});
      return true;
    }
    case kStackGlobal: {
      const auto names = pop_many(2);
      const auto* module = names[0]->as<std::string>();
      const auto* name = names[1]->as<std::string>();
      if (module == nullptr || name == nullptr) fail("a class is named by something that is no text");
      push(PickleName{*module + "." + *name});
      return true;
    }
    case kReduce:
    case kNewObj: {
      PickleValue* const arguments = pop();
      call(pop(), arguments);
      return true;
    }
    case kNewObjEx: {
      pop();  // arguments by name
      PickleValue* const arguments = pop();
      call(pop(), arguments);
      return true;
    }
    case kBuild:
      // The attributes of a dict, a tensor or an object are of no use here.
      pop();
      top();
      return true;
    case kBinPersId:
      push_stored();
      return true;
    default:
      return false;
  }
}

std::string_view Unpickler::take(std::uint64_t size) {
  if (size > bytes_.size() - next_) fail("it is cut short");
  const std::string_view taken = bytes_.substr(next_, size);
  next_ += size;
  return taken;
}

template <class Number>
Number Unpickler::number() {
  static_assert(std::endian::native == std::endian::little);
  Number value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string_view Unpickler::line() {
  const std::size_t end = bytes_.find('\n', next_);
  if (end == std::string_view::npos) fail("it is cut short");
  const std::string_view text = take(end - next_);
  take(1);
  return text;
}

template <class Data>
void Unpickler::push(Data&& data) {
  pay(1);
  stack_.push_back(&values_.emplace_back(PickleValue{std::forward<Data>(data)}));
}

PickleValue* Unpickler::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("it takes a value where there is none");
  return stack_.back();
}

PickleValue* Unpickler::pop() {
  PickleValue* const value = top();
  stack_.pop_back();
  return value;
}

std::vector<PickleValue*> Unpickler::pop_to_mark() {
  if (marks_.empty()) fail("it ends a group that it has not begun");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleValue*> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

std::vector<PickleValue*> Unpickler::pop_many(std::size_t count) {
  std::vector<PickleValue*> items(count);
  for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
  return items;
}

void Unpickler::push_integer(std::string_view little_endian) {
  // Beyond 64 bits: nothing that weights or options need, such as the state of Python's own generator.
  if (little_endian.size() > sizeof(std::int64_t)) return push(PickleObject{.class_name = "builtins.int"});
  const bool negative = !little_endian.empty() && (static_cast<unsigned char>(little_endian.back()) & 0x80U) != 0;
  std::int64_t value = negative ? -1 : 0;
  std::memcpy(&value, little_endian.data(), little_endian.size());
  push(value);
}

void Unpickler::append(const std::vector<PickleValue*>& items) {
  PickleValue* const target = top();
  if (auto* list = target->as<PickleList>()) {
    list->items.insert(list->items.end(), items.begin(), items.end());
  } else if (target->as<PickleObject>() == nullptr) {
    fail("it appends to something that is no list");
  }
}

void Unpickler::set_items(const std::vector<PickleValue*>& keys_and_values) {
  if (keys_and_values.size() % 2 != 0) fail("a key of a dict has no value");
  PickleValue* const target = top();
  auto* dict = target->as<PickleDict>();
  auto* object = target->as<PickleObject>();
  if (dict == nullptr && object == nullptr) fail("it sets an item of something that is no dict");
  auto& items = dict != nullptr ? dict->items : object->items;
  for (std::size_t i = 0; i < keys_and_values.size(); i += 2) items.emplace_back(keys_and_values[i], keys_and_values[i + 1]);
}

void Unpickler::call(PickleValue* callable, PickleValue* arguments) {
  const auto* name = callable->as<PickleName>();
  const auto* tuple = arguments->as<PickleTuple>();
  if (name == nullptr) fail("it calls something that is no class or function");
  if (tuple == nullptr) fail(format("it calls {} with something that is no tuple", name->name));
  try {
    PickleValue made = call_as_data(name->name, tuple->items);
    pay(copied(made));
    push(std::move(made.data));
  } catch (const IoError& error) {
    fail(error.what());
  }
}

void Unpickler::push_stored() {
  const PickleValue* const id = pop();
  try {
    PickleStorage storage = storage_of_id(*id);
    pay(storage.key.size() / 8);
    push(std::move(storage));
  } catch (const IoError& error) {
    fail(error.what());
  }
}

void Unpickler::pay(std::uint64_t values) {
  values_made_ += values;
  if (values_made_ > kMostValues) fail(format("it has more than {} values", kMostValues));
}

void Unpickler::fail(const std::string& what) const { throw IoError(format("{} (byte {} of the pickle)", what, next_)); }

}  // namespace levin
