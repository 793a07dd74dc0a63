// The HTML report: sections in the order a reader asks.
#include "harness/error.h"
#include "reports/charts.h"
#include "reports/formats.h"
#include "reports/html_page.h"
#include "reports/html_tables.h"
#include "reports/story.h"

namespace spillway {

namespace {

std::string comparison_cards(const Group& group) {
  const bool published = has_published(group);
  return html_card(published ? "Rate, ours against published" : "Rate",
                   published
                       ? "TFLOPs/s/device in MaxText's count; the error of each row at the right."
                       : "TFLOPs/s/device in MaxText's count; whiskers span the slowest and "
                         "fastest step.",
                   html_scrolling(rate_chart(group))) +
         html_card("Gain over the first row",
                   "What each choice changes, without the level: the effect under study.",
                   html_scrolling(gain_chart(group))) +
         html_card(
             "Differences of step times",
             "Rows share most of a step, so a small error of a row may still be a large error of "
             "the effect. "
             "Published seconds: the FLOPs counted here over the published rate.",
             html_differences(group)) +
         html_card(
             "Step time against remat",
             "Ratio of medians; the band is the widest range that the minima and maxima of both "
             "allow.",
             html_scrolling(ratio_chart(group)));
}

std::string group_section(const Group& group) {
  return "<h2>" + html_escape(title_of(group)) + "</h2>\n" +
         html_card("Results", "",
                   html_results(View::rates, group) + html_results(View::costs, group) +
                       html_notes(group)) +
         comparison_cards(group) +
         html_card(
             "One layer on all lanes",
             "A middle layer, forward then backward, all runs on one scale. Point at a span for "
             "its time.",
             html_scrolling(timelines(group))) +
         html_card("Where a step goes", "Compute lane of one step, by kind of op.",
                   html_scrolling(time_chart(group))) +
         html_card("Peak HBM by role", "Of the static plan; the parts add up to the peak.",
                   html_scrolling(peak_chart(group))) +
         html_card(
             "Memory over the step",
             "Live bytes by role. Within a loop of layers one iteration is drawn, stretched over "
             "the time "
             "that all of them took; all runs on one scale.",
             memory_curves(group)) +
         html_card("Activations: device, host or again", "What the policy did with each name.",
                   html_fates(group));
}

std::string closing_sections(const std::vector<Row>& rows) {
  return "<h2>Behind the figures</h2>\n" +
         html_card("Hypotheses of the sweep",
                   "Settings that the published source does not state, and how much hangs on each.",
                   html_hypotheses(rows)) +
         html_card("Published rows", "", html_sources(rows)) +
         html_card("Method", "", html_method()) +
         html_card("Environment", "", html_environment(rows)) +
         html_card("How to repeat a row",
                   "A simulated row of a sweep also has the sweep's fitted figure.",
                   html_commands(rows));
}

}  // namespace

std::string render_html(const std::vector<Row>& rows) {
  const std::vector<Group> groups = groups_of(rows);
  std::string out;
  for (const std::string& sentence : headline(groups))
    out += "<p class=\"lead\">" + html_escape(sentence) + "</p>\n";
  out += html_card(
      "Rate against peak HBM",
      "All micro batches (the figure beside a mark), a colour a policy. A triangle is "
      "pipelined (downwards: without LHS), a square has LHS alone, a diamond neither. The "
      "line follows the rows that no row of a lower peak outruns.",
      scatter_charts(rows));
  for (const Group& group : groups)
    out += group_section(group);
  out += closing_sections(rows);
  return html_page("Spillway report", "Keep, offload or recompute: what each choice costs", out,
                   "Made by spillway from " + std::to_string(rows.size()) + " result rows.");
}

}  // namespace spillway
