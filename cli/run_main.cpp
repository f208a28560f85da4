#include "levin/cli/run_main.h"

#include <exception>
#include <string>
#include <vector>

#include "levin/cli/diagnostic.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/quoted_text.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"

namespace levin {
namespace {

/// Shows the error that is being handled and ends this process, in one text or several. One that the run has told already, with
/// the place where it failed, goes to the log file only.
void show_error(const std::vector<std::string>& texts) {
  Console& console = Console::instance();
  const bool was_told = console.was_told(std::current_exception());
  for (const std::string& message : texts) {
    // Keys, names and values of the user's stand in it as they are.
    const std::string text = printable(message);
    was_told ? console.record(LogLevel::kError, text) : console.error(text);
  }
}

}  // namespace

int run_main(const std::function<void()>& program) {
  try {
    program();
    return 0;
  } catch (const ConfigError& error) {
    show_error(cli::diagnostics(error));
    return error.exit_code();
  } catch (const Interrupted& interrupted) {
    // All ranks stop together, for the same reason.
    Console::instance().print(LogLevel::kError, interrupted.what(), Speaker::kRun);
    return interrupted.exit_code();
  } catch (const Error& error) {
    show_error({error.what()});
    return error.exit_code();
  } catch (...) {
    show_error({error_text(std::current_exception())});
    return 1;
  }
}

}  // namespace levin
