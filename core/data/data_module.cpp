#include "levin/core/data/data_module.h"

namespace levin {

DataModule::~DataModule() = default;

}  // namespace levin
