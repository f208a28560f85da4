#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/config/value.h"

namespace levin {

struct PickleValue;
using PickleItems = std::vector<std::pair<PickleValue*, PickleValue*>>;

/// Bytes, which are not read.
struct PickleBytes {};
/// A list, a set, or a torch.Size.
struct PickleList {
  std::vector<PickleValue*> items;
};
struct PickleTuple {
  std::vector<PickleValue*> items;
};
/// A dict or one of its kin (OrderedDict, defaultdict), in its order.
struct PickleDict {
  PickleItems items;
};
/// A class, function or constant by its module and name, such as "torch.float32".
struct PickleName {
  std::string name;
};
/// Where a tensor's elements are: a record of the file that the pickle is in.
struct PickleStorage {
  std::string dtype;  ///< "float32", …; empty for bytes without a type
  std::string key;    ///< of the record data/KEY
  std::int64_t elements = 0;
};
struct PickleTensor {
  PickleStorage storage;
  std::int64_t offset = 0;  ///< of its first element, in elements
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  bool is_conjugated = false;  ///< its elements are the conjugates of what is stored
  bool is_negated = false;     ///< its elements are the negatives of what is stored

  /// The number of storage elements that it spans, from the first one on; unset when that does not fit into 64 bits.
  std::optional<std::int64_t> end() const;
};
/// An object of a class that means nothing here, as data.
struct PickleObject {
  std::string class_name;
  std::vector<PickleValue*> arguments = {};  ///< to be written; those that are read are left out
  PickleItems items = {};                    ///< where it is a dict as well; of TorchScript's classes, the attributes
};

struct PickleValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, PickleBytes, PickleList, PickleTuple, PickleDict,
               PickleName, PickleStorage, PickleTensor, PickleObject>
      data;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  template <class T>
  T* as() {
    return std::get_if<T>(&data);
  }
  /// Of a dict, or of an object that is one; nullptr otherwise.
  const PickleItems* items() const;
  /// Of a list or tuple; nullptr otherwise.
  const std::vector<PickleValue*>* elements() const;
  /// The value among items() whose key has this key_text(); nullptr without. Of several the last, as in Python.
  const PickleValue* find(std::string_view key) const;
};

/// A text, or the digits of a number; empty for anything else.
std::string key_text(const PickleValue& key);

/// "class Net of module my.models": what a file refers to, and levin does not run.
std::string foreign_text(const PickleValue& value);

/// Describes an unsupported tensor, with a cure: "a sparse tensor, …". Empty for other values.
std::string foreign_tensor(const PickleValue& value);

/// Where the weights are in what torch.save() was given.
struct PickledWeights {
  const PickleValue* value = nullptr;  ///< a dict with tensors, or one tensor
  std::string name;                    ///< of the one tensor
  std::vector<std::string> others;     ///< the other contents: "'model_ema' (12 tensors)"
};

/// What is under a key, or under several joined by dots. Throws IoError, which lists the keys.
const PickleValue& value_at_key(const PickleValue& root, const std::string& key);

/// The whole value, or its part under a usual name ("model"); with a `key`, the part under that name, or several joined by
/// dots. Throws an IoError that lists the content when that is neither a dict of tensors nor a tensor.
PickledWeights find_weights(const PickleValue& root, const std::string& key);

/// Makes plain values of a file's: containers, numbers and texts. Values may be shared, and contain themselves, so that a few
/// bytes may expand without limit: each object counts all values that it makes, which must be in proportion to the file.
class PlainValues {
 public:
  /// `bytes`: of the pickle.
  explicit PlainValues(std::size_t bytes);

  /// Keys become texts, and what has no plain form the text that says what it is. Throws IoError on what is nested deeper than
  /// a checkpoint's manifest may be, or larger, or out of proportion to the file.
  Value of(const PickleValue& value) { return of(value, 0); }
  /// Counts other values that are made from the file, and their texts by `bytes`. Throws IoError when it is out of proportion.
  void charge(std::size_t values, std::size_t bytes = 0);

 private:
  Value of(const PickleValue& value, std::size_t depth);
  std::string charged(std::string text);

  std::size_t left_;
};

/// Reads Python's pickle format, protocols 2 to 5, as data: nothing is imported, called or made but plain containers and the
/// descriptions of torch's tensors. Other calls of a pickle become a PickleObject. Values may be shared, and may contain
/// themselves: count them when you traverse. Source: Lib/pickletools.py of CPython, and torch/_weights_only_unpickler.py of
/// PyTorch.
class Pickle {
 public:
  /// Throws an IoError that names the byte for a malformed or truncated pickle, for an operation that torch never writes, and
  /// for one that would take far more memory than torch's.
  explicit Pickle(std::string_view bytes);
  const PickleValue& root() const { return *root_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::deque<PickleValue> values_;
  PickleValue* root_ = nullptr;
};

/// Values to be written as a pickle; it owns them.
class PickleTree {
 public:
  template <class Data>
  PickleValue* add(Data&& data) {
    return &values_.emplace_back(PickleValue{std::forward<Data>(data)});
  }
  /// Lists, maps with texts as keys, numbers and texts.
  PickleValue* add_plain(const Value& value);
  /// An OrderedDict, to be filled.
  PickleObject* add_ordered_dict(PickleValue*& made);

 private:
  std::deque<PickleValue> values_;
};

/// "torch.FloatStorage" of "float32"; for a dtype without its own storage that of untyped bytes.
std::string storage_class(std::string_view dtype);

/// Writes a pickle of protocol 2 that Python's torch.load(weights_only=True) reads: an object becomes a call of its class with
/// its arguments, then its items; a tensor what torch itself writes. Values must not hold themselves.
std::string write_pickle(const PickleValue& root);

}  // namespace levin
