// The HTML report: sections in the order a reader asks.
#include "harness/error.h"
#include "reports/charts.h"
#include "reports/formats.h"
#include "reports/html_style.h"
#include "reports/html_tables.h"
#include "reports/story.h"

namespace spillway {

namespace {

// A titled card; nothing when there is no content.
std::string card(const std::string& title, const std::string& about, const std::string& content) {
  if (content.empty()) return "";
  const std::string line =
      about.empty() ? "" : "<p class=\"about\">" + html_escape(about) + "</p>\n";
  return "<section class=\"card\"><h3>" + html_escape(title) + "</h3>\n" + line + content +
         "</section>\n";
}

std::string scrolling(const std::string& content) {
  return content.empty() ? "" : "<div class=\"scroll\">" + content + "</div>\n";
}

std::string comparison_cards(const Group& group) {
  const bool published = has_published(group);
  return card(published ? "Rate, ours against published" : "Rate",
              published ? "TFLOPs/s/device in MaxText's count; the error of each row at the right."
                        : "TFLOPs/s/device in MaxText's count; whiskers span the slowest and "
                          "fastest step.",
              scrolling(rate_chart(group))) +
         card("Gain over the first row",
              "What each choice changes, without the level: the effect under study.",
              scrolling(gain_chart(group))) +
         card("Differences of step times",
              "Rows share most of a step, so a small error of a row may still be a large error of "
              "the effect. "
              "Published seconds: the FLOPs counted here over the published rate.",
              html_differences(group)) +
         card("Step time against remat",
              "Ratio of medians; the band is the widest range that the minima and maxima of both "
              "allow.",
              scrolling(ratio_chart(group)));
}

std::string group_section(const Group& group) {
  return "<h2>" + html_escape(title_of(group)) + "</h2>\n" +
         card("Results", "",
              html_results(View::rates, group) + html_results(View::costs, group) +
                  html_notes(group)) +
         comparison_cards(group) +
         card("One layer on all lanes",
              "A middle layer, forward then backward, all runs on one scale. Point at a span for "
              "its time.",
              scrolling(timelines(group))) +
         card("Where a step goes", "Compute lane of one step, by kind of op.",
              scrolling(time_chart(group))) +
         card("Peak HBM by role", "Of the static plan; the parts add up to the peak.",
              scrolling(peak_chart(group))) +
         card("Memory over the step",
              "Live bytes by role. Within a loop of layers one iteration is drawn, stretched over "
              "the time "
              "that all of them took; all runs on one scale.",
              memory_curves(group)) +
         card("Activations: device, host or again", "What the policy did with each name.",
              html_fates(group));
}

std::string closing_sections(const std::vector<Row>& rows) {
  return "<h2>Behind the figures</h2>\n" +
         card("Hypotheses of the sweep",
              "Settings that the published source does not state, and how much hangs on each.",
              html_hypotheses(rows)) +
         card("Published rows", "", html_sources(rows)) + card("Method", "", html_method()) +
         card("Environment", "", html_environment(rows)) +
         card("How to repeat a row",
              "A simulated row of a sweep also has the sweep's fitted figure.",
              html_commands(rows));
}

}  // namespace

std::string render_html(const std::vector<Row>& rows) {
  const std::vector<Group> groups = groups_of(rows);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Spillway report</title>\n<style>" +
      std::string(html_style) +
      "</style>\n</head>\n<body>\n<main>\n<h1>Keep, offload or recompute: what each choice "
      "costs</h1>\n";
  for (const std::string& sentence : headline(groups))
    out += "<p class=\"lead\">" + html_escape(sentence) + "</p>\n";
  out += card("Rate against peak HBM",
              "All micro batches (the figure beside a mark), a colour a policy. A triangle is "
              "pipelined (downwards: without LHS), a square has LHS alone, a diamond neither. The "
              "line follows the rows that no row of a lower peak outruns.",
              scatter_charts(rows));
  for (const Group& group : groups)
    out += group_section(group);
  out += closing_sections(rows);
  return out + "<footer>Made by spillway from " + std::to_string(rows.size()) +
         " result rows.</footer>\n</main>\n</body>\n</html>\n";
}

}  // namespace spillway
