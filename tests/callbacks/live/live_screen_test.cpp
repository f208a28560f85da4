// What the live terminal shows, without a terminal.
#include "levin/callbacks/live/live_screen.h"

#include <catch2/catch.hpp>
#include <regex>

#include "callbacks/live/sample_curve.h"

using namespace levin;
using namespace levin::test;

namespace {

LiveState a_run() {
  LiveState state{.line = {.description = "Epoch 3", .current = 45, .total = 100, .elapsed_seconds = 10, .rate = 4.5}};
  state.curve = falling_loss();
  state.curve_number = 1;
  state.curves = 2;
  state.ranks = {{0, 0.82, 312'000'000, 0}, {1, 0.999, 1'210'000'000, 2'000'000'000}};
  state.checkpoint = "in 54 steps";
  state.last = "epoch=2-step=300.ckpt";
  state.best = "val_loss=0.500";
  return state;
}

std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string without_colors(const std::string& text) { return std::regex_replace(text, std::regex("\033\\[[0-9;]*m"), ""); }

}  // namespace

TEST_CASE("the screen fits every terminal, in each style, and has room for the bar alone in a small one") {
  const auto columns = GENERATE(200, 120, 100, 80, 79, 40, 3, 1);
  const auto rows = GENERATE(60, 40, 24, 16, 15, 1);
  const TextStyle style = GENERATE(kPlainText, kUtf8, kColored, kBraille);
  const std::vector<std::string> lines = live_screen(a_run(), {columns, rows}, style);
  INFO(columns << "x" << rows << "\n" << all(lines));
  const bool is_large = columns >= 80 && rows >= 16;
  // Half of the terminal, but for a small one.
  CHECK(lines.size() == (!is_large ? 1 : rows == 60 ? 30 : rows == 40 ? 20 : rows == 24 ? 12 : 10));
  CHECK(static_cast<int>(lines.size()) < std::max(rows, 2));
  for (const std::string& line : lines) {
    const std::string text = without_colors(line);
    CHECK(display_width(text) <= static_cast<std::size_t>(std::max(columns - 1, 1)));
    CHECK(one_line(text) == text);
    if (!style.color) CHECK(text == line);
    if (!style.utf8) CHECK(std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80; }));
  }
  if (is_large) CHECK(without_colors(all(lines)).find("Epoch 3:  45%|") != std::string::npos);
}

TEST_CASE("the screen has the curve, its values and the figures of ranks and checkpoints") {
  const std::vector<std::string> lines = live_screen(a_run(), {100, 24}, kPlainText);
  INFO(all(lines));
  REQUIRE(lines.size() == 12);
  CHECK(lines[0].starts_with("-- *** train_loss 0.100  ooo val_loss 0.500  ---"));
  CHECK(lines[0].ends_with("--- 1 of 2 --"));
  CHECK(lines[1].starts_with("   0.991|*"));
  CHECK(lines[9].starts_with("   0.100|"));
  CHECK(lines[9].find('*') != std::string::npos);
  CHECK(lines[1].ends_with("  speed      4.50 it/s"));
  CHECK(lines[2].ends_with("  rank 0     ######5 | 82% work 18% wait 312 MB"));
  CHECK(lines[3].ends_with("  rank 1     #######9|100% work  0% wait 1.21 GB"));
  CHECK(lines[4].ends_with("  checkpoint in 54 steps"));
  CHECK(lines[5].ends_with("             epoch=2-step=300.ckpt"));
  CHECK(lines[6].ends_with("  best       val_loss=0.500"));
  CHECK(lines[10].starts_with("Epoch 3:  45%|"));
  CHECK(lines[11].starts_with(" p pause   s save"));
  CHECK(all(live_screen(a_run(), {100, 24}, kColored)).find("\033[36m") != std::string::npos);
}

TEST_CASE("of more ranks than there is room for those are shown that others wait for") {
  LiveState state = a_run();
  state.ranks.clear();
  for (int rank = 0; rank < 8; ++rank) state.ranks.push_back({rank, rank == 5 ? 1.0 : 0.1, 0, 0});
  const std::vector<std::string> lines = live_screen(state, {120, 20}, kPlainText);
  INFO(all(lines));
  CHECK(lines[2].find("rank 5     ########|100% work  0% wait") != std::string::npos);
  CHECK(lines[4].find("6 more ranks, which wait longer") != std::string::npos);
  CHECK(lines[5].find("checkpoint") != std::string::npos);
}

