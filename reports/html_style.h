// The style sheet of the HTML report: light, dark and paper from one set of variables.
#pragma once

namespace spillway {

extern const char* const html_style;

}  // namespace spillway
