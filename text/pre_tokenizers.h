#pragma once

#include <memory>
#include <string_view>

#include "levin/text/json_node.h"
#include "levin/text/pattern.h"

namespace levin::detail {

/// A part of a text, which a model makes tokens of.
struct Piece {
  std::string_view text;
  bool is_at_start = false;    ///< it begins where the whole text does
  bool is_byte_level = false;  ///< each of its bytes stands for a character of the byte-level alphabet
};

/// Gets pieces, one after another. Their texts live as long as the call.
class PieceSink {
 public:
  virtual void take(const Piece& piece) = 0;

 protected:
  ~PieceSink() = default;
};

/// One that calls a function.
template <class Take>
class FunctionSink final : public PieceSink {
 public:
  explicit FunctionSink(Take take) : take_(std::move(take)) {}
  void take(const Piece& piece) override { take_(piece); }

 private:
  Take take_;
};

/// Divides a text into pieces; none is empty. Threading: any.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void divide(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const = 0;
};

/// The part `pre_tokenizer` of a tokenizer's file. Throws IoError for what is wrong or not supported.
std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonNode& node, const UnicodeLibrary& unicode);

/// Where words get a character that stands for the blank before them.
enum class PrependScheme : std::uint8_t { kNever, kFirst, kAlways };
/// Of a pre-tokenizer or decoder of the type Metaspace.
PrependScheme read_prepend_scheme(const JsonNode& node);

}  // namespace levin::detail
