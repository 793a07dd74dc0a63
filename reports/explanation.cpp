// What an explanation says in sentences.
#include "reports/explanation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/error.h"

namespace spillway {

namespace {

// Less is said of neither side: a microsecond of a step.
constexpr double smallest_item = 1e-6;
// How much of the changes of one sign the items that are named must make up, and at most how many.
constexpr double named_share = 0.8;
constexpr size_t most_named = 3;
// Of the change: causes against it that come to less together are not worth a word.
constexpr double smallest_opposition = 0.02;

std::string quoted_label(const ExplainedSide& side) { return "\u201c" + side.label + "\u201d"; }

std::string seconds_text(double seconds) { return with_sign(seconds, 3) + " s"; }

double sum_of_sign(const std::vector<const ExplainedItem*>& items, double sign) {
  double sum = 0;
  for (const ExplainedItem* item : items)
    sum += std::max(0.0, item->change() * sign);
  return sum;
}

// "rotation copies (+0.122 s), contention with host copies (+0.030 s)": the largest of one sign.
std::string largest_of_sign(const std::vector<const ExplainedItem*>& items, double sign) {
  const double all = sum_of_sign(items, sign);
  double said = 0;
  std::string list;
  size_t named = 0;
  for (const ExplainedItem* item : items) {
    if (item->change() * sign <= 0) continue;
    if (named == most_named || said >= named_share * all) break;
    list += text(list.empty() ? "" : ", ", item->name, " (", seconds_text(item->change()), ")");
    said += item->change() * sign;
    ++named;
  }
  return list;
}

std::string decides(const Explanation& explanation) {
  const double change = explanation.change();
  const std::vector<const ExplainedItem*> items = by_size(explanation);
  const std::string a = quoted_label(explanation.a), b = quoted_label(explanation.b);
  if (items.empty()) return text(b, " takes as long as ", a, ".");
  const double sign = change < 0 ? -1 : 1;
  std::string said = text(b, " takes ", fixed(std::abs(change), 3), " s (",
                          fixed(100 * std::abs(change) / explanation.a.step_seconds, 2), " %) ",
                          change < 0 ? "less" : "more", " than ", a, ", for the most part by ",
                          largest_of_sign(items, sign));
  if (sum_of_sign(items, -sign) < smallest_opposition * std::abs(change))
    return said + "; nothing of size stands against it.";
  return said + "; against it stand " + largest_of_sign(items, -sign) + ".";
}

double exposed_copies(const Explanation& explanation, bool of_b) {
  double sum = 0;
  for (const ExplainedItem& item : explanation.items)
    if (item.key == "exposed_d2h" || item.key == "exposed_h2d") sum += of_b ? item.b : item.a;
  return sum;
}

bool is_on(const ExplainedSide& side, const char* field) {
  return side.config.value(field, "off") == "on";
}

// Pipelining moves host copies and nothing else: what it can win is what they cost exposed.
std::string what_pipelining_wins(const Explanation& explanation) {
  if (is_on(explanation.a, "pipeline") == is_on(explanation.b, "pipeline")) return "";
  const bool b_pipelined = is_on(explanation.b, "pipeline");
  const double without = exposed_copies(explanation, !b_pipelined);
  const double with = exposed_copies(explanation, b_pipelined);
  return text(
      "All that pipelining can win is the time in which host copies stand exposed without it: ",
      fixed(without, 3), " s, ", fixed(with, 3), " s with it.");
}

std::string published_sentence(const Explanation& explanation) {
  const Number published = explanation.published_change();
  if (!published) return "";
  return text("Published: ", seconds_text(*published),
              "; here: ", seconds_text(explanation.change()), ", ",
              fixed(100 * explanation.change() / *published, 0), " % of it.");
}

std::string does_not_fit(const ExplainedSide& side) {
  if (side.status == "ok") return "";
  return text(quoted_label(side), " does not run (", side.status, ": ", side.reason,
              "); its times are those of a device that could.");
}

}  // namespace

Number Explanation::published_change() const {
  if (!a.published_step_seconds || !b.published_step_seconds) return std::nullopt;
  return *b.published_step_seconds - *a.published_step_seconds;
}

std::vector<const ExplainedItem*> by_size(const Explanation& explanation) {
  std::vector<const ExplainedItem*> items;
  for (const ExplainedItem& item : explanation.items)
    if (std::abs(item.change()) >= smallest_item) items.push_back(&item);
  std::stable_sort(items.begin(), items.end(), [](const ExplainedItem* x, const ExplainedItem* y) {
    return std::abs(x->change()) > std::abs(y->change());
  });
  return items;
}

std::vector<std::string> sentences_of(const Explanation& explanation) {
  std::vector<std::string> sentences = {decides(explanation), what_pipelining_wins(explanation),
                                        published_sentence(explanation),
                                        does_not_fit(explanation.a), does_not_fit(explanation.b)};
  std::erase(sentences, "");
  return sentences;
}

}  // namespace spillway
