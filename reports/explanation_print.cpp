// An explanation as Markdown, HTML and JSON, from the same tables.
#include <cmath>

#include "harness/error.h"
#include "reports/explanation.h"
#include "reports/html_page.h"
#include "reports/markdown_table.h"

namespace spillway {

namespace {

// Texts not escaped yet.
struct TitledTable {
  std::string title, about;
  MarkdownTable cells;
};

std::string list_of_parts(const ExplainedItem& item) {
  constexpr size_t most_parts = 4;
  std::string list;
  for (size_t i = 0; i < std::min(item.parts.size(), most_parts); ++i)
    list += text(list.empty() ? "" : ", ", item.parts[i].name, " ",
                 with_sign(item.parts[i].change(), 4));
  return list + (item.parts.size() > most_parts ? ", ..." : "");
}

TitledTable items_table(const Explanation& explanation) {
  TitledTable table{"From one step time to the other",
                    "Every second of both steps is under one cause, so the changes add up.",
                    {{{"cause", "A, s", "B, s", "change, s", "where", "what it is"}},
                     {false, true, true, true, false, false}}};
  for (const ExplainedItem& item : explanation.items)
    table.cells.rows.push_back({item.name, fixed(item.a, 4), fixed(item.b, 4),
                                with_sign(item.change(), 4), list_of_parts(item), item.meaning});
  table.cells.rows.push_back({"step", fixed(explanation.a.step_seconds, 4),
                              fixed(explanation.b.step_seconds, 4),
                              with_sign(explanation.change(), 4), "", ""});
  if (const Number published = explanation.published_change())
    table.cells.rows.push_back({"published", fixed(explanation.a.published_step_seconds, 4),
                                fixed(explanation.b.published_step_seconds, 4),
                                with_sign(published, 4), "", "FLOPs counted over published rates"});
  return table;
}

std::string amount_text(double value, const std::string& unit) {
  if (unit == "bytes") return (value < 0 ? "-" : "") + byte_size(std::abs(value));
  return text(fixed(value / 1e12, 1), " T", unit);
}

TitledTable traffic_table(const Explanation& explanation) {
  TitledTable table{"What moves and what is computed again, a step",
                    "It has no time of its own: the causes above say what of it shows. Collectives "
                    "by the bytes of the whole buffer.",
                    {{{"amount", "A", "B", "change"}}, {false, true, true, true}}};
  for (const ExplainedTraffic& row : explanation.traffic)
    table.cells.rows.push_back({row.name, amount_text(row.a, row.unit),
                                amount_text(row.b, row.unit),
                                amount_text(row.b - row.a, row.unit)});
  return table;
}

TitledTable memory_table(const Explanation& explanation) {
  TitledTable table{
      "Peak device memory",
      "Of the static plan, by what causes it. The changes add up.",
      {{{"cause", "A", "B", "change", "what it is"}}, {false, true, true, true, false}}};
  const auto row = [&](const std::string& name, double a, double b, const std::string& meaning) {
    table.cells.rows.push_back({name, amount_text(a, "bytes"), amount_text(b, "bytes"),
                                amount_text(b - a, "bytes"), meaning});
  };
  for (const ExplainedMemory& entry : explanation.memory)
    row(entry.name, entry.a, entry.b, entry.meaning);
  row("peak", explanation.peak_a, explanation.peak_b, "");
  return table;
}

TitledTable sides_table(const Explanation& explanation) {
  TitledTable table{"The two",
                    "",
                    {{{"", "label", "step, s", "TFLOPs/s/device", "status", "fitted"}},
                     {false, false, true, true, false, false}}};
  const auto row = [&](const char* name, const ExplainedSide& side) {
    table.cells.rows.push_back({name, side.label, fixed(side.step_seconds, 4),
                                significant(side.tflops_per_s_per_device, 4), side.status,
                                side.fitted.empty() ? "nothing" : side.fitted});
  };
  row("A", explanation.a);
  row("B", explanation.b);
  return table;
}

std::vector<TitledTable> tables_of(const Explanation& explanation) {
  return {sides_table(explanation), items_table(explanation), traffic_table(explanation),
          memory_table(explanation)};
}

std::string heading_of(const Explanation& explanation) {
  return text("From A \u201c", explanation.a.label, "\u201d to B \u201c", explanation.b.label,
              "\u201d");
}

std::string as_markdown(const Explanation& explanation) {
  std::string out = "# " + markdown_escape(heading_of(explanation)) + "\n\n";
  for (const std::string& sentence : sentences_of(explanation))
    out += markdown_escape(sentence) + "\n";
  for (TitledTable& table : tables_of(explanation)) {
    for (std::vector<std::string>& row : table.cells.rows)
      for (std::string& cell : row)
        cell = markdown_escape(cell);
    out += text("\n## ", table.title, "\n\n", table.about, table.about.empty() ? "" : "\n\n",
                print(table.cells));
  }
  return out;
}

std::string as_html(const Explanation& explanation) {
  std::string body;
  for (const std::string& sentence : sentences_of(explanation))
    body += "<p class=\"lead\">" + html_escape(sentence) + "</p>\n";
  body += html_card("Waterfall",
                    "Seconds of a step, largest change first; a bar begins where the one above it "
                    "ended.",
                    html_scrolling(waterfall_chart(explanation)));
  for (const TitledTable& table : tables_of(explanation))
    body += html_card(table.title, table.about, html_table(table.cells));
  return html_page("Spillway explanation", heading_of(explanation), body,
                   "Made by spillway from two simulated steps.");
}

nlohmann::json as_json(const ExplainedSide& side) {
  const auto number = [](Number value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  return {{"label", side.label},
          {"status", side.status},
          {"reason", side.reason.empty() ? nlohmann::json() : nlohmann::json(side.reason)},
          {"config", side.config},
          {"fitted", side.fitted.empty() ? nlohmann::json() : nlohmann::json(side.fitted)},
          {"step_seconds", side.step_seconds},
          {"tflops_per_s_per_device", side.tflops_per_s_per_device},
          {"published_step_seconds", number(side.published_step_seconds)}};
}

std::string as_json(const Explanation& explanation) {
  nlohmann::json root = {{"version", 1},
                         {"a", as_json(explanation.a)},
                         {"b", as_json(explanation.b)},
                         {"change_seconds", explanation.change()},
                         {"published_change_seconds", nullptr},
                         {"sentences", sentences_of(explanation)},
                         {"items", nlohmann::json::array()},
                         {"traffic", nlohmann::json::array()},
                         {"peak_hbm_bytes", {explanation.peak_a, explanation.peak_b}},
                         {"memory", nlohmann::json::array()}};
  if (const Number published = explanation.published_change())
    root["published_change_seconds"] = *published;
  for (const ExplainedItem& item : explanation.items) {
    nlohmann::json parts = nlohmann::json::array();
    for (const ExplainedPart& part : item.parts)
      parts.push_back({{"name", part.name}, {"a", part.a}, {"b", part.b}});
    root["items"].push_back({{"key", item.key},
                             {"name", item.name},
                             {"a", item.a},
                             {"b", item.b},
                             {"change", item.change()},
                             {"parts", parts}});
  }
  for (const ExplainedTraffic& row : explanation.traffic)
    root["traffic"].push_back({{"name", row.name}, {"unit", row.unit}, {"a", row.a}, {"b", row.b}});
  for (const ExplainedMemory& entry : explanation.memory)
    root["memory"].push_back({{"name", entry.name}, {"a", entry.a}, {"b", entry.b}});
  return root.dump() + "\n";
}

}  // namespace

std::string render_explanation(const Explanation& explanation, Format format) {
  switch (format) {
    case Format::md:
      return as_markdown(explanation);
    case Format::html:
      return as_html(explanation);
    case Format::json:
      return as_json(explanation);
    case Format::csv:
      break;
  }
  throw InputError("--format: found 'csv', expected one of md, html, json");
}

}  // namespace spillway
