#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/text.h"
#include "levin/text/models.h"
#include "levin/text/utf8.h"

namespace levin::detail {
namespace {

Vocabulary vocabulary_of(const JsonNode& node) {
  Vocabulary vocabulary;
  for (const JsonNode& entry : node.elements()) {
    const std::vector<JsonNode> parts = entry.elements();
    if (parts.size() != 2) entry.fail("is no pair of a token and its score");
    vocabulary.add(parts[0].text(), static_cast<std::uint32_t>(vocabulary.end()));
  }
  return vocabulary;
}

/// A score as Hugging Face's library reads it: its parser computes a number as digits times a power of ten, which rounds once
/// more. Where two divisions have about the same sum, the last bit decides.
double as_read_there(double score) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), std::abs(score), std::chars_format::scientific);
  std::uint64_t digits = 0;
  int exponent = 0;
  bool is_behind_point = false;
  const char* at = text.data();
  for (; at != written.ptr && *at != 'e'; ++at) {
    if (*at == '.') {
      is_behind_point = true;
      continue;
    }
    digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
    if (is_behind_point) --exponent;
  }
  if (at == written.ptr) return score;  // infinite
  int power = 0;
  std::from_chars(at[1] == '+' ? at + 2 : at + 1, written.ptr, power);
  exponent += power;
  const double power_of_ten = std::pow(10.0, std::abs(exponent));
  const auto rounded = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? rounded / power_of_ten : rounded * power_of_ten, score);
}

/// The best way to the end of a part of the piece.
struct Way {
  double score = 0.0;
  std::size_t begin = 0;  ///< of its last token
  std::uint32_t token = 0;
  bool is_there = false;
};

class Unigram final : public TokenModel {
 public:
  explicit Unigram(const JsonNode& node)
      : TokenModel(vocabulary_of(node.at("vocab"))), falls_back_to_bytes_(node.boolean_or("byte_fallback", false)) {
    for (const JsonNode& entry : node.at("vocab").elements()) {
      scores_.push_back(as_read_there(entry.elements()[1].real()));
      lowest_ = std::min(lowest_, scores_.back());
    }
    if (const auto unknown = node.find("unk_id")) {
      unknown_ = unknown->number();
      if (*unknown_ >= scores_.size()) unknown->fail("is not in the vocabulary");
    }
  }

  void append_tokens(std::string_view piece, std::vector<std::int64_t>& tokens) const override {
    const std::vector<Way> ways = best_ways(piece);
    std::vector<std::pair<std::size_t, std::size_t>> parts;  // from the last to the first
    bool is_after_unknown = false;
    for (std::size_t end = piece.size(); end > 0;) {
      const Way& way = ways[end];
      const bool is_unknown = unknown_ && way.token == *unknown_;
      // Neighbours that are unknown are one part.
      if (is_unknown && is_after_unknown) {
        parts.back().first = way.begin;
      } else {
        parts.emplace_back(way.begin, end);
      }
      is_after_unknown = is_unknown;
      end = way.begin;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      append_part(piece.substr(part->first, part->second - part->first), tokens);
    }
  }

 private:
  std::vector<Way> best_ways(std::string_view piece) const {
    constexpr double kPenalty = 10.0;
    std::vector<Way> ways(piece.size() + 1);
    const auto offer = [&](std::size_t begin, std::size_t length, double score, std::uint32_t token) {
      Way& way = ways[begin + length];
      if (!way.is_there || score > way.score) way = {score, begin, token, true};
    };
    std::size_t begin = 0;
    for_each_character(piece, [&](char32_t, std::string_view first) {
      const double before = ways[begin].score;
      bool has_single = false;
      const std::size_t longest = std::min(vocabulary().longest(), piece.size() - begin);
      for (std::size_t length = first.size(); length <= longest; ++length) {
        const bool is_whole = begin + length == piece.size() || !is_utf8_continuation(piece[begin + length]);
        const auto token = is_whole ? vocabulary().number_of(piece.substr(begin, length)) : std::nullopt;
        if (!token) continue;
        has_single = has_single || length == first.size();
        offer(begin, length, scores_[*token] + before, *token);
      }
      if (!has_single) offer(begin, first.size(), lowest_ - kPenalty + before, unknown());
      begin += first.size();
    });
    return ways;
  }

  std::uint32_t unknown() const {
    if (!unknown_) throw IoError("/model/unk_id is missing, and a character is not in the vocabulary");
    return *unknown_;
  }

  void append_part(std::string_view part, std::vector<std::int64_t>& tokens) const {
    if (const auto known = vocabulary().number_of(part)) {
      tokens.push_back(*known);
      return;
    }
    if (falls_back_to_bytes_) {
      const std::size_t before = tokens.size();
      for (const char byte : part) {
        const auto token = vocabulary().number_of_byte(static_cast<unsigned char>(byte));
        if (!token) break;
        tokens.push_back(*token);
      }
      if (tokens.size() == before + part.size()) return;
      tokens.resize(before);
    }
    tokens.push_back(unknown());
  }

  bool falls_back_to_bytes_;
  std::vector<double> scores_;
  double lowest_ = std::numeric_limits<double>::infinity();
  std::optional<std::uint32_t> unknown_;
};

}  // namespace

std::unique_ptr<const TokenModel> read_unigram(const JsonNode& node) { return std::make_unique<Unigram>(node); }

}  // namespace levin::detail
