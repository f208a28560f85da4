#pragma once

#include <string>

namespace levin::cli {

/// One `--key=value` of the command line, or a variable of the environment.
struct Override {
  std::string key;            ///< "trainer.callbacks.patience"
  std::string text;           ///< read as YAML
  bool append = false;        ///< `--trainer.callbacks+=EarlyStopping`
  std::string variable = {};  ///< the variable that it came from; empty: the command line, or a program
  bool of_program = false;    ///< a program gave it to Session::from_yaml()
  /// "command line: --trainer.callbacks+", "environment: LEVIN_TRAINER__MAX_EPOCHS", "override: trainer.callbacks+"; a long key
  /// is cut.
  std::string name() const;
  /// As it was written: "--trainer.max_epochs=5", "LEVIN_TRAINER__MAX_EPOCHS=5", "trainer.max_epochs=5".
  std::string written() const;
  friend bool operator==(const Override&, const Override&) = default;
};

}  // namespace levin::cli
