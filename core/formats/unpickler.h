#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "levin/core/formats/pickle.h"

namespace levin {

/// The stack machine that a pickle is a program for. See Pickle.
class Unpickler {
 public:
  /// Values are put into `values`, which must outlive what is read.
  Unpickler(std::string_view bytes, std::deque<PickleValue>& values) : bytes_(bytes), values_(values) {}

  /// Runs the program, and gives the value that it ends with.
  PickleValue* run();

 private:
  /// One operation; false at the end of the program.
  bool step(PickleOperation operation);
  bool step_constant(PickleOperation operation);
  bool step_text(PickleOperation operation);
  bool step_container(PickleOperation operation);
  bool step_memo(PickleOperation operation);
  bool step_object(PickleOperation operation);

  // Bytes of the program.
  std::string_view take(std::uint64_t size);
  template <class Number>
  Number number();
  std::string_view line();

  // The stack.
  template <class Data>
  void push(Data&& data);
  PickleValue* pop();
  PickleValue* top();
  std::vector<PickleValue*> pop_to_mark();
  std::vector<PickleValue*> pop_many(std::size_t count);

  // What operations do.
  void push_integer(std::string_view little_endian);
  void append(const std::vector<PickleValue*>& items);
  void set_items(const std::vector<PickleValue*>& keys_and_values);
  void call(PickleValue* callable, PickleValue* arguments);
  void push_stored();
  /// Counts what is made: a few bytes of a pickle may ask for much, again and again.
  void pay(std::uint64_t values);
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view bytes_;
  std::size_t next_ = 0;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
  std::uint64_t values_made_ = 0;
};

}  // namespace levin
