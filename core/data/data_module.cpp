#include "levin/core/data/data_module.h"

namespace levin {

DataModule::~DataModule() = default;
void DataModule::prepare_data() {}
void DataModule::setup(Stage) {}
void DataModule::teardown(Stage) {}
LoaderPtr DataModule::train_dataloader() { return nullptr; }
LoaderList DataModule::val_dataloaders() { return {}; }
LoaderList DataModule::test_dataloaders() { return {}; }
LoaderList DataModule::predict_dataloaders() { return {}; }
Value DataModule::state_dict() const { return {}; }
void DataModule::load_state_dict(const Value&) {}
void DataModule::on_exception(const std::exception&) {}

}  // namespace levin
