
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <tuple>

#include "levin/core/console/terminal.h"

using namespace levin;

TEST_CASE("a line has tqdm's shape and its bar fills the room that is left") {
  ProgressLine line;
  line.description = "Epoch 3";
  line.current = 45;
  line.total = 100;
  line.elapsed_seconds = 2.47;
  line.rate = 18.2;
  line.details = {{"v_num", "0"}};
  line.metrics = {{"train_loss", "0.123"}};
  CHECK(progress_line(line, 80, true) == "Epoch 3:  45%|██▋   | 45/100 [00:02<00:03, 18.20it/s, v_num=0, train_loss=0.123]");
  CHECK(progress_line(line, 80, false) == "Epoch 3:  45%|##7   | 45/100 [00:02<00:03, 18.20it/s, v_num=0, train_loss=0.123]");
}

TEST_CASE("on a narrow terminal the bar shrinks, then times and rates go, and metrics last") {
  ProgressLine line;
  line.description = "Epoch 12";
  line.current = 45;
  line.total = 100;
  line.elapsed_seconds = 2.47;
  line.rate = 18.2;
  line.samples_rate = 582;
  line.details = {{"v_num", "3"}};
  const ProgressLine::Figures two = {{"train_loss", "0.123"}, {"val_acc", "0.912"}};
  const ProgressLine::Figures four = {{"lr", "0.001"}, {"train_loss", "0.123"}, {"val_acc", "0.912"}, {"val_loss", "0.234"}};
  using Case = std::tuple<int, const ProgressLine::Figures*, const char*>;
  for (const auto& [width, metrics, text] :
       {Case{120, &two,
             "Epoch 12:  45%|######7        | 45/100 [00:02<00:03, 18.20it/s, 582 samples/s, v_num=3, train_loss=0.123, "
             "val_acc=0.912]"},
        Case{100, &two, "Epoch 12:  45%|#8  | 45/100 [00:02<00:03, 18.20it/s, 582 samples/s, train_loss=0.123, val_acc=0.912]"},
        Case{80, &two, "Epoch 12:  45%|####5     | 45/100 [00:02<00:03, train_loss=0.123, val_acc=0.912]"},
        Case{60, &two, "Epoch 12:  45%|#3 | 45/100 [train_loss=0.123, val_acc=0.912]"},
        Case{40, &two, "Epoch 12:  45% [train_loss=0.123, ...]"}, Case{24, &two, "Epoch 12:  45% [...]"},
        Case{12, &two, "Epoch 12:  4"},
        Case{120, &four,
             "Epoch 12:  45%|#####8       | 45/100 [00:02<00:03, 18.20it/s, lr=0.001, train_loss=0.123, val_acc=0.912, "
             "val_loss=0.234]"},
        Case{80, &four, "Epoch 12:  45% [lr=0.001, train_loss=0.123, val_acc=0.912, val_loss=0.234]"},
        Case{60, &four, "Epoch 12:  45% [lr=0.001, train_loss=0.123, ...]"},
        Case{40, &four, "Epoch 12:  45% [lr=0.001, ...]"}}) {
    line.metrics = *metrics;
    CAPTURE(width, metrics->size());
    CHECK(progress_line(line, width, false) == text);
  }
  CHECK(progress_line(line, 40, true) == "Epoch 12:  45% [lr=0.001, …]");
  line.total.reset();
  CHECK(progress_line(line, 40, false) == "Epoch 12: 45/? [lr=0.001, ...]");
}

TEST_CASE("the rate is the mean rate when none is given, and '?' before the first iteration") {
  ProgressLine line;
  line.description = "Validation";
  line.total = 7;
  CHECK(progress_line(line, 60, true) == "Validation:   0%|                     | 0/7 [00:00<?, ?it/s]");
  line.current = 7;
  line.elapsed_seconds = 3725.9;
  CHECK(progress_line(line, 60, true) == "Validation: 100%|███████████| 7/7 [1:02:05<00:00,  0.00it/s]");
  line.description.clear();
  line.current = 1;
  line.total = 3;
  line.elapsed_seconds = 2.0;
  CHECK(progress_line(line, 50, true) == " 33%|█████          | 1/3 [00:02<00:04,  0.50it/s]");
}

TEST_CASE("an unknown total, and one that turned out too small, shows '?'") {
  ProgressLine line;
  line.description = "Epoch 0";
  line.current = 5;
  line.elapsed_seconds = 2.0;
  CHECK(progress_line(line, 46, true) == "Epoch 0: |          | 5/? [00:02<?,  2.50it/s]");
  line.total = 3;
  CHECK(progress_line(line, 46, true) == "Epoch 0: |          | 5/? [00:02<?,  2.50it/s]");
}

