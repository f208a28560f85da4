#pragma once

#include <deque>
#include <string>
#include <utility>

#include "levin/core/formats/pickle.h"

namespace levin {

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

/// Writes a pickle of protocol 2 that Python's torch.load(weights_only=True) reads: an object becomes a call of its class with
/// its arguments, then its items; a tensor what torch itself writes. Values must not hold themselves.
std::string write_pickle(const PickleValue& root);

}  // namespace levin
