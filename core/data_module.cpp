#include "levin/core/data_module.h"

namespace levin {

DataModule::~DataModule() = default;

}  // namespace levin
