#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/formats/pickle.h"
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

/// The stack machine that a pickle is a program for: see Pickle. Beside the number of each operation stands what pickletools
/// calls it.
class Unpickler {
 public:
  /// Values are put into `values`, which must outlive what is read.
  Unpickler(std::string_view bytes, std::deque<PickleValue>& values) : bytes_(bytes), values_(values) {}

  /// Runs the program, and gives the value that it ends with.
  PickleValue* run() {
    while (step(number<unsigned char>())) {
    }
    if (stack_.size() != 1) fail("the program ends with more or less than one value");
    return stack_.back();
  }

 private:
  /// One operation; false at the end of the program.
  bool step(unsigned char operation) {
    const bool is_known = step_stack(operation) || step_constant(operation) || step_text(operation) ||
                          step_container(operation) || step_memo(operation) || step_object(operation);
    if (!is_known && operation != '.')  // STOP
      fail(format("operation 0x{:02x} is none that torch writes", operation));
    return is_known;
  }

  // Each of these does the operations of one kind, and gives false for others.

  bool step_stack(unsigned char operation) {
    switch (operation) {
      case 0x80:  // PROTO
        if (const auto protocol = number<unsigned char>(); protocol < 2 || protocol > 5) {
          fail(format("protocol {} is not read, only 2 to 5", protocol));
        }
        return true;
      case 0x95:  // FRAME
        number<std::uint64_t>();
        return true;
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return true;
      case '0':  // POP
        pop();
        return true;
      case '1':  // POP_MARK
        pop_to_mark();
        return true;
      case '2':  // DUP
        stack_.push_back(top());
        return true;
      default:
        return false;
    }
  }

  bool step_constant(unsigned char operation) {
    switch (operation) {
      case 'N':  // NONE
        return push(std::monostate());
      case 0x88:  // NEWTRUE
        return push(true);
      case 0x89:  // NEWFALSE
        return push(false);
      case 'J':  // BININT
        return push(std::int64_t{number<std::int32_t>()});
      case 'K':  // BININT1
        return push(std::int64_t{number<std::uint8_t>()});
      case 'M':  // BININT2
        return push(std::int64_t{number<std::uint16_t>()});
      case 0x8a:  // LONG1
        return push_integer(take(number<std::uint8_t>()));
      case 0x8b:  // LONG4
        return push_integer(take(number<std::uint32_t>()));
      case 'G': {  // BINFLOAT, the one number that is stored big-endian
        std::string bytes(take(sizeof(double)));
        std::reverse(bytes.begin(), bytes.end());
        double value = 0;
        std::memcpy(&value, bytes.data(), sizeof value);
        return push(value);
      }
      default:
        return false;
    }
  }

  bool step_text(unsigned char operation) {
    switch (operation) {
      case 'U':   // SHORT_BINSTRING
      case 0x8c:  // SHORT_BINUNICODE
        return push(std::string(take(number<std::uint8_t>())));
      case 'T':  // BINSTRING
      case 'X':  // BINUNICODE
        return push(std::string(take(number<std::uint32_t>())));
      case 0x8d:  // BINUNICODE8
        return push(std::string(take(number<std::uint64_t>())));
      case 'C':  // SHORT_BINBYTES
        return push(PickleBytes{std::string(take(number<std::uint8_t>()))});
      case 'B':  // BINBYTES
        return push(PickleBytes{std::string(take(number<std::uint32_t>()))});
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push(PickleBytes{std::string(take(number<std::uint64_t>()))});
      default:
        return false;
    }
  }

  bool step_container(unsigned char operation) {
    switch (operation) {
      case ']':   // EMPTY_LIST
      case 0x8f:  // EMPTY_SET
        return push(PickleList());
      case '}':  // EMPTY_DICT
        return push(PickleDict());
      case ')':  // EMPTY_TUPLE
        return push(PickleTuple());
      case 'l':   // LIST
      case 0x91:  // FROZENSET
        return push(PickleList{pop_to_mark()});
      case 't':  // TUPLE
        return push(PickleTuple{pop_to_mark()});
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        return push(PickleTuple{pop_many(operation - 0x84U)});
      case 'a':  // APPEND
        return append(pop_many(1));
      case 'e':   // APPENDS
      case 0x90:  // ADDITEMS
        return append(pop_to_mark());
      case 'd': {  // DICT
        const auto items = pop_to_mark();
        return push(PickleDict()) && set_items(items);
      }
      case 's':  // SETITEM
        return set_items(pop_many(2));
      case 'u':  // SETITEMS
        return set_items(pop_to_mark());
      default:
        return false;
    }
  }

