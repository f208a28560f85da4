#include "levin/core/predictor.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceType.h>

#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/config/component.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/state/module_attachment.h"
#include "levin/core/state/predictor_parts.h"
#include "levin/core/weights.h"

namespace levin {

namespace {

namespace fs = std::filesystem;

const std::string* text_at(const Value& manifest, std::string_view key) {
  const Value* const found = manifest.find(key);
  return found != nullptr && found->is_string() ? &found->as_string() : nullptr;
}

/// Makes the module of the class that the file names.
std::shared_ptr<Module> make_module(const fs::path& file, const TensorFile& opened, const Value& hparams) {
  const Registry<Module>& registry = Registry<Module>::instance();
  if (opened.kind == TensorFileKind::kPackage) {
    return registry.make("ExportedModule", Value::Map{{"package", file.string()}});
  }
  const std::string* const name = text_at(opened.content.manifest, kModuleClass);
  if (name == nullptr) {
    throw ConfigError(
        format("'{}' is a {}, which does not say what module its weights are of: make that module, and give it as "
               "PredictorOptions::module.",
               file, kind_name(opened.kind)));
  }
  const ClassInfo* const known = registry.find(*name);
  if (known == nullptr) {
    throw ConfigError(
        format("'{}' is of a {}, and no such module is registered in this program. Write LEVIN_REGISTER_MODULE({}); next to "
               "the class, name its library in PredictorOptions::plugins, or give PredictorOptions::module.",
               file, *name, *name));
  }
  try {
    return registry.make(known->name, detail::saved_hyperparameters(file, known->options, hparams));
  } catch (const ConfigError& error) {
    throw ConfigError(
        format("{} PredictorOptions::hparams replaces hyper-parameters of '{}', as the place of a file that has moved.",
               error.what(), file));
  }
}

/// Makes the data module of the class that the file names. Null where the program lacks it, and batches need no preparation.
std::shared_ptr<DataModule> make_data(const fs::path& file, const Value& manifest) {
  const std::string* const name = text_at(manifest, kDataModuleClass);
  const ClassInfo* const known = name == nullptr ? nullptr : Registry<DataModule>::instance().find(*name);
  if (known != nullptr) {
    Value options = manifest.at(kDataModuleOptions);
    options.set_mark({.file = file.string()});
    return Registry<DataModule>::instance().make(known->name, options);
  }
  const std::string what = name == nullptr ? std::string("whose class it does not name")
                                           : format("{}, which is not registered in this program", *name);
  constexpr const char* kCure = "give PredictorOptions::data, or name its library in PredictorOptions::plugins";
  if (name == nullptr || manifest.contains(kPreparations)) {
    throw ConfigError(
        format("'{}' is of a module that was trained on what its data module prepared, {}: {}.", file, what, kCure));
  }
  rank_zero_warn(
      format("'{}' has the state of its data module, {}: the module predicts without it. If it asks for its "
             "data_module(), {}.",
             file, what, kCure));
  return nullptr;
}

/// The data module with what it learnt; null where it learnt nothing.
std::shared_ptr<DataModule> load_data(const fs::path& file, const Value& manifest, std::shared_ptr<DataModule> data) {
  const Value* const state = manifest.find("datamodule");
  if (state == nullptr || state->is_null()) return data;
  if (data == nullptr) data = make_data(file, manifest);
  if (data != nullptr) data->load_state_dict(*state);
  return data;
}

at::Device device_of(const std::string& text) {
  try {
    return at::Device(text);
  } catch (const c10::Error& error) {
    throw ConfigError(format("PredictorOptions::device: '{}' is not a device: {}", text, error.what_without_backtrace()));
  }
}

/// Throws ConfigError where this machine has no such device.
std::shared_ptr<Accelerator> accelerator_of(const at::Device& device) {
  auto accelerator =
      Registry<Accelerator>::instance().make(c10::DeviceTypeName(device.type(), /*lower_case=*/true), Value(Value::Map{}));
  const int count = accelerator->device_count();
  if (device.has_index() && device.index() >= count) {
    throw ConfigError(format("PredictorOptions::device: there is no '{}': this process sees {}.", device.str(),
                             counted(static_cast<std::size_t>(count), accelerator->device_noun())));
  }
  return accelerator;
}

PrecisionPolicy precision_of(const Value& manifest, const PredictorOptions& options, const at::Device& device) {
  const std::string* const saved = text_at(manifest, kPrecision);
  const PrecisionFormat format = options.precision  ? *options.precision
                                 : saved != nullptr ? OptionType<PrecisionFormat>::read(*saved)
                                                    : PrecisionFormat::kFloat32;
  const Value* const channels_last = manifest.find(kChannelsLast);
  return {format, *accelerator_of(device), device, channels_last != nullptr && channels_last->as_bool()};
}

/// As levin predict does before its first batch.
void set_up(PredictorParts& parts, const Checkpoint& checkpoint, bool has_weights) {
  Module& module = *parts.module;
  module.setup(Stage::kPredict);
  module.configure_model();
  if (has_weights) module.on_load_checkpoint(checkpoint);
  parts.precision->prepare_module(module);
  if (has_weights) load_module(module, checkpoint);
  const at::AutoGradMode no_gradients(false);
  module.on_predict_model_eval();
  module.on_predict_start();
  module.on_predict_epoch_start();
}

}  // namespace

PredictorParts::~PredictorParts() {
  if (module != nullptr) ModuleAttachment::set_predictor(*module, nullptr);
}

Predictor::Predictor(std::unique_ptr<PredictorParts> parts) : parts_(std::move(parts)) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

Predictor Predictor::load(const fs::path& given, PredictorOptions options) {
  for (const fs::path& plugin : options.plugins) load_plugin(plugin);
  const fs::path file = checkpoint_at(given);
  if (!is_there(file)) throw ConfigError(format("there is no file '{}'{}.", file, working_folder_of(file)));
  TensorFile opened = TensorFile::open_weights(file);
  take_trained_weights(opened.content, /*in_place_of_averages=*/false);
  const Value& manifest = opened.content.manifest;
  auto parts = std::make_unique<PredictorParts>();
  parts->device = device_of(options.device);
  parts->data = load_data(file, manifest, std::move(options.data));
  if (parts->data != nullptr) parts->facts = parts->data->facts();
  parts->module = options.module != nullptr ? std::move(options.module) : make_module(file, opened, options.hparams);
  parts->precision.emplace(precision_of(manifest, options, parts->device));
  ModuleAttachment::release(*parts->module);
  ModuleAttachment::set_predictor(*parts->module, parts.get());
  try {
    set_up(*parts, opened.content, opened.kind != TensorFileKind::kPackage);
  } catch (const ConfigError& error) {
    throw ConfigError(format("'{}': {}", file, error.what()));
  }
  ModuleAttachment::set_predictor(*parts->module, parts.get());  // of modules, too, that it has made since
  return Predictor(std::move(parts));
}

Batch Predictor::predict(Batch batch) const {
  return predict_prepared(parts_->data == nullptr ? std::move(batch) : parts_->data->prepare(std::move(batch)));
}

Batch Predictor::predict_records(const std::vector<Value>& records) const {
  if (parts_->data == nullptr) {
    throw MisuseError(
        "predict_records(): the file has nothing of a data module that would know the columns. Call predict() with a batch of "
        "tensors, or give PredictorOptions::data.");
  }
  return predict_prepared(parts_->data->prepare_records(records));
}

Batch Predictor::predict_prepared(Batch batch) const {
  const at::AutoGradMode no_gradients(false);
  Module& module = *parts_->module;
  batch = parts_->precision->convert_input(std::move(batch));
  batch = module.on_before_batch_transfer(std::move(batch), 0);
  batch = module.transfer_batch_to_device(std::move(batch), parts_->device, 0);
  batch = module.on_after_batch_transfer(std::move(batch), 0);
  const PrecisionPolicy::Forward forward(*parts_->precision);
  return module.predict_step(batch, 0);
}

const DataFacts& Predictor::facts() const { return parts_->facts; }
Module& Predictor::module() const { return *parts_->module; }
const DataModule* Predictor::data_module() const { return parts_->data.get(); }

}  // namespace levin