TEST_CASE("text that would move the cursor does not") {
  ProgressLine line;
  line.description = "a\nb\033[2J";
  line.metrics = {{"k\t", "v\r"}};
  const std::string text = progress_line(line, 200, true);
  CHECK(text.find_first_of("\n\r\t\033") == std::string::npos);
  CHECK(text.find("a b\\x1b[2J: ") == 0);
}

TEST_CASE("a bar is filled cell by cell, and within a cell by its parts") {
  using Case = std::tuple<double, int, const char*, const char*>;
  for (const auto& [fraction, width, utf8, ascii] :
       {Case{0, 5, "     ", "     "}, Case{0.5, 5, "██▌  ", "##5  "}, Case{0.33, 7, "██▎    ", "##3    "},
        Case{0.999, 4, "███▉", "###9"}, Case{1, 4, "████", "####"}, Case{0.07, 10, "▋         ", "7         "},
        Case{-1, 2, "  ", "  "}, Case{7, 2, "██", "##"}, Case{std::nan(""), 2, "  ", "  "}, Case{1, -3, "", ""}}) {
    CAPTURE(fraction, width);
    CHECK(progress_bar(fraction, width, true) == utf8);
    CHECK(progress_bar(fraction, width, false) == ascii);
  }
}

TEST_CASE("figures are those of Lightning's progress bar") {
  using Case = std::pair<double, const char*>;
  for (const auto& [value, text] :
       {Case{0.0, "0.000"},         Case{1.0, "1.000"},      Case{0.123, "0.123"},   Case{0.123456, "0.123"},
        Case{12.5, "12.50"},        Case{123.456, "123.0"},  Case{1234.5, "1234.5"}, Case{12345.678, "1.23e+4"},
        Case{1e-05, "1e-5"},        Case{1.5e-05, "1.5e-5"}, Case{100000.0, "1e+5"}, Case{120000.0, "1.2e+5"},
        Case{1234567.0, "1.23e+6"}, Case{0.0001, "0.0001"},  Case{1e+22, "1e+22"},   Case{-0.5, "-0.50"},
        Case{-1e-10, "-1e-10"},     Case{99.95, "100.0"},    Case{0.99999, "1.000"}, Case{12345678.9, "1.23e+7"},
        Case{3.0, "3.000"},         Case{100.0, "100.0"},    Case{1e-300, "1e-300"}}) {
    CHECK(figure_text(value) == text);
  }
  CHECK(figure_text(std::nan("")) == "nan");
  CHECK(figure_text(-std::numeric_limits<double>::infinity()) == "-inf");
}

TEST_CASE("samples a second have three digits and a unit") {
  using Case = std::pair<double, const char*>;
  for (const auto& [rate, text] :
       {Case{0, "0.0 samples/s"}, Case{7.46, "7.5 samples/s"}, Case{58.24, "58.2 samples/s"}, Case{99.96, "100 samples/s"},
        Case{582.4, "582 samples/s"}, Case{999.6, "1.00k samples/s"}, Case{29140, "29.1k samples/s"},
        Case{1.2e6, "1.20M samples/s"}, Case{3e17, "300000T samples/s"}, Case{std::nan(""), "? samples/s"},
        Case{-1, "? samples/s"}}) {
    CHECK(samples_rate_text(rate) == text);
  }
}

TEST_CASE("durations count hours without end") {
  CHECK(duration_text(0) == "00:00");
  CHECK(duration_text(59.99) == "00:59");
  CHECK(duration_text(3599) == "59:59");
  CHECK(duration_text(360000) == "100:00:00");
  CHECK(duration_text(-1) == "?");
  CHECK(duration_text(std::numeric_limits<double>::infinity()) == "?");
}

TEST_CASE("no line is wider than asked, whatever it holds") {
  REQUIRE(rc::check([](const std::string& description, std::int64_t current, std::int64_t total, double elapsed, double rate,
                       double samples_rate, const std::map<std::string, std::string>& metrics, bool utf8) {
    ProgressLine line{description, current, total, elapsed, rate, samples_rate, {}, {metrics.begin(), metrics.end()}};
    const int width = *rc::gen::inRange(0, 250);
    RC_ASSERT(display_width(progress_line(line, width, utf8)) <= static_cast<std::size_t>(width));
  }));
}
