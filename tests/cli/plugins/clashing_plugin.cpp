#include "levin/core/config/registry.h"
#include "levin/core/logger.h"

namespace {

struct Taken : levin::Logger {};

const levin::Registrar<levin::Logger, Taken> kFirst("Taken", "The first");
const levin::Registrar<levin::Logger, Taken> kSecond("Taken", "The second");

}  // namespace
