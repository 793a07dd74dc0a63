// Inline SVG, a shape a call. Colours and fonts are CSS classes (html_style.cpp), so that one
// picture serves light, dark and paper. Knows no rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

// Coordinates are user units of the view box; the picture scales to the width of its container.
// Texts are escaped here. `title` becomes a tooltip; empty: none.
class Svg {
 public:
  // `description` is read out instead of the picture.
  Svg(double width, double height, std::string_view description);
  void rect(const Box& box, std::string_view style_class, std::string_view title = "");
  void line(double x1, double y1, double x2, double y2, std::string_view style_class);
  // Anchored at its start unless the class says otherwise (`end`, `mid`).
  void text(double x, double y, std::string_view style_class, std::string_view text,
            std::string_view title = "");
  void polygon(const std::vector<std::pair<double, double>>& points, std::string_view style_class,
               std::string_view title = "");
  std::string str() const;

 private:
  std::string body_;
};

// A coordinate with at most two digits after the point, shortest form.
std::string coordinate(double value);

// Estimated width of a text in a proportional sans-serif font; errs on the wide side.
double text_width(std::string_view text, double font_size);

// A round step (1, 2, 2.5 or 5 times a power of ten) so that about `count` of them cover `extent`.
double nice_step(double extent, int count);

}  // namespace spillway
