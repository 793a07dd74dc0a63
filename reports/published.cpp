// CSV by fast-cpp-csv-parser, with what it does not do done here: line breaks inside quotes are
// hidden from it, fields are read as text (its number parser takes an empty cell for 0).
#include "reports/published.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

// The parser cuts long file names on purpose.
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wstringop-truncation"
#endif
#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>
#pragma GCC diagnostic pop

#include "harness/embedded.h"
#include "harness/error.h"

namespace spillway {

namespace {

constexpr const char* column_list =
    "id,workload,label,tflops_per_s_per_device,peak_hbm_gib,outcome,source,note";

// Stands for a line break inside quotes while the parser, which splits at every line end, sees the
// text. ASCII's own "unit separator"; a text that contains it already is refused.
constexpr char hidden_break = '\x1f';

[[noreturn]] void refuse(std::string_view file, int64_t line, const std::string& what) {
  throw InputError(text(file, ":", line, ": ", what));
}

struct Unfolded {
  std::string text;                 // one record a line, each ended by '\n'
  std::vector<int64_t> first_line;  // of each line of `text`, in the file; counted from 1
};

// Walks over the quotes of a CSV text: what is inside, where a record ends, what is not legal.
class Unfolder {
 public:
  Unfolder(std::string_view file, std::string_view csv) : file_(file), csv_(csv) {}

  Unfolded run() {
    out_.first_line.push_back(1);
    for (position_ = 0; position_ < csv_.size(); ++position_)
      take(csv_[position_]);
    if (quoted_) refuse(file_, quote_line_, "found a quote that is never closed, expected '\"'");
    if (!out_.text.empty() && out_.text.back() != '\n') out_.text += '\n';
    return std::move(out_);
  }

 private:
  void take(char c) {
    if (c == hidden_break || c == '\0')
      refuse(file_, line_, "found a control character, expected text");
    const bool line_end = c == '\n';
    if (quoted_)
      inside(c);
    else
      outside(c);
    if (!line_end) return;
    ++line_;
    if (!quoted_) out_.first_line.push_back(line_);
  }

  void inside(char c) {
    const bool doubled = c == '"' && position_ + 1 < csv_.size() && csv_[position_ + 1] == '"';
    if (doubled) {
      out_.text += "\"\"";
      ++position_;
      return;
    }
    if (c == '"') {
      quoted_ = false;
      closed_ = true;
    }
    if (c == '\r' && position_ + 1 < csv_.size() && csv_[position_ + 1] == '\n') return;
    out_.text += c == '\n' ? hidden_break : c;
  }

  void outside(char c) {
    const bool ends_field = c == ',' || c == '\n' || c == '\r';
    if (closed_ && !ends_field)
      refuse(file_, line_, "found text after a closing quote, expected ',' or the line's end");
    if (c == '"') {
      if (!field_empty_)
        refuse(file_, line_, "found '\"' inside a field, expected the whole field in quotes");
      quoted_ = true;
      quote_line_ = line_;
    }
    if (ends_field) closed_ = false;
    field_empty_ = ends_field;
    out_.text += c;
  }

