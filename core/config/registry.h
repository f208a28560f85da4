#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/config/value.h"
#include "levin/core/version.h"

#if __has_include(<torch/version.h>)
#include <torch/version.h>
#endif

// A text in a plug-in's file that says what it was built with. The levin program reads it before it loads the plug-in, and
// refuses a mismatch without running any of its code. Every file that includes this header contains it.

#define LEVIN_TEXT_OF_(number) #number
#define LEVIN_TEXT_OF(number) LEVIN_TEXT_OF_(number)
#if defined(__clang__)
#define LEVIN_COMPILER "clang " LEVIN_TEXT_OF(__clang_major__) "." LEVIN_TEXT_OF(__clang_minor__)
#else
#define LEVIN_COMPILER "g++ " LEVIN_TEXT_OF(__GNUC__) "." LEVIN_TEXT_OF(__GNUC_MINOR__)
#endif
#ifdef TORCH_VERSION
#define LEVIN_STAMPED_TORCH TORCH_VERSION
#else
#define LEVIN_STAMPED_TORCH ""
#endif

#ifdef __OPTIMIZE__
#define LEVIN_STAMPED_OPTIMIZATION "on"
#else
#define LEVIN_STAMPED_OPTIMIZATION "off"
#endif

/// The stamp's beginning, and the stamp for versions of levin, its public headers, and LibTorch.
#define LEVIN_STAMP_BEGIN "levin-plug-in{"
#define LEVIN_STAMP(levin, headers, torch)                                                             \
  LEVIN_STAMP_BEGIN "levin=" levin ";headers=" headers ";torch=" torch ";cxx11_abi=" LEVIN_TEXT_OF(    \
      _GLIBCXX_USE_CXX11_ABI) ";cxx_abi=" LEVIN_TEXT_OF(__GXX_ABI_VERSION) ";compiler=" LEVIN_COMPILER \
                                                                           ";optimization=" LEVIN_STAMPED_OPTIMIZATION "}"

#ifndef LEVIN_BUILDS_ITSELF
// Not in levin's own sources: a change to any public header would recompile all of them.
#include "levin/core/headers_hash.h"
namespace levin::detail {
#if __has_attribute(retain)
__attribute__((retain))
#endif
__attribute__((used)) static const char kPluginStamp[] =
    LEVIN_STAMP(LEVIN_ABI_VERSION, LEVIN_HEADERS_HASH, LEVIN_STAMPED_TORCH);
}  // namespace levin::detail
#endif

