// Shapes to text.
#include "reports/svg.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "harness/error.h"
#include "reports/text.h"

namespace spillway {

namespace {

std::string attribute(std::string_view name, double value) {
  return std::string(" ") + std::string(name) + "=\"" + coordinate(value) + "\"";
}

std::string class_attribute(std::string_view style_class) {
  return " class=\"" + html_escape(style_class) + "\"";
}

// The end of an element that may carry a tooltip.
std::string closed(std::string_view element, std::string_view title) {
  if (title.empty()) return "/>\n";
  return "><title>" + html_escape(title) + "</title></" + std::string(element) + ">\n";
}

}  // namespace

std::string coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  char buffer[64];
  const double rounded = std::round(value * 100) / 100 + 0.0;  // + 0.0: no "-0"
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, rounded);
  return std::string(buffer, end.ptr);
}

Svg::Svg(double width, double height, std::string_view description) {
  body_ = "<svg viewBox=\"0 0 " + coordinate(width) + " " + coordinate(height) +
          "\" role=\"img\" aria-label=\"" + html_escape(description) + "\">\n";
}

void Svg::rect(const Box& box, std::string_view style_class, std::string_view title) {
  body_ += "<rect" + attribute("x", box.x) + attribute("y", box.y) +
           attribute("width", std::max(0.0, box.width)) +
           attribute("height", std::max(0.0, box.height)) + class_attribute(style_class) +
           closed("rect", title);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style_class) {
  body_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) +
           attribute("y2", y2) + class_attribute(style_class) + "/>\n";
}

void Svg::text(double x, double y, std::string_view style_class, std::string_view text,
               std::string_view title) {
  body_ += "<text" + attribute("x", x) + attribute("y", y) + class_attribute(style_class) + ">" +
           html_escape(text);
  if (!title.empty()) body_ += "<title>" + html_escape(title) + "</title>";
  body_ += "</text>\n";
}

void Svg::polygon(const std::vector<std::pair<double, double>>& points,
                  std::string_view style_class, std::string_view title) {
  body_ += "<polygon points=\"";
  for (const auto& [x, y] : points)
    body_ += coordinate(x) + "," + coordinate(y) + " ";
  body_ += "\"" + class_attribute(style_class) + closed("polygon", title);
}

std::string Svg::str() const { return body_ + "</svg>\n"; }

double text_width(std::string_view text, double font_size) {
  return 0.58 * font_size * static_cast<double>(characters(text));
}

double nice_step(double extent, int count) {
  check(extent > 0 && count > 0, "a scale needs an extent above 0, not ", extent);
  const double rough = extent / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

}  // namespace spillway
