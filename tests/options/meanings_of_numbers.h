#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "levin/core/config/value.h"

namespace levin::test {

/// The values whose meanings meanings_of_numbers.txt tells: 0 (of a time 00:00:00:00), null and -1.
inline constexpr std::size_t kProbed = 3;
inline constexpr std::array<const char*, kProbed> kProbedNames = {"0", "null", "-1"};

/// An option that takes numbers or times, of whatever class.
struct NumericOption {
  std::string name;  ///< "trainer.max_epochs", "EarlyStopping.patience"
  /// What the class says against each of the values; empty: it takes it.
  std::array<std::string, kProbed> objections = {};
  bool may_be_null = false;  ///< null is a value of its own to it
};

/// All of them: of the Trainer, of the sections of a configuration and of every class that is registered.
std::vector<NumericOption> numeric_options();

/// A row of meanings_of_numbers.txt.
struct MeaningRow {
  std::string name;
  std::array<std::string, kProbed> cells;
  std::string shown_by;  ///< the name of a test of what is off; empty: nothing is
};

/// The rows, in their order. Throws std::runtime_error at a line that is none.
std::vector<MeaningRow> meaning_rows();

}  // namespace levin::test
