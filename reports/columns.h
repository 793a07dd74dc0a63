// One table of columns serves Markdown, CSV and HTML. A new column is one line in columns.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/figures.h"

namespace spillway {

// Where a column is shown. CSV has all of them.
enum class View : uint8_t {
  rates,  // the first table: speed, and how it compares
  costs,  // the second: memory, traffic, exposed time
  csv,
};

enum class Print : uint8_t {
  fixed,        // `digits` after the point
  significant,  // at least `digits` significant digits
  with_sign,    // `digits` after the point, a plus sign where positive
};

// A column is one field of the result times a factor, or a figure, or a text that a function makes.
struct Column {
  View view = View::csv;
  const char* key = "";    // header in CSV, unit included
  const char* title = "";  // heading of a printed table
  const char* unit = "";
  const char* path = nullptr;  // figure_at()
  double factor = 1;
  Number (*figure)(const Row&, const Group&) = nullptr;
  std::string (*text)(const Row&, const Group&) = nullptr;
  Print print = Print::fixed;
  int digits = 0;
};

std::span<const Column> columns();
// Empty for a column of texts.
Number figure_of(const Column& column, const Row& row, const Group& group);
// Printed for people; blank where there is nothing.
std::string cell(const Column& column, const Row& row, const Group& group);
// The columns of a view in which at least one row of the group has something.
std::vector<const Column*> columns_of(View view, const Group& group);

// Status for people: an `ok` row that was not compared is "ok, unchecked" (where values exist to
// compare), one without a finite rate "ok, invalid".
std::string status_of(const Row& row);

}  // namespace spillway
