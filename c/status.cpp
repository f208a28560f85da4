#include "levin/c/status.h"

#include <exception>
#include <new>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/version.h"

namespace levin::c {

namespace {

thread_local std::string last_error;

levin_status status_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError&) {
    return LEVIN_CONFIG_ERROR;
  } catch (const MisuseError&) {
    return LEVIN_MISUSE;
  } catch (const IoError&) {
    return LEVIN_IO_ERROR;
  } catch (const DesyncError&) {
    return LEVIN_DESYNC;
  } catch (const Interrupted&) {
    return LEVIN_INTERRUPTED;
  } catch (const std::bad_alloc&) {
    return LEVIN_NO_MEMORY;
  } catch (...) {
    return LEVIN_ERROR;
  }
}

}  // namespace

levin_status guarded(const std::function<void()>& call) {
  try {
    call();
    return LEVIN_OK;
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    last_error = error_text(error);
    return status_of(error);
  }
}

void throw_null(const char* name) { throw MisuseError(format("'{}' is NULL", name)); }

}  // namespace levin::c

int32_t levin_c_abi_version(void) { return LEVIN_C_ABI_VERSION; }
const char* levin_version(void) { return levin::kVersion; }
const char* levin_last_error(void) { return levin::c::last_error.c_str(); }

void levin_set_log(levin_log_function log, void* context) {
  if (log == nullptr) return levin::set_message_sink(nullptr);
  levin::set_message_sink([log, context](const levin::Message& message) {
    log(static_cast<int32_t>(message.level), message.text.c_str(), context);
  });
}