  std::string_view file_, csv_;
  Unfolded out_;
  size_t position_ = 0;
  int64_t line_ = 1, quote_line_ = 1;
  bool quoted_ = false, closed_ = false, field_empty_ = true;
};

std::string restored(const char* field) {
  std::string value = field;
  std::replace(value.begin(), value.end(), hidden_break, '\n');
  return value;
}

// "2,669.5" with commas between groups of three -> "2669.5"; anything else as it is.
std::string without_grouping(const std::string& number) {
  const size_t end = std::min(number.find('.'), number.size());
  const size_t begin = !number.empty() && number[0] == '-' ? 1 : 0;
  const size_t lead = number.find(',');
  if (lead >= end || lead == begin || lead - begin > 3) return number;
  std::string plain = number.substr(0, lead);
  for (size_t i = lead; i < end; i += 4) {
    const bool group = number[i] == ',' && i + 4 <= end &&
                       std::all_of(&number[i + 1], &number[i + 1] + 3,
                                   [](char c) { return c >= '0' && c <= '9'; });
    if (!group) return number;
    plain += number.substr(i + 1, 3);
  }
  return plain + number.substr(end);
}

// Empty where nothing was published. NaN and infinities are returned as such.
std::optional<double> number(std::string_view file, int64_t line, const char* column,
                             const std::string& field) {
  if (field.empty()) return std::nullopt;
  const std::string plain = without_grouping(field);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc() || end != plain.data() + plain.size())
    refuse(file, line, text(column, ": found '", field, "', expected a number or nothing"));
  return value;
}

void check_outcome(std::string_view file, int64_t line, const std::string& outcome) {
  for (const char* known : {"", "ok", "oom", "failed", "invalid"})
    if (outcome == known) return;
  refuse(file, line,
         text("outcome: found '", outcome, "', expected ok, oom, failed, invalid or nothing"));
}

void drop_if_not_finite(Published& row, std::optional<double>& figure) {
  if (!figure || std::isfinite(*figure)) return;
  figure.reset();
  if (row.outcome == "ok") row.outcome = "invalid";
}

using Reader = io::CSVReader<8, io::trim_chars<' ', '\t'>, io::double_quote_escape<',', '"'>,
                             io::throw_on_overflow, io::empty_line_comment>;

// False at the end of the text.
bool read_row(Reader& reader, std::string_view file, const Unfolded& csv, Published& row) {
  const char *id = "", *workload = "", *label = "", *tflops = "", *peak = "", *outcome = "",
             *source = "", *note = "";
  if (!reader.read_row(id, workload, label, tflops, peak, outcome, source, note)) return false;
  const int64_t line = csv.first_line.at(reader.get_file_line() - 1);
  row.id = restored(id);
  row.workload = restored(workload);
  row.label = restored(label);
  row.outcome = restored(outcome);
  row.source = restored(source);
  row.note = restored(note);
  if (row.id.empty()) refuse(file, line, "id: found nothing, expected a name");
  check_outcome(file, line, row.outcome);
  row.tflops_per_s_per_device = number(file, line, "tflops_per_s_per_device", tflops);
  row.peak_hbm_gib = number(file, line, "peak_hbm_gib", peak);
  drop_if_not_finite(row, row.tflops_per_s_per_device);
  drop_if_not_finite(row, row.peak_hbm_gib);
  return true;
}

std::vector<Published> read_all(std::string_view file, const Unfolded& csv) {
  Reader reader(std::string(file), csv.text.data(), csv.text.data() + csv.text.size());
  std::vector<Published> rows;
  try {
    reader.read_header(io::ignore_no_column, "id", "workload", "label", "tflops_per_s_per_device",
                       "peak_hbm_gib", "outcome", "source", "note");
    for (Published row; read_row(reader, file, csv, row); row = {})
      rows.push_back(row);
  } catch (const io::error::base& error) {
    error.format_error_message();
    const size_t record = reader.get_file_line() > 0 ? reader.get_file_line() - 1 : 0;
    refuse(file, csv.first_line.at(record),
           text(error.what(), " Expected the columns ", column_list));
  }
  return rows;
}

void check_ids(std::string_view file, const std::vector<Published>& rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (rows[i].id == rows[j].id)
        throw InputError(text(file, ": id '", rows[i].id, "' found twice, expected once"));
}

}  // namespace

std::vector<Published> parse_published(std::string_view file, std::string_view csv) {
  if (csv.substr(0, 3) == "\xEF\xBB\xBF") csv.remove_prefix(3);
  const std::vector<Published> rows = read_all(file, Unfolder(file, csv).run());
  check_ids(file, rows);
  return rows;
}

const std::vector<Published>& published_results() {
  static const std::vector<Published> results = [] {
    std::vector<Published> all;
    for (const EmbeddedFile& file : embedded_published())
      for (Published& row : parse_published(file.name, file.text))
        all.push_back(std::move(row));
    check_ids("reports/published", all);
    return all;
  }();
  return results;
}

const Published& find_published(std::string_view id) {
  std::string known;
  for (const Published& row : published_results()) {
    if (row.id == id) return row;
    known += (known.empty() ? "" : ", ") + row.id;
  }
  throw InputError(text("published: found '", id, "', expected one of ", known));
}

}  // namespace spillway
