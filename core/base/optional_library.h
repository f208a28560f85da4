#pragma once

#include <string>
#include <vector>

#include "levin/core/base/error.h"

namespace levin {

/// A library of levin's that is built where what it needs is installed, and loaded when it is first used: levin itself links
/// and starts as without it. It stands beside levin's own. Make a static object of each, which `levin doctor` then lists.
class OptionalLibrary {
 public:
  struct Description {
    const char* file;                           ///< "liblevin_images.so"
    const char* entry;                          ///< the function that it exports
    const char* title;                          ///< what it is for, such as "image files"
    const char* contents;                       ///< what it has, such as "JPEG, PNG, WebP and BMP"
    const char* build_packages;                 ///< to build it
    const char* run_packages;                   ///< to load it
    const char* installer = "apt-get install";  ///< what installs them: of Debian, or "pip install"
  };
  explicit OptionalLibrary(const Description& description);
  OptionalLibrary(const OptionalLibrary&) = delete;
  OptionalLibrary& operator=(const OptionalLibrary&) = delete;

  /// The exported function, as `Function` that is its type. Throws ConfigError with what to install. Threading: any.
  template <class Function>
  Function* entry() const {
    return reinterpret_cast<Function*>(address());
  }
  /// Why it cannot be used, and what to do; empty where it can. Loads it.
  std::string problem() const;
  const Description& description() const { return description_; }

  /// Those of this process. Threading: while none is made.
  static const std::vector<const OptionalLibrary*>& all() { return made(); }

 private:
  struct Loaded;
  const Loaded& loaded() const;
  void* address() const;
  static std::vector<const OptionalLibrary*>& made();

  Description description_;
};

/// The path of a file in the folder of the library or program that holds `code`; the file's name alone where that is not known.
std::string path_beside(const void* code, const char* file);

}  // namespace levin