  bool step_memo(unsigned char operation) {
    const auto put = [&](std::uint64_t place) {
      pay(1);
      memo_[place] = top();
      return true;
    };
    const auto get = [&](std::uint64_t place) {
      const auto found = memo_.find(place);
      if (found == memo_.end()) fail(format("there is nothing under number {} of the memo", place));
      stack_.push_back(found->second);
      return true;
    };
    switch (operation) {
      case 'q':  // BINPUT
        return put(number<std::uint8_t>());
      case 'r':  // LONG_BINPUT
        return put(number<std::uint32_t>());
      case 0x94:  // MEMOIZE
        return put(memo_.size());
      case 'h':  // BINGET
        return get(number<std::uint8_t>());
      case 'j':  // LONG_BINGET
        return get(number<std::uint32_t>());
      default:
        return false;
    }
  }

  bool step_object(unsigned char operation) {
    switch (operation) {
      case 'c': {  // GLOBAL
        const std::string module(line());
        return push(PickleName{module + "." + std::string(line())});
      }
      case 0x93: {  // STACK_GLOBAL
        const auto names = pop_many(2);
        const auto* module = names[0]->as<std::string>();
        const auto* name = names[1]->as<std::string>();
        if (module == nullptr || name == nullptr) fail("a class is named by something that is no text");
        return push(PickleName{*module + "." + *name});
      }
      case 0x92:  // NEWOBJ_EX
        pop();    // arguments by name
        [[fallthrough]];
      case 'R':     // REDUCE
      case 0x81: {  // NEWOBJ
        PickleValue* const arguments = pop();
        return call(pop(), arguments);
      }
      case 'b':  // BUILD: the attributes of a dict, a tensor or an object are of no use here
        pop();
        top();
        return true;
      case 'Q':  // BINPERSID
        return push_stored();
      default:
        return false;
    }
  }

  // Bytes of the program.

  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - next_) fail("it is cut short");
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
    if (end == std::string_view::npos) fail("it is cut short");
    const std::string_view text = take(end - next_);
    take(1);
    return text;
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
  void pay(std::uint64_t values) {
    values_made_ += values;
    if (values_made_ > kMostValues) fail(format("it has more than {} values", kMostValues));
  }
  template <class Step>
  auto at_place(const Step& step) {
    try {
      return step();
    } catch (const IoError& error) {
      fail(error.what());
    }
  }
  [[noreturn]] void fail(const std::string& what) const { throw IoError(format("{} (byte {} of the pickle)", what, next_)); }

  // What operations do. All give true: the operation is known.

  template <class Data>
  bool push(Data&& data) {
    pay(1);
    stack_.push_back(&values_.emplace_back(PickleValue{std::forward<Data>(data)}));
    return true;
  }
  bool push_integer(std::string_view little_endian) {
    // Beyond 64 bits: nothing that weights or options need, such as the state of Python's own generator.
    if (little_endian.size() > sizeof(std::int64_t)) return push(PickleObject{.class_name = "builtins.int"});
    const bool negative = !little_endian.empty() && (static_cast<unsigned char>(little_endian.back()) & 0x80U) != 0;
    std::int64_t value = negative ? -1 : 0;
    std::memcpy(&value, little_endian.data(), little_endian.size());
    return push(value);
  }
  bool append(const std::vector<PickleValue*>& items) {
    PickleValue* const target = top();
    if (auto* list = target->as<PickleList>()) {
      list->items.insert(list->items.end(), items.begin(), items.end());
    } else if (target->as<PickleObject>() == nullptr) {
      fail("it appends to something that is no list");
    }
    return true;
  }
  bool set_items(const std::vector<PickleValue*>& keys_and_values) {
    if (keys_and_values.size() % 2 != 0) fail("a key of a dict has no value");
    PickleValue* const target = top();
    auto* dict = target->as<PickleDict>();
    auto* object = target->as<PickleObject>();
    if (dict == nullptr && object == nullptr) fail("it sets an item of something that is no dict");
    auto& items = dict != nullptr ? dict->items : object->items;
    for (std::size_t i = 0; i < keys_and_values.size(); i += 2) items.emplace_back(keys_and_values[i], keys_and_values[i + 1]);
    return true;
  }
  bool call(PickleValue* callable, PickleValue* arguments) {
    const auto* name = callable->as<PickleName>();
    const auto* tuple = arguments->as<PickleTuple>();
    if (name == nullptr) fail("it calls something that is no class or function");
    if (tuple == nullptr) fail(format("it calls {} with something that is no tuple", name->name));
    PickleValue made = at_place([&] { return call_as_data(name->name, tuple->items); });
    pay(copied(made));
    return push(std::move(made.data));
  }
  bool push_stored() {
    const PickleValue* const id = pop();
    PickleStorage storage = at_place([&] { return storage_of_id(*id); });
    pay(storage.key.size() / 8);
    return push(std::move(storage));
  }

  std::string_view bytes_;
  std::size_t next_ = 0;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
  std::uint64_t values_made_ = 0;
};

}  // namespace

Pickle::Pickle(std::string_view bytes) : bytes_(bytes.size()) { root_ = Unpickler(bytes, values_).run(); }

}  // namespace levin
