// Headline and notes.
#include "reports/story.h"

#include <algorithm>
#include <cmath>

#include "harness/error.h"

namespace spillway {

namespace {

std::string quoted(const Row& row) { return "\u201c" + row.label + "\u201d"; }

std::string ratio_text(const Ratio& ratio) {
  return text(fixed(ratio.median, 3), " (", fixed(ratio.low, 3), " to ", fixed(ratio.high, 3), ")");
}

bool moves_bytes(const Row& row) {
  return figure_at(row, "offloaded_bytes_per_step").value_or(0) > 0;
}

const Row* fastest_offloading(const Group& group) {
  const Row* fastest = nullptr;
  for (const Row* row : group.rows) {
    const Number seconds = figure_at(*row, "step_seconds.median");
    if (!seconds || !counts(*row) || !moves_bytes(*row)) continue;
    if (!fastest || *seconds < *figure_at(*fastest, "step_seconds.median")) fastest = row;
  }
  return fastest;
}

// The predicted row (not the fitted one) with the largest error.
const Row* worst_prediction(const Group& group) {
  const auto size = [](const Row* row) { return std::abs(error_percent(*row).value_or(0)); };
  const Row* worst = nullptr;
  for (const Row* row : group.rows) {
    if (is_fitted_row(*row) || !error_percent(*row)) continue;
    if (!worst || size(row) > size(worst)) worst = row;
  }
  return worst;
}

std::string order_text(const std::vector<const Row*>& rows) {
  std::string list;
  for (const Row* row : rows)
    list += (list.empty() ? "" : " > ") + row->label;
  return list;
}

std::string order_sentence(const Group& group) {
  const Order order = order_of(group);
  if (order.published.size() < 2) return "";
  if (order.same()) return text("The published order is reproduced: ", order_text(order.ours), ".");
  return text("The published order is not reproduced: published ", order_text(order.published),
              "; ours ", order_text(order.ours), ".");
}

std::string headline_published(const Group& group) {
  const Row* worst = worst_prediction(group);
  const auto predicted = std::count_if(group.rows.begin(), group.rows.end(), [](const Row* row) {
    return error_percent(*row) && !is_fitted_row(*row);
  });
  if (!worst) return order_sentence(group);
  const std::string rows =
      predicted == 1 ? "The one predicted row"
                     : text("The worst of ", predicted, " predicted rows, ", quoted(*worst), ",");
  const std::string order = order_sentence(group);
  return text(order, order.empty() ? "" : " ", rows, " is off by ",
              with_sign(error_percent(*worst), 2), " %.");
}

std::string headline_offload(const Group& group) {
  const Row* best = fastest_offloading(group);
  if (!best) return "";
  std::string sentence = "The fastest offloading run, " + quoted(*best) + ",";
  if (const Number hidden = hidden_percent(*best))
    sentence += *hidden < 0.05 ? " hides none of its transfer time"
                               : text(" hides ", fixed(hidden, 1), " % of its transfer time");
  const auto ratio = group.remat ? step_ratio(*best, *group.remat) : std::nullopt;
  if (ratio)
    sentence +=
        text(" and takes ", fixed(ratio->median, 3), " of the step of ", quoted(*group.remat), " (",
             fixed(ratio->low, 3), " to ", fixed(ratio->high, 3), ")");
  const Number ours = figure_at(*best, "peak_hbm_bytes");
  const Number first = group.first ? figure_at(*group.first, "peak_hbm_bytes") : std::nullopt;
  if (ours && first && group.first != best)
    sentence += text("; it peaks at ", byte_size(ours), ", ", quoted(*group.first), " at ",
                     byte_size(first));
  return sentence + ".";
}

void add(std::vector<std::string>& notes, std::string note) {
  if (!note.empty()) notes.push_back(std::move(note));
}

std::string fitted_note(const Group& group) {
  for (const Row* row : group.rows) {
    const std::string figure = text_at(*row, "fitted.figure");
    if (figure.empty()) continue;
    return text(figure, " ", fixed(figure_at(*row, "fitted.value"), 4),
                " is fitted on the row \u201c", text_at(*row, "fitted.on"),
                "\u201d; every other row is a prediction, shown with its error.");
  }
  if (group.kind != "simulated") return "";
  return "No figure is fitted: the machine file's own values hold.";
}

std::string unchecked_note(const Group& group) {
  if (group.kind == "simulated")
    return "A simulation computes no values: there is nothing to check, and no row counts as "
           "checked.";
  int64_t ok = 0, unchecked = 0;
  for (const Row* row : group.rows) {
    if (text_at(*row, "status") != "ok") continue;
    ++ok;
    if (!row->result.value("checked", false)) ++unchecked;
  }
  if (unchecked > 0)
    return text(unchecked, " of ", ok,
                " finished rows unchecked: their loss and gradients were not compared with another "
                "run's.");
  return ok == 0 ? "" : "Loss and every gradient of the rows marked ok agree bit for bit.";
}

void add_ratios(const Group& group, std::vector<std::string>& notes) {
  if (group.kind == "simulated" || !group.remat) return;
  std::string list;
  for (const Row* row : group.rows) {
    const auto ratio = row == group.remat ? std::nullopt : step_ratio(*row, *group.remat);
    if (ratio) list += text(list.empty() ? "" : "; ", row->label, " ", ratio_text(*ratio));
  }
  if (!list.empty())
    notes.push_back(text("Step time over that of ", quoted(*group.remat),
                         ", median (and the widest range the minima and maxima allow): ", list,
                         "."));
}

std::string link_note(const Group& group) {
  for (const Row* row : group.rows) {
    const Number rate = figure_at(*row, "link_bytes_per_second");
    if (!rate || *rate <= 0) continue;
    const std::string link = config_of(*row, "link");
    const std::string gigabytes = significant(*rate / 1e9, 4) + " GB/s";
    if (link.rfind("match:", 0) == 0)
      return text(
          "The link runs at ", gigabytes, " a direction, resolved from ", link,
          ": a layer's copy takes the same share of a layer's time as on that machine at full "
          "size (divided by K where /K is given). Resolved once, used for every run.");
    if (group.kind == "simulated")
      return text("Host link: ", gigabytes, " a direction, given for these runs.");
    return text("The link is paced to ", gigabytes, " a direction.");
  }
  return "";
}

// Under LHS alone a read has only what its own body can do without it to hide behind; on one device
// that is little, since there is no weight gather.
std::string reads_note(const Group& group) {
  for (const Row* row : group.rows) {
    const bool lhs_alone = config_on(*row, "lhs") && !config_on(*row, "pipeline");
    const auto reads = traffic_of(*row, "h2d");
    if (!lhs_alone || !reads || reads->bytes <= 0) continue;
    if (config_of(*row, "devices") != "1" || group.kind == "simulated") continue;
    const auto writes = traffic_of(*row, "d2h");
    const auto part = [](const Traffic& t) {
      return text(fixed(hidden_percent(t.seconds, t.exposed), 1), " %");
    };
    return text(
        quoted(*row), " hides ", part(*writes), " of its writes and ", part(*reads),
        " of its reads. LHS moves work within one body, so a read has only that to hide behind "
        "which its backward body can do before the first reader: on one device there is no weight "
        "gather, and little else needs no reloaded value (in a dense layer the input gradient of "
        "the down projection). Where the copies take longer than that, the rest is exposed; "
        "pipelining reloads "
        "during the layer before.");
  }
  return "";
}

void add_failures(const Group& group, std::vector<std::string>& notes) {
  for (const Row* row : group.rows) {
    const std::string status = text_at(*row, "status"), reason = text_at(*row, "reason");
    if (status == "ok" && reason.empty()) continue;
    const auto& published = row->published ? row->published : row->stands_for;
    const std::string outcome = published ? published->outcome : "";
    notes.push_back(text(quoted(*row), ": ", status, reason.empty() ? "" : ", ", reason,
                         outcome.empty() ? "" : "; published: ", outcome));
  }
}

}  // namespace

std::string title_of(const Group& group) {
  const Row& row = *group.rows.front();
  std::string title = group.kind;
  if (!title.empty()) title[0] = static_cast<char>(title[0] - 'a' + 'A');
  const auto part = [&](const char* before, const char* key) {
    const std::string value = config_of(row, key);
    return value.empty() ? "" : before + value;
  };
  title += part(": ", "model");
  const std::string devices = config_of(row, "devices");
  if (group.kind == "simulated") {
    const std::string machine = config_of(row, "machine");
    title += text(" on ", devices.empty() ? "" : devices + " \u00d7 ",
                  machine.empty() ? "the default machine" : machine);
    if (!config_of(row, "link").empty()) title += text(", link ", config_of(row, "link"), " GB/s");
  } else {
    const std::string cpu = text_at(row, "environment.cpu");
    const Number threads = figure_at(row, "environment.threads");
    if (!cpu.empty()) title += " on " + cpu;
    if (threads) title += text(", ", fixed(threads, 0), " threads");
  }
  return title + part(", micro batch ", "micro_batch") + part(", sequence ", "seq") +
         part(", ", "precision");
}

std::vector<std::string> headline(const std::vector<Group>& groups) {
  std::vector<std::string> sentences;
  for (const Group& group : groups) {
    const bool published = has_published(group);
    const std::string sentence = published ? headline_published(group) : headline_offload(group);
    if (sentence.empty()) continue;
    std::string kind = group.kind;
    kind[0] = static_cast<char>(kind[0] - 'a' + 'A');
    sentences.push_back(text(kind, ", ", config_of(*group.rows.front(), "model"), ": ", sentence));
  }
  return sentences;
}

std::vector<std::string> notes_on(const Group& group) {
  std::vector<std::string> notes;
  add(notes, fitted_note(group));
  add_ratios(group, notes);
  add(notes, link_note(group));
  add(notes, reads_note(group));
  add(notes, unchecked_note(group));
  add_failures(group, notes);
  return notes;
}

std::string name_of(const Difference& difference) {
  return text(difference.minuend->label, " \u2212 ", difference.subtrahend->label);
}

std::string effect_text(const Difference& difference) {
  if (difference.published == 0) return "";
  return fixed(difference.ours / difference.published, 2);
}

std::vector<StatedHypothesis> hypotheses_of(const std::vector<Row>& rows) {
  std::vector<StatedHypothesis> found;
  for (const Row& row : rows) {
    const auto sweep = row.result.find("sweep");
    if (sweep == row.result.end() || !sweep->is_object()) continue;
    const auto list = sweep->find("hypotheses");
    if (list == sweep->end() || !list->is_array()) continue;
    for (const nlohmann::json& entry : *list) {
      const Row of_entry{"", entry, {}};
      StatedHypothesis next{text_at(of_entry, "id"), text_at(of_entry, "setting"),
                            text_at(of_entry, "status"), text_at(of_entry, "text")};
      const bool known = std::any_of(found.begin(), found.end(), [&](const StatedHypothesis& h) {
        return h.id == next.id && h.setting == next.setting;
      });
      if (!known) found.push_back(std::move(next));
    }
  }
  return found;
}

}  // namespace spillway