namespace levin {

class BatchTransform;
class Dataset;
class ImageTransform;
class LrSchedulerFactory;
class Metric;
class OptimizerFactory;
class Sampler;

/// A class in a registry, without its base: enough for `levin list`, --help and the JSON Schema.
struct LEVIN_API ClassInfo {
  std::string name;
  std::string help;
  std::vector<OptionInfo> options;
  /// Checks init_args and returns them complete, with every default and with resolved paths. Makes no object.
  std::function<Value(const Value& init_args)> complete;
};

namespace detail {
/// The name of a registry's classes in YAML, help and error messages.
constexpr const char* kind_of(const Accelerator*) { return "accelerator"; }
constexpr const char* kind_of(const BatchTransform*) { return "batch_transform"; }
constexpr const char* kind_of(const Callback*) { return "callback"; }
constexpr const char* kind_of(const DataModule*) { return "data"; }
constexpr const char* kind_of(const Dataset*) { return "dataset"; }
constexpr const char* kind_of(const ImageTransform*) { return "image_transform"; }
constexpr const char* kind_of(const Logger*) { return "logger"; }
constexpr const char* kind_of(const LrSchedulerFactory*) { return "lr_scheduler"; }
constexpr const char* kind_of(const Metric*) { return "metric"; }
constexpr const char* kind_of(const Module*) { return "model"; }
constexpr const char* kind_of(const OptimizerFactory*) { return "optimizer"; }
constexpr const char* kind_of(const Profiler*) { return "profiler"; }
constexpr const char* kind_of(const Sampler*) { return "sampler"; }
constexpr const char* kind_of(const Strategy*) { return "strategy"; }

/// The registry entry of a class with or without options.
template <class Derived>
std::vector<OptionInfo> options_of() {
  if constexpr (requires { typename Derived::Options; }) return describe_options<typename Derived::Options>();
  return {};
}
template <class Derived>
Value complete_arguments(const Value& init_args) {
  if constexpr (requires { typename Derived::Options; }) {
    return write_options(read_options<typename Derived::Options>(init_args));
  } else {
    check_keys({}, init_args);
    return Value(Value::Map{});
  }
}
template <class Derived>
std::shared_ptr<Derived> make_object(const Value& init_args) {
  if constexpr (requires { typename Derived::Options; }) {
    const auto options = read_options<typename Derived::Options>(init_args);
    auto object = std::make_shared<Derived>(options);
    // Modules and data modules write their arguments to hparams.yaml and checkpoints.
    if constexpr (requires { object->set_hparams(Value()); }) {
      if (object->hparams().is_null()) object->set_hparams(write_options(options));
    }
    return object;
  } else {
    check_keys({}, init_args);
    return std::make_shared<Derived>();
  }
}

/// Returns and clears the errors of registrations while libraries were loading. The `levin` program calls it when it starts and
/// after each plug-in.
LEVIN_API std::vector<std::string> take_registration_errors();
}  // namespace detail

/// Classes that can be made by name, as `class_path` in YAML does. Each kind of thing (Callback, Logger, Strategy, Accelerator,
/// Module, DataModule, Dataset, Sampler, ImageTransform, BatchTransform, Metric, OptimizerFactory, LrSchedulerFactory,
/// Profiler) has one registry, shared by the program, the library and its plug-ins. A class is found by the last part of a
/// dotted name: "lightning.pytorch.callbacks.EarlyStopping" finds EarlyStopping. Threading: any thread may call any function,
/// also while another one loads a plug-in; entries stay where they are.
template <class Base>
class LEVIN_API Registry {
 public:
  using Factory = std::function<std::shared_ptr<Base>(const Value& init_args)>;

  /// The one registry of this kind.
  static Registry& instance();
  /// "callback", "model", "optimizer", …
  static std::string kind() { return detail::kind_of(static_cast<const Base*>(nullptr)); }

  /// Adds Derived. Its options are Derived::Options (see OptionList), passed to its constructor; a class without Options is
  /// default-constructed and takes no init_args. Throws MisuseError when the name is taken.
  template <class Derived>
  void add(std::string name, std::string help = "") {
    add({std::move(name), std::move(help), detail::options_of<Derived>(), &detail::complete_arguments<Derived>},
        &make<Derived>);
  }
  void add(ClassInfo info, Factory factory);
  /// add<Derived>() while a library loads, where exceptions cannot propagate: see detail::take_registration_errors().
  template <class Derived>
  void add_at_load(const char* name, const char* help) noexcept {
    add_at_load(name, help, &detail::options_of<Derived>, &detail::complete_arguments<Derived>, &make<Derived>);
  }

  /// Makes an instance. Throws ConfigError with the mark of class_path on an unknown name, and as read_options on init_args.
  std::shared_ptr<Base> make(const Value& class_path, const Value& init_args) const;
  /// ClassInfo::complete of the class. Throws as make() does.
  Value complete(const Value& class_path, const Value& init_args) const;
  /// The entry of a class, or nullptr when it is unknown or the last part of the name matches several.
  const ClassInfo* find(std::string_view class_path) const;
  /// Every class, sorted by name.
  std::vector<const ClassInfo*> classes() const;