TEST_CASE("commands are on the screen, and so is what keys do, unless nobody can press one") {
  LiveState state = a_run();
  state.status = "PAUSED";
  state.pauses = true;
  CHECK(live_screen(state, {120, 24}, kPlainText).back().starts_with(" PAUSED   p resume   s save"));
  state.stops_after_epoch = true;
  CHECK(live_screen(state, {120, 24}, kPlainText).back().find("q keep training") != std::string::npos);
  // In 80 columns there is room for all keys, in fewer words.
  CHECK(live_screen(a_run(), {80, 24}, kPlainText).back() == " p pause   s save   v validate   q stop   m metric   l log   ?");
  CHECK(live_screen(a_run(), {100, 24}, kPlainText).back() ==
        " p pause   s save   v validate   q stop after this epoch   m next metric   l log axis   ? help");
  state.has_keys = false;
  CHECK(live_screen(state, {120, 24}, kPlainText).back() == " PAUSED");
  state.shows_help = true;
  const std::string help = all(live_screen(state, {80, 24}, kPlainText));
  CHECK(help.find("q  stop after this epoch; again: do not") != std::string::npos);
  CHECK(help.find("speed") == std::string::npos);
}

TEST_CASE("by default a curve has block characters only, and Braille dots where they are wanted") {
  const auto has_braille = [](const std::string& text) { return std::regex_search(text, std::regex("\xE2[\xA0-\xA3]")); };
  for (const TextStyle& style : {kUtf8, kColored}) {
    const std::string text = all(live_screen(a_run(), {100, 24}, style));
    CHECK_FALSE(has_braille(text));
    CHECK(text.find("▀") != std::string::npos);
    CHECK(text.find("▄") != std::string::npos);
  }
  CHECK(has_braille(all(live_screen(a_run(), {100, 24}, kBraille))));
}

TEST_CASE("the curve takes half of the terminal, from its highest to its lowest value") {
  const std::vector<std::string> lines = live_screen(a_run(), {120, 60}, kPlainText);
  REQUIRE(lines.size() == 30);
  CHECK(lines[1].starts_with("   0.991|*"));
  CHECK(lines[27].starts_with("   0.100|"));
  // A line that falls all the time has a star in each.
  for (std::size_t row = 1; row <= 27; ++row) CHECK(lines[row].find('*') != std::string::npos);
}

TEST_CASE("the screen has the epoch among all, and the time until the run ends, where limits are known") {
  LiveState state = a_run();
  state.epoch = 14;
  state.epochs = 60;
  state.seconds_left = 3723;
  const std::vector<std::string> lines = live_screen(state, {100, 24}, kPlainText);
  INFO(all(lines));
  CHECK(lines[10].starts_with("Epoch 14 of 60:  45%|"));
  CHECK(lines[2].ends_with("  run        1:02:03 left"));
  CHECK(all(live_screen(a_run(), {100, 24}, kPlainText)).find(" left") == std::string::npos);
}

TEST_CASE("a logarithmic axis has equal heights for equal factors, and says what it leaves out") {
  Curve curve{.title = "loss", .training = {.name = "loss", .points = {{0, 1}, {10, 10}, {20, 100}, {30, 1000}}}};
  const auto row_of = [&](Axis axis, std::size_t column) {
    const std::vector<StyledLine> lines = draw(curve, 40, 10, kPlainText, axis);
    for (std::size_t row = 0; row < lines.size(); ++row) {
      const std::string text = text_of(lines[row], 40, false);
      if (text.size() > 9 + column && text[9 + column] == '*') return static_cast<int>(row);
    }
    return -1;
  };
  CHECK(row_of(Axis::kLinear, 0) == 9);
  CHECK(row_of(Axis::kLinear, 10) == 9);
  CHECK(row_of(Axis::kLinear, 20) == 8);
  CHECK(row_of(Axis::kLinear, 30) == 0);
  for (std::size_t tens = 0; tens <= 3; ++tens) CHECK(row_of(Axis::kLog, 10 * tens) == 9 - 3 * static_cast<int>(tens));

  LiveState state = a_run();
  state.axis = Axis::kLog;
  CHECK(live_screen(state, {120, 24}, kPlainText)[0].ends_with(" log axis, 1 of 2 --"));
  CHECK(live_screen(state, {120, 24}, kPlainText).back().find("l linear axis") != std::string::npos);
  state.curve.validation.points = {{50, 0}, {60, -1}, {100, 0.5}};
  CHECK(values_not_above_zero(state.curve) == 2);
  CHECK(live_screen(state, {120, 24}, kPlainText)[0].ends_with(" log axis, without 2 values <= 0, 1 of 2 --"));
  state.curve = {.title = "r2", .training = {.name = "r2", .points = {{1, -2}, {2, -1}}}};
  CHECK(all(live_screen(state, {120, 24}, kPlainText)).find("no value above 0, which a logarithmic axis needs") !=
        std::string::npos);
  state.axis = Axis::kLinear;
  CHECK(live_screen(state, {120, 24}, kPlainText).back().find("l log axis") != std::string::npos);
}
