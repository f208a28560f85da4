#pragma once

#include <string>
#include <vector>

#include "support/program.h"

namespace levin::test {

/// What a user sees when running a command in a terminal.
struct TerminalOutcome {
  int status = -1;
  bool timed_out = false;
  std::string bytes;               ///< everything that was written
  std::vector<std::string> lines;  ///< the text on the terminal at the end, as if it had room for all lines

  /// Everything, for the message of a failed test.
  std::string text() const;
};

/// Runs a command to its end, or to its limit, in a new pseudo terminal.
TerminalOutcome run_in_terminal(Command command, int columns);

/// The lines on a terminal after these bytes. Supports what a progress bar needs: line feed, carriage return, erasing to the
/// end of the line, and colours.
std::vector<std::string> screen_after(const std::string& bytes);

}  // namespace levin::test