 private:
  struct Entry {
    ClassInfo info;
    Factory factory;
  };
  template <class Derived>
  static std::shared_ptr<Base> make(const Value& init_args) {
    static_assert(std::derived_from<Derived, Base>);
    return detail::make_object<Derived>(init_args);
  }
  void add_at_load(const char* name, const char* help, std::vector<OptionInfo> (*options)(), Value (*complete)(const Value&),
                   std::shared_ptr<Base> (*make)(const Value&)) noexcept;
  const Entry* find_entry(std::string_view class_path) const;
  const Entry& entry_of(const Value& class_path) const;
  mutable std::shared_mutex mutex_;  // guards entries_, but not the entries, which do not change
  std::vector<std::unique_ptr<Entry>> entries_;
};

extern template class LEVIN_API Registry<Accelerator>;
extern template class LEVIN_API Registry<BatchTransform>;
extern template class LEVIN_API Registry<Callback>;
extern template class LEVIN_API Registry<DataModule>;
extern template class LEVIN_API Registry<Dataset>;
extern template class LEVIN_API Registry<ImageTransform>;
extern template class LEVIN_API Registry<Logger>;
extern template class LEVIN_API Registry<LrSchedulerFactory>;
extern template class LEVIN_API Registry<Metric>;
extern template class LEVIN_API Registry<Module>;
extern template class LEVIN_API Registry<OptimizerFactory>;
extern template class LEVIN_API Registry<Profiler>;
extern template class LEVIN_API Registry<Sampler>;
extern template class LEVIN_API Registry<Strategy>;

/// Loads a library with classes of modules, data modules, callbacks and others, as `plugins:` of YAML, once. Threading: any.
/// Throws ConfigError for a file that is missing or was built for another levin, LibTorch or compiler.
LEVIN_API void load_plugin(const std::filesystem::path& file);

/// Adds a class to its registry while the program or plug-in loads. Use the macros below.
template <class Base, class Derived>
struct Registrar {
  explicit Registrar(const char* name, const char* help = "") {
    Registry<Base>::instance().template add_at_load<Derived>(name, help);
  }
};

}  // namespace levin

#define LEVIN_CONCAT_(left, right) left##right
#define LEVIN_CONCAT(left, right) LEVIN_CONCAT_(left, right)
#define LEVIN_REGISTER_(Base, Derived, ...) \
  static const ::levin::Registrar<Base, Derived> LEVIN_CONCAT(levin_registrar_, __COUNTER__)(__VA_ARGS__)
// Each makes a user's class available to YAML as `class_path: Derived`. Use it at namespace scope of a .cpp file.
//
//     LEVIN_REGISTER_MODULE(Digits);
//     LEVIN_REGISTER_MODULE(Digits, "what --help and `levin list` say of it");
//
// Optimizers and schedulers: core/optimizers/optimizer_factory.h.
#define LEVIN_REGISTER_MODULE(Derived, ...) LEVIN_REGISTER_(::levin::Module, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_DATA_MODULE(Derived, ...) \
  LEVIN_REGISTER_(::levin::DataModule, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_DATASET(Derived, ...) LEVIN_REGISTER_(::levin::Dataset, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_SAMPLER(Derived, ...) LEVIN_REGISTER_(::levin::Sampler, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_IMAGE_TRANSFORM(Derived, ...) \
  LEVIN_REGISTER_(::levin::ImageTransform, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_BATCH_TRANSFORM(Derived, ...) \
  LEVIN_REGISTER_(::levin::BatchTransform, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_CALLBACK(Derived, ...) LEVIN_REGISTER_(::levin::Callback, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_METRIC(Derived, ...) LEVIN_REGISTER_(::levin::Metric, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_LOGGER(Derived, ...) LEVIN_REGISTER_(::levin::Logger, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_PROFILER(Derived, ...) LEVIN_REGISTER_(::levin::Profiler, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_STRATEGY(Derived, ...) LEVIN_REGISTER_(::levin::Strategy, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_ACCELERATOR(Derived, ...) \
  LEVIN_REGISTER_(::levin::Accelerator, Derived, #Derived __VA_OPT__(, ) __VA_ARGS__)
