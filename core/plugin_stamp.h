#pragma once

#include "levin/core/version.h"

#if __has_include(<torch/version.h>)
#include <torch/version.h>
#endif

// What a plug-in was built with, as a text in its file: the levin program reads it before it loads the plug-in, and refuses one
// that does not fit, of which no code may run then. Whatever includes this carries it.

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

/// The stamp's beginning, and the stamp for a levin, its public headers, and a LibTorch.
#define LEVIN_STAMP_BEGIN "levin-plug-in{"
#define LEVIN_STAMP(levin, headers, torch)                                                             \
  LEVIN_STAMP_BEGIN "levin=" levin ";headers=" headers ";torch=" torch ";cxx11_abi=" LEVIN_TEXT_OF(    \
      _GLIBCXX_USE_CXX11_ABI) ";cxx_abi=" LEVIN_TEXT_OF(__GXX_ABI_VERSION) ";compiler=" LEVIN_COMPILER \
                                                                           ";optimization=" LEVIN_STAMPED_OPTIMIZATION "}"

#ifndef LEVIN_BUILDS_ITSELF
// Not for levin's own sources, all of which a change to any public header would compile anew.
#include "levin/core/headers_hash.h"
namespace levin::detail {
#if __has_attribute(retain)
__attribute__((used, retain)) static const char kPluginStamp[] =
    LEVIN_STAMP(LEVIN_ABI_VERSION, LEVIN_HEADERS_HASH, LEVIN_STAMPED_TORCH);
#else
__attribute__((used)) static const char kPluginStamp[] =
    LEVIN_STAMP(LEVIN_ABI_VERSION, LEVIN_HEADERS_HASH, LEVIN_STAMPED_TORCH);
#endif
}  // namespace levin::detail
#endif
