#include "levin/text/unicode/unicode_library.h"

#include "levin/text/unicode/unicode_parts.h"

const levin::UnicodeLibrary* levin_unicode_library() {
  namespace unicode = levin::unicode;
  static constexpr levin::UnicodeLibrary kLibrary = {.classes = unicode::classes,
                                                     .lowercase = unicode::lowercase,
                                                     .divides = unicode::divides,
                                                     .normalize = unicode::normalize,
                                                     .compile = unicode::compile,
                                                     .release = unicode::release,
                                                     .make_matcher = unicode::make_matcher,
                                                     .release_matcher = unicode::release_matcher,
                                                     .find = unicode::find};
  return &kLibrary;
}
