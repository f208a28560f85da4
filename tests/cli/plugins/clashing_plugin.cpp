#include "levin/core/logger.h"
#include "levin/core/options/registry.h"

namespace {

struct Taken : levin::Logger {};

const levin::Registrar<levin::Logger, Taken> kFirst("Taken", "The first");
const levin::Registrar<levin::Logger, Taken> kSecond("Taken", "The second");

}  // namespace
