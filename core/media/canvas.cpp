#include "levin/core/media/canvas.h"

#include <agg_conv_stroke.h>
#include <agg_conv_transform.h>
#include <agg_gsv_text.h>
#include <agg_path_storage.h>
#include <agg_pixfmt_rgb.h>
#include <agg_rasterizer_scanline_aa.h>
#include <agg_renderer_scanline.h>
#include <agg_rendering_buffer.h>
#include <agg_scanline_u.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace levin {
namespace {

constexpr int kChannels = 3;

/// One "?" for each letter that AGG does not have.
std::string plain_letters(std::string_view text) {
  std::string letters;
  for (const char one : text) {
    const auto byte = static_cast<unsigned char>(one);
    if ((byte & 0xC0U) == 0x80) continue;  // a letter's second byte, and those after it
    letters += byte >= 0x20 && byte < 0x7f ? one : '?';
  }
  return letters;
}

void set_text(agg::gsv_text& shape, const std::string& letters, double height) {
  shape.size(height);
  shape.text(letters.c_str());
}

}  // namespace

Canvas::Canvas(int width, int height)
    : width_(width),
      height_(height),
      pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * kChannels, 255) {}

template <class Shape>
void Canvas::paint(Shape& shape, Color color) {
  agg::rendering_buffer buffer(pixels_.data(), static_cast<unsigned>(width_), static_cast<unsigned>(height_),
                               width_ * kChannels);
  agg::pixfmt_rgb24 format(buffer);
  agg::renderer_base<agg::pixfmt_rgb24> renderer(format);
  agg::rasterizer_scanline_aa<> rasterizer;
  rasterizer.clip_box(0, 0, width_, height_);
  rasterizer.add_path(shape);
  agg::scanline_u8 scanline;
  agg::render_scanlines_aa_solid(rasterizer, scanline, renderer, agg::rgba8(color.red, color.green, color.blue));
}

void Canvas::fill(Point upper_left, Point lower_right, Color color) {
  const auto pixel = [](double place, int end) { return std::clamp(static_cast<int>(std::lround(place)), 0, end); };
  const int left = pixel(upper_left.x, width_);
  const int right = pixel(lower_right.x, width_);
  for (int y = pixel(upper_left.y, height_); y < pixel(lower_right.y, height_); ++y) {
    for (int x = left; x < right; ++x) {
      std::uint8_t* const at = &pixels_[static_cast<std::size_t>(y * width_ + x) * kChannels];
      at[0] = color.red;
      at[1] = color.green;
      at[2] = color.blue;
    }
  }
}

void Canvas::line(std::span<const Point> points, double width, Color color) {
  // The rasterizer leaves out what is beyond its memory, so a long line comes in parts that share a point.
  constexpr std::size_t kPart = 2000;
  for (std::size_t from = 0; from < points.size(); from += kPart) {
    const std::span<const Point> part = points.subspan(from, std::min(kPart + 1, points.size() - from));
    agg::path_storage path;
    path.move_to(part.front().x, part.front().y);
    for (const Point& point : part.subspan(1)) path.line_to(point.x, point.y);
    agg::conv_stroke<agg::path_storage> stroke(path);
    stroke.width(width);
    stroke.line_join(agg::round_join);
    stroke.line_cap(agg::round_cap);
    paint(stroke, color);
  }
}

void Canvas::text(std::string_view text, Point at, const TextStyle& style) {
  const std::string letters = plain_letters(text);
  const double width = text_width(text, style.height);
  const double shift = style.across == Align::kAfter ? 0 : style.across == Align::kCentre ? width / 2 : width;
  agg::gsv_text shape;
  set_text(shape, letters, style.height);
  // AGG's letters stand on their heads here, where y grows downwards.
  agg::trans_affine place = agg::trans_affine_translation(-shift, -style.height / 2) * agg::trans_affine_scaling(1, -1);
  if (style.upwards) place *= agg::trans_affine_rotation(-agg::pi / 2);
  place *= agg::trans_affine_translation(at.x, at.y);
  agg::conv_transform<agg::gsv_text> placed(shape, place);
  agg::conv_stroke<agg::conv_transform<agg::gsv_text>> stroke(placed);
  stroke.width(style.height / 10);
  stroke.line_cap(agg::round_cap);
  paint(stroke, style.color);
}

double Canvas::text_width(std::string_view text, double height) {
  agg::gsv_text shape;
  set_text(shape, plain_letters(text), height);
  return shape.text_width();
}

}  // namespace levin
